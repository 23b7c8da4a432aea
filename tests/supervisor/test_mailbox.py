"""Orders and signs of life over files of the run directory: every order as over the socket, and no clock is trusted."""

from __future__ import annotations

import asyncio
import itertools
import time

import msgspec
import pytest

from mission_tui.cli.tables.documents import run_facts
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import MetricRecord, TrainingStarted, UpdateDone
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act, Resume, Set
from mission_tui.ipc.sockets import PROTOCOL
from mission_tui.ipc.telemetry_messages import (
    CheckpointAnswered,
    Heartbeat,
    NumberedOrder,
    PhaseEntered,
    TelemetryMessage,
    TrainerHello,
    TrainerWord,
)
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor import telemetry_handler
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.verbs.acts import checkpoint, pause, stop
from tests.supervisor.conftest import Lab
from tests.supervisor.launchers.test_seam import Field, Supervisor, field  # noqa: F401 - a fixture
from tests.supervisor.scripted_launcher import EngineJob

ROADS = ("socket", "mailbox")


def orders_of(run: RunDir, attempt: int = 1) -> list[NumberedOrder]:
    """What was asked of the attempt by file."""
    orders, damage = read_all(run.attempt(attempt).orders, NumberedOrder)
    assert damage == []
    return orders


@pytest.mark.parametrize("road", ROADS)
def test_every_order_is_carried_out_over_both_roads(idle_lab: Lab, road: str) -> None:
    """Pause, go on, save, set and stop: the same answers, whichever way the trainer is reached."""
    lab = idle_lab
    lab.start(MISSION_TUI_ROAD=road)
    (run,) = lab.launch()
    lab.running(run, 2)
    lab.act("pause", run)
    lab.wait(run, lambda view: view.state == "paused")
    saved = lab.ask(lambda id_: Act(id=id_, verb="checkpoint", runs=(run,), wait_s=10.0))
    assert isinstance(saved, Accepted)
    assert list(lab.dir(run).checkpoints.glob("0*"))
    lab.ask(lambda id_: Resume(id=id_, run=run))
    lab.wait(run, lambda view: view.state == "running")
    lab.ask(lambda id_: Set(id=id_, run=run, assignments=("ppo.clip_range=0.1",), accept=True))
    lab.until(lambda: "SettingsChanged" in {type(row).__name__ for row in rows_of(lab, run)})
    lab.act("stop", run)
    ended = lab.ended(run)
    assert (ended.outcome, ended.last_checkpoint is not None) == ("stopped", True)
    whats = ["pause", "checkpoint", "unpause", "set", "stop"] if road == "mailbox" else []
    assert [numbered.order.what for numbered in orders_of(lab.dir(run))] == whats
    assert lab.dir(run).attempt(1).alive.exists() == (road == "mailbox")


def rows_of(lab: Lab, run: str) -> list[MetricRecord]:
    """The rows of the run."""
    return read_all(lab.dir(run).metrics, MetricRecord)[0]


@pytest.mark.parametrize("road", ROADS)
def test_a_run_is_killed_over_both_roads(idle_lab: Lab, road: str) -> None:
    """A kill needs no trainer that reads anything."""
    idle_lab.start(MISSION_TUI_ROAD=road)
    (run,) = idle_lab.launch(STUB_DEAF="1")
    idle_lab.running(run)
    idle_lab.act("kill", run)
    assert idle_lab.ended(run).outcome == "killed"


def test_the_next_supervisor_goes_on_with_the_mailbox(idle_lab: Lab) -> None:
    """It is connected as soon as the file changes; numbers go on without a gap; a pause lasts."""
    lab = idle_lab
    lab.start(MISSION_TUI_ROAD="mailbox")
    (run,) = lab.launch()
    lab.running(run)
    lab.act("pause", run)
    lab.wait(run, lambda view: view.state == "paused")
    lab.kill_supervisor()
    lab.start()
    lab.wait(run, lambda view: view.state == "paused" and view.connected)
    lab.ask(lambda id_: Resume(id=id_, run=run))
    lab.wait(run, lambda view: view.state == "running")
    lab.act("stop", run)
    assert lab.ended(run).outcome == "stopped"
    numbers = [numbered.seq for numbered in orders_of(lab.dir(run))]
    assert numbers == list(range(1, len(numbers) + 1))


class Node:
    """A trainer on another host, by what it writes; its clock is `ahead_s` of ours."""

    def __init__(self, job: EngineJob, ahead_s: float = 0.0) -> None:
        self.job, self.ahead_s, self.beat = job, ahead_s, 0
        self.log = AppendLog(job.run.metrics)

    @property
    def now(self) -> float:
        return time.time() + self.ahead_s

    def say(self, *messages: TelemetryMessage, nonce: str = "") -> None:
        """Replace `alive.json`."""
        self.beat += 1
        order = self.job.order
        hello = TrainerHello(PROTOCOL, self.job.run.id, order.attempt, nonce or order.nonce, 1)
        word = TrainerWord(hello, self.beat, (*messages, Heartbeat(self.now)))
        self.write(msgspec.json.encode(word))

    def write(self, document: bytes) -> None:
        """Have `alive.json` hold `document`."""
        path = self.job.run.attempt(self.job.order.attempt).alive
        path.with_name(".alive").write_bytes(document)
        path.with_name(".alive").replace(path)

    def row(self, update: int) -> None:
        """One update is done."""
        self.log.append(lambda seq: UpdateDone(seq, 1, update, 64 * update, self.now, 0.1, 0.1, 320.0, {}))


