"""Source 003's comparison and the count of verdicts: what `bench` says is passed on as it is, slower and failed too."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.fleet.shapes import spec_of
from benchmarks.modes import TASKS, page, row_of
from benchmarks.verdicts import benched
from benchmarks.verdicts import row_of as row_of_verdicts
from mission_tui.fleet.timed_runs import incomparable, work_of


def document(verdict: str | None, ratio: float) -> dict[str, Any]:
    """What `bench --json` prints, as far as it is read."""
    side = {"steps_per_s": {"median": 100.0}, "repeats": [{"timing": {"steps_per_s": rate}} for rate in (90.0, 110.0)]}
    said = {"ratio": ratio, "lo": ratio - 0.1, "hi": ratio + 0.1, "sentence": f"{verdict}: {ratio} x the speed"}
    return {"verdict": verdict, "ratio": said, "notes": ["the machine did other work"], "sides": [side, side]}


@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_both_modes_do_the_same_work(task: Any) -> None:
    """Nothing on which it depends what is learned differs; only who steps the 32 environments does."""
    one, other = (spec_of(preset, task.assignments) for preset in (task.workers, task.sequential))
    assert incomparable(work_of(one), work_of(other), {}, {}) == ()
    assert (one.env.vec, one.env.n_workers, other.env.vec, one.env.n_envs) == ("workers", 4, "inline", 32)
    assert (one.ppo.n_steps, one.ppo.batch_size, one.ppo.n_epochs, one.ppo.learning_rate) == (128, 1024, 4, 3e-4)


def test_slower_workers_are_called_slower() -> None:
    """In the row and on the page; a task without its extra is not measured and says which."""
    slow, fast = document("slower", 0.4), document(None, 1.04)
    row = row_of(TASKS[0], slow)
    assert row.ratio is not None
    assert (row.ratio.median, row.met) == (0.4, None)
    assert row.note == "slower: 0.4 x the speed; the machine did other work"
    text = page([(TASKS[0], slow), (TASKS[1], fast), (TASKS[2], "needs the `fast-envs` extra")], "30s", 5)
    assert "| CartPole-v1 | 100 steps/s | 100 steps/s | 0.40 x (0.30 to 0.50) | **slower** |" in text
    assert "| **no verdict** |" in text
    assert "| not measured: needs the `fast-envs` extra |" in text
    assert row_of(TASKS[2], "needs the `fast-envs` extra").ours is None


def test_workers_are_held_against_one_process() -> None:
    """The verdict is on the workers, and settings of the task go to both."""
    words = TASKS[2].bench_words("10s", 2)
    assert words[:4] == ("bench", "modes-workers", "--vs", "modes-sequential")
    assert words.count("env.id=envpool:CoinrunEasy-v0") == 2


@pytest.mark.parametrize(
    ("against", "said", "met"),
    [
        ("itself", ["same"] * 19 + ["failed"], True),
        ("itself", ["same"] * 18 + [None, "slower"], False),
        ("three times its epochs", ["slower"] * 20, True),
        ("three times its epochs", ["slower"] * 19 + ["same"], False),
    ],
)
def test_a_wrong_verdict_is_counted(against: str, said: list[str | None], met: bool) -> None:
    """One of twenty may say something else than "same", none something else than "slower"; a failed bench counts."""
    row = row_of_verdicts(against, [{"verdict": word, "sentence": ""} for word in said])
    assert row.met is met
    assert row.ours is not None
    assert row.ours.median == said.count(said[0])
    assert row.note.count("1 said") == len(set(said)) - 1


def test_how_busy_the_machine_was_is_said() -> None:
    """The median of the benches and the most; of failed ones nothing is known."""
    answers = [{"verdict": "same", "sentence": "", "elsewhere": load} for load in (1.0, 3.0, 60.0)]
    row = row_of_verdicts("itself", [*answers, {"verdict": "failed", "sentence": ""}])
    assert row.note == "1 said failed; other work took 3 % of all cores, 60 % at most"


def test_a_bench_that_cannot_begin_says_its_last_words(tmp_path: Any) -> None:
    """The real verb with a time it refuses: no exception, its sentence."""
    answer = benched(tmp_path, "soon", 1, "itself")
    assert answer["verdict"] == "failed"
    assert "failed with exit code 2" in answer["sentence"]
    assert "--duration 'soon'" in answer["sentence"]
