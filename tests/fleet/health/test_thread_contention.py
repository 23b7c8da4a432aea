"""`thread-contention`: threads of a command that wait for each other, said only where that is sure."""

from __future__ import annotations

import pytest

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import AttemptStarting, FindingChanged, FleetEvent, RunCreated
from mission_tui.fleet.health.replay import replay
from mission_tui.fleet.health.thread_contention import ID, ProcessThreads, ThreadContention, ThreadSample
from mission_tui.fleet.specs.spec import RunSpec, Spec
from mission_tui.fleet.specs.thresholds import ThreadContentionLimits

SCRIPT = Spec(preset="command", run=RunSpec(command=("python", "train.py")))
BESIDE = ThreadSample((ProcessThreads(16, 16.0, 4.0),), 16, 12.0)
"""Sixteen threads of one process that all want to compute, and get four of the sixteen cores."""

CALM = ThreadSample((ProcessThreads(16, 4.0, 3.9),), 16, 12.0)


def after(*looks: ThreadSample | None, speeds: tuple[float | None, ...] = ()) -> ThreadContention:
    rule = ThreadContention(ThreadContentionLimits())
    for at, look in enumerate(looks):
        rule.update(look, speeds[at] if at < len(speeds) else None)
    return rule


def test_many_threads_on_the_few_cores_that_others_leave_are_a_finding_with_the_exact_setting() -> None:
    """What is, why in this run's own command, and what to do about it."""
    rule = after(*[BESIDE] * 5)
    assert rule.on
    words = rule.explain(SCRIPT)
    assert words.sentence == (
        "16 threads of it share about 4 of 16 cores with others at work: they wait for a core 75% of the time that "
        "they want to compute"
    )
    assert "run.threads is not set, and torch and NumPy start up to 16" in words.cause
    assert words.advice_set == ("run.threads=1",)
    assert "OMP_NUM_THREADS=1" in words.advice


@pytest.mark.parametrize(
    "look",
    [
        None,
        ThreadSample((ProcessThreads(16, 16.0, 15.0),), 16, 0.3),  # alone, and it uses its threads well
        ThreadSample((ProcessThreads(32, 32.0, 15.5),), 16, 0.3),  # alone with more threads than cores: its own affair
        ThreadSample((ProcessThreads(16, 15.0, 13.0),), 16, 3.0),  # beside three busy cores, and hardly slower for it
        ThreadSample(tuple(ProcessThreads(1, 1.0, 0.3) for _ in range(16)), 16, 12.0),  # processes, not threads
        ThreadSample((ProcessThreads(16, 0.9, 0.4),), 16, 15.0),  # threads that sleep
        ThreadSample((ProcessThreads(1, 1.3, 0.2),), 16, 15.0),  # one at work, and others that write a log now and then
    ],
)
def test_it_is_silent_where_threads_are_not_the_trouble(look: ThreadSample | None) -> None:
    """However long that lasts."""
    assert not after(*[look] * 50).on


def test_two_threads_that_meet_at_every_step_are_found_too() -> None:
    """Each sleeps while the other is late: as measured of torch with two threads on two busy cores."""
    assert after(*[ThreadSample((ProcessThreads(2, 1.48, 0.22),), 2, 1.6)] * 5).on


def test_a_moment_is_no_finding_and_what_began_is_over_only_after_a_while() -> None:
    """Five looks of eight begin it, eight calm ones in a row end it."""
    assert not after(*[BESIDE] * 4, *[CALM] * 20).on
    assert after(*[BESIDE] * 5, *[CALM] * 7).on
    rule = after(*[BESIDE] * 5, *[CALM] * 8)
    assert (rule.on, rule.off) == (False, True)
    assert not after(BESIDE).off


def test_a_speed_that_did_not_fall_is_proof_enough_that_nothing_is_wrong() -> None:
    """Known from when it had the machine for itself; one that fell is named with both figures."""
    speeds = (1000.0, *[950.0] * 30)
    assert not after(None, *[BESIDE] * 30, speeds=speeds).on
    rule = after(None, *[BESIDE] * 30, speeds=(1021.0, *[51.0] * 30))
    assert rule.on
    assert rule.explain(SCRIPT).sentence.endswith("; 51 steps/s where it had 1,021")
    assert rule.explain(SCRIPT).signal == "steps_per_s"


def test_a_number_of_threads_that_was_given_is_named_as_the_cause() -> None:
    """Not the default of a library that nobody asked for."""
    spec = Spec(preset="command", run=RunSpec(command=("python", "train.py"), threads=8))
    assert after(*[BESIDE] * 5).explain(spec).cause.startswith("run.threads = 8 ")


def test_judging_again_keeps_what_no_row_shows() -> None:
    """The machine of that moment is on no record but the journal, so its findings are taken from there."""
    words = after(*[BESIDE] * 5).explain(SCRIPT)
    found = Finding(
        f"{ID}-1-0", ID, "warning", 0, 0, words.sentence, words.cause, words.advice, words.advice_set, first_t=5.0
    )
    events: list[FleetEvent] = [
        RunCreated(1, 1.0, name="a", preset="command"),
        AttemptStarting(2, 2.0, 1),
        FindingChanged(3, 5.0, found),
    ]
    assert replay({1: SCRIPT}, [], events) == (found,)
