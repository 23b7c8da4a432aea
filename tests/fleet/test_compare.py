"""Comparing runs: the numbers of each, seeds together, what differs, and what is said about how sure one can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from mission_tui.errors import UsageError
from mission_tui.fleet.comparison import Comparison, compare, letter, spread_of
from mission_tui.fleet.comparison_sides import Axis, Side, Trace, packed, setting_words, thinned, trace_of, unpacked
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import RETURN, Episodes, EvaluationDone, MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.events.provenance import Origin, Provenance, Repository, SettingChange
from mission_tui.fleet.history.course import Moment
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.sb3_algorithms import SacSpec
from mission_tui.fleet.specs.spec import Normalize, Spec
from mission_tui.fleet.views.run import view_of
from tests.fleet.recorded import SPEC, STEPS, update

BOX = Provenance(t=0.0, cwd="/lab", python="/bin/python", python_version="3.12.1", packages={"torch": "2.10"})


def spec_of(seed: int = 7, **ppo: Any) -> Spec:
    """`SPEC` with another seed and other PPO settings."""
    run = structs.replace(SPEC.run, seed=seed)
    return structs.replace(SPEC, run=run, ppo=structs.replace(SPEC.ppo, **ppo))


def rows(returns: Sequence[float]) -> list[MetricRecord]:
    """An attempt whose updates have these mean returns; each took a second."""
    return [TrainingStarted(seq=1, attempt=1, t=0.0), *(update(n, ret=value) for n, value in enumerate(returns, 1))]


def side(name: str, returns: Sequence[float] | list[MetricRecord], spec: Spec = SPEC, **more: Any) -> Side:
    """A run with these returns."""
    records = [it if isinstance(it, MetricRecord) else None for it in returns]
    given: list[MetricRecord] = [it for it in records if it is not None] or rows(returns)  # type: ignore[arg-type]
    history = RunHistory(f"20261121-104207-{name}-0000", "/lab/runs", spec)
    history.journal.name = name
    history.load(given)
    metric = more.pop("metric", RETURN)
    return Side(view=view_of(history), spec=spec, trace=trace_of(given, metric), **more)


def compared(*sides: Side, by: Axis = "step", threshold: float | None = None) -> Comparison:
    return compare(sides, RETURN, by, threshold)


def test_what_nobody_timed_is_unknown_and_never_0() -> None:
    """An imported log without a clock: its steps to the threshold are known, seconds and speed are not."""
    untimed = [
        structs.replace(row, rollout_s=0.0, update_s=0.0, steps_per_s=0.0) if isinstance(row, UpdateDone) else row
        for row in rows([1.0, 5.0])
    ]
    result = compared(side("a", untimed), side("b", [0.0, 1.0]), threshold=3.0).runs[0].result
    assert result.threshold_timesteps == 2 * STEPS
    assert (result.trained_s, result.threshold_s, result.steps_per_s) == (None, None, None)


def test_different_tasks_are_not_ranked_by_their_returns() -> None:
    """Three seeds of each: no rank, no difference of returns; speeds are what they are."""
    other = structs.replace(SPEC, env=structs.replace(SPEC.env, id="Pendulum-v1"))
    sides = [side(f"a{seed}", at_speed(900.0 + seed), spec_of(seed)) for seed in range(3)]
    sides += [
        side(f"b{seed}", at_speed(700.0 + seed), structs.replace(other, run=spec_of(seed).run)) for seed in range(3)
    ]
    found = compared(*sides)
    assert (found.ranking, {it.measure for it in found.contrasts}) == ((), {"steps_per_s"})
    assert any("the tasks differ (env.id)" in note for note in found.notes)


def test_a_mission_whose_rules_changed_is_another_task() -> None:
    """One preset before and after: no seeds of one setting, no rank, and it is said; the same rules are one task."""
    old = [side(f"a{seed}", at_speed(900.0 + seed), spec_of(seed), rules="0a1b2c") for seed in range(3)]
    new = [side(f"b{seed}", at_speed(700.0 + seed), spec_of(seed + 3), rules="d4e5f6") for seed in range(3)]
    found = compared(*old, *new)
    assert (found.ranking, [cohort.name for cohort in found.cohorts]) == ((), ["A-C", "D-F"])
    assert "the tasks differ (rules): their returns cannot be compared" in found.notes
    assert [(row.name, row.values[::3]) for row in found.settings] == [("rules", ("0a1b2c", "d4e5f6"))]
    same = [replace(it, rules="0a1b2c") for it in new]
    assert len(compared(*old, *same).cohorts) == 1


def test_algorithms_are_told_apart_by_their_names_and_not_by_tables_that_the_other_lacks() -> None:
    """SAC at two temperatures beside PPO: a ranking and a legend name the algorithm and the temperature alone."""
    run = structs.replace(SPEC.run, algo="sac")
    hot, cold = (structs.replace(SPEC, run=run, sac=SacSpec(ent_coef=it)) for it in (0.2, 0.1))
    found = compared(side("hot", [1.0], hot), side("cold", [2.0], cold), side("ppo", [3.0]))
    assert [it.settings for it in found.ranking] == [
        {"run.algo": "ppo", "sac.ent_coef": None},
        {"run.algo": "sac", "sac.ent_coef": 0.1},
        {"run.algo": "sac", "sac.ent_coef": 0.2},
    ]
    assert [setting_words(found.settings, at) for at in range(3)] == [
        "algo sac, ent_coef 0.2", "algo sac, ent_coef 0.1", "algo ppo, ent_coef -"
    ]  # fmt: skip
    assert {"sac.gamma", "ppo.gamma"} <= {row.name for row in found.settings}
    assert any("algorithms differ (sac, ppo)" in note and "can be compared" in note for note in found.notes)
    elsewhere = structs.replace(cold, env=structs.replace(SPEC.env, id="Pendulum-v1"))
    notes = compared(side("there", [2.0], elsewhere), side("ppo", [3.0])).notes
    assert not any("can be compared" in note for note in notes)


def at_speed(steps_per_s: float) -> list[MetricRecord]:
    """Rows of one return at this speed."""
    return [
        structs.replace(it, steps_per_s=steps_per_s) if isinstance(it, UpdateDone) else it for it in rows([1.0, 2.0])
    ]


def test_runs_of_different_length_are_held_against_each_other_at_one_budget() -> None:
    """A long run of a worse setting does not win by its length, and the note names the shortest."""
    sides = [side(f"long{seed}", [0.0, 1.0 + seed, 90.0, 95.0], spec_of(seed, gamma=0.9)) for seed in range(3)]
    sides += [side(f"short{seed}", [0.0, 10.0 + seed], spec_of(seed, gamma=0.99)) for seed in range(3)]
    found = compared(*sides)
    assert (found.budget, found.ranked_by) == (2 * STEPS, "mean")
    assert [(it.settings["ppo.gamma"], it.mean) for it in found.ranking] == [(0.99, 11.0), (0.9, 2.0)]
    assert found.ranking[1].is_behind
    assert {(it.measure, it.difference) for it in found.contrasts} >= {("final", 9.0), ("best", 9.0)}
    (said,) = [note for note in found.notes if "different length" in note]
    assert f"at {2 * STEPS:,} timesteps, where short0 stands" in said
    assert found.runs[0].result.final == 95.0
    assert not any("different length" in note for note in compared(*sides[:3], *sides[:1]).notes)


def test_ten_seeds_of_each_are_ranked_by_their_interquartile_mean() -> None:
    """One seed that fell to pieces does not decide; with nine of one setting all are ranked by the mean."""
    good, fair = [100.0 + seed for seed in range(9)] + [-9000.0], [50.0 + seed for seed in range(10)]
    sides = [side(f"a{seed}", [0.0, value], spec_of(seed, gamma=0.9)) for seed, value in enumerate(good)]
    sides += [side(f"b{seed}", [0.0, value], spec_of(seed, gamma=0.99)) for seed, value in enumerate(fair)]
    found = compared(*sides)
    first, second = found.ranking
    assert (found.ranked_by, first.settings["ppo.gamma"], first.iqm) == ("iqm", 0.9, 103.5)
    assert first.iqm_interval is not None
    assert (second.behind, second.improvement) == (49.0, 0.9)
    fewer = compared(*sides[:-1])
    assert (fewer.ranked_by, fewer.ranking[0].settings["ppo.gamma"]) == ("mean", 0.99)


def test_settings_are_ranked_by_their_share_of_successes_too() -> None:
    """Of it more is better, as of a return; of a loss that is not known."""
    for metric, ranked in (("rollout/success_rate", [1, 0]), ("train/value_loss", [])):
        shares = [[row(n, {metric: share}) for n in (1, 2)] for share in (0.25, 0.75)]
        sides = [
            side(f"r{at}", shares[at], spec_of(7, gamma=gamma), metric=metric) for at, gamma in enumerate((0.9, 0.99))
        ]
        found = compare(sides, metric)
        assert ([it.cohort for it in found.ranking], found.threshold) == (ranked, None)


def row(number: int, metrics: dict[str, Any]) -> MetricRecord:
    """An update with nothing but these metrics."""
    return structs.replace(update(number), metrics=metrics)


def test_results_are_those_of_the_rows() -> None:
    """Best and where first, final, first place at the threshold in steps and seconds, median speed."""
    found = compared(side("a", [1.0, 5.0, 3.0, 5.0, 4.0]), side("b", [0.0, 1.0]), threshold=3.0)
    result = found.runs[0].result
    assert (result.best, result.best_timesteps, result.final) == (5.0, 2 * STEPS, 4.0)
    assert (result.threshold_timesteps, result.threshold_s) == (2 * STEPS, 2.0)
    assert (result.updates, result.timesteps, result.trained_s, result.steps_per_s) == (5, 5 * STEPS, 5.0, 1000.0)
    never = found.runs[1].result
    assert (never.threshold_timesteps, never.threshold_s) == (None, None)


@pytest.mark.parametrize(("by", "span"), [("step", (STEPS, 3 * STEPS)), ("time", (1.0, 3.0))])
def test_areas_are_taken_over_what_all_runs_have(by: Axis, span: tuple[float, float]) -> None:
    """A longer run wins nothing by its length; a mean in the unit of the return."""
    found = compared(side("a", [0.0, 2.0, 4.0, 100.0, 100.0]), side("b", [3.0, 3.0, 3.0]), by=by)
    assert found.span == span
    assert [run.result.area for run in found.runs] == [2.0, 3.0]


def test_rows_that_were_taken_back_do_not_count() -> None:
    """An attempt that began at update 2 erases the best row after it, and its seconds."""
    again = TrainingStarted(seq=10, attempt=2, t=0.0, from_update=2)
    records = [*rows([1.0, 2.0, 50.0]), again, update(3, seq=11, attempt=2, ret=3.0)]
    result = compared(side("a", records), side("b", [0.0, 0.0])).runs[0].result
    assert (result.best, result.final, result.trained_s, result.updates) == (3.0, 3.0, 3.0, 3)


def test_what_a_branch_learned_before_is_said() -> None:
    """It counts from 0, so that it is ahead of a run from scratch by all that its weights had learned; where both come
    from there, neither is ahead.
    """
    scratch, branch = side("a", [1.0, 2.0]), side("b", [9.0, 9.5], spec_of(2))
    branch = structs.replace(
        branch, view=structs.replace(branch.view, origins=(Origin("branch", "id", "first", "000020224"),))
    )
    before = "first had trained for 20,224 timesteps"
    said = f"b began with weights that {before}, which is in no count of timesteps or time here"
    assert said in compared(scratch, branch).notes
    assert said not in compared(branch, branch).notes


def test_values_that_are_no_numbers_are_left_out() -> None:
    """NaN, updates without an episode and numbers at the end of all floats draw no line and are no best value."""
    records = [*rows([1.0]), update(2, ret="nan"), update(3), update(4, ret=2.0)]
    records += [update(5, ret=1.7e308), update(6, ret=-1.7e308), update(7, ret=1.7e308)]
    result = compared(side("a", records), side("b", [0.0, 0.0])).runs[0].result
    assert (result.best, result.final, result.updates) == (2.0, None, 7)


def test_both_tables_say_the_same_of_the_same_two_settings() -> None:
    """The difference of two finals is what the ranking says that one is behind, and has the same interval."""
    good, bad = (300.0, 330.0, 365.0), (130.0, 210.0, 225.0)
    sides = [side(f"a{seed}", [0.0, value], spec_of(seed)) for seed, value in enumerate(good)]
    sides += [side(f"b{seed}", [0.0, value], spec_of(seed, gamma=0.9)) for seed, value in enumerate(bad)]
    for found in (compared(*sides), compared(*sides[3:], *sides[:3])):
        (final,) = [it for it in found.contrasts if it.measure == "final"]
        behind = found.ranking[1]
        assert behind.behind_interval is not None
        assert (final.sure, behind.is_behind) == (True, True)
        ends = behind.behind_interval
        assert final.interval == pytest.approx(ends if final.difference > 0 else (-ends[1], -ends[0]))


def test_seconds_are_those_that_the_budget_counts() -> None:
    """By time a run stands where its budget has it, checkpoints included; that another has phases alone is said."""
    clocked = [
        structs.replace(it, trained_s=3.0 * it.update) if isinstance(it, UpdateDone) else it for it in rows([1.0, 2.0])
    ]
    found = compared(side("a", clocked), side("b", [1.0, 2.0]), by="time", threshold=2.0)
    assert [(run.result.trained_s, run.result.threshold_s) for run in found.runs] == [(6.0, 6.0), (2.0, 2.0)]
    assert next(note for note in found.notes if "rollouts and updates" in note).startswith("b: only")
    assert not any("rollouts and updates" in note for note in compared(side("a", clocked), side("b", [1.0])).notes)


def test_a_run_whose_return_is_no_number_at_the_end_has_no_final_value() -> None:
    """What it had before is no result; settings are held against each other where the others stand, and it is said."""
    broken = side("a", [*rows([1.0, 9.0]), update(3, ret="nan"), update(4, ret="nan")])
    found = compared(broken, side("b", [0.0, 1.0, 2.0, 3.0], spec_of(7, gamma=0.9)))
    assert (found.runs[0].result.final, found.runs[0].result.best, found.budget) == (None, 9.0, 4 * STEPS)
    assert [(it.cohort, it.mean) for it in found.ranking] == [(1, 3.0), (0, None)]
    assert any(note.startswith(f"a: {RETURN} is no number at the end") for note in found.notes)
    assert compared(broken, broken).budget == 2 * STEPS
    beyond = side("a", [*rows([1.0, 9.0]), update(3, ret=1e150)])
    assert (beyond.trace.broken, beyond.trace.values) == (True, [1.0, 9.0])


def test_steps_that_go_back_are_left_out() -> None:
    """A script that begins to count anew does not break the axis for the others."""
    back = structs.replace(update(4, ret=9.0), timesteps=STEPS // 2)
    found = compared(side("a", [*rows([1.0, 2.0, 3.0]), back, update(5, ret=4.0)]), side("b", [0.0] * 6))
    assert found.curves[0].y == (1.0, 2.0, 3.0, 4.0)
    assert found.span == (STEPS, 5 * STEPS)


def test_a_run_that_stands_still_has_no_length() -> None:
    """One row, or all at the same place: no area, and nothing is divided by nothing."""
    still: list[MetricRecord] = [
        structs.replace(update(n, ret=1.0), timesteps=STEPS, rollout_s=0.0, update_s=0.0) for n in (1, 2)
    ]
    for by in ("step", "time"):
        found = compared(side("a", still), side("b", [5.0]), by=by)
        assert (found.span, found.runs[0].result.area, found.runs[0].result.best) == (None, None, 1.0)


def test_evaluations_can_be_compared_instead() -> None:
    """Their means, and the share won where that is known, stand at the timesteps of their update."""
    played = EvaluationDone(seq=9, attempt=1, update=2, timesteps=2 * STEPS, t=0.0, mean=8.0, std=1.0, episodes=5)
    trace = trace_of([*rows([1.0, 2.0]), played], "eval/mean_reward")
    assert (list(trace.timesteps), list(trace.values)) == ([2 * STEPS], [8.0])
    assert trace_of([*rows([1.0, 2.0]), played], "eval/success_rate").values == []
    won = trace_of([*rows([1.0, 2.0]), structs.replace(played, won=0.25)], "eval/success_rate")
    assert (list(won.timesteps), list(won.values)) == ([2 * STEPS], [0.25])
    assert "eval/success_rate" in won.tags


def test_an_evaluation_is_of_the_second_in_which_its_policy_was_trained() -> None:
    """Its row comes updates later, when it has been played; by time it stands where its policy does by step."""
    played = EvaluationDone(seq=9, attempt=1, update=1, timesteps=STEPS, t=0.0, mean=8.0, std=1.0, episodes=5)
    given = [*rows([1.0, 2.0, 3.0]), played, structs.replace(played, seq=10, update=3, timesteps=3 * STEPS)]
    trace = trace_of(given, "eval/mean_reward")
    assert list(trace.seconds) == [trace_of(given).seconds[0], trace_of(given).seconds[2]]
    result = compared(side("a", given, metric="eval/mean_reward"), side("b", [0.0]), threshold=8.0).runs[0].result
    assert (result.threshold_timesteps, result.threshold_s) == (STEPS, trace_of(given).seconds[0])


def test_the_mean_of_the_first_few_episodes_is_no_best() -> None:
    """As in the list: the best and the threshold are of whole windows of episodes, once there was one."""
    lucky = [
        structs.replace(row, episodes=Episodes(n=60)) if isinstance(row, UpdateDone) else row
        for row in rows([9.0, 2.0, 5.0, 4.0])
    ]
    told, other = side("a", lucky), side("b", [1.0, 2.0])
    found = compared(told, other, threshold=5.0)
    result = found.runs[0].result
    assert (result.best, result.best_timesteps, result.threshold_timesteps) == (5.0, 3 * STEPS, 3 * STEPS)
    assert told.view.best is not None
    assert told.view.best.value == result.best
    assert compared(unpacked(packed(told)), other, threshold=5.0) == found
    short = compared(side("a", lucky[:2]), other, threshold=5.0).runs[0].result
    assert (short.best, short.threshold_timesteps) == (9.0, STEPS)


def test_what_nobody_timed_takes_as_long_as_its_speed_says() -> None:
    """An imported run has speeds and no phases: its hours follow from them, and are unknown without."""
    untimed = [structs.replace(update(n, ret=1.0), rollout_s=0.0, update_s=0.0, steps_per_s=STEPS / 2) for n in (1, 2)]
    assert list(trace_of(untimed).seconds) == [2.0, 4.0]
    assert trace_of([structs.replace(row, steps_per_s=0.0) for row in untimed]).end_s == 0.0
    assert (trace_of(untimed).phases_only, trace_of([update(1, ret=1.0)]).phases_only) == (False, True)


def test_runs_that_differ_in_the_seed_alone_stand_together() -> None:
    """Also under other preset names; another setting is another group, and the seed is no setting that differs."""
    other = structs.replace(spec_of(3), preset="mine", description="")
    sides = [side("a", [1.0, 2.0]), side("b", [1.0, 4.0], spec_of(2)), side("c", [1.0, 9.0], other)]
    found = compared(*sides, side("d", [1.0, 3.0], spec_of(1, gamma=0.9)))
    assert [(cohort.name, cohort.seeds) for cohort in found.cohorts] == [("A-C", (7, 2, 3)), ("d", (1,))]
    assert [run.cohort for run in found.runs] == [0, 0, 0, 1]
    assert [(row.name, row.values) for row in found.settings] == [("ppo.gamma", (0.99, 0.99, 0.99, 0.9))]
    final = found.cohorts[0].spreads["final"]
    assert (final.n, final.median, final.low, final.high, final.mean) == (3, 4.0, 2.0, 9.0, 5.0)
    assert [band.name for band in found.bands] == ["A-C"]


def test_an_interval_needs_three_seeds() -> None:
    """One and two say how few they are; three have Student's, 4.30 standard errors to each side."""
    assert spread_of([1.0]).interval is None  # type: ignore[union-attr]
    assert spread_of([1.0, 2.0]).interval is None  # type: ignore[union-attr]
    three = spread_of([1.0, 2.0, 6.0])
    assert three is not None
    assert three.interval == pytest.approx((3.0 - 6.572, 3.0 + 6.572), abs=0.001)
    assert three.iqm is None
    ten = spread_of([float(n) for n in range(10)])
    assert ten is not None
    assert ten.interval == pytest.approx((4.5 - 2.166, 4.5 + 2.166), abs=0.001)
    assert ten.iqm == 4.5
    assert ten.iqm_interval is not None
    assert spread_of([float(n) for n in range(10)]) == ten
    alike = spread_of([500.0] * 3)
    assert alike is not None
    assert alike.interval is None


