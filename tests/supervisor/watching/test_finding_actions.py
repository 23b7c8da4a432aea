"""The action ladder with real processes: what a finding causes, that it is journaled, and that it is done once."""

from __future__ import annotations

import asyncio
import http.server
import importlib.util
import json
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import (
    Asked,
    AttemptEnded,
    DutyDoneSeen,
    FindingChanged,
    FleetEvent,
    HealthActed,
    RunCreated,
)
from mission_tui.fleet.events.metrics import CheckpointSaved, MetricRecord
from mission_tui.fleet.events.outcome import Failed, Killed
from mission_tui.fleet.history import journal_state
from mission_tui.fleet.specs.spec import KeepSpec, RestartKeep, Spec
from mission_tui.fleet.specs.thresholds import Act, HealthKeep, KlPersistentLimits, NanLimits
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Mark, Resume
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import write_spec
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.launchers.order import Caller, attempt_order
from mission_tui.supervisor.lifecycle.attempts import open_live_run
from mission_tui.supervisor.lifecycle.outcome import abandon
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.watching import finding_actions
from mission_tui.supervisor.watching.metrics_feed import record_finding
from tests.missing import search_path_without
from tests.supervisor.conftest import REPOSITORY, Lab, RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.tui.fleets import NAN_FINDING
from tests.waiting import until

DOCUMENT = REPOSITORY / "docs" / "run-directory.md"


def spec_of(health: HealthKeep) -> Spec:
    """The stub's spec with these limits."""
    return structs.replace(stub_spec(), keep=KeepSpec(health=health))


def nan_may(act: Act) -> Spec:
    """A spec whose rule `nan` may act so far."""
    return spec_of(HealthKeep(nan=NanLimits(act=act)))


def events(lab: RunsRoot, run: str) -> list[FleetEvent]:
    """The run's journal."""
    return read_all(lab.dir(run).events, FleetEvent)[0]


def acts(lab: RunsRoot, run: str) -> list[str]:
    """What was done because of findings, in order."""
    return [event.act for event in events(lab, run) if isinstance(event, HealthActed)]


def asked(lab: RunsRoot, run: str) -> list[str]:
    """What was asked of the run."""
    return [event.verb for event in events(lab, run) if isinstance(event, Asked)]


def details(lab: RunsRoot, run: str) -> list[str]:
    """What came of what was done."""
    return [event.detail for event in events(lab, run) if isinstance(event, HealthActed)]


def test_by_default_a_finding_changes_nothing_for_the_trainer(sim: SimulatedLab) -> None:
    """`notify`: the finding is shown, the run goes on, and nobody is asked anything."""
    (run,) = sim.launch(spec=nan_may("notify"), STUB_NAN_FROM="5")
    sim.wait(run, lambda view: view.findings)
    sim.running(run, 10)
    assert (acts(sim, run), asked(sim, run)) == ([], [])


def test_a_critical_finding_may_take_a_checkpoint(sim: SimulatedLab) -> None:
    """`checkpoint`: saved with the reason, journaled with the finding, and the run goes on."""
    (run,) = sim.launch(spec=nan_may("checkpoint"), STUB_NAN_FROM="5")
    sim.wait(run, lambda view: view.last_checkpoint)
    saves = [it for it in read_all(sim.dir(run).metrics, MetricRecord)[0] if isinstance(it, CheckpointSaved)]
    assert [save.reason for save in saves] == ["finding"]
    acted = [event for event in events(sim, run) if isinstance(event, HealthActed)]
    assert [(event.finding, event.act) for event in acted] == [("nan-1-5", "checkpoint")]
    sim.running(run, saves[0].update + 3)


def test_a_critical_finding_may_pause(sim: SimulatedLab) -> None:
    """`pause`: a checkpoint first, then the trainer waits; a person lets it go on."""
    (run,) = sim.launch(spec=nan_may("pause"), STUB_NAN_FROM="5")
    view = sim.wait(run, lambda view: view.state == "paused")
    assert view.last_checkpoint is not None
    assert acts(sim, run) == ["checkpoint", "pause"]
    assert asked(sim, run) == ["checkpoint", "pause"]
    sim.ask(lambda id_: Resume(id=id_, run=run))
    sim.running(run, (view.update or 0) + 2)


