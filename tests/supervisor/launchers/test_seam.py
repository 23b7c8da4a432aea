"""Another launcher than this machine's: a real supervisor core carries runs out by it and never asks which it is."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.capacity.demand import Claim
from mission_tui.fleet.commands import never
from mission_tui.fleet.events.metrics import TrainingEnded, TrainingStarted
from mission_tui.fleet.specs import consistency
from mission_tui.fleet.specs.spec import LaunchItem, Spec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Act, Launch, Quote, Resume, Watch
from mission_tui.ipc.telemetry_messages import PhaseEntered
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.attempt import read_handle
from mission_tui.records.runs.layout import supervisor_dir
from mission_tui.supervisor import clock
from mission_tui.supervisor.clock import Clock, TimeLimits
from mission_tui.supervisor.gpu.watch import GpuWatch
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.launchers.order import Caller
from mission_tui.supervisor.launchers.provenance import ProvenanceWatch
from mission_tui.supervisor.launchers.ray import RayLauncher
from mission_tui.supervisor.launchers.slurm import SlurmLauncher
from mission_tui.supervisor.lifecycle.adoption import taking_in
from mission_tui.supervisor.lifecycle.capacity import check_machine, claims_of
from mission_tui.supervisor.lifecycle.further_attempts import start_next_attempt
from mission_tui.supervisor.request_dispatcher import RequestDispatcher
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.run_on_disk import finish
from mission_tui.supervisor.telemetry_handler import TelemetryHandler
from mission_tui.supervisor.verbs.acts import freeze, kill, pause, stop
from mission_tui.supervisor.verbs.launch import launch, quote
from mission_tui.supervisor.verbs.resume import resume
from tests.supervisor.conftest import stub_spec
from tests.supervisor.scripted_launcher import Engine, ScriptedLauncher, ScriptedLink

BEAT_S = 0.01


class Field:
    """A runs root, an engine, and supervisors of it one after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.engine, self.local = Engine(), Engine()
        supervisor_dir(root).mkdir(parents=True)

    @asynccontextmanager
    async def supervisor(self) -> AsyncIterator[Supervisor]:
        """One that beats until the block ends; then it is gone, and jobs are not."""
        core = Core(
            self.root, {"local": ScriptedLauncher(self.local, "local"), "scripted": ScriptedLauncher(self.engine)}
        )
        finish(taking_in(core))
        never = TimeLimits(idle_s=float("inf"))
        beating = asyncio.create_task(Clock(core, RequestDispatcher(core), (), lambda: True, never).run())
        try:
            yield Supervisor(core)
        finally:
            beating.cancel()
            core.machine.gpu.close()
            for run in core.live.values():
                run.release()


class Supervisor:
    """What a client and a trainer see of one."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.handler = TelemetryHandler(core)

    async def launch(self, launcher: str) -> str:
        """The id of a new run by `launcher`."""
        request = Launch(
            id=1, items=(LaunchItem(spec=spec_for(launcher)),), cwd="/", python="/usr/bin/python3", environ={}
        )
        return (await launch(self.core, request)).runs[0].id

    def view(self, run: str) -> RunView:
        return self.core.store.view(run)

    async def wait(self, run: str, wanted: Callable[[RunView], object]) -> RunView:
        """The run's view once it is as `wanted`."""
        async with asyncio.timeout(10):
            while not wanted(self.view(run)):  # noqa: ASYNC110 - what is wanted need not change the snapshot
                await asyncio.sleep(BEAT_S)
        return self.view(run)


def spec_for(launcher: str) -> Spec:
    """A spec that is carried out by `launcher`."""
    spec = stub_spec()
    return structs.replace(spec, run=structs.replace(spec.run, launcher=launcher))