def test_no_interval_of_a_speed_reaches_below_0() -> None:
    """Three speeds that lie far apart: nobody trains at -15,000 steps a second. A return may be negative."""
    found = compared(*(side(f"a{at}", at_speed(speed), spec_of(at)) for at, speed in enumerate((6e3, 7e3, 3e4))))
    interval = found.cohorts[0].spreads["steps_per_s"].interval
    assert interval is not None
    assert (interval[0], round(interval[1])) == (0.0, 48060)


def test_what_not_all_reached_has_no_interval() -> None:
    """Those that reached it are the better ones, and their mean is not the mean of all."""
    some = spread_of([10.0, 20.0, 30.0, None])
    assert some is not None
    assert (some.n, some.of, some.interval) == (3, 4, None)
    assert spread_of([None, None]) is None


def test_the_same_seed_again_is_no_other_seed() -> None:
    """Three runs of two seeds are two seeds, so without an interval; the longer one of the repeated seed counts."""
    sides = [side("a", [1.0, 2.0], spec_of(1)), side("b", [1.0, 2.0, 6.0], spec_of(1)), side("c", [1.0, 4.0])]
    found = compared(*sides)
    (cohort,) = found.cohorts
    final = cohort.spreads["final"]
    assert (cohort.seeds, len(cohort.runs), final.n, final.mean, final.interval) == ((1, 7), 3, 2, 5.0, None)
    assert "A-C: runs with the same seed count as one, the one that went furthest" in found.notes


