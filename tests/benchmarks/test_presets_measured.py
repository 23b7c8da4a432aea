"""What presets came to: curves and shares follow from the rows, and a page says of every figure how far it reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from benchmarks.presets.__main__ import train
from benchmarks.presets.ends import Ends
from benchmarks.presets.measured import (
    POINTS,
    TRAININGS,
    Kept,
    Measured,
    Played,
    Point,
    keep,
    mission_digest,
    played_of,
    points_of,
    read_kept,
    share_won,
    shares,
)
from benchmarks.presets.page import page
from mission_tui.fleet.events.metrics import (
    CheckpointSaved,
    Episodes,
    EvaluationDone,
    MetricRecord,
    TrainingStarted,
    UpdateDone,
)
from tests.benchmarks.test_campaign import ScriptedLab

FAST = Measured(
    mission="0123abcd",
    seed=1,
    steps=409_600,
    budget=50_000_000,
    updates=100,
    attempts=2,
    trained_s=1800.0,
    rollout_share=0.1,
    evaluation_share=0.015,
    cores=1.0,
    memory_bytes=500 * 2**20,
    won=0.83,
    outcomes={"early_success": 83, "stalled": 17},
    gradient_steps=30,
)


def update(number: int, *, won: int = 0, of: int = 4, attempt: int = 1) -> UpdateDone:
    """A row of 100 steps, 3 s of rollout and 1 s of update, in which `of` episodes ended."""
    outcomes = {"captured": won, "stalled": of - won}
    metrics: dict[str, float | str] = {"train/approx_kl": 0.01 * number, "train/clip_fraction": 0.1}
    episodes = Episodes(n=of, outcomes=outcomes)
    return UpdateDone(number, attempt, number, 100 * number, 4.0 * number, 3.0, 1.0, 25.0, metrics, episodes)


def test_a_curve_has_few_places_and_reaches_the_last_row() -> None:
    """Each place is of equally many updates; what a later attempt took back is in none of them."""
    rows: list[MetricRecord] = [update(number, won=1) for number in range(1, 2 * POINTS + 1)]
    points = points_of(rows)
    assert (len(points), points[0].steps, points[-1].steps) == (POINTS, 200, 200 * POINTS)
    assert (points[0].kl, points[0].clip, points[0].won) == (0.015, 0.1, 0.25)
    again: list[MetricRecord] = [TrainingStarted(900, 2, 0.0, from_update=1), update(2, won=4, attempt=2)]
    assert [(at.steps, at.won) for at in points_of([*rows[:3], *again])] == [(100, 0.25), (200, 1.0)]
    assert points_of([]) == ()
    assert points_of([update(1, of=0)])[0].won is None


def test_shares_are_of_the_seconds_trained() -> None:
    """An evaluation lives from its checkpoint, or from the end of the one before, to its own end."""
    rows: list[MetricRecord] = [update(number) for number in range(1, 26)]
    saved = [
        CheckpointSaved(30 + at, 1, 1, 100, t, name, "steps") for at, (name, t) in enumerate([("a", 10), ("b", 12)])
    ]
    unplayed = CheckpointSaved(40, 1, 1, 100, 50.0, "c", "time")
    assert shares([*rows, *saved, unplayed], {"a": 15.0, "b": 18.0}) == (0.75, 0.08)
    assert shares([], {}) == (0.0, 0.0)


def test_evaluations_without_a_share_won_are_no_place_of_the_curve() -> None:
    """Runs recorded before it was kept have none."""
    old = EvaluationDone(1, 1, 1, 100, 0.0, 1.0, 0.0, 20)
    new = EvaluationDone(2, 1, 2, 200, 0.0, 1.0, 0.0, 20, 0.5)
    assert played_of([update(1), old, update(2), new]) == (Played(200, 0.5),)


def test_a_mission_is_known_by_its_rules() -> None:
    """Another mission has other digits, the same one the same."""
    assert mission_digest("standard") == mission_digest("standard") != mission_digest("demo")


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    """The file holds all of it; without a file there is nothing."""
    file = tmp_path / "presets-measured.json"
    assert read_kept(file).presets == {}
    keep(Kept(presets={"fast": FAST}, ends={"0123abcd": Ends({"stalled": 10}, {"captured": 10})}), file)
    assert read_kept(file).presets == {"fast": FAST}


class OneRun(ScriptedLab):
    """A lab in which a launched or resumed run trains, and a stopped one has ended."""

    def cli(self, *words: str) -> Any:
        answer = super().cli(*words)
        if words[0] in ("stop", "resume"):
            state, more = ("ended", 0) if words[0] == "stop" else ("running", 1)
            for view in [self.stand[run] for run in words[1:]]:
                self.stand[view.id] = structs.replace(view, state=state, outcome=None, attempt=view.attempt + more)
        return answer


def test_a_preset_is_begun_once_and_goes_on_where_it_was_left(tmp_path: Path) -> None:
    """Out of time it is stopped, the next time resumed; one that has spent its budget is only looked at."""
    lab = OneRun(tmp_path)
    for asked in ("launch", "resume"):
        view, _ = train(lab, ["fast"], ("run.device=cuda",), 0.0, {})["fast"]
        assert ([verb for verb, _ in lab.verbs], view.state) == ([asked, "stop"], "ended")
        lab.asked.clear()
    lab.stand[view.id] = structs.replace(view, outcome="finished")
    assert train(lab, ["fast"], (), 60.0, {}) == {"fast": (lab.stand[view.id], [])}
    assert lab.asked == []


def test_presets_train_side_by_side_and_one_that_is_refused_holds_up_no_other(tmp_path: Path) -> None:
    """All are launched before the first is waited for; in the end all are stopped."""
    lab = OneRun(tmp_path)
    found = train(lab, ["fast", "wide"], (), 0.0, {})
    assert [verb for verb, _ in lab.verbs][:2] == ["launch", "launch"]
    assert {row: view.state for row, (view, _) in found.items()} == {"fast": "ended", "wide": "ended"}
    lab.refused, failures = {"resume"}, dict[str, str]()
    assert train(lab, ["fast"], (), 0.0, failures) == {}
    assert list(failures) == ["fast"]


def test_the_page_says_how_far_each_row_reaches() -> None:
    """Steps, share of the budget and share won of those measured; those that were not say so, and have no figure."""
    ends = {"0123abcd": Ends({"stalled": 995, "captured": 5}, {"captured": 600, "all_disabled": 400})}
    text = page(Kept(presets={"fast": FAST}, ends=ends), {"fast": "presets-measured/fast.svg"})
    lines = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert list(lines) == list(TRAININGS)
    assert lines["fast"].startswith("| `fast` | 409,600 | 0.8% | 83% | early_success 83, stalled 17 |")
    assert lines["heavy"].startswith("| `heavy` | not measured: `make presets-measured` |")
    assert all(line.count("|") == lines["fast"].count("|") for line in lines.values())
    assert "- `fast` **wins 83%** of its episodes after 409,600 of 50,000,000 steps." in text
    assert "random orders, 1,000 episodes | 0.5% |" in text
    assert "scripted seeker, 1,000 episodes | 60.0% |" in text
    assert "![fast](presets-measured/fast.svg)" in text
    assert share_won({}) == 0.0


def test_what_did_not_learn_is_said_so_and_what_was_not_measured_is_not_said() -> None:
    """The sentence goes as far as the steps; where evaluations were played it says from when on it wins."""
    points = (Point(200_000, 0.01, 0.1, 0.5), Point(409_600, 0.01, 0.1, None))
    poor = structs.replace(FAST, won=0.25, points=points)
    early = structs.replace(FAST, played=(Played(200_000, 0.7), Played(400_000, 0.8)))
    said = page(Kept(presets={"fast": early, "heavy": poor}), {})
    assert (
        "83%** of its episodes after 409,600 of 50,000,000 steps, and 80% in an evaluation at 400,000 already." in said
    )
    assert "- `heavy` wins 25% of its episodes after 409,600 of 50,000,000 steps, 50% of those in training" in said


def test_the_same_numbers_make_the_same_picture(tmp_path: Path) -> None:
    """So that a page written again differs only where a figure does."""
    pytest.importorskip("matplotlib")
    from benchmarks.presets.pictures import draw

    kept = Kept(presets={"fast": FAST}, ends={"0123abcd": Ends({"stalled": 10}, {"captured": 10})})
    first, again = (draw(kept, tmp_path / name) for name in ("one", "two"))
    assert (first["fast"], again["fast"]) == ("one/fast.svg", "two/fast.svg")
    assert (tmp_path / first["fast"]).read_bytes() == (tmp_path / again["fast"]).read_bytes()
