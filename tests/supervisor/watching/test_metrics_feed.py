"""The feed: rows, breaks and silence reach the judge of the attempt that lives, and the journal says what it says."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import (
    AttemptStarting,
    CoRunningChanged,
    FindingChanged,
    FleetEvent,
    GoalReached,
    RunCreated,
    RunFrozen,
    RunPaused,
    RunResumed,
    RunThawed,
)
from mission_tui.fleet.events.metrics import DutyFailed, Metric, MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.health.replay import replay
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.requests import Resume
from mission_tui.ipc.telemetry_server import MOST_REST_S
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.attempt import read_attempt_spec, write_spec
from mission_tui.records.runs.layout import RunDir, supervisor_dir
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.lifecycle.attempts import open_live_run
from mission_tui.supervisor.runs import clock_steps
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.journal import Make
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.watching import metrics_feed
from mission_tui.supervisor.watching.co_running import CoRunningMonitor
from mission_tui.supervisor.watching.metrics_feed import (
    READ_S,
    judge_silence,
    on_rows_written,
    read_everything,
    read_news,
    silent_until,
)
from tests.fleet.recorded import SPEC, STEPS
from tests.supervisor.conftest import Lab


@pytest.fixture(autouse=True)
def judged_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a few rows can take longer than a slice, and the rest is judged later."""
    monkeypatch.setattr(metrics_feed, "SLICE_S", math.inf)


QUIET = change(SPEC, ["keep.health.kl-persistent.warning=50.0", "keep.health.kl-persistent.critical=90.0"])


@dataclass
class Field:
    """A runs root with runs whose trainers and supervisor are this test."""

    root: Path
    core: Core

    def run(self, name: str = "first", spec: Spec = SPEC) -> LiveRun:
        """A run that was made and whose first attempt was handed to a keeper."""
        run = RunDir(self.root / f"20261121-104207-{name}-3f9a")
        run.attempt(1).path.mkdir(parents=True)
        write_spec(run.spec, spec)
        self.core.add(run, spec)
        live = open_live_run(self.core, run, spec)
        self.say(live, lambda seq, t: RunCreated(seq, t, name, "demo"))
        self.say(live, lambda seq, t: AttemptStarting(seq, t, 1))
        return self.held_anew(live, spec)

    def held_anew(self, live: LiveRun, spec: Spec = SPEC) -> LiveRun:
        """The same run as a supervisor that was just started holds it: known by its events, judged from its rows."""
        live.release()
        self.core.store.remove_run(live.id)
        self.core.add(live.dir, spec)
        for event in self.events(live):
            self.core.store.apply(live.id, event)
        return open_live_run(self.core, live.dir, spec)

    def say(self, live: LiveRun, make: Make) -> None:
        self.core.record_observed(live, make)

    def events(self, live: LiveRun) -> list[FleetEvent]:
        events, damage = read_all(live.dir.events, FleetEvent)
        assert not damage
        return events

    def findings(self, live: LiveRun) -> list[Finding]:
        """Every finding that was journaled, in order."""
        return [event.finding for event in self.events(live) if isinstance(event, FindingChanged)]


def started(live: LiveRun, t: float) -> None:
    """The trainer begins to learn."""
    log = AppendLog(live.dir.metrics)
    log.append(lambda seq: TrainingStarted(seq, live.attempt, t))
    log.close()


def trained(live: LiveRun, first: int, count: int, t: float, kl: float = 0.01, **tags: Metric) -> None:
    """The trainer writes updates of one second each, the first of which ends at unix time `t`; `tags` of `rollout/`."""
    log = AppendLog(live.dir.metrics)
    for number in range(first, first + count):
        log.append(
            lambda seq, number=number: UpdateDone(  # type: ignore[misc]
                seq,
                live.attempt,
                number,
                number * STEPS,
                t + number - first,
                0.75,
                0.25,
                1000.0,
                {"train/approx_kl": kl, "train/clip_range": 0.2, **{f"rollout/{tag}": tags[tag] for tag in tags}},
            )
        )
    log.close()


def on(root: Path, scene: Callable[[Field], Coroutine[Any, Any, None]]) -> None:
    """Play the scene on a field in `root`."""

    async def play() -> None:
        supervisor_dir(root).mkdir(parents=True)
        await scene(Field(root, Core(root, {"local": LocalLauncher()})))

    asyncio.run(play())


