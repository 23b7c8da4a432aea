"""A search's plan, kept in the spec of its driver, the runs of a trial, and what came of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import DamagedError
from mission_tui.fleet.launch_plan import check_names
from mission_tui.fleet.search import SearchResult, SearchTrial, best_of, confirmed, ranked_trials
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, RunSpec, Schedule, Spec, is_driver
from mission_tui.present.comparisons import confirmation_words, importance_words, progress_words, save_words
from mission_tui.records.runs.attempt import parse_spec, spec_document
from mission_tui.search.plan import (
    SearchPlan,
    changed_values,
    driver_item,
    group_name,
    items_of,
    plan_of,
)

CART = Spec(preset="cart", env=EnvSpec(id="CartPole-v1"), run=RunSpec(total_timesteps=1000, seed=7))
PLAN = SearchPlan(base=CART, params=("ppo.n_epochs=4..20",), trials=40, at_once=2, seeds=2)


def test_a_driver_keeps_its_plan_in_its_spec() -> None:
    """As the file of a run has it, with everything that a preset can hold; a resume may change the numbers."""
    base = structs.replace(CART, ppo=structs.replace(CART.ppo, learning_rate=Schedule(start=1e-3)))
    item = driver_item(structs.replace(PLAN, base=base), "cart-3f9a", ("python", "-m", "mission_tui.search"))
    assert (item.name, item.group, is_driver(item.spec.preset), is_driver("cart")) == (
        "cart-3f9a-search",
        "cart-3f9a",
        True,
        False,
    )
    read = parse_spec(spec_document(item.spec), Path("spec.toml"))
    assert plan_of(read, "spec.toml") == (structs.replace(PLAN, base=base), "cart-3f9a")
    assert read.run.command == read.run.resume_command
    assert read.keep.health.hang.act == "off", "between two rows whole trainings end"
    more = change(read, changed_values(60, None, 3))
    assert plan_of(more, "spec.toml")[0] == structs.replace(PLAN, base=base, trials=60, confirm=3)
    with pytest.raises(DamagedError, match=r"run\.values hold no search"):
        plan_of(structs.replace(read, run=structs.replace(read.run, values={"trials": "1"})), "spec.toml")


def test_a_trial_has_a_run_for_each_seed_within_the_groups_limit() -> None:
    """They have the trial's settings, the same seeds as every trial, names that say which; the driver counts too."""
    items = items_of(PLAN, "cart-3f9a", "5", {"ppo.n_epochs": "12"}, PLAN.trial_seeds)
    assert [(it.name, it.group, it.spec.run.seed) for it in items] == [
        ("cart-3f9a-5-s7", "cart-3f9a", 7),
        ("cart-3f9a-5-s8", "cart-3f9a", 8),
    ]
    assert {it.spec.ppo.n_epochs for it in items} == {12}
    assert {it.spec.keep.limits.group_runs for it in items} == {3}
    assert not set(PLAN.fresh_seeds) & set(PLAN.trial_seeds)


def test_the_longest_name_leaves_room_for_what_its_runs_add() -> None:
    """No run of a search is refused for its name in the middle of it."""
    group = group_name(None, "p" * 64, "3f9a")
    item = driver_item(PLAN, group, ("python",))
    check_names([item, *items_of(PLAN, group, "default", {}, (2**32 - 1, 1))])
    assert group_name("lr", "cart", "3f9a") == "lr"


def trial(number: int, state: str, value: float | None) -> SearchTrial:
    """One trial as it stands."""
    return SearchTrial(number=number, state=state, settings={"ppo.n_epochs": str(number)}, value=value)  # type: ignore[arg-type]


def test_the_best_is_a_finished_one_and_comes_first() -> None:
    """Whatever a pruned one had come to; unknown last."""
    trials = (
        trial(0, "finished", 100.0),
        trial(1, "pruned", 900.0),
        trial(2, "finished", 300.0),
        trial(3, "failed", None),
        trial(4, "running", None),
    )
    assert (best_of(trials, minimize=False), best_of(trials, minimize=True)) == (2, 0)
    result = SearchResult(
        group="g", preset="cart", metric="m", minimize=False, wanted=6, keys=("ppo.n_epochs",), trials=trials, best=2
    )
    assert [it.number for it in ranked_trials(result)] == [2, 0, 4, 1, 3]
    assert progress_words(result) == "4 of 6 trials are over (1 pruned, 1 failed), best so far 300 (trial 2)"


def test_a_winner_is_better_only_where_the_whole_interval_says_so() -> None:
    """Fresh seeds that overlap give no verdict, a missing one none either; lower is better where that was asked."""
    seeds = (1, 2, 3)
    sure = confirmed(seeds, (480.0, 490.0, 500.0), (100.0, 120.0, 90.0), minimize=False)
    assert sure.says == "better"
    assert sure.low is not None
    assert sure.low > 0
    assert confirmation_words(sure).startswith("better than the preset: 490 against 103.3 (+387, ")
    assert confirmed(seeds, (480.0, 490.0, 500.0), (100.0, 120.0, 90.0), minimize=True).says == "worse"
    assert confirmed(seeds, (400.0, 100.0, 500.0), (300.0, 120.0, 490.0), minimize=False).says == "no verdict"
    lacking = confirmed(seeds, (480.0, None, 500.0), (100.0, 120.0, 90.0), minimize=False)
    assert lacking.says == "cannot tell"
    assert "5 of 6 fresh runs have a result" in confirmation_words(lacking)
    few = confirmation_words(confirmed((1, 2), (480.0, 490.0), (100.0, 120.0), minimize=False))
    assert few.endswith("2 fresh seeds each are too few for an interval, which needs 3 (--confirm 3)")
    assert confirmed(seeds, (500.0,) * 3, (500.0,) * 3, minimize=False).says == "no verdict"


def test_what_keeps_the_winner_says_whether_it_was_shown_to_be_better() -> None:
    """The command can be pasted, whatever the values hold."""
    result = SearchResult(
        group="g",
        preset="cart",
        metric="m",
        minimize=False,
        wanted=1,
        keys=("ppo.net_arch",),
        trials=(SearchTrial(number=0, state="finished", settings={"ppo.net_arch": "[64,64]"}, value=1.0),),
        best=0,
        ended=True,
    )
    assert save_words(result) == (
        "to keep its settings although they were not shown to be better: "
        "mission-tui presets save cart cart-best --set 'ppo.net_arch=[64,64]'"
    )
    command = SearchTrial(number=0, state="finished", settings={"run.values.lr": "0.001"}, value=1.0)
    assert save_words(structs.replace(result, trials=(command,))) == "its settings: lr=0.001"
    shares = {"ppo.learning_rate": 0.996, "ppo.gamma": 0.004}
    assert importance_words(structs.replace(result, importance=shares)) == (
        "what mattered: ppo.learning_rate 99%, the others less than 1%"
    )
    better = confirmed((1, 2, 3), (9.0, 9.1, 9.2), (1.0, 1.1, 1.2), minimize=False)
    assert save_words(structs.replace(result, confirmation=better)).startswith("to keep it: mission-tui presets save")
