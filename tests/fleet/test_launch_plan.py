"""The one planner of launches: how many runs, their names, groups and seeds, for the command line as for the screen."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.launch_plan import (
    LONGEST_NAME,
    RUNS_AT_ONCE,
    check_name,
    check_names,
    counted_seeds,
    launch_words,
    plan_launch,
    product_words,
    repeat_seed,
    run_labels,
)
from mission_tui.fleet.specs.spec import LARGEST_SEED, LaunchItem, Spec

SPEC = Spec(preset="tiny")


@pytest.mark.parametrize("name", ["", "..", "-x", "a/b", "a b", "x" * 65, "a\n", "é"])
def test_names_that_cannot_be_typed_safely_are_refused(name: str) -> None:
    """The sentence says what a name may hold."""
    with pytest.raises(UsageError, match="give 1 to 64 letters"):
        check_name(name)


@pytest.mark.parametrize(("name", "near"), [("lr 3e-4, wide", "lr-3e-4-wide"), ("../../etc", "etc"), ("ünï", "n")])
def test_a_name_that_cannot_be_typed_safely_is_refused_with_the_nearest_that_can(name: str, near: str) -> None:
    """What is to be typed instead needs no thought."""
    with pytest.raises(UsageError, match=f"first a letter or digit, such as '{near}'$"):
        check_name(name)


def test_one_run_has_no_group_and_several_share_one() -> None:
    """A single run keeps the name as it is given; several are numbered, in a group named for them or for the set."""
    (one,) = plan_launch([SPEC], title="trio", tag="ab12", name="base", after=("first",))
    assert (one.name, one.group, one.after) == ("base", None, ("first",))
    named = plan_launch([SPEC, SPEC], title="trio", tag="ab12", name="base")
    assert [(it.name, it.group) for it in named] == [("base-1", "base-ab12"), ("base-2", "base-ab12")]
    unnamed = plan_launch([SPEC], title="trio", tag="ab12", copies=2)
    assert [(it.name, it.group) for it in unnamed] == [(None, "trio-ab12")] * 2
    assert plan_launch([SPEC], title="trio", tag="ab12", group="sweep-1")[0].group == "sweep-1"


def test_runs_of_a_sweep_are_called_by_what_varies() -> None:
    """With the tag of their launch, so that two launches are told apart; whole seeds first. Not if one would not do."""
    words = ("ppo.learning_rate=1e-3,3e-3", "ppo.gamma=0.9", "run.seed=1,2", "ppo.net_arch=[64,64],none")
    labels = run_labels(words)
    assert labels[:3] == ["lr1e-3-s1-net_arch64-64", "lr1e-3-s1-net_arch-none", "lr1e-3-s2-net_arch64-64"]
    assert run_labels(("ppo.gamma=0.9",)) == [""]
    specs = [structs.replace(SPEC, run=structs.replace(SPEC.run, seed=seed)) for _ in "ab" for seed in (1, 2)]
    two = run_labels(("lr=1e-3,3e-3", "run.seed=1,2"))
    items = plan_launch(specs, title="tiny", tag="ab12", labels=two)
    assert [it.name for it in items] == [f"lr{lr}-s{seed}-ab12" for seed in (1, 2) for lr in ("1e-3", "3e-3")]
    assert [it.spec.run.seed for it in items] == [1, 1, 2, 2]
    seeds = plan_launch(specs[:2], title="tiny", tag="ab12", labels=run_labels(("run.seed=1,2",)))
    assert [it.name for it in seeds] == ["tiny-ab12-s1", "tiny-ab12-s2"]
    both = [structs.replace(spec, preset=preset) for preset, spec in zip("ab", specs, strict=False)]
    assert plan_launch(both, title="x", tag="ab12", labels=["lr1", "lr2"])[1].name == "b-ab12-lr2"
    for useless in (["x" * 60] * 4, ["a", "a", "b", "c"], [""] * 4):
        assert {it.name for it in plan_launch(specs, title="tiny", tag="ab12", labels=useless)} == {None}
    assert plan_launch(specs, title="tiny", tag="ab12", name="mine", labels=two)[0].name == "mine-1"


def test_a_group_that_is_named_for_its_runs_can_always_be_used() -> None:
    """A long name is cut, so that the supervisor takes the group."""
    items = plan_launch([SPEC, SPEC], title="x", tag="ab12", name="n" * (LONGEST_NAME - 2))
    assert items[0].group == f"{'n' * (LONGEST_NAME - 5)}-ab12"


def test_too_many_runs_are_refused_with_what_is_multiplied() -> None:
    """One sentence for both front ends."""
    product = product_words(2, {"ppo.gamma": 2, "run.seed": 4}, 5)
    assert product == "2 presets x 2 of ppo.gamma x 4 seeds x 5 copies"
    with pytest.raises(UsageError, match=rf"80 runs at once \({product}\), and {RUNS_AT_ONCE} is the most"):
        plan_launch([SPEC] * 16, title="x", tag="ab12", copies=5, product=product)


def test_names_and_groups_are_checked_in_one_place() -> None:
    """What the supervisor asks of what it was sent: a name, a group, and no name twice."""
    check_names([LaunchItem(spec=SPEC), LaunchItem(spec=SPEC, name="a", group="g"), LaunchItem(spec=SPEC, name="b")])
    with pytest.raises(UsageError, match="group name '-g' cannot be used: give 1 to 64 letters"):
        check_names([LaunchItem(spec=SPEC, group="-g")])
    with pytest.raises(UsageError, match="run name '' cannot be used"):
        check_names([LaunchItem(spec=SPEC, name="")])
    with pytest.raises(UsageError, match="'a' is given to two runs of one launch"):
        check_names([LaunchItem(spec=SPEC, name="a")] * 2)


def test_options_and_fields_become_the_same_words() -> None:
    """After those that were typed; what was not said adds nothing."""
    words = launch_words(("ppo.gamma=0.9",), seeds=(1, 2), device="cpu", priority=0)
    assert words == ("ppo.gamma=0.9", "run.seed=1,2", "run.device=cpu", "keep.limits.priority=0")
    assert launch_words(()) == ()


def test_seeds_count_up_and_end_at_the_largest() -> None:
    """From 1, or from the one given; a launch that would go beyond is refused, repeats begin again at 0."""
    assert counted_seeds(3, None) == (1, 2, 3)
    assert counted_seeds(2, LARGEST_SEED - 1) == (LARGEST_SEED - 1, LARGEST_SEED)
    with pytest.raises(UsageError, match=f"2 seeds from {LARGEST_SEED} go beyond"):
        counted_seeds(2, LARGEST_SEED)
    assert [repeat_seed(None, 1), repeat_seed(7, 3), repeat_seed(LARGEST_SEED, 2)] == [1, 9, 0]