def test_a_restart_tells_breaks_before_rows(tmp_path: Path) -> None:
    """A pause that was journaled is no silence, live and for the next supervisor that reads the files."""

    async def scene(field: Field) -> None:
        live, t = field.run(), time.time()
        started(live, t)
        trained(live, 1, 10, t + 1.0)
        read_news(field.core, live)
        field.say(live, lambda seq, _: RunPaused(seq, t + 11.0, 1))
        judge_silence(field.core, live, t + 900.0)
        live = field.held_anew(live)
        judge_silence(field.core, live, t + 900.0)
        field.say(live, lambda seq, _: RunResumed(seq, t + 1000.0, 1))
        trained(live, 11, 5, t + 1001.0)
        read_news(field.core, live)
        live = field.held_anew(live)
        assert field.findings(live) == []
        judge_silence(field.core, live, t + 1005.0 + 121.0)
        assert [finding.id for finding in field.findings(live)] == ["hang-1-15"]

    on(tmp_path / "runs", scene)


def test_a_shortage_of_descriptors_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that could not be read for want of one are read the next time; a file that refuses is damaged."""

    async def scene(field: Field) -> None:
        live, t = field.run(), time.time()
        started(live, t)
        trained(live, 1, 3, t + 1.0)
        for number, damage in ((errno.EMFILE, False), (errno.EIO, True)):
            with monkeypatch.context() as patch:
                patch.setattr(os, "open", Mock(side_effect=OSError(number, os.strerror(number))))
                read_news(field.core, live)
            read_news(field.core, live)
            assert field.core.store.run(live.id).metrics.seq == 4
            assert ("damaged" in field.core.store.run(live.id).journal.flags) is damage

    on(tmp_path / "runs", scene)


def test_what_the_trainer_can_do_again_is_shown_as_failed_no_longer(tmp_path: Path) -> None:
    """Until it fails again; a supervisor that reads all of it once more says the same."""

    async def scene(field: Field) -> None:
        live, t = field.run(), time.time()
        log = AppendLog(live.dir.metrics)
        shown: list[list[str]] = []
        for number, over in ((1, False), (1, True), (2, False)):
            word = DutyFailed(0, 1, 1, STEPS, t, "TensorBoard events", "full", number, over)
            log.append(lambda seq, word=word: structs.replace(word, seq=seq))  # type: ignore[misc]
            read_news(field.core, live)
            live = field.held_anew(live)
            shown.append([*field.core.store.run(live.id).journal.duties])
        log.close()
        assert shown == [["TensorBoard events"], [], ["TensorBoard events"]]

    on(tmp_path / "runs", scene)


def test_a_hang_is_journaled_once(tmp_path: Path) -> None:
    """However often the clock looks, and also after a restart, one silence is one incident; a row in time ends it."""

    async def scene(field: Field) -> None:
        live, t = field.run(), time.time()
        started(live, t)
        trained(live, 1, 10, t + 1.0)
        read_news(field.core, live)
        for now in (100.0, 131.0, 140.0):
            judge_silence(field.core, live, t + now)
        live = field.held_anew(live)
        judge_silence(field.core, live, t + 150.0)
        trained(live, 11, 1, t + 200.0)
        trained(live, 12, 1, t + 201.0)
        read_news(field.core, live)
        assert [(it.id, it.state) for it in field.findings(live)] == [("hang-1-10", "open"), ("hang-1-10", "cleared")]

    on(tmp_path / "runs", scene)


def test_a_log_whose_writer_keeps_its_rows_is_not_silent(tmp_path: Path) -> None:
    """TensorBoard's writer may flush every two minutes: what a followed run says is as late as it was before, and after
    a restart of the supervisor as late as its newest row is old. Rows of a trainer of ours are there at once.
    """

    async def scene(field: Field) -> None:
        command = structs.replace(SPEC.run, command=("python", "ppo.py"), follow="/logs/*")
        for name, spec, late_s in (("tb", structs.replace(SPEC, run=command), 119.0), ("ours", SPEC, 2.0)):
            live, t = field.run(name, spec), time.time()
            started(live, t - 120.0)
            trained(live, 1, 118, t - 119.0)
            read_news(field.core, live)
            assert silent_until(live) == pytest.approx(t - late_s, abs=15.0)
            again = field.held_anew(live, spec)
            assert silent_until(again) == pytest.approx(t - 2.0, abs=15.0)
            trained(again, 119, 1, t - 100.0)
            again = field.held_anew(again, spec)
            assert silent_until(again) == pytest.approx(t - min(late_s, 100.0), abs=15.0)

    on(tmp_path / "runs", scene)


def test_a_machine_that_slept_is_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hours in which a laptop was suspended are on record as such, and no hang, live and for a later supervisor."""
    slept_s, unix, boot = 8 * 3600.0, time.time, clock_steps.boottime

    async def scene(field: Field) -> None:
        live, t = field.run(), time.time() - 30.0
        started(live, t)
        trained(live, 1, 10, t + 1.0)
        read_news(field.core, live)
        monkeypatch.setattr(time, "time", lambda: unix() + slept_s)
        monkeypatch.setattr(clock_steps, "boottime", lambda: boot() + slept_s)
        judge_silence(field.core, live, time.time())
        trained(live, 11, 1, time.time() + 1.0)
        read_news(field.core, live)
        live = field.held_anew(live)
        judge_silence(field.core, live, time.time() + 1.0)
        assert field.findings(live) == []
        fell, woke = (event for event in field.events(live) if isinstance(event, (RunFrozen, RunThawed)))
        assert isinstance(fell, RunFrozen)
        assert (fell.why, round(woke.t - fell.t)) == ("the machine was suspended", slept_s)
        judge_silence(field.core, live, time.time() + 125.0)
        assert [finding.rule for finding in field.findings(live)] == ["hang"]

    on(tmp_path / "runs", scene)