def test_a_critical_finding_may_stop(sim: SimulatedLab) -> None:
    """`stop`: saved and ended, and the cause names the finding, since no person asked."""
    (run,) = sim.launch(spec=nan_may("stop"), STUB_NAN_FROM="5")
    view = sim.ended(run)
    assert (view.outcome, acts(sim, run), asked(sim, run)) == ("stopped", ["stop"], ["stop"])
    assert "nan-1-5" in (view.cause or "")


def test_what_an_open_finding_would_go_back_to_is_kept(sim: SimulatedLab) -> None:
    """The trainer is told the checkpoint from before it, and is told again by a supervisor that comes later."""
    (run,) = sim.launch(spec=nan_may("notify"), STUB_NAN_FROM="40", STUB_UPDATE_S="0.05")
    sim.running(run, 2)
    sim.act("checkpoint", run)
    good = sim.wait(run, lambda view: view.last_checkpoint).last_checkpoint
    (training,) = sim.world.trainings
    sim.until(lambda: [order.keep for order in training.heard if order.what == "keep"] == [(good,)])
    sim.kill_supervisor()
    sim.start()
    sim.until(lambda: [order.keep for order in training.heard if order.what == "keep"] == [(good,)] * 2)


def test_a_trainer_without_a_link_is_stopped_too(sim: SimulatedLab) -> None:
    """The keeper is asked when the trainer does not listen on telemetry."""
    (run,) = sim.launch(spec=nan_may("stop"), STUB_MUTE="1", STUB_NAN_FROM="5")
    assert sim.ended(run).outcome == "stopped"
    assert acts(sim, run) == ["stop"]


def test_a_trainer_that_ended_by_itself_is_asked_nothing(sim: SimulatedLab) -> None:
    """The shipped limit of `nan` is stop; the trainer stops before it saves, and only the finding is left to say so."""
    (run,) = sim.launch(STUB_DIES_AT="5")
    view = sim.ended(run)
    assert (view.outcome, view.kind) == ("failed", "nan")
    assert [finding.rule for finding in view.findings] == ["nan"]
    assert (acts(sim, run), asked(sim, run)) == ([], [])


def test_a_warning_never_does_more_than_notify(sim: SimulatedLab) -> None:
    """Persistent KL of a run that improves is no more than that: the run goes on although the rule may stop it."""
    limits = HealthKeep(kl_persistent=KlPersistentLimits(act="stop"))
    (run,) = sim.launch(spec=spec_of(limits), STUB_KL="0.5", STUB_UPDATE_S="0.01")
    view = sim.wait(run, lambda view: view.findings)
    assert view.findings[0].severity in ("info", "warning")
    sim.running(run, (view.update or 0) + 10)
    assert (acts(sim, run), asked(sim, run)) == ([], [])


def test_a_silenced_rule_does_nothing(sim: SimulatedLab) -> None:
    """What opens while its rule is silenced causes nothing, also after the silence was taken back."""
    (run,) = sim.launch(spec=nan_may("stop"), STUB_NAN_FROM="40", STUB_UPDATE_S="0.02")
    sim.running(run)
    reply = sim.ask(lambda id_: Mark(id=id_, run=run, mark="silenced", rule="nan"))
    assert isinstance(reply, Accepted)
    view = sim.wait(run, lambda view: view.findings)
    assert view.findings[0].state == "silenced"
    sim.ask(lambda id_: Mark(id=id_, run=run, mark="open", rule="nan"))
    sim.kill_supervisor()
    sim.start()
    sim.running(run, (view.update or 0) + 10)
    assert (acts(sim, run), asked(sim, run)) == ([], [])


