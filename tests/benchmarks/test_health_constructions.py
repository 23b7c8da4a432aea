"""Constructed trainings: real records, tampered with only from the onset on, labelled by harm and not by intention."""

from __future__ import annotations

import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from msgspec import structs

from benchmarks.health.constructions import CONSTRUCTIONS
from benchmarks.health.halves import CONSTRUCTIONS as HALVES
from benchmarks.health.halves import SEEDS, TASKS, THREE_LABELS, is_known
from benchmarks.health.harm import fell_behind, hung, lost_for_long, paid_less, swung, turned_nan
from benchmarks.health.tampering import (
    crosses_observations,
    deafens,
    drifts,
    from_onset,
    hangs,
    leaves_alone,
    nan_rewards,
    set_ppo,
    stops,
    warms_up,
)
from benchmarks.health.tasks import (
    BLENDING,
    BREWING,
    CARTPOLE,
    CROSSING,
    DRILLING,
    FISHING,
    HUNTING,
    KEEPING,
    LIFTING,
    MILLING,
    MISSION,
    SHEDDING,
    TOLLING,
    WELDING,
    Task,
)
from benchmarks.health.trace import Trace, read_manifest, read_trace, trace_path, write_trace
from benchmarks.health.train import Bench, Clock, Tamper, record_training
from mission_tui.fleet.events.metrics import Episodes, TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer.vec_env.in_process import InlineVecEnv

WORLDS = (
    *(KEEPING, LIFTING, MILLING, SHEDDING, TOLLING, WELDING),
    *(BLENDING, BREWING, CROSSING, DRILLING, FISHING, HUNTING),
)
TIMINGS = ("t", "trained_s", "rollout_s", "update_s", "env_s", "steps_per_s")


def recorded(tamper: Tamper, updates: int = 6) -> Trace:
    """A CartPole training of a few updates."""
    return record_training("test", [CARTPOLE.spec("test", 7, updates, {})], tamper)


def scored(levels: list[float], paid: list[float] | None = None) -> Trace:
    """A trace whose every update ended two episodes of the given length, which paid nothing or what `paid` says."""
    rows = [
        UpdateDone(i, 1, i, i * 64, float(i), 0.1, 0.1, 320.0, episodes=Episodes(n=2, r=(r, r), l=(int(x), int(x))))
        for i, (x, r) in enumerate(zip(levels, paid or [0.0] * len(levels), strict=True), 1)
    ]
    return Trace("scored", CARTPOLE.spec("test", 7, len(levels), {}), tuple(rows))


def learned(row: UpdateDone) -> UpdateDone:
    """`row` without what the clock says."""
    return structs.replace(row, **dict.fromkeys(TIMINGS, 0.0))


@pytest.mark.slow
def test_a_training_is_its_twin_until_the_onset() -> None:
    """A tampered training writes the very numbers of the one left alone up to the intervention, and others after it."""
    twin, tampered = recorded(leaves_alone), recorded(from_onset(4, set_ppo(300.0)))
    same = [
        learned(one) == learned(other)
        for one, other in zip(twin.updates, tampered.updates, strict=True)
        if one.update < 4 or one.update > 4
    ]
    assert same == [True] * 3 + [False] * 2


@pytest.mark.slow
def test_a_nan_reward_ends_the_training_as_it_ends_anybodys() -> None:
    """The trainer itself stops and says nan; the update it happened in was never written."""
    trace = recorded(from_onset(4, nan_rewards))
    last = trace.records[-1]
    assert isinstance(last, TrainingEnded)
    assert (last.how, last.failure) == ("failed", "nan")
    assert [row.update for row in trace.updates] == [1, 2, 3]
    assert turned_nan(trace, trace, 4, CARTPOLE.scores) is not None


@pytest.mark.slow
def test_a_hang_is_a_gap_on_every_clock_of_the_trainer() -> None:
    """The row after it stands that many seconds later, and its own rollout took them."""
    trace = recorded(from_onset(4, hangs(150.0)))
    assert 150.0 < trace.updates[3].t - trace.updates[2].t < 200.0
    assert 150.0 < trace.updates[3].rollout_s < 200.0
    harm = hung(trace, trace, 4, CARTPOLE.scores)
    assert harm is not None
    assert harm.update == 4