@pytest.fixture
def field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Field:
    """Two launchers: both scripted, one in the place of this machine's."""
    monkeypatch.setattr(consistency, "LAUNCHERS", ("local", "scripted"))
    monkeypatch.setattr(clock, "TICK_S", BEAT_S)
    monkeypatch.setattr(GpuWatch, "tick", lambda _self, wanted: None)
    monkeypatch.setattr(ProvenanceWatch, "record", lambda *_: None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Field(tmp_path / "runs")


async def test_a_run_is_carried_out_by_the_launcher_that_its_spec_names(field: Field) -> None:
    """Each engine has its own job, and the run directory says which and under what name. The engine is told which order
    is meant, and not only where it lies.
    """
    async with field.supervisor() as supervisor:
        here, there = await supervisor.launch("local"), await supervisor.launch("scripted")
        await supervisor.wait(there, lambda _: field.local.jobs and field.engine.jobs)
        assert [job.run.id for job in field.local.jobs.values()] == [here]
        assert [job.run.id for job in field.engine.jobs.values()] == [there]
        handle = read_handle(supervisor.core.run_dir(there).attempt(1).handle)
        assert handle is not None
        assert (handle.launcher, handle.id) == ("scripted", "4711")
        document = supervisor.core.run_dir(there).attempt(1).launch.read_bytes()
        assert field.engine.job(there).digest == sha256(document).hexdigest()


async def test_a_queued_job_is_shown_with_its_reason_and_ends_with_its_code(field: Field) -> None:
    """The engine's reason is the run's while it waits there, and hours in its queue are no slow start; how it ended is
    what the node wrote.
    """
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        field.engine.job(run).queue("waits for a GPU: Resources")
        waiting = await supervisor.wait(run, lambda view: view.cause)
        assert (waiting.state, waiting.cause, waiting.pids.keeper) == ("starting", "waits for a GPU: Resources", None)
        with pytest.raises(UsageError, match=r"its job has not begun \(waits for a GPU: Resources\); stop takes it"):
            await pause(supervisor.core, Act(id=1, verb="pause", runs=(run,)))
        live, hours = supervisor.core.live[run], 7200.0
        live.waited_until_t = (supervisor.core.store.run(run).journal.started_t or 0.0) + hours
        clock.watch_start(supervisor.core, live, live.waited_until_t + 60.0, 120.0)
        assert supervisor.view(run).flags == ()
        clock.watch_start(supervisor.core, live, live.waited_until_t + 130.0, 120.0)
        assert supervisor.view(run).flags == ("slow-start",)
        field.engine.job(run).begin("n1")
        await supervisor.wait(run, lambda view: not view.cause and view.node == "n1")
        field.engine.job(run).end(3)
        ended = await supervisor.wait(run, lambda view: view.state == "ended")
        assert (ended.outcome, ended.cause) == ("failed", "exit code 3")


async def test_a_job_that_is_cancelled_in_its_queue_has_not_failed(field: Field) -> None:
    """Who cancelled it is said, and nothing starts it again."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        field.engine.job(run).cancel("somebody cancelled it")
        ended = await supervisor.wait(run, lambda view: view.state == "ended")
        assert (ended.outcome, ended.cause) == ("killed", "somebody cancelled it before it had begun")


async def test_the_price_of_a_run_elsewhere_is_what_it_takes_there(field: Field) -> None:
    """Cores and memory of a node, whatever this machine has left; nothing here makes it wait."""
    async with field.supervisor() as supervisor:
        spec = spec_for("scripted")
        spec = structs.replace(spec, env=structs.replace(spec.env, vec="workers", n_workers=300, n_envs=300))
        asked = Quote(id=1, items=(LaunchItem(spec=spec),), cwd="/", python="/usr/bin/python3", environ={})
        (cost,) = (await quote(supervisor.core, asked)).costs
        assert (cost.cores >= 300, cost.ram_bytes > 1 << 30, cost.waits) == (True, True, "")


async def test_a_run_elsewhere_is_not_warned_of_runs_that_share_this_machine(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How slow those are is said to whoever launches another one here."""
    async with field.supervisor() as supervisor:
        many = (Claim(cores=2),) * 100
        monkeypatch.setattr(supervisor.core.machine, "reserved", lambda *, trusted: many if trusted else ())
        assert check_machine(supervisor.core, (spec_for("scripted"),), waits=True) == ()


async def test_many_jobs_are_one_question(field: Field) -> None:
    """However many runs an engine has, it is asked once a beat."""
    async with field.supervisor() as supervisor:
        runs = [await supervisor.launch("scripted") for _ in range(4)]
        await supervisor.wait(runs[-1], lambda _: 4 in field.engine.questions)
        asked = len(field.engine.questions)
        await asyncio.sleep(10 * BEAT_S)
        assert len(field.engine.questions) - asked <= 11


async def test_stop_and_kill_are_the_engines_to_carry_out(field: Field) -> None:
    """Nothing is signalled from here: the engine is asked, and the run ends when it says so."""
    async with field.supervisor() as supervisor:
        gentle, hard = await supervisor.launch("scripted"), await supervisor.launch("scripted")
        await supervisor.wait(hard, lambda _: len(field.engine.jobs) == 2)
        for run in (gentle, hard):
            field.engine.job(run).begin("n1")
            await supervisor.wait(run, lambda _, run=run: supervisor.core.live[run].lives())  # type: ignore[misc]
        await stop(supervisor.core, Act(id=1, verb="stop", runs=(gentle,)))
        await kill(supervisor.core, Act(id=2, verb="kill", runs=(hard,)))
        assert [field.engine.job(run).asked for run in (gentle, hard)] == [["stop"], ["kill"]]
        for run in (gentle, hard):
            field.engine.job(run).end(0)
        assert (await supervisor.wait(hard, lambda view: view.state == "ended")).outcome == "killed"
        assert (await supervisor.wait(gentle, lambda view: view.state == "ended")).state == "ended"


async def test_a_trainer_that_is_connected_is_paused_and_stopped_by_orders(field: Field) -> None:
    """Orders belong to the run, not to the launcher: the engine is not asked while the trainer may still obey."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        field.engine.job(run).begin("n1")
        link = ScriptedLink(field.engine.job(run))
        assert supervisor.handler.admit(link)
        await pause(supervisor.core, Act(id=1, verb="pause", runs=(run,)))
        supervisor.handler.receive(link, PhaseEntered("paused", 1, 64, 0.0))
        assert supervisor.view(run).state == "paused"
        await stop(supervisor.core, Act(id=2, verb="stop", runs=(run,)))
        assert [order.what for order in link.orders][-1:] == ["stop"]
        assert field.engine.job(run).asked == []


async def test_what_it_cannot_do_is_refused_with_another_way(field: Field) -> None:
    """A launcher that cannot freeze says so as data; nothing of it is asked for that."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        field.engine.job(run).begin("n1")
        await supervisor.wait(run, lambda _: supervisor.core.live[run].job_status.trains)
        with pytest.raises(UsageError, match="nothing can be frozen on the node of a cluster; pause it instead"):
            await freeze(supervisor.core, Act(id=1, verb="freeze", runs=(run,)))


@pytest.mark.parametrize("launcher", [LocalLauncher, SlurmLauncher, RayLauncher])
def test_a_view_offers_what_its_launcher_can(launcher: type[LocalLauncher | SlurmLauncher | RayLauncher]) -> None:
    """Who only sees the view, as a screen or a command line without a supervisor, comes to the launcher's own word."""
    view = RunView(id="r", name="r", run_dir="r", created_t=0.0, preset="p", state="running", launcher=launcher.name)
    assert (never("freeze", view) is None) is launcher.can.freezes


async def test_one_whose_engine_suspends_it_is_frozen_until_that_lets_it_go_on(field: Field) -> None:
    """It says who has it stand still, which is no hang; nobody here can let it go on, and a stop waits for that."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        field.engine.job(run).begin("n1")
        await supervisor.wait(run, lambda _: supervisor.core.live[run].job_status.trains)
        field.engine.job(run).suspend("suspended: ask an administrator")
        view = await supervisor.wait(run, lambda view: view.state == "frozen")
        assert (view.cause, view.held) == ("suspended: ask an administrator", None)
        with pytest.raises(UsageError, match="from here: suspended: ask an administrator"):
            await resume(supervisor.core, Resume(id=2, run=run))
        field.engine.job(run).begin("n1")
        assert (await supervisor.wait(run, lambda view: view.state != "frozen")).cause is None
        field.engine.job(run).suspend("suspended: ask an administrator")
        await supervisor.wait(run, lambda view: view.state == "frozen")
        await stop(supervisor.core, Act(id=3, verb="stop", runs=(run,)))
        assert (supervisor.view(run).state, supervisor.view(run).cause) == ("stopping", view.cause)


async def test_one_that_is_not_to_go_on_after_its_time_limit_says_so(field: Field) -> None:
    """The engine calls its job failed, because of its exit code; what happened the keeper knows."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        job = field.engine.job(run)
        job.begin("n1")
        await supervisor.wait(run, lambda _: supervisor.core.live[run].job_status.trains)
        with closing(AppendLog(supervisor.core.run_dir(run).metrics)) as rows:
            rows.append(lambda seq: TrainingStarted(seq, 1, time.time()))
            rows.append(lambda seq: TrainingEnded(seq, 1, 1, 64, time.time(), "stopped", checkpoint="000000064"))
        job.reach_limit("its job FAILED")
        ended = await supervisor.wait(run, lambda view: view.state == "ended")
        assert (ended.outcome, ended.cause) == ("stopped", "saved and ended before the time limit of its job")


async def test_it_takes_nothing_of_this_machine(field: Field) -> None:
    """No room here is promised to it, so that it waits for none either."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        assert claims_of(supervisor.core) == ()


async def test_a_later_supervisor_finds_its_jobs_by_their_handles(field: Field) -> None:
    """A restart changes nothing: who runs is shown, and who ended meanwhile has ended as the node wrote."""
    async with field.supervisor() as supervisor:
        stays, ends = await supervisor.launch("scripted"), await supervisor.launch("scripted")
        await supervisor.wait(ends, lambda _: len(field.engine.jobs) == 2)
        for run in (stays, ends):
            field.engine.job(run).begin("n1")
            await supervisor.wait(run, lambda _, run=run: supervisor.core.live[run].lives())  # type: ignore[misc]
    field.engine.job(ends).end(3)
    async with field.supervisor() as supervisor:
        await supervisor.wait(stays, lambda _: supervisor.core.live[stays].lives())
        assert supervisor.core.live[stays].job_status.node == "n1"
        assert (await supervisor.wait(ends, lambda view: view.state == "ended")).cause == "exit code 3"
        assert len(field.engine.jobs) == 2
        await kill(supervisor.core, Act(id=1, verb="kill", runs=(stays,)))
        assert field.engine.job(stays).asked == ["kill"]


async def test_a_lost_node_is_the_cause_of_the_end(field: Field) -> None:
    """Nobody wrote how it ended: the engine's word is what is known."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        field.engine.job(run).begin("n2")
        await supervisor.wait(run, lambda _: supervisor.core.live[run].lives())
        field.engine.job(run).lose_node("node n2 was lost")
        ended = await supervisor.wait(run, lambda view: view.state == "ended")
        assert (ended.outcome, ended.cause) == ("lost", "node n2 was lost")


async def test_a_kill_of_a_queued_job_is_asked_again_after_a_restart(field: Field) -> None:
    """Whether the engine was told before the supervisor died is not known."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        field.engine.job(run).queue("waits for a GPU")
        await supervisor.wait(run, lambda view: view.cause)
        await kill(supervisor.core, Act(id=1, verb="kill", runs=(run,)))
    async with field.supervisor() as supervisor:
        await supervisor.wait(run, lambda _: field.engine.job(run).asked == ["kill", "kill"])


async def test_a_further_attempt_may_be_carried_out_elsewhere(field: Field) -> None:
    """The run directory is the same; who has the newest attempt is its handle."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        field.engine.job(run).end(1)
        await supervisor.wait(run, lambda view: view.state == "ended")
        start_next_attempt(supervisor.core, run, spec_for("local"), Caller("/usr/bin/python3", "/", {}), None)
        assert field.local.job(run).order.attempt == 2
    async with field.supervisor() as supervisor:
        field.local.job(run).begin("")
        await supervisor.wait(run, lambda _: supervisor.core.live[run].lives())
        await kill(supervisor.core, Act(id=1, verb="kill", runs=(run,)))
        assert (field.local.job(run).asked, field.engine.job(run).asked) == (["kill"], [])


async def test_an_engine_that_does_not_answer_ends_nothing(field: Field) -> None:
    """What was known stays known, and that nobody can be asked is a failed duty."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        field.engine.job(run).begin("n1")
        await supervisor.wait(run, lambda _: supervisor.core.live[run].lives())
        field.engine.down = True
        await supervisor.wait(run, lambda _: "asking scripted how its jobs stand" in supervisor.core.duties.failed)
        # A sentence of ours needs no name of a Python class before it.
        assert not supervisor.core.duties.failed["asking scripted how its jobs stand"].why.startswith("MissionError")
        assert supervisor.core.live[run].lives()
        field.engine.down = False
        await supervisor.wait(run, lambda _: not supervisor.core.duties.failed)


async def test_a_job_of_a_launcher_that_is_not_here_is_left_alone(field: Field) -> None:
    """A run of a later version is shown with why, and nobody takes it for ended."""
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
    path = field.root / run / "attempts" / "1" / "handle.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"launcher": "moon"}), encoding="utf-8")
    journal = (field.root / run / "events.jsonl").read_bytes()
    async with field.supervisor() as supervisor:
        view = supervisor.view(run)
        assert "damaged" in view.flags
        assert "its launcher 'moon' is not known to this supervisor, which has local, scripted" in (view.cause or "")
    assert (field.root / run / "events.jsonl").read_bytes() == journal


class Client:
    """A session of which only what it was told counts."""

    pid, closed = os.getpid(), False

    def __init__(self) -> None:
        self.told: list[object] = []

    def send(self, reply: object) -> None:
        self.told.append(reply)


async def test_a_launch_is_prepared_when_somebody_who_watches_asks_what_it_costs(field: Field) -> None:
    """Ten idle minutes later nothing may be loaded any more; the price of a launch without a screen loads nothing."""
    async with field.supervisor() as supervisor:
        dispatcher, watcher, script = RequestDispatcher(supervisor.core), Client(), Client()
        price = Quote(id=2, items=(), cwd="/", python="/usr/bin/python3", environ={})
        counts = []
        for session, request in ((script, price), (watcher, Watch(id=1)), (watcher, price), (script, price)):
            await dispatcher.answer(request, session)  # type: ignore[arg-type]
            counts.append(field.engine.prepared)
        assert counts == [0, 1, 2, 2]
        assert len(script.told) == 2