@pytest.mark.slow
def test_nothing_is_done_twice_by_the_next_supervisor(lab: Lab, tmp_path: Path) -> None:
    """After a crash the journal says what was done: no second command, no second checkpoint."""
    told = tmp_path / "told"
    health = HealthKeep(nan=NanLimits(act="checkpoint"), on_event=f"echo x >> {told}")
    (run,) = lab.launch(spec=spec_of(health), STUB_NAN_FROM="5")
    until(told.exists)
    lab.wait(run, lambda view: view.last_checkpoint)
    lab.kill_supervisor()
    lab.start()
    lab.running(run, (lab.view(run).update or 0) + 10)
    assert acts(lab, run) == ["notified", "checkpoint"]
    assert told.read_text() == "x\n"


@pytest.mark.parametrize(
    ("act", "stub", "done"), [("checkpoint", {}, "checkpoint"), ("pause", {"STUB_MUTE": "1"}, "pause")]
)
def test_what_a_crash_prevented_is_made_up_for(sim: SimulatedLab, act: Act, stub: dict[str, str], done: str) -> None:
    """The finding was journaled, what it causes was not: the next supervisor does it, with or without a link."""
    (run,) = sim.launch(1, spec=nan_may(act), name=None, STUB_NAN_FROM="5", **stub)
    sim.until(lambda: done in acts(sim, run))
    sim.kill_supervisor()
    journal = sim.dir(run).events
    lines = journal.read_text().splitlines(keepends=True)
    opened = next(i for i, line in enumerate(lines) if '"finding"' in line)
    journal.write_text("".join(lines[: opened + 1]))
    sim.start()
    sim.until(lambda: acts(sim, run) == [done])


def test_the_command_hears_of_findings_and_of_the_end(lab: Lab, tmp_path: Path) -> None:
    """Facts as JSON on standard input, the run's environment and folder, and variables that tell the event."""
    command = f'cd "{tmp_path}"; env > $MISSION_TUI_EVENT.env; echo $OLDPWD > pwd; cat > $MISSION_TUI_EVENT; echo noise'
    (run,) = lab.launch(spec=spec_of(HealthKeep(on_event=command)), STUB_DIES_AT="3", MY_TOKEN="mine")
    view = lab.ended(run)
    ended = until(lambda: read_json(tmp_path / "ended"))
    assert (ended["schema"], ended["event"], ended["finding"]) == (1, "ended", None)
    assert (ended["run"]["id"], ended["run"]["state"], ended["run"]["cause"]) == (run, "ended", view.cause)
    found = until(lambda: read_json(tmp_path / "finding"))
    assert (found["event"], found["finding"]["rule"], found["finding"]["severity"]) == ("finding", "nan", "critical")
    assert found["finding"]["advice_set"] == ["ppo.learning_rate=0.00015"]
    assert found["run"]["update"] == 3
    shown = re.search(r"```json on_event\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert shown is not None
    example = json.loads(shown[1])
    assert [it.keys() for it in (found, found["run"], found["finding"])] == [
        it.keys() for it in (example, example["run"], example["finding"])
    ]
    environ = (tmp_path / "finding.env").read_text().splitlines()
    assert {"MY_TOKEN=mine", f"MISSION_TUI_RUN={run}"} <= set(environ)
    assert not any(line.startswith("MISSION_TUI_NONCE") for line in environ)
    assert (tmp_path / "pwd").read_text().strip() == str(lab.root)
    assert acts(lab, run) == ["notified"]


@pytest.mark.slow
def test_a_command_that_fails_is_journaled(lab: Lab) -> None:
    """Its exit code stands with the finding, and with the end; the run does not care."""
    (run,) = lab.launch(spec=spec_of(HealthKeep(on_event="exit 3")), STUB_DIES_AT="3")
    lab.ended(run)
    failure = "on_event ended with exit code 3"
    until(lambda: details(lab, run).count(failure) == 2)
    acted = [event for event in events(lab, run) if isinstance(event, HealthActed)]
    assert {(event.finding, event.detail) for event in acted} == {
        ("nan-1-3", "on_event"),
        ("nan-1-3", failure),
        ("", failure),
    }


@pytest.mark.slow
def test_apprise_that_is_not_installed_is_said_with_the_line_that_installs_it(idle_lab: Lab, tmp_path: Path) -> None:
    """One sentence in the journal."""
    lab = idle_lab
    lab.start(PYTHONPATH=search_path_without(("apprise",), tmp_path / "without-apprise"))
    (run,) = lab.launch(spec=spec_of(HealthKeep(apprise=True)), STUB_DIES_AT="3")
    lab.ended(run)
    assert details(lab, run)[:2] == ["apprise", finding_actions.NO_APPRISE]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("apprise") is None, reason="needs the extra: pip install '.[notify]'")