def test_few_seeds_are_said() -> None:
    """One of each, or too few of some; nothing where all are one group."""
    one = compared(side("a", [1.0, 2.0]), side("b", [1.0, 2.0], spec_of(7, gamma=0.9)))
    assert any("1 seed of each setting: no interval" in note for note in one.notes)
    sides = [side(name, [1.0, 2.0 + seed], spec_of(seed)) for seed, name in enumerate("abc")]
    mixed = compared(*sides, side("d", [1.0, 2.0], spec_of(1, gamma=0.9)), side("e", [1.0, 2.0], spec_of(2, gamma=0.9)))
    assert [note for note in mixed.notes if "seed" in note] == ["2 seeds of D-E: no interval (3 are the least)"]
    assert not any("seed" in note for note in compared(*sides).notes)
    alike = [side(name, [1.0, 500.0], spec_of(seed)) for seed, name in enumerate("fgh")]
    others = [side(name, [1.0, 2.0 + seed], spec_of(seed, gamma=0.9)) for seed, name in enumerate("ijk")]
    said = compared(*alike, *others).notes
    assert [note for note in said if "alike" in note] == [
        "A-C: all 3 seeds ended alike, so their scatter is not known: no interval"
    ]


def test_settings_with_seeds_enough_are_contrasted_with_the_first() -> None:
    """Less the first group's mean; sure only where the interval leaves 0 out, and with two seeds not at all."""
    low, same, high = ([1.0, 2.0, 3.0], [1.5, 2.0, 3.5], [7.0, 8.0, 9.0])
    groups = ((low, 0.99), (same, 0.98), (high, 0.97), (high[:2], 0.96))
    sides = [
        side(f"r{place}-{seed}", [0.0, value], spec_of(seed, gamma=gamma))
        for place, (values, gamma) in enumerate(groups)
        for seed, value in enumerate(values)
    ]
    final = {it.group: it for it in compared(*sides).contrasts if it.measure == "final"}
    assert {name: (round(it.difference, 2), it.sure) for name, it in final.items()} == {
        "D-F": (0.33, False),
        "G-I": (6.0, True),
    }
    assert all(it.against == "A-C" and it.interval[0] <= it.difference <= it.interval[1] for it in final.values())


