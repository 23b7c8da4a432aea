"""What is known of an ended run by the newest rows of its metrics, against what whoever saw all of them knows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, RunNoted
from mission_tui.fleet.events.metrics import EvaluationDone, MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.events.outcome import Stopped
from mission_tui.fleet.history.course import ValueAtUpdate
from mission_tui.fleet.specs.spec import RunSpec
from mission_tui.fleet.store import Store
from mission_tui.records.runs.attempt import ExitRecord
from mission_tui.supervisor.runs.run_on_disk import OUTPUT_CHARACTERS, exit_facts, show_end
from tests.fleet.recorded import SPEC, STEPS, empty_store, update

RUN = "20261121-104207-demo-3f9a"


def rows(*records: MetricRecord) -> list[MetricRecord]:
    """The lines of a file, numbered."""
    return [structs.replace(record, seq=seq) for seq, record in enumerate(records, 1)]


def climb(first: int, last: int) -> list[UpdateDone]:
    """Updates whose return is their number."""
    return [update(number, ret=float(number)) for number in range(first, last + 1)]


def ended(goal: str | None = None) -> Store:
    """A store with a run that was stopped, and none of its rows."""
    store = empty_store()
    store.add_run(RUN, f"/lab/runs/{RUN}", structs.replace(SPEC, run=RunSpec(total_timesteps=10_000_000, goal=goal)))
    store.apply(RUN, AttemptStarting(1, 91.0, 1))
    store.apply(RUN, AttemptEnded(2, 900.0, 1, Stopped(checkpoint=None)))
    return store


def start(attempt: int = 1, from_update: int = 0) -> TrainingStarted:
    """An attempt on an environment that counts as solved at 12."""
    return TrainingStarted(0, attempt, 92.0, from_update=from_update, reward_threshold=12.0)


@pytest.mark.parametrize(
    ("goal", "file"),
    [
        (None, rows(start(), *climb(1, 20))),
        (None, rows(start(), *climb(1, 20), start(2, 8), *climb(9, 11))),
        (
            "success 80%",
            rows(start(), *climb(1, 9), EvaluationDone(0, 1, 9, 9 * STEPS, 140.0, 1.0, 0.1, 20, 0.9), *climb(10, 12)),
        ),
    ],
    ids=["threshold", "rewound", "success"],
)
def test_a_file_that_was_read_whole_tells_the_whole_course(goal: str | None, file: Sequence[MetricRecord]) -> None:
    """Course, best and goal are those of a store that saw every row, and the rows that are kept do not pass for all."""
    seen, shown = ended(goal), ended(goal)
    seen.apply_all(RUN, file)
    show_end(shown, RUN, list(file))
    view = shown.view(RUN)
    assert view.course is not None
    assert view.goal is not None
    assert (view.course, view.best, view.goal) == (
        seen.view(RUN).course,
        seen.view(RUN).best,
        seen.view(RUN).goal,
    )
    assert not shown.run(RUN).metrics.complete


def test_the_end_of_a_longer_file_tells_no_course_until_all_of_it_is_read() -> None:
    """The best of the last rows may not be the run's; nothing is said before the rest is known."""
    file, store = rows(start(), *climb(1, 20), *(update(number, ret=1.0) for number in range(21, 41))), ended()
    show_end(store, RUN, file[25:])
    view = store.view(RUN)
    assert (view.update, view.course, view.best) == (40, None, None)
    store.load_history(RUN, file)
    assert store.view(RUN).best == ValueAtUpdate(20.0, 20, 20 * STEPS)


def test_rows_that_are_let_go_take_no_course_with_them() -> None:
    """A run of more rows than are kept, all of which were read once."""
    file, store = rows(start(), *climb(1, 90)), ended()
    show_end(store, RUN, file)
    before = store.view(RUN)
    store.run(RUN).forget_rows()
    store.run(RUN).metrics.view_parts = None
    store.apply(RUN, RunNoted(3, 901.0, "", ""))
    assert before.best == ValueAtUpdate(90.0, 90, 90 * STEPS)
    after = store.view(RUN)
    assert (after.course, after.best) == (before.course, before.best)


def test_of_last_words_as_many_are_looked_at_as_a_keeper_writes() -> None:
    """A run that came from elsewhere may say megabytes where a cause is searched for."""
    facts = exit_facts(ExitRecord(attempt=1, ended_t=1.0, signal=11, last_output="\n" * 1_000_000 + "the end"))
    assert facts is not None
    assert len(facts.last_output) == OUTPUT_CHARACTERS
    assert facts.last_output.endswith("\nthe end")
