"""What a run brought that joined the others or left them: journaled there, shown, and the same after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from mission_tui.fleet.events.journal import AttemptEnded, GainMeasured, RunPaused, RunResumed
from mission_tui.fleet.events.marginal_gain import MarginalGain
from mission_tui.fleet.events.metrics import TrainingStarted, UpdateDone
from mission_tui.fleet.events.outcome import Killed
from mission_tui.fleet.marginal_gain import training_spans_of
from mission_tui.fleet.specs.preset import change
from mission_tui.records.jsonl import AppendLog
from mission_tui.supervisor.lifecycle.run_queue import gain_shortage, queued_runs
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.watching.co_running import CoRunningMonitor, GainMonitor
from mission_tui.supervisor.watching.metrics_feed import read_news
from tests.fleet.recorded import SPEC
from tests.supervisor.watching.test_metrics_feed import Field, on


def trains(field: Field, live: LiveRun, begin: float, end: float, steps_per_s: float) -> None:
    """Updates of half a second each from unix time `begin` to `end`."""
    log = AppendLog(live.dir.metrics)
    row = field.core.store.run(live.id).metrics.row
    update, t = row.update if row is not None else 0, begin + 0.5
    if row is None:
        log.append(lambda seq: TrainingStarted(seq, 1, begin))
    while t <= end:
        update, at = update + 1, t
        log.append(
            lambda seq, update=update, at=at: UpdateDone(  # type: ignore[misc]
                seq, 1, update, update * 100, at, 0.4, 0.1, steps_per_s * (1.0 + 0.01 * (update % 3))
            )
        )
        t += 0.5
    log.close()
    read_news(field.core, live)


def paid(field: Field, live: LiveRun) -> list[MarginalGain]:
    """What the run's journal says of it."""
    return [event.payoff for event in field.events(live) if isinstance(event, GainMeasured)]


def since(field: Field, live: LiveRun) -> float:
    """When its attempt was handed over."""
    started_t = field.core.store.run(live.id).journal.started_t
    assert started_t is not None
    return started_t


def two(field: Field, gain: float = 0.3) -> tuple[LiveRun, LiveRun, float]:
    """One that has trained alone for a minute before another came, which trains beside it until the time returned."""
    first = field.run("first")
    begun = since(field, first) - 80.0
    field.core.store.run(first.id).journal.started_t = begun
    trains(field, first, begun, begun + 80.0, 1000.0)
    second = field.run("second")
    joined = since(field, second)
    for live in (first, second):
        trains(field, live, joined + 1.0, joined + 60.0, 500.0 * (1.0 + gain))
    return first, second, joined + 60.0


def test_a_run_that_joins_is_judged_once_and_shown(tmp_path: Path) -> None:
    """Its gain is in its own journal, on its view, and the newest of the fleet; before there is enough, it waits."""

    async def scene(field: Field) -> None:
        first, second, now = two(field)
        gain_monitor = GainMonitor(field.core, field.core.machine)
        gain_monitor.poll(now - 45.0)
        assert (paid(field, second), field.core.machine.unmeasured) == ([], (second.id,))
        gain_monitor.poll(now)
        gain_monitor.poll(now + 5.0)
        (gain,) = paid(field, second)
        assert (gain.change, gain.verdict, gain.others) == ("joined", "pays", 1)
        assert gain.gain is not None
        assert abs(gain.gain - 0.3) < 0.02
        assert gain.t == since(field, second)
        assert [gain.verdict for gain in paid(field, first)] == ["first"]
        assert field.core.machine.unmeasured == ()
        snapshot = field.core.store.snapshot(now)
        assert [each.run for each in snapshot.paid] == [second.id, first.id]
        assert snapshot.paid[0].sentence.startswith("second joined: +30 %: worth it (")
        assert field.core.store.view(second.id).payoff == gain

    on(tmp_path / "runs", scene)


def test_runs_of_a_node_are_measured_among_themselves(tmp_path: Path) -> None:
    """Two on one node of an engine, beside one of this machine: what the second brought there is said, its hours in the
    queue are no time on the node, and the run here is nobody's company.
    """

    async def scene(field: Field) -> None:
        first, second, now = two(field)
        for live in (first, second):
            run = field.core.store.run(live.id)
            run.spec = change(SPEC, ["run.launcher=slurm"])
            run.observed.node = "n1"
        joined = since(field, second)
        field.core.store.run(second.id).journal.started_t = joined - 7200.0
        second.waited_until_t = joined
        here = field.run("here")
        trains(field, here, since(field, here), now, 100.0)
        CoRunningMonitor(field.core).poll()
        assert [field.core.store.run(live.id).journal.others for live in (first, second, here)] == [1, 1, 0]
        GainMonitor(field.core, field.core.machine).poll(now)
        (gain,) = paid(field, second)
        assert (gain.change, gain.verdict, gain.others, gain.full) == ("joined", "pays", 1, "")
        assert gain.gain is not None
        assert abs(gain.gain - 0.3) < 0.02
        assert [gain.verdict for gain in paid(field, here)] == ["first"]

    on(tmp_path / "runs", scene)