def test_a_goal_that_is_reached_is_journaled_once(tmp_path: Path) -> None:
    """Not again by a higher return, nor by the next supervisor; by a resume from before it, with its new update."""

    async def scene(field: Field) -> None:
        spec = change(QUIET, ["run.goal=50"])
        live, t = field.run(spec=spec), time.time()

        def reached() -> list[tuple[str, int]]:
            return [(event.goal, event.update) for event in field.events(live) if isinstance(event, GoalReached)]

        started(live, t)
        trained(live, 1, 5, t + 1.0, ep_rew_mean=20.0)
        read_news(field.core, live)
        assert reached() == []
        trained(live, 6, 5, t + 6.0, ep_rew_mean=60.0)
        read_news(field.core, live)
        live = field.held_anew(live, spec)
        read_everything(field.core, live)
        assert reached() == [("50", 6)]
        log = AppendLog(live.dir.metrics)
        log.append(lambda seq: TrainingStarted(seq, live.attempt, t + 20.0, from_update=4, from_timesteps=4 * STEPS))
        log.close()
        trained(live, 5, 5, t + 21.0, ep_rew_mean=50.0)
        read_news(field.core, live)
        assert reached() == [("50", 6), ("50", 5)]

    on(tmp_path / "runs", scene)


def test_rows_that_follow_each_other_quickly_are_read_together(tmp_path: Path) -> None:
    """News are read at once, what is said right after them a moment later or by the clock, what is known never; of many
    runs each is read once a second.
    """

    async def scene(field: Field) -> None:
        live, t = field.run(), time.time()

        def update() -> int:
            row = field.core.store.run(live.id).metrics.row
            return row.update if row is not None else 0

        started(live, t)
        trained(live, 1, 1, t)
        on_rows_written(field.core, live, 2)
        assert update() == 1
        trained(live, 2, 2, t + 1.0)
        on_rows_written(field.core, live, 4)
        assert update() == 1
        live.judging.news_at -= READ_S
        on_rows_written(field.core, live, 4)
        assert update() == 3
        trained(live, 4, 1, t + 3.0)
        live.judging.news_at -= READ_S
        on_rows_written(field.core, live, 4)
        assert update() == 3
        read_news(field.core, live)
        assert update() == 4
        others = {f"other-{number}": live for number in range(63)}
        field.core.live.update(others)
        trained(live, 5, 1, t + 4.0)
        live.judging.news_at -= READ_S
        on_rows_written(field.core, live, 6)
        assert update() == 4
        live.judging.news_at -= MOST_REST_S
        on_rows_written(field.core, live, 6)
        assert update() == 5
        for name in others:
            del field.core.live[name]

    on(tmp_path / "runs", scene)


def test_silence_is_not_judged_while_rows_wait(tmp_path: Path) -> None:
    """A supervisor that still catches up on a long history does not take what it has not judged for silence."""

    async def scene(field: Field) -> None:
        live, t = field.run(), time.time()
        started(live, t)
        trained(live, 1, 400, t + 1.0)
        read_news(field.core, live)
        records, _ = read_all(live.dir.metrics, MetricRecord)
        live.judging.unjudged.append(records[-1])
        judge_silence(field.core, live, t + 9000.0)
        assert field.findings(live) == []
        live.judging.unjudged.clear()
        judge_silence(field.core, live, t + 9000.0)
        assert [finding.rule for finding in field.findings(live)] == ["hang"]

    on(tmp_path / "runs", scene)