@pytest.mark.slow
def test_a_rate_that_warms_up_is_what_was_asked_for_from_then_on() -> None:
    """It grows by one share an update, and stays where the settings have it."""
    rates = [row.metrics["train/learning_rate"] for row in recorded(warms_up(4)).updates]
    assert rates == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3, 1e-3])


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("task", WORLDS, ids=lambda task: task.name)
def test_a_world_says_at_the_end_how_it_went(task: Task) -> None:
    """It is an environment as Gymnasium wants it, the same for the same seed, and only its last step has an outcome."""
    env = gymnasium.make(task.env.id, disable_env_checker=True)
    check_env(env.unwrapped, skip_render_check=True)

    def episode() -> list[float]:
        env.reset(seed=7)
        env.action_space.seed(7)
        paid: list[float] = []
        over, ended = False, dict[str, str]()
        while not over:
            assert not ended
            _, reward, done, late, ended = env.step(env.action_space.sample())
            paid.append(float(reward))
            over = done or late
        assert ended["outcome"] in ("hit", "miss")
        return paid

    paid = episode()
    assert np.isfinite(paid).all()
    assert paid == episode()


def bench_of(taken: list[int]) -> tuple[Bench, InlineVecEnv]:
    """Two environments whose observation is the step that they are at, and 100 more in the second; both say what they
    were told to do.
    """

    class Counting(gymnasium.Env[np.ndarray, Any]):
        observation_space, action_space = (
            gymnasium.spaces.Box(-1e3, 1e3, (1,), np.float32),
            gymnasium.spaces.Discrete(2),
        )

        def __init__(self, first: float) -> None:
            self.seen = first

        def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
            return np.array([self.seen], np.float32), {}

        def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            taken.append(int(action))
            self.seen += 1.0
            return np.array([self.seen], np.float32), 0.0, False, False, {}

    vec = InlineVecEnv([lambda: Counting(0.0), lambda: Counting(100.0)])
    vec.reset()
    return Bench(cast(Any, SimpleNamespace(env=vec)), cast(Any, None), Clock(), 7, 1), vec


def test_crossed_observations_are_those_of_the_environment_before() -> None:
    """The first shows what the last showed a step ago, as nothing newer is there."""
    bench, vec = bench_of([])
    crosses_observations(bench)
    shown = [np.ravel(cast(Any, vec.step(np.array([1, 1]))[0])).tolist() for _ in range(3)]
    assert shown == [[1.0, 1.0], [101.0, 2.0], [102.0, 3.0]]


def test_observations_drift_by_the_same_in_every_update() -> None:
    """Within an update they stay as far from their zero as they are."""
    bench, vec = bench_of([])
    tamper = drifts(2, 0.25)
    shown = []
    for update in range(1, 5):
        tamper(bench, update)
        shown.append(float(cast(Any, vec.step(np.array([1, 1]))[0])[0, 0]) - update)
    assert shown == [0.0, 0.25, 0.5, 0.75]


def test_deaf_environments_take_some_actions_of_their_own() -> None:
    """In half of the steps one is drawn, which is now and then the one that was asked for."""
    taken: list[int] = []
    bench, vec = bench_of(taken)
    deafens(bench)
    for _ in range(100):
        vec.step(np.array([1, 1]))
    assert 100 < sum(taken) < 190


@pytest.mark.slow
def test_a_resumed_attempt_goes_on_with_its_own_settings() -> None:
    """The stopped attempt saved itself, the second starts there, and the trace says with which settings."""
    first = CARTPOLE.spec("test", 7, 6, {})
    second = CARTPOLE.spec("test", 7, 6, {"batch_size": 16})
    trace = record_training("test", [first, second], from_onset(4, stops))
    starts = [record for record in trace.records if isinstance(record, TrainingStarted)]
    assert [(start.attempt, start.from_update) for start in starts] == [(1, 0), (2, 3)]
    assert [row.update for row in trace.updates] == [1, 2, 3, 4, 5, 6]
    assert trace.resumed == {2: second}


def test_a_trace_survives_its_file(tmp_path: Path) -> None:
    """What is read is what was written, to five digits and sixteen episodes an update, whose number stays exact."""
    path = tmp_path / "test.jsonl.gz"
    many = Episodes(n=40, r=tuple(float(i) / 3.0 for i in range(40)), l=tuple(range(40)), outcomes={"captured": 40})
    row = UpdateDone(2, 1, 1, 64, 1e9 / 3, 0.1, 0.1, 320.0, {"train/approx_kl": 1 / 3, "train/loss": "nan"}, many)
    trace = Trace("test", MISSION.spec("test", 7, 6, {}), (TrainingStarted(1, 1, 2.0), row), busy=((3, 5),))
    write_trace(path, trace)
    read = read_trace(path)
    assert (read.name, read.spec, read.busy, read.records[0]) == (trace.name, trace.spec, trace.busy, trace.records[0])
    kept = read.updates[0]
    assert kept.metrics == {"train/approx_kl": 0.33333, "train/loss": "nan"}
    assert kept.t == pytest.approx(row.t, abs=1e-3)
    assert (kept.episodes.n, kept.episodes.outcomes) == (40, {"captured": 40})
    assert (kept.episodes.l[0], kept.episodes.l[-1], len(kept.episodes.l), len(kept.episodes.r)) == (0, 39, 16, 16)