def test_settings_are_compared_one_by_one_and_as_they_took_effect() -> None:
    """A table's entries each have a row; what a trainer chose counts where nobody wrote it."""
    normal = structs.replace(SPEC, env=structs.replace(SPEC.env, normalize=Normalize(), kwargs={"size": 9}))
    auto = structs.replace(SPEC, ppo=structs.replace(SPEC.ppo, batch_size="auto"))
    found = compared(side("a", [1.0, 2.0], normal), side("b", [1.0, 2.0], auto, effective={"ppo": {"batch_size": 256}}))
    named = {row.name: row.values for row in found.settings}
    assert named["env.kwargs.size"] == (9, None)
    assert named["env.normalize.clip_obs"] == (10.0, None)
    assert "ppo.batch_size" not in named
    assert any("the same return may not mean the same" in note for note in found.notes)


def test_a_run_that_has_not_begun_has_chosen_nothing_else() -> None:
    """What a queued run's trainer will choose is not known, and is no setting that differs; another wish is one."""
    begun, queued = side("a", [1.0, 2.0], effective={"run": {"device": "cpu"}}), side("b", [], spec_of(2))
    assert [row.name for row in compared(begun, queued).settings] == []
    gpu = structs.replace(SPEC, run=structs.replace(SPEC.run, device="cuda"))
    assert [row.name for row in compared(begun, side("c", [], gpu)).settings] == ["run.device"]
    other = side("d", [1.0, 2.0], effective={"run": {"device": "cuda"}})
    assert [row.name for row in compared(begun, other, queued).settings] == ["run.device"]