def test_what_is_journaled_is_what_a_replay_finds(tmp_path: Path) -> None:
    """Hot updates of a run, judged live and by its next supervisor, are the incidents that its files give."""

    async def scene(field: Field) -> None:
        live, t = field.run(), time.time()
        started(live, t)
        trained(live, 1, 40, t + 1.0)
        trained(live, 41, 10, t + 41.0, kl=0.08)
        read_news(field.core, live)
        live = field.held_anew(live)
        trained(live, 51, 30, t + 51.0)
        read_news(field.core, live)
        records, _ = read_all(live.dir.metrics, MetricRecord)
        found = replay({1: read_attempt_spec(live.dir, 1)}, records, field.events(live))
        newest = {finding.id: finding for finding in field.findings(live)}
        assert [finding.rule for finding in found] == ["kl-persistent"]
        assert tuple(newest.values()) == found

    on(tmp_path / "runs", scene)


def test_an_attempt_that_has_ended_is_not_judged_by_the_spec_of_the_next(tmp_path: Path) -> None:
    """Held for its next attempt with stricter limits, a run's old rows give no new findings."""

    async def scene(field: Field) -> None:
        live, t = field.run(spec=QUIET), time.time()
        started(live, t)
        trained(live, 1, 40, t + 1.0, kl=0.08)
        read_news(field.core, live)
        assert field.findings(live) == []
        journal = field.core.store.run(live.id).journal
        journal.outcome = cast(Any, object())
        live.release()
        live = open_live_run(field.core, live.dir, SPEC)
        assert field.findings(live) == []
        assert live.judging.judge is None

    on(tmp_path / "runs", scene)


def test_runs_hear_of_their_company(tmp_path: Path) -> None:
    """A run that is started, begins to learn, pauses or goes on is told to the others once each, and not to itself."""

    async def scene(field: Field) -> None:
        co_running = CoRunningMonitor(field.core)
        first = field.run("first")
        co_running.poll()
        second = field.run("second")
        co_running.poll()
        co_running.poll()
        started(second, 1.0)
        read_news(field.core, second)
        co_running.poll()
        field.say(second, lambda seq, t: RunPaused(seq, t, 1))
        co_running.poll()
        field.say(second, lambda seq, t: RunResumed(seq, t, 1))
        co_running.poll()
        told = {
            live.dir.id[16:21]: [event.others for event in field.events(live) if isinstance(event, CoRunningChanged)]
            for live in (first, second)
        }
        assert told == {"first": [1, 1, 0, 1], "secon": [1]}
        restarted = CoRunningMonitor(field.core)
        restarted.poll()
        assert len([event for event in field.events(first) if isinstance(event, CoRunningChanged)]) == 4

    on(tmp_path / "runs", scene)


def test_what_changed_while_no_supervisor_was_there_is_told(tmp_path: Path) -> None:
    """A supervisor that finds fewer runs than the journal last said tells those that are left."""

    async def scene(field: Field) -> None:
        first, second = field.run("first"), field.run("second")
        CoRunningMonitor(field.core).poll()
        del field.core.live[second.id]
        CoRunningMonitor(field.core).poll()
        told = [event.others for event in field.events(first) if isinstance(event, CoRunningChanged)]
        assert told == [1, 0]

    on(tmp_path / "runs", scene)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_findings_of_real_processes_are_replayed(lab: Lab) -> None:
    """With a pause, company, a killed supervisor and a second attempt, journal and files agree on every finding."""
    (run,) = lab.launch(STUB_KL="0.09", STUB_UPDATE_S="0.02")
    lab.wait(run, lambda view: view.findings)
    lab.act("pause", run)
    lab.wait(run, lambda view: view.state == "paused")
    (other,) = lab.launch()
    lab.running(other)
    lab.ask(lambda id_: Resume(id=id_, run=run))
    lab.running(run)
    lab.kill_supervisor()
    lab.start()
    lab.act("stop", run, other)
    lab.ended(run)
    lab.ask(lambda id_: Resume(id=id_, run=run))
    lab.wait(run, lambda view: view.attempt == 2 and len(view.findings) > 1)
    lab.act("stop", run)
    lab.ended(run)
    directory = lab.dir(run)
    events, _ = read_all(directory.events, FleetEvent)
    records, _ = read_all(directory.metrics, MetricRecord)
    assert any(isinstance(event, CoRunningChanged) for event in events)
    found = {it.id: it for it in replay({n: read_attempt_spec(directory, n) for n in (1, 2)}, records, events)}
    newest = {event.finding.id: event.finding for event in events if isinstance(event, FindingChanged)}
    for id_, finding in newest.items():
        if finding.state == "open":
            newest[id_] = structs.replace(finding, last_update=found[id_].last_update, last_t=found[id_].last_t)
    assert newest == found
    assert {finding.state for finding in found.values()} == {"open", "cleared"}