def test_apprise_sends_to_what_the_users_own_configuration_names(lab: Lab, tmp_path: Path) -> None:
    """Title, text and kind arrive at a service that `~/.apprise` names."""
    with listening() as (port, letters):
        (tmp_path / ".apprise").write_text(f"json://127.0.0.1:{port}/\n")
        spec = spec_of(HealthKeep(apprise=True))
        (run,) = lab.launch(spec=spec, STUB_DIES_AT="3", HOME=str(tmp_path))
        name = f"{lab.ended(run).name} on {socket.gethostname()}"
        until(lambda: len(letters) == 2, 15)
    by_title = {letter["title"]: letter for letter in letters}
    assert set(by_title) == {f"{name}: nan critical", f"{name}: failed"}
    assert by_title[f"{name}: nan critical"]["type"] == "failure"
    assert "--set ppo.learning_rate=0.00015" in by_title[f"{name}: nan critical"]["message"]
    assert details(lab, run) == ["apprise"]


@contextmanager
def listening() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A local web server that keeps the JSON posted to it."""
    letters: list[dict[str, Any]] = []

    class Box(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            letters.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Box) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, letters
        finally:
            server.shutdown()
            thread.join()


def read_json(path: Path) -> Any:
    """The document in `path`, None while it is not complete."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


@pytest.fixture
async def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Core]:
    """The supervisor's state in this process."""
    (tmp_path / "runs" / ".supervisor").mkdir(parents=True)
    monkeypatch.setenv("MISSION_TUI_TRAINER", "/nowhere/trainer")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    core = Core(tmp_path / "runs", {"local": LocalLauncher()})
    yield core
    await asyncio.to_thread(until, lambda: not any(run.messengers for run in core.live.values()))
    for run in core.live.values():
        run.release()


def live_run(core: Core, on_event: str, restart: RestartKeep = RestartKeep()) -> LiveRun:  # noqa: B008 - frozen
    """A run that is live here, though nothing of it runs."""
    run = core.run_dir("20261121-104207-demo-3f9a")
    spec = spec_of(HealthKeep(on_event=on_event))
    spec = structs.replace(spec, keep=structs.replace(spec.keep, restart=restart))
    run.attempt(1).path.mkdir(parents=True)
    caller = Caller(sys.executable, str(core.root), {"PATH": os.environ["PATH"]})
    write_spec(run.spec, spec)
    core.seals.write_order(run, attempt_order(core.root, run, 1, spec, caller, None))
    core.add(run, spec)
    live = open_live_run(core, run, spec)
    live.attempt = 1
    core.record_observed(live, lambda seq, t: RunCreated(seq, t, "demo", "demo"))
    return live


async def test_who_is_told_of_an_end_hears_where_it_was_and_what_follows(core: Core, tmp_path: Path) -> None:
    """The host's name, when it restarts by itself, and without that the words that go on."""
    told = tmp_path / "told"
    live = live_run(core, f"cat > {told}.part; mv {told}.part {told}", RestartKeep(most=3, wait_s=60.0))
    abandon(core, live, Failed("crash", "ended by SIGSEGV (signal 11)", "000000064", 11))
    event = await asyncio.to_thread(until, lambda: read_json(told))
    assert event["host"] == socket.gethostname()
    assert {**event["run"]["restart"], "due_t": 0} == {"due_t": 0, "number": 1, "most": 3, "after": "failure"}
    view = core.store.view(live.id)
    letter = finding_actions._letter
    title, body = letter(view, None)[:2]
    assert title == f"--title=demo on {socket.gethostname()}: failed"
    assert re.search(r"signal 11\)\nIt restarts in (59|60) s \(1 of 3 in a row\)\.$", body)
    over = structs.replace(view, restart=None)
    assert letter(over, None)[1].endswith("`mission-tui resume demo` goes on from checkpoint 000000064.")