def test_no_harm_is_found_in_a_twin() -> None:
    """A training is not behind itself, however it was meant; one that stays where it was is."""
    rising = scored([min(10.0 * i, 500.0) for i in range(1, 101)])
    assert fell_behind(rising, rising, 50, CARTPOLE.scores) is None
    harm = fell_behind(scored([min(10.0 * i, 200.0) for i in range(1, 101)]), rising, 21, CARTPOLE.scores)
    assert harm is not None
    assert harm.update > 21


def test_a_harm_that_passes_lasts_as_long_as_it_is_there() -> None:
    """Forty updates far behind the twin are one though the end is as good; twenty are a dip."""
    rising = [min(10.0 * i, 400.0) for i in range(1, 121)]
    twin = scored(rising)

    def fallen(updates: int) -> Trace:
        return scored([20.0 if 51 <= i < 51 + updates else level for i, level in enumerate(rising, 1)])

    harm = lost_for_long(fallen(40), twin, 51, CARTPOLE.scores)
    assert harm is not None
    assert harm.until is not None
    assert 51 <= harm.update <= 61
    assert 88 <= harm.until <= 100
    assert fell_behind(fallen(40), twin, 51, CARTPOLE.scores) is None
    assert lost_for_long(fallen(20), twin, 51, CARTPOLE.scores) is None
    assert lost_for_long(twin, twin, 51, CARTPOLE.scores) is None


def test_a_return_that_no_longer_comes_is_a_harm_though_the_task_goes_on() -> None:
    """Thirty updates in a row behind the return of the twin, until it comes again; the scores have lost nothing."""
    rising = [min(10.0 * i, 400.0) for i in range(1, 121)]
    twin = scored(rising, rising)
    gone = scored(rising, [level if i < 51 else 0.0 for i, level in enumerate(rising, 1)])
    back = scored(rising, [0.0 if 51 <= i < 91 else level for i, level in enumerate(rising, 1)])
    for_good, passed = paid_less(gone, twin, 51, CARTPOLE.scores), paid_less(back, twin, 51, CARTPOLE.scores)
    assert for_good is not None
    assert for_good.until is None
    assert passed is not None
    assert 88 <= (passed.until or 0) <= 100
    assert lost_for_long(gone, twin, 51, CARTPOLE.scores) is None
    assert paid_less(twin, twin, 51, CARTPOLE.scores) is None


def test_swings_are_counted_beside_a_twin_that_has_none() -> None:
    """Four turns of the score are an oscillation; a single fall, or the same turns in the twin, is none."""
    calm = scored([100.0] * 120)
    restless = scored([100.0 if i // 12 % 2 else 20.0 for i in range(120)])
    fallen = scored([100.0] * 60 + [20.0] * 60)
    assert swung(restless, calm, 1, CARTPOLE.scores) is not None
    assert swung(fallen, calm, 1, CARTPOLE.scores) is None
    assert swung(restless, restless, 1, CARTPOLE.scores) is None


def test_what_rules_were_tuned_on_never_scores() -> None:
    """A scoring run has no task of the tuning half, every row has its reason, and known troubles are told apart."""
    for construction in CONSTRUCTIONS:
        of_task, _ = TASKS[construction.task.name]
        assert construction.half == of_task
        assert is_known(construction.name) == (HALVES.get(construction.name, ("scoring", ""))[0] == "tuning")
    assert all(why for _, why in (*TASKS.values(), *HALVES.values()))
    assert not set(SEEDS["tuning"]) & set(SEEDS["scoring"])
    names = [construction.trace_name(seed) for construction in CONSTRUCTIONS for seed in construction.seeds]
    assert len(names) == len(set(names))


def test_the_manifest_describes_the_traces_that_are_there() -> None:
    """Every line has its trace and twin, is of its half, and names right answers if and only if harm is."""
    labels = read_manifest()
    assert labels
    for label in labels:
        assert trace_path(label.name).is_file()
        assert label.twin is None or trace_path(label.twin).is_file()
        assert label.seed in (*SEEDS["tuning"], *SEEDS["scoring"])
        task = label.name.removeprefix(f"{label.construction}-").rpartition("-s")[0]
        assert (label.label == "healthy") <= (task not in THREE_LABELS or label.twin is None)
        assert (label.label == "unclear") <= (task in THREE_LABELS)
        assert (label.label == "positive") == bool(label.rules) == bool(label.harm) == (label.harm_update is not None)
    harmed = next(label for label in labels if label.construction == "frozen" and label.label == "positive")
    trace = read_trace(trace_path(harmed.name))
    assert isinstance(trace.spec, Spec)
    assert len(trace.updates) == harmed.updates
    kl = [float(row.metrics["train/approx_kl"]) for row in trace.updates if row.update > harmed.updates // 2]
    assert statistics.fmean(kl) < 1e-5
