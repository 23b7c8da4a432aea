"""The driver's arithmetic: at which shares of their budgets trials are compared, and whose end is not the last word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.fleet.comparison_sides import Trace
from mission_tui.fleet.events.outcome import RunState
from mission_tui.fleet.search import Confirmation, best_of
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.records.runs.layout import RunDir
from mission_tui.search.driver import Driver, StopAskedError, _at_rungs, _was_interrupted
from mission_tui.search.plan import SearchPlan
from tests.search.test_study import BASE, WORDS

VIEW = RunView(id="r", name="r", preset="cart", run_dir="/r", state="ended", created_t=0.0)


def test_trials_meet_at_the_same_shares_of_their_budgets_wherever_their_updates_fall() -> None:
    """The last value until then, the mean over seeds, no further than the slowest; nothing before the first value."""
    fast = Trace((100, 200, 300), (1.0, 2.0, 3.0), (1.0, 2.0, 3.0), end_timesteps=300)
    slow = Trace((140,), (1.0,), (5.0,), end_timesteps=160)
    alone = _at_rungs([fast], [(1000, None)])
    assert (min(alone), max(alone), alone[5], alone[10], alone[15]) == (5, 15, 1.0, 2.0, 3.0)
    both = _at_rungs([fast, slow], [(1000, None), (1000, None)])
    assert both == {7: 3.0, 8: 3.0}
    assert _at_rungs([fast], [(None, 10.0)]) == {}, "no seconds are known of it"
    timed = Trace((100, 200), (1.0, 2.0), (1.0, 2.0), end_timesteps=200, end_s=2.0)
    assert _at_rungs([timed], [(None, 4.0)])[25] == 2.0
    assert _at_rungs([fast], [(None, None)]) == {}
    broken = structs.replace(fast, end_timesteps=1000, broken=True)
    assert max(_at_rungs([broken], [(1000, None)])) == 15, "nothing is known of it after its last number"


@pytest.mark.parametrize(
    ("outcome", "kind", "again"),
    [
        ("lost", None, True),
        ("stopped", None, True),
        ("failed", "crash", True),
        ("failed", "nan", False),
        ("failed", "config", False),
        ("finished", None, False),
    ],
)
def test_what_ended_with_the_last_driver_goes_on_with_the_next(outcome: str, kind: str | None, again: bool) -> None:
    """What has finished, or would fail again, does not."""
    view = structs.replace(VIEW, outcome=outcome, kind=kind)
    assert _was_interrupted(view) == again
    assert not _was_interrupted(structs.replace(view, state="running"))


@pytest.mark.parametrize(("driver", "counts"), [("stopping", False), ("running", True)])
def test_a_trial_stopped_with_its_whole_search_is_none_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: RunState, counts: bool
) -> None:
    """Its end may come before the driver's own order to stop; a trial that a person stops alone has failed."""
    pytest.importorskip("optuna")
    run, plan = RunDir(tmp_path / "hunt-search"), SearchPlan(base=BASE, params=WORDS, trials=20)
    run.path.mkdir()
    search = Driver(run, plan, "hunt", plan.parameters)
    search._study.ask()
    search._study.note_runs(0, ["r"])
    known = {"r": structs.replace(VIEW, outcome="stopped"), run.id: structs.replace(VIEW, id=run.id, state=driver)}

    def views(runs: Sequence[str]) -> dict[str, RunView]:
        return {name: known[name] for name in runs}

    monkeypatch.setattr(search._fleet, "views", views)
    if counts:
        assert search._poll_trial(0) == 0
    else:
        with pytest.raises(StopAskedError):
            search._poll_trial(0)
    assert [trial.state for trial in search._study.trials()] == ["failed" if counts else "running"]


def test_a_trial_whose_return_is_no_number_at_its_end_is_not_judged_by_what_was_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command goes on with nan and finishes: its highest number so far is nobody's result."""
    pytest.importorskip("optuna")
    run, plan = RunDir(tmp_path / "hunt-search"), SearchPlan(base=BASE, params=WORDS, trials=20)
    run.path.mkdir()
    search = Driver(run, plan, "hunt", plan.parameters)
    search._study.ask()
    search._study.note_runs(0, ["r"])
    done = structs.replace(VIEW, outcome="finished", total_timesteps=1000)
    trace = Trace((100, 200), (1.0, 2.0), (1.0, 90.0), end_timesteps=1000, broken=True)
    monkeypatch.setattr(search._fleet, "views", lambda _runs: {"r": done})
    monkeypatch.setattr(search, "_trace", lambda _run: trace)
    assert search._poll_trial(0) == 0
    (trial,) = search._study.trials()
    assert (trial.state, trial.why) == ("pruned", "r: rollout/ep_rew_mean is no number at its end")
    assert best_of([trial], minimize=False) is None


def test_the_fresh_runs_are_part_of_how_far_a_search_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its trials it is not done: 100 % while ten more runs train would be wrong."""
    pytest.importorskip("optuna")
    run, plan = RunDir(tmp_path / "hunt-search"), SearchPlan(base=BASE, params=WORDS, trials=2, confirm=3)
    run.path.mkdir()
    search = Driver(run, plan, "hunt", plan.parameters)
    told: list[tuple[int, int]] = []

    def note(*, timesteps: int, total_timesteps: int, **_more: float) -> None:
        told.append((timesteps, total_timesteps))

    monkeypatch.setattr("mission_tui.search.driver.report.update", note)
    seeds = plan.fresh_seeds
    for number in range(2):
        search._study.ask()
        search._say()
        search._study.finish(number, float(number))
    search._say()
    search._say(Confirmation(seeds=seeds, winner=(1.0, None, None), default=(None, None, 0.5)))
    search._say(Confirmation(seeds=seeds, winner=(1.0, None, None), default=(None, None, 0.5)))
    search._say(Confirmation(seeds=seeds, winner=(1.0, 1.0, None), default=(0.5, 0.5, 0.5)), ended=True)
    assert told == [(0, 8), (1, 8), (2, 8), (4, 8), (7, 7)]