async def on_a_node(supervisor: Supervisor, field: Field, ahead_s: float = 0.0) -> tuple[str, Node]:  # noqa: F811
    """A run whose trainer has begun on a node and has spoken twice."""
    run = await supervisor.launch("scripted")
    await supervisor.wait(run, lambda _: field.engine.jobs)
    field.engine.job(run).begin("n1")
    await supervisor.wait(run, lambda _: supervisor.core.live[run].job_status.trains)
    node = Node(field.engine.job(run), ahead_s)
    node.log.append(lambda seq: TrainingStarted(seq, 1, node.now, 0, 0))
    node.say(PhaseEntered("rollout", 0, 0, node.now))
    await supervisor.wait(run, lambda view: view.connected)
    return run, node


@pytest.mark.parametrize("ahead_s", [-300.0, 300.0])
async def test_clocks_that_differ_by_minutes_change_nothing(field: Field, ahead_s: float) -> None:  # noqa: F811
    """Heartbeats are of when they were seen, phases of when they began here, and no silence is found among rows."""
    async with field.supervisor() as supervisor:
        run, node = await on_a_node(supervisor, field, ahead_s)
        for update in range(1, 30):
            node.row(update)
        begun = time.time()
        node.say(PhaseEntered("paused", 29, 29 * 64, node.now))
        paused = await supervisor.wait(run, lambda view: view.state == "paused" and view.update == 29)
        observed = supervisor.core.store.run(run).observed
        assert observed.heartbeat_t is not None
        assert abs(observed.heartbeat_t - begun) < 5.0
        assert observed.phase_t is not None
        assert abs(observed.phase_t - begun) < 5.0
        node.say(PhaseEntered("rollout", 29, 29 * 64, node.now))
        await supervisor.wait(run, lambda view: view.state == "running")
        found: list[Finding] = list(supervisor.core.store.run(run).journal.findings.values())
        assert [finding.rule for finding in found] == []
        assert paused.cause is None


async def test_answers_come_by_file(field: Field) -> None:  # noqa: F811
    """Whoever waits for a checkpoint is answered from what the trainer wrote; said twice it is one answer."""
    async with field.supervisor() as supervisor:
        run, node = await on_a_node(supervisor, field)
        core = supervisor.core
        task = asyncio.create_task(checkpoint(core, Act(id=1, verb="checkpoint", runs=(run,), wait_s=5.0)))
        await supervisor.wait(run, lambda _: orders_of(core.run_dir(run)))
        (numbered,) = orders_of(core.run_dir(run))
        answer = CheckpointAnswered(numbered.order.number, None, "the disk is full")
        node.say(answer)
        assert [outcome.why for outcome in (await task).checkpoints] == ["the disk is full"]


async def test_a_trainer_of_another_nonce_is_not_heard(
    field: Field,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is a file that nobody changes, or one that is no document."""
    looks, read = itertools.count(), telemetry_handler._read
    looked = [next(looks)]

    def counted(run: LiveRun) -> bytes:
        looked[0] = next(looks)
        return read(run)

    monkeypatch.setattr(telemetry_handler, "_read", counted)
    async with field.supervisor() as supervisor:
        run = await supervisor.launch("scripted")
        await supervisor.wait(run, lambda _: field.engine.jobs)
        field.engine.job(run).begin("n1")
        await supervisor.wait(run, lambda _: supervisor.core.live[run].job_status.trains)
        node = Node(field.engine.job(run))

        async def unheard() -> None:
            """What was just written has been read, and nobody is connected for it."""
            before = looked[0]
            await supervisor.wait(run, lambda _: looked[0] >= before + 2)
            assert not supervisor.view(run).connected

        for _ in range(3):
            node.say(nonce="guessed")
            await unheard()
        for document in (b"", b"{", b"[" * 60_000, b'{"hello":1}', b"\xff" * 100_000):
            node.write(document)
            await unheard()
        node.say()
        await supervisor.wait(run, lambda view: view.connected)


async def test_silence_ends_the_connection_and_a_word_brings_it_back(
    field: Field,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node that was cut off is called silent, on the screen as in JSON; orders go to the engine meanwhile, and to the
    file again once it writes.
    """
    monkeypatch.setattr(telemetry_handler, "SILENT_S", 0.3)
    async with field.supervisor() as supervisor:
        run, node = await on_a_node(supervisor, field)
        view = await supervisor.wait(run, lambda view: not view.connected)
        assert list(run_facts(view)["flags"]) == ["silent"]
        assert run_facts(view)["node"] == "n1"
        node.say()
        view = await supervisor.wait(run, lambda view: view.connected)
        assert view.flags == ()
        await pause(supervisor.core, Act(id=1, verb="pause", runs=(run,)))
        assert [numbered.order.what for numbered in orders_of(node.job.run)] == ["pause"]
        await supervisor.wait(run, lambda view: not view.connected)
        await stop(supervisor.core, Act(id=2, verb="stop", runs=(run,)))
        assert field.engine.job(run).asked == ["stop"]


async def test_a_trainer_that_its_engine_suspends_is_silent_by_right(
    field: Field,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That it stands still says why; once it goes on, and says nothing, it is silent."""
    async with field.supervisor() as supervisor:
        run, node = await on_a_node(supervisor, field)
        node.job.suspend("suspended")
        await supervisor.wait(run, lambda view: view.state == "frozen")
        monkeypatch.setattr(telemetry_handler, "SILENT_S", 0.05)
        asked = len(field.engine.questions)
        view = await supervisor.wait(run, lambda _: len(field.engine.questions) > asked + 20)
        assert (view.flags, view.connected) == ((), True)
        node.job.begin("n1")
        await supervisor.wait(run, lambda view: view.flags == ("silent",))
