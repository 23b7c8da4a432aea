"""Of very many live runs only the newest rows stay in memory, and nothing that is shown of them is another for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.fleet import store as store_module
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, RunCreated, RunPaused, RunResumed
from mission_tui.fleet.events.metrics import RETURN, EvaluationDone, MetricRecord, TrainingStarted
from mission_tui.fleet.events.outcome import Finished
from mission_tui.fleet.specs.spec import RunSpec, Spec
from mission_tui.fleet.store import Store
from mission_tui.ipc.requests import GetHistory
from mission_tui.records.jsonl import encode_line
from mission_tui.supervisor.readonly.history import history
from tests.fleet.recorded import SPEC, empty_store, update
from tests.supervisor.readonly.test_history import Catalog

RUNS = tuple(f"20261121-10420{number}-demo-3f9a" for number in range(3))
ROWS, KEPT, MOST = 400, 70, 300


def course(first: int = 1, last: int = ROWS, attempt: int = 1) -> Iterator[MetricRecord]:
    """Rows of which the best one comes early, with an evaluation now and then."""
    for number in range(first, last + 1):
        yield update(number, seq=2 * number, attempt=attempt, ret=float(number % 97), kl=0.01)
        if number % 50 == 0:
            place = (2 * number + 1, attempt, number, 1024 * number, 100.0 + number)
            yield EvaluationDone(*place, mean=float(number), std=1.0, episodes=9)


def store_of(spec: Spec = SPEC) -> Store:
    """A store of three live runs without rows."""
    store = empty_store()
    for run in RUNS:
        store.add_run(run, f"/lab/runs/{run}", spec)
        store.apply_all(run, (RunCreated(1, 90.0, run[-9:], "demo"), AttemptStarting(2, 91.0, 1)))
        store.apply(run, TrainingStarted(1, 1, 92.0, reward_threshold=90.0))
    return store


def train(*stores: Store, last: int = ROWS) -> None:
    """Every run trains in every store, row by row, and pauses at the thirtieth update."""
    for record in course(last=last):
        for store in stores:
            for run in RUNS:
                store.apply(run, record)
                if record.seq == 60:
                    store.apply_all(run, (RunPaused(3, record.t, 1), RunResumed(4, record.t + 0.5, 1)))


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store made now has room for so few rows that those of three runs are too many."""
    monkeypatch.setattr(store_module, "LIVE_ROWS", MOST)
    monkeypatch.setattr(store_module, "KEPT_ROWS", KEPT)
    monkeypatch.setattr(store_module, "_LOOKED_AFTER", 50)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch, little: None) -> tuple[Store, Store]:
    """A store that keeps every row, and one that does not, of the same runs."""
    with monkeypatch.context() as patched:
        patched.setattr(store_module, "LIVE_ROWS", 10**9)
        whole = store_of()
        train(whole)
    few = store_of()
    train(few)
    return whole, few


def held(store: Store) -> int:
    """Rows in memory."""
    return sum(len(store.run(run).metrics.columns) for run in RUNS)


def test_what_is_shown_is_the_same_without_the_older_rows(both: tuple[Store, Store]) -> None:
    """Course, best, goal, moments, series and all else of a view, with a fraction of the rows."""
    whole, few = both
    assert (held(whole), held(few) <= MOST + 50) == (3 * ROWS, True)
    assert [few.view(run) for run in RUNS] == [whole.view(run) for run in RUNS]
    shown = few.view(RUNS[0])
    assert shown.best is not None
    assert (shown.best.update, [it.word for it in shown.moments]) == (96, ["paused"])


def test_a_run_that_ends_is_known_as_before(both: tuple[Store, Store]) -> None:
    """Nobody reads its file for the list; a chart does."""
    for store in both:
        store.apply(RUNS[0], AttemptEnded(9, 999.0, 1, Finished("000400")))
    whole, few = both
    assert few.view(RUNS[0]) == whole.view(RUNS[0])
    assert not few.run(RUNS[0]).metrics.complete


def test_rows_that_are_taken_back_beyond_what_is_kept_are_read_again(both: tuple[Store, Store]) -> None:
    """The next attempt goes on from an update that is not in memory any more: the file says what is before it."""
    whole, few = both
    file = [TrainingStarted(1, 1, 92.0, reward_threshold=90.0), *course()]
    for store in both:
        store.apply(RUNS[0], AttemptStarting(9, 999.0, 2, checkpoint="000100"))
        store.apply(RUNS[0], TrainingStarted(900, 2, 1000.0, reward_threshold=90.0, from_update=100))
    assert few.run(RUNS[0]).metrics.lacking
    assert few.reload(RUNS[0], [*file, TrainingStarted(900, 2, 1000.0, reward_threshold=90.0, from_update=100)])
    assert few.view(RUNS[0]) == whole.view(RUNS[0])


def test_a_share_of_successes_keeps_its_rows(little: None) -> None:
    """Evaluations tell of rows that are past, so those of a run that is to reach one stay."""
    store = store_of(structs.replace(SPEC, run=RunSpec(total_timesteps=10**9, goal="success 80%")))
    train(store)
    assert held(store) == 3 * ROWS


async def test_a_chart_of_a_live_run_has_every_row_and_takes_no_news_from_the_judge(
    both: tuple[Store, Store], tmp_path: Path
) -> None:
    """What the file has beyond what is known stays news; the run that was asked for keeps its rows before others."""
    _, few = both
    (tmp_path / RUNS[0]).mkdir()
    news = update(ROWS + 1, seq=2 * ROWS + 2, ret=1.0)
    lines = map(encode_line, (TrainingStarted(1, 1, 92.0), *course(), news))
    (tmp_path / RUNS[0] / "metrics.jsonl").write_bytes(b"".join(lines))
    catalog = Catalog(few, tmp_path)
    catalog.live = frozenset(RUNS)
    reply = await history(catalog, GetHistory(id=1, run=RUNS[0], series=(RETURN,), points=500))
    assert (reply.updates[0], reply.updates[-1], len(reply.updates)) == (1, ROWS, ROWS)
    assert few.apply(RUNS[0], news)
    for record in course(ROWS + 2, ROWS + 200):
        few.apply(RUNS[1], record)
    assert len(few.run(RUNS[0]).metrics.columns) == ROWS + 1