def test_other_tasks_cannot_be_compared_by_return() -> None:
    """And it is said before anything else."""
    other = structs.replace(SPEC, env=structs.replace(SPEC.env, id="Acrobot-v1"))
    assert "cannot be compared" in compared(side("a", [1.0, 2.0]), side("b", [1.0, 2.0], other)).notes[0]


def test_provenance_differs_where_it_is_known() -> None:
    """Code by commit and digest of its changes, packages by version; a run without a record has no values."""
    tree = Repository(name="", path="/lab", commit="a" * 40, changed=1, diff_sha256="b" * 64)
    newer = structs.replace(BOX, packages={"torch": "2.11"}, repositories=(tree,))
    sides = [side(name, [1.0, 2.0], provenance=known) for name, known in (("a", BOX), ("b", None), ("c", newer))]
    found = compared(*sides)
    assert not any("machines differ" in note for note in found.notes)
    rows = {row.name: row.values for row in found.provenance}
    assert rows == {"package torch": ("2.10", None, "2.11"), "code": (None, None, "aaaaaaa+1 (bbbbbbb)")}
    assert any("b: code and packages at launch are not recorded" in note for note in found.notes)


def test_a_run_that_has_not_begun_lacks_no_record_of_its_code() -> None:
    """One that waits, or was taken from the queue, ran none."""
    found = compared(side("a", [1.0, 2.0], provenance=BOX), side("b", []))
    assert not any("not recorded" in note for note in found.notes)