FINDING = Finding("nan-1-5", "nan", "critical", 5, 5, "NaN", "cause", "advice")


def said(live: LiveRun) -> list[str]:
    """The details in the journal of a run that is live here."""
    found = read_all(live.dir.events, FleetEvent)[0]
    return [event.detail for event in found if isinstance(event, HealthActed)]


def lives(group: int) -> bool:
    """Whether any process of the group is there."""
    try:
        os.killpg(group, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True


async def eventually(live: LiveRun, detail: str) -> None:
    """Wait until the journal says `detail`."""
    await asyncio.to_thread(until, lambda: detail in said(live))


@pytest.mark.slow
async def test_a_command_that_hangs_is_killed_with_its_children(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time the whole group is gone, and the journal says so."""
    monkeypatch.setattr(finding_actions, "LIMIT_S", 0.3)
    live = live_run(core, f"echo $$ > {core.root}/pid; sleep 60; true")
    finding_actions.notify_finding(core, live, FINDING)
    await eventually(live, "on_event was killed after 0.3 s")
    group = int((core.root / "pid").read_text())
    await asyncio.to_thread(until, lambda: not lives(group))
    assert live.messengers == 0


async def test_a_few_messengers_at_once_and_no_more(core: Core) -> None:
    """While some still work, further ones are dropped, and that is said; afterwards there is room again."""
    live = live_run(core, f"while [ ! -e {core.root}/go ]; do sleep 0.02; done")
    for _ in range(finding_actions.AT_ONCE + 1):
        finding_actions.notify_finding(core, live, FINDING)
    dropped = f"on_event was not run: {finding_actions.AT_ONCE} messengers of this run are still at work"
    assert said(live).count(dropped) == 1
    assert live.messengers == finding_actions.AT_ONCE
    (core.root / "go").touch()
    await asyncio.to_thread(until, lambda: live.messengers == 0)
    finding_actions.notify_finding(core, live, FINDING)
    assert said(live).count(dropped) == 1


async def test_a_folder_that_is_gone_is_said(core: Core) -> None:
    """The run was launched from a folder that was removed since: a sentence, and no exception."""
    live = live_run(core, "true")
    order = attempt_order(
        core.root, live.dir, 1, spec_of(HealthKeep()), Caller(sys.executable, "/nowhere/at/all", {}), None
    )
    core.seals.write_order(live.dir, order)
    finding_actions.notify_finding(core, live, FINDING)
    assert any("was not run" in detail and "/nowhere/at/all" in detail for detail in said(live))


async def test_a_failure_after_the_end_is_journaled_behind_it(core: Core) -> None:
    """The journal of a run that has ended is opened once more for the line."""
    live = live_run(core, "exit 4")
    abandon(core, live, Killed(None))
    await eventually(live, "on_event ended with exit code 4")
    found = read_all(live.dir.events, FleetEvent)[0]
    assert [type(event) for event in found] == [RunCreated, AttemptEnded, HealthActed]


async def test_a_messenger_that_failed_is_counted_and_shown_with_what_it_said(core: Core) -> None:
    """Its last line on stderr is the reason, without addresses, tokens and values of variables."""
    words = "curl: (22) https://hooks.example/T0/SECRETPATH failed, token=abcdef12345 for $PERSON"
    live = live_run(core, f'echo first >&2; echo "{words}" >&2; exit 22')
    caller = Caller(sys.executable, str(core.root), {"PATH": os.environ["PATH"], "PERSON": "hunter2-hunter2"})
    core.seals.write_order(live.dir, attempt_order(core.root, live.dir, 1, spec_of(HealthKeep()), caller, None))
    core.variables.set_values(live.id, {"PERSON": "hunter2-hunter2"})
    finding_actions.notify_finding(core, live, FINDING)
    await asyncio.to_thread(until, lambda: len(said(live)) == 2)
    finding_actions.notify_finding(core, live, FINDING)
    await asyncio.to_thread(until, lambda: len(said(live)) == 4)
    reason = said(live)[1]
    assert reason.startswith("on_event ended with exit code 22: curl: (22) https://*** failed, token=***")
    for secret in ("SECRETPATH", "abcdef12345", "hunter2"):
        assert secret not in reason
    (failed,) = core.store.view(live.id).failed_duties
    assert (failed.duty, failed.times) == ("on_event", 2)
    assert failed.why.startswith("ended with exit code 22: curl")
    assert "failed-duty" in core.store.view(live.id).flags


async def test_a_messenger_that_tells_again_is_said_to_and_no_longer_shown(core: Core) -> None:
    """What failed twice and then worked is journaled as done again, and shown as failed no more."""
    flag = core.root / "works"
    live = live_run(core, f"test -e {flag}")
    for number in (2, 4):
        finding_actions.notify_finding(core, live, FINDING)
        await asyncio.to_thread(until, lambda number=number: len(said(live)) == number)
    assert [each.times for each in core.store.view(live.id).failed_duties] == [2]
    flag.touch()
    finding_actions.notify_finding(core, live, FINDING)
    await asyncio.to_thread(until, lambda: not core.store.view(live.id).failed_duties)
    finding_actions.notify_finding(core, live, FINDING)
    await asyncio.to_thread(until, lambda: live.messengers == 0)
    found = read_all(live.dir.events, FleetEvent)[0]
    (done,) = [event for event in found if isinstance(event, DutyDoneSeen)]
    assert (done.duty, done.times) == ("on_event", 2)


async def test_what_told_somebody_is_no_failure(core: Core) -> None:
    """A messenger that exits 0 leaves no sign, whatever it wrote."""
    live = live_run(core, "echo chatter >&2")
    finding_actions.notify_finding(core, live, FINDING)
    await asyncio.to_thread(until, lambda: live.messengers == 0)
    assert said(live) == ["on_event"]
    assert core.store.view(live.id).failed_duties == ()


def test_a_symptom_that_is_no_worse_than_its_cause_wakes_nobody_again(
    sim: SimulatedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is worse than what was told of its cause, it is told; and so is one whose cause nobody was told of."""
    told: list[tuple[str, str]] = []

    def notify(core: Core, run: LiveRun, finding: Finding) -> None:
        told.append((finding.id, finding.severity))
        core.record_observed(run, lambda seq, t: HealthActed(seq, t, finding.id, "notified"))

    monkeypatch.setattr(finding_actions, "_ACTIONS", {"notified": notify})
    (run,) = sim.launch(STUB_UPDATE_S="3600")
    sim.wait(run, lambda view: view.state == "running")
    cause = structs.replace(NAN_FINDING, id="kl-persistent-1-4", rule="kl-persistent", severity="warning")
    fall = structs.replace(cause, id="drawdown-1-6", rule="drawdown", part_of=cause.id)
    worse = structs.replace(fall, severity="critical", last_update=fall.last_update + 1)
    alone = structs.replace(fall, id="stall-1-7", rule="stall", part_of="grad-norm-1-2")
    for finding in (cause, fall, worse, alone):
        record_finding(sim.core, sim.core.live[run], finding)
    assert told == [(cause.id, "warning"), (worse.id, "critical"), (alone.id, "warning")]


def test_a_forgotten_finding_is_no_news_when_the_run_is_judged_anew(
    sim: SimulatedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After weeks the first of thousands are known by the journal alone: they are neither journaled nor told again."""
    monkeypatch.setattr(journal_state, "MOST_FINDINGS", 8)
    monkeypatch.setattr(journal_state, "NEWEST_FINDINGS", 2)
    (run,) = sim.launch(STUB_UPDATE_S="3600")
    sim.wait(run, lambda view: view.state == "running")
    told = [
        structs.replace(NAN_FINDING, id=f"nan-1-{update}", first_update=update, last_update=update, state="cleared")
        for update in range(1, 30)
    ]

    def judge() -> int:
        for finding in told:
            record_finding(sim.core, sim.core.live[run], finding)
        return sum(isinstance(event, FindingChanged) for event in events(sim, run))

    assert judge() == len(told)
    assert len(sim.core.store.run(run).journal.findings) < len(told)
    assert judge() == len(told)
    sim.kill_supervisor()
    sim.start()
    assert judge() == len(told)