def test_a_restarted_supervisor_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    """What was journaled is not said again, and what was not is said from the same records."""

    async def scene(field: Field) -> None:
        first, second, now = two(field)
        GainMonitor(field.core, field.core.machine).poll(now - 40.0)
        assert paid(field, second) == []
        begun = since(field, first)
        shown = field.core.store.snapshot(now).paid
        first, second = field.held_anew(first), field.held_anew(second)
        field.core.store.run(first.id).journal.started_t = begun
        assert field.core.store.snapshot(now).paid == shown
        GainMonitor(field.core, field.core.machine).poll(now)
        assert [gain.verdict for gain in paid(field, second)] == ["pays"]
        assert len(paid(field, first)) == 1

    on(tmp_path / "runs", scene)


def test_one_that_ended_is_told_what_it_had_brought(tmp_path: Path) -> None:
    """The journal of an ended run takes the word, and the run stays ended."""

    async def scene(field: Field) -> None:
        first, second, now = two(field, gain=-0.2)
        gain_monitor = GainMonitor(field.core, field.core.machine)
        gain_monitor.poll(now)
        field.say(second, lambda seq, t: AttemptEnded(seq, now, 1, Killed(None, "asked")))
        second.release()
        del field.core.live[second.id]
        trains(field, first, now, now + 60.0, 1000.0)
        gain_monitor.poll(now + 60.0)
        joined, left = paid(field, second)
        assert (joined.verdict, left.verdict, left.change) == ("costs", "costs", "left")
        assert left.gain is not None
        assert abs(left.gain + 0.2) < 0.02
        assert field.core.store.run(second.id).state == "ended"

    on(tmp_path / "runs", scene)


@pytest.mark.parametrize(("gain", "held"), [(0.3, False), (0.01, True), (-0.2, True)])
def test_the_queue_holds_back_while_the_last_one_brought_little(tmp_path: Path, gain: float, held: bool) -> None:
    """The reason names the run, its gain and the limit; it is over when a run is paused or ends."""

    async def scene(field: Field) -> None:
        _, second, now = two(field, gain)
        spec = change(SPEC, ["keep.limits.marginal_gain=0.05"])
        gain_monitor = GainMonitor(field.core, field.core.machine)
        gain_monitor.poll(now - 40.0)
        why = "waits until it is known what second brings (keep.limits.marginal_gain)"
        assert gain_shortage(field.core, 0.05, now - 40.0) == why
        second.spec, second.turn = spec, lambda: None
        assert [run.held for run in queued_runs(field.core, now - 40.0)] == [why]
        second.spec, second.turn = SPEC, None
        gain_monitor.poll(now)
        reason = gain_shortage(field.core, 0.05, now)
        if held:
            assert reason == (
                f"waits for a run to end: second was the last to join and brought {100 * gain:+.0f} %, "
                "keep.limits.marginal_gain asks for +5 %"
            )
        else:
            assert reason is None
        field.say(second, lambda seq, t: RunPaused(seq, now, 1))
        assert gain_shortage(field.core, 0.05, now) is None

    on(tmp_path / "runs", scene)


def test_a_pause_is_a_leaving_and_going_on_a_joining(tmp_path: Path) -> None:
    """While it is held a run is none of those that train."""

    async def scene(field: Field) -> None:
        live = field.run()
        begun = since(field, live)
        field.say(live, lambda seq, t: RunPaused(seq, begun + 10.0, 1))
        field.say(live, lambda seq, t: RunResumed(seq, begun + 20.0, 1))
        trains(field, live, begun, begun + 10.0, 1000.0)
        trains(field, live, begun + 20.0, begun + 30.0, 1000.0)
        stays = list(training_spans_of(field.core.store.run(live.id)))
        assert [span.since - begun for span in stays] == [0.0, 20.0]
        assert [span.until for span in stays] == [begun + 10.0, None]
        assert [span.warm is not None and span.warm - span.since for span in stays] == [5.5, 5.5]

    on(tmp_path / "runs", scene)