def test_the_registrations_threshold_is_taken_where_all_agree() -> None:
    """One that was given wins; where environments disagree there is none."""
    pair = [side(name, [1.0, 500.0], threshold=475.0) for name in "ab"]
    assert compared(*pair).threshold == 475.0
    assert compared(*pair, threshold=200.0).threshold == 200.0
    assert compared(pair[0], side("c", [1.0, 2.0], threshold=-100.0)).threshold is None


def test_what_cannot_be_compared_is_refused() -> None:
    """One run; a metric that none has, with those that there are."""
    with pytest.raises(UsageError, match="takes 2 to 64 runs, and these are 1"):
        compared(side("a", [1.0]))
    pair = [side(name, [1.0, 2.0], metric="train/approx_kl") for name in "ab"]
    with pytest.raises(UsageError, match=r"none of these runs has a value of 'train/approx_kl'; they have rollout/ep_"):
        compare(pair, "train/approx_kl")


def test_runs_without_a_row_are_compared_in_what_they_have() -> None:
    """A queued run has settings and nothing else."""
    found = compared(side("a", []), side("b", [1.0, 2.0], spec_of(7, gamma=0.9)))
    assert (found.span, found.runs[0].result.best, found.runs[0].result.timesteps) == (None, None, None)
    assert [row.name for row in found.settings] == ["ppo.gamma"]
    assert any("no value of rollout/ep_rew_mean yet: a" in note for note in found.notes)


def test_curves_are_thinned_and_bands_hold_every_seed() -> None:
    """At most 300 points a curve; the median lies between least and greatest at every place."""
    long = [float(n % 7) for n in range(2000)]
    found = compared(side("a", long), side("b", [value + 1 for value in long], spec_of(2)))
    assert {len(curve.x) for curve in (*found.curves, *found.bands)} == {300}
    (band,) = found.bands
    assert all(low <= middle <= high for low, middle, high in zip(band.low, band.y, band.high, strict=True))
    assert all(high - low == pytest.approx(1.0) for low, high in zip(band.low, band.high, strict=True))


def test_settings_are_ranked_by_what_their_seeds_came_to() -> None:
    """Best mean of the last values first; who is behind is told from who only looks so."""
    sides = [
        *(side(f"low{seed}", [0.0, 10.0 + seed], spec_of(seed, gamma=0.9)) for seed in (1, 2, 3)),
        *(side(f"top{seed}", [0.0, 50.0 + seed], spec_of(seed, gamma=0.95)) for seed in (1, 2, 3)),
        *(side(f"near{seed}", [0.0, 48.0 + 3 * seed], spec_of(seed, gamma=0.99)) for seed in (1, 2, 3)),
        side("alone", [0.0, 5.0], spec_of(1, gamma=0.5)),
        side("empty", [], spec_of(1, gamma=0.4)),
    ]
    ranking = compared(*sides).ranking
    assert [it.settings["ppo.gamma"] for it in ranking] == [0.99, 0.95, 0.9, 0.5, 0.4]
    assert [it.is_behind for it in ranking] == [None, False, True, None, None]
    assert [(it.mean, it.seeds) for it in ranking] == [(54.0, 3), (52.0, 3), (12.0, 3), (5.0, 1), (None, 0)]
    assert [it.median for it in ranking] == [54.0, 52.0, 12.0, 5.0, None]
    assert ranking[2].behind == 42.0
    assert ranking[2].behind_interval is not None
    assert 24.0 < ranking[2].behind_interval[0] < 42.0
    assert [it.improvement for it in ranking[:3]] == [None, pytest.approx(6.5 / 9), 1.0]


def test_what_happened_to_a_run_has_its_place_on_either_axis() -> None:
    """Settings, moments and findings that are no information; what waits for a boundary has no place yet."""
    it = side("a", [1.0, 2.0, 3.0])
    told = Finding(
        id="kl-1-2", rule="kl", severity="warning", first_update=2, last_update=3, sentence="", cause="", advice=""
    )
    view = structs.replace(
        it.view,
        changes=(SettingChange(("ppo.n_epochs 5 → 4",), 1, it.trace.timesteps[0]), SettingChange(("x 1 → 2",))),
        moments=(Moment(3, it.trace.timesteps[-1], "paused"),),
        findings=(told, structs.replace(told, id="kl-1-3", severity="info")),
    )
    sides = [replace(it, view=view), side("b", [1.0, 3.0])]
    first, middle, last = it.trace.timesteps
    by_step = compare(sides, RETURN, "step").runs[0].happened
    assert [(one.kind, one.what, one.at) for one in by_step] == [
        ("set", "ppo.n_epochs 5 → 4", first), ("event", "paused", last), ("finding", "kl", middle)
    ]  # fmt: skip
    by_time = compare(sides, RETURN, "time").runs[0].happened
    assert [one.at for one in by_time] == [it.trace.seconds[0], it.trace.seconds[2], it.trace.seconds[1]]


def test_nothing_is_ranked_where_more_need_not_be_better() -> None:
    """One setting has no ranking, and neither has a metric that is no return."""
    one, other = side("a", [1.0, 2.0]), side("b", [1.0, 3.0], spec_of(7, gamma=0.5))
    assert compared(one, side("c", [1.0, 2.0], spec_of(8))).ranking == ()
    assert compare([one, other], "steps_per_s").ranking == ()
    assert len(compared(one, other).ranking) == 2


def test_letters_go_on_after_the_alphabet() -> None:
    """A sweep of 64 runs has a letter for each."""
    assert [letter(place) for place in (0, 25, 26, 51, 52, 63)] == ["A", "Z", "AA", "AZ", "BA", "BL"]


def test_a_side_travels_whole_and_a_long_one_with_its_extremes() -> None:
    """What other machines say is compared like what lies here; of many rows least and greatest stay."""
    told = side("far", [1.0, 5.0, 3.0], rules="0a1b2c", findings={"warning": 2}, provenance=BOX)
    assert compared(unpacked(packed(told)), told) == compared(told, told)
    values = [0.0] * 20_000
    values[12_345], values[3] = 9.0, -7.0
    trace = Trace(range(20_000), [float(at) for at in range(20_000)], values, [1.0] * 20_000, 20_000)
    short = thinned(trace)
    assert len(short.values) <= 4000
    assert len(short.paces) <= 4000
    found = dict(zip(short.timesteps, short.values, strict=True))
    assert (found[12_345], found[3], found[0], short.timesteps[-1]) == (9.0, -7.0, 0.0, 19_999)
    assert short.updates == 20_000
    values[12_344] = 9.5
    late = thinned(structs.replace(trace, whole_from=12_345))
    assert late.timesteps[late.whole_from] == 12_345
