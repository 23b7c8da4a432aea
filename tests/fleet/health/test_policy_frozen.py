"""`policy-frozen`: a KL of nothing is critical, small ones are a warning only while something is left to learn."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import Resumed
from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.rules.policy_frozen import PolicyFrozen
from mission_tui.fleet.specs.spec import Schedule
from mission_tui.fleet.specs.thresholds import Limits, PolicyFrozenLimits
from tests.fleet.health.one_rule import ABSENT, TRACES
from tests.fleet.health.rounds import Round, judged, judged_outside, labels, row

SHORT = Settings(total_timesteps=300 * 1024, rollout=1024)
LIVELY: dict[str, float] = {"approx_kl": 0.01, "clip_fraction": 0.1}
DEAD: dict[str, float] = {"approx_kl": -6e-11, "clip_fraction": 0.0}
SMALL: dict[str, float] = {"approx_kl": 0.0003, "clip_fraction": 0.001}
"""u = 0.015 at clip range 0.2."""


def then(still: Mapping[str, float], ret: float | None = None, updates: int = 60, settings: Settings = SHORT) -> Round:
    """Forty learning updates with returns up to 40, then `updates` as `still`, their returns at `ret`."""
    extra = {} if ret is None else {"ret": ret}
    lines = [row(n, {"approx_kl": 0.01, "clip_fraction": 0.1, "ret": float(n)}) for n in range(1, 41)]
    lines += [row(n, {**still, **extra}) for n in range(41, 41 + updates)]
    return judged(PolicyFrozen, lines, settings)


def test_a_kl_of_nothing_is_critical_after_five_updates_of_a_policy_that_learned() -> None:
    """Wherever the return stands: a policy that still learns is never that still."""
    seen = then(DEAD, ret=40.0)
    assert seen.changes == [(45, "critical")]
    assert seen.words[0].sentence.startswith("the policy is frozen: KL < 1e-6 and nothing clipped in 5 updates")
    assert (seen.words[0].threshold, seen.words[0].window) == (1e-6, 5)


def test_a_kl_of_nothing_takes_ten_updates_where_nothing_tells_that_it_was_stopped() -> None:
    """It had come to next to nothing before; a learning rate of 0 tells it all the same."""
    idle = {"approx_kl": 2e-4, "clip_fraction": 0.01}
    before = [row(n, {**idle, "learning_rate": 3e-4, "ret": float(n)}) for n in range(1, 41)]
    for rate, first in ((3e-4, 50), (0.0, 45)):
        still = [row(n, {**DEAD, "learning_rate": rate, "ret": 20.0}) for n in range(41, 101)]
        assert judged(PolicyFrozen, before + still).changes[-1] == (first, "critical")


def test_a_new_policy_that_goes_in_tiny_steps_at_first_is_not_frozen() -> None:
    """As recurrent ones do with small rollouts: KL of less than a millionth for twenty updates, and growing then."""
    few, lines = replace(SHORT, gradient_steps=4), [-6.1 - 0.1 * (n % 9) for n in range(1, 21)]
    kls = [10**log for log in [*lines, *(-6.0 + 0.1 * n for n in range(15))]]
    slow = [row(n, {"approx_kl": kl, "clip_fraction": 0.0, "ret": 20.0}) for n, kl in enumerate(kls, 1)]
    assert judged(PolicyFrozen, slow, few).changes == [(20, "info")]
    at_once = [row(n, {**DEAD, "ret": 20.0}) for n in range(1, 21)]
    assert judged(PolicyFrozen, at_once, few).changes == [(10, "critical")]
    stopped = [row(n, {**LIVELY, "ret": float(n)}) for n in range(1, 41)]
    stopped += [row(40 + n, {"approx_kl": kl, "clip_fraction": 0.0, "ret": 20.0}) for n, kl in enumerate(kls[:12], 1)]
    assert judged(PolicyFrozen, stopped, few).changes == [(45, "critical")]


def test_a_policy_that_was_stopped_is_told_of_once() -> None:
    """A return that comes near its best again by chance, in the few updates until the whole window says so, ends
    nothing.
    """
    lines = [row(n, {**LIVELY, "ret": float(n)}) for n in range(1, 41)]
    lines += [row(n, {**DEAD, "ret": 20.0 if n < 46 else 60.0}) for n in range(41, 50)]
    assert judged(PolicyFrozen, lines, SHORT).changes == [(45, "critical")]


def test_a_policy_that_learns_in_tiny_steps_does_not_stand_still() -> None:
    """At a rate of 0.00007 a KL of 0.000006 is a step: returns rose from 3 to 11 by such steps. It hardly moves, and
    that is a warning once the return is flat below its best.
    """
    tiny = {"approx_kl": 6e-6, "clip_fraction": 0.0}
    slow = [row(n, {**tiny, "ret": 3.0 + 0.05 * n}) for n in range(1, 161)]
    assert [severity for _, severity in judged(PolicyFrozen, slow, SHORT).changes] == ["info"]
    assert [severity for _, severity in then(tiny, ret=20.0).changes] == ["info", "warning"]


def test_a_learning_policy_is_no_finding() -> None:
    """u of 0.05 with some clipping, and twenty small updates that are not in a row."""
    assert then({"approx_kl": 0.001, "clip_fraction": 0.001}, ret=20.0).changes == []
    assert then(DEAD, ret=20.0, updates=4).changes == []
    assert then(SMALL, ret=20.0, updates=19).changes == []


def test_small_updates_are_a_warning_below_the_best_return() -> None:
    """Twenty of them, once the return has been flat at half of the run's best for ten."""
    seen = then(SMALL, ret=20.0)
    assert seen.changes == [(60, "info"), (74, "warning")]
    assert (
        "KL below 0.02 x the safe KL in 20 updates, 0.015 x at the median; the return stands at"
        in seen.words[1].sentence
    )
    assert seen.words[1].threshold == pytest.approx(0.0004)


def test_small_updates_at_the_best_return_are_information() -> None:
    """At 90 % of its best a policy may rest."""
    seen = then(SMALL, ret=40.0)
    assert seen.changes == [(60, "info")]
    assert seen.words[0].advice.startswith("nothing if the task is solved")


def test_small_updates_while_the_return_still_moves_are_information() -> None:
    """Not flat is not frozen."""
    lines = [row(n, {"approx_kl": 0.01, "clip_fraction": 0.1, "ret": 200.0 - n}) for n in range(1, 41)]
    lines += [row(n, {**SMALL, "ret": 200.0 - n}) for n in range(41, 101)]
    assert judged(PolicyFrozen, lines, SHORT).changes == [(60, "info")]


def test_idle_updates_are_information() -> None:
    """u below 0.1 with nothing clipped for twenty updates; with some clipping it is ordinary."""
    idle: dict[str, float] = {"approx_kl": 0.0015, "clip_fraction": 0.0}
    assert then(idle, ret=20.0).changes == [(60, "info")]
    assert then(idle | {"clip_fraction": 0.001}, ret=20.0).changes == []


def test_without_a_clip_fraction_nothing_is_critical() -> None:
    """What is not known is not zero."""
    assert "critical" not in {severity for _, severity in then({"approx_kl": 0.0}, ret=20.0).changes}


def test_one_moving_update_is_not_enough_to_clear() -> None:
    """Ten in a row take the critical back, twenty the rest."""
    alive: dict[str, float] = {"approx_kl": 0.01, "clip_fraction": 0.1, "ret": 20.0}
    lines = [
        row(n, {**(DEAD if n <= 40 and n != 30 else {}), **({} if n <= 40 and n != 30 else alive)})
        for n in range(1, 80)
    ]
    known = Settings(gradient_steps=40)
    assert judged(PolicyFrozen, lines, known).changes == [(10, "critical"), (50, "info"), (60, None)]


SOLVED = [(Settings(reward_threshold=35.0), {}), (SHORT, {"rollout/success_rate": 0.97})]


@pytest.mark.parametrize(("settings", "tags"), SOLVED, ids=["threshold", "success"])
def test_a_solved_task_may_rest(settings: Settings, tags: dict[str, float]) -> None:
    """Over the environment's threshold, or with nearly every episode a success, it is information only."""
    assert {severity for _, severity in then({**DEAD, **tags}, ret=40.0, settings=settings).changes} == {"info"}


def test_a_schedule_that_ends_is_meant() -> None:
    """Below 5 % of the initial learning rate a run whose rate decayed to there is left alone, known or not."""
    scheduled = Settings(learning_rate=Schedule(start=3e-4, end=0.0))
    decaying = [row(n, {**LIVELY, "learning_rate": 3e-4 * (1.0 - n / 40), "ret": float(n)}) for n in range(1, 40)]
    spent = [row(n, {**DEAD, "learning_rate": 0.0, "ret": 20.0}) for n in range(40, 101)]
    assert judged(PolicyFrozen, decaying + spent, scheduled).changes == []
    assert judged(PolicyFrozen, decaying + spent).changes == []
    low = [row(n, {**DEAD, "learning_rate": 2e-5, "ret": 20.0}) for n in range(40, 101)]
    assert judged(PolicyFrozen, decaying[:37] + low, scheduled).changes[0][1] == "critical"


@pytest.mark.parametrize("settings", [Settings(), Settings(learning_rate=Schedule(start=3e-4, end=0.0))])
@pytest.mark.parametrize("rate", [0.0, 1e-7, 1e-5])
def test_a_rate_that_is_gone_at_once_is_no_schedule(rate: float, settings: Settings) -> None:
    """In a log whose settings nobody knows, and in a run whose schedule was still far from its end."""
    lines = [row(n, {**LIVELY, "learning_rate": 3e-4, "ret": float(n)}) for n in range(1, 41)]
    lines += [row(n, {**DEAD, "learning_rate": rate, "ret": 40.0 + n % 5}) for n in range(41, 101)]
    seen = judged(PolicyFrozen, lines, settings)
    assert seen.changes == [(45, "critical")]
    assert seen.words[0].cause.startswith(("the learning rate has fallen from 0.0003 to", "the learning rate is 0"))


def test_a_policy_that_was_stopped_at_its_best_is_no_catastrophe() -> None:
    """A rate that is gone at once, after the return had stopped rising and while it stays there: a warning."""
    lines = [row(n, {**LIVELY, "learning_rate": 3e-4, "ret": min(n, 40) + 0.2 * (n % 2)}) for n in range(1, 120)]
    lines += [row(n, {**DEAD, "learning_rate": 0.0, "ret": 40.0 + 0.2 * (n % 2)}) for n in range(120, 160)]
    assert judged(PolicyFrozen, lines).changes == [(129, "warning")]


def test_an_annealed_rate_may_bring_a_good_policy_to_rest() -> None:
    """Bit by bit, near its best: information. Below its best it is a warning; all at once it was stopped."""
    kls = [0.01 * math.exp(-n / 21.0) for n in range(200)]
    rates = [2.5e-4 * (1.0 - n / 220) for n in range(200)]
    columns = list(zip(kls, rates, strict=True))
    near = [row(n, {"approx_kl": kl, "clip_fraction": 0.0, "learning_rate": rate, "ret": min(480.0, 9.0 * n) + n % 7})
            for n, (kl, rate) in enumerate(columns, start=1)]  # fmt: skip
    assert {severity for _, severity in judged(PolicyFrozen, near).changes} <= {"info"}
    far = [row(n, {"approx_kl": kl, "clip_fraction": 0.0, "learning_rate": rate, "ret": 480.0 if n < 40 else 200.0})
           for n, (kl, rate) in enumerate(columns, start=1)]  # fmt: skip
    assert "warning" in {severity for _, severity in judged(PolicyFrozen, far).changes}


def test_a_policy_that_has_made_up_its_mind_may_rest_at_its_best() -> None:
    """A task solved to its ceiling: next to no entropy, no KL, no gain left. At random the same KL is critical."""
    decided = DEAD | {"policy/entropy_ratio": 0.01}
    assert {severity for _, severity in then(decided, ret=40.0).changes} == {"info"}
    assert "critical" in {severity for _, severity in then(DEAD | {"policy/entropy_ratio": 0.7}, ret=40.0).changes}


def test_a_policy_that_lost_its_choice_and_its_return_is_warned_of_in_the_shortest_training() -> None:
    """Dead from update 6 of 20, long before trends may be judged; not while most of what it had gained is there."""
    early = [
        row(n, LIVELY | {"policy/entropy_ratio": 0.5, "ret": ret}) for n, ret in enumerate((17, 20, 23, 32, 26), 1)
    ]
    decided = DEAD | {"policy/entropy_ratio": 3e-7}
    lost = [row(n, decided | {"ret": 12.0 if n == 6 else 9.3}) for n in range(6, 21)]
    assert judged(PolicyFrozen, early + lost, SHORT).changes == [(15, "warning")]
    kept = [row(n, decided | {"ret": 26.0}) for n in range(6, 21)]
    assert judged(PolicyFrozen, early + kept, SHORT).changes == [(15, "info")]


def test_what_a_mean_wanders_by_is_no_loss_of_a_policy_that_was_resumed_decided() -> None:
    """It goes on with the return that it had; of one that has lost much since it is said, and from how far."""
    noise = random.Random(7)
    decided = DEAD | {"policy/entropy_ratio": 3e-7}
    returns = [10.0 + noise.gauss(0.0, 0.3) for _ in range(60)]
    resumed = Settings(total_timesteps=300 * 1024, rollout=1024, resumed=Resumed())

    def said(returns: list[float], settings: Settings) -> Round:
        return judged(PolicyFrozen, [row(n, decided | {"ret": ret}) for n, ret in enumerate(returns, 51)], settings)

    seen = said(returns, resumed)
    assert {severity for _, severity in seen.changes} == {"info"}
    assert all("of its best" not in words.sentence for words in seen.words)
    fallen = said(returns + [3.0] * 30, resumed)
    assert fallen.changes[-1][1] == "warning"
    assert "of its best" in fallen.words[-1].sentence


def test_a_policy_that_froze_at_next_to_nothing_is_warned_of_at_its_best() -> None:
    """A tenth of the budget in, the return is the best there ever was, and MissionGym says that nothing was won."""
    returns = [-1.8, -1.5, -1.2, -1.1, -1.0] + 25 * [-1.0]
    decided = DEAD | {"policy/entropy_ratio": 3e-7}

    def said(endings: Mapping[str, int], env_id: str = "MissionGym-v0") -> Round:
        lines = [
            replace(row(n, (LIVELY if n <= 5 else decided) | {"ret": ret}), outcomes=endings)
            for n, ret in enumerate(returns, 1)
        ]
        return judged(PolicyFrozen, lines, Settings(env_id=env_id, total_timesteps=300 * 1024, rollout=1024))

    dead = said({"stalled": 20})
    assert dead.changes == [(15, "warning")]
    assert dead.words[0].sentence.endswith("of its best, and almost no episode is won")
    assert said({"stalled": 10, "captured": 10}).changes == [(15, "info")]
    assert said({"timeout": 20}, "Unnamed-v0").changes == [(15, "info")]


def test_a_rate_that_fell_without_a_schedule_is_the_cause() -> None:
    """Settings that hold the rate make a low one a fault, and the advice puts it back."""
    words = then(DEAD | {"learning_rate": 3e-11}, ret=20.0, settings=Settings(learning_rate=3e-4)).words[0]
    assert words.cause == "the learning rate has fallen from 0.0003 to 3e-11"
    assert words.advice_set == ("ppo.learning_rate=0.0003",)


def test_a_rate_of_half_explains_no_kl_of_nothing() -> None:
    """Steps half as large leave a quarter of the KL: why a policy died under a schedule is another question."""
    words = then(DEAD | {"learning_rate": 1.2e-4}, ret=20.0, settings=Settings(learning_rate=3e-4)).words[0]
    assert words.cause == "a learning rate of 0.00012, with an unknown number of gradient steps per update"
    assert words.advice.endswith("from before update 41")


def test_a_log_of_small_steps_from_the_start_may_be_of_a_target_kl() -> None:
    """It does not say one, and counts one epoch where it ends each update within the first."""
    small = [row(n, {**SMALL, "clip_fraction": 0.0, "learning_rate": 1e-3, "ret": 5.0}) for n in range(1, 60)]
    advice = judged(PolicyFrozen, small, Settings(n_epochs=1)).words[0].advice
    assert "raise target_kl if one ends the updates early, or take larger steps" in advice
    assert "target_kl" not in judged(PolicyFrozen, small, Settings(n_epochs=4)).words[0].advice


def test_a_single_gradient_step_has_no_kl() -> None:
    """SB3 measures before the step, so with one step an update the KL is always 0."""
    assert then(DEAD, ret=20.0, settings=Settings(gradient_steps=1)).changes == []


@pytest.mark.parametrize("tag", ["entropy_loss", "std"])
def test_a_kl_that_was_never_there_is_not_believed_of_a_policy_whose_entropy_or_deviation_is_on_a_course(
    tag: str,
) -> None:
    """A healthy training in single steps waits long for its first reward; else they only scatter."""
    dice, level = random.Random(3), {"entropy_loss": -1.38, "std": 1.0}[tag]
    numbers = range(1, 120)
    moves = [row(n, {**DEAD, "ret": 0.0, tag: level + 1e-5 * n + dice.gauss(0.0, 1e-5)}) for n in numbers]
    assert judged(PolicyFrozen, moves).changes == []
    for spread in (0.0, 1e-8, 0.1) if tag == "entropy_loss" else (0.0, 1e-8):
        still = [row(n, {**DEAD, "ret": 0.0, tag: level + dice.gauss(0.0, spread)}) for n in numbers]
        assert judged(PolicyFrozen, still).changes == [(24, "critical")]
    scatters = [row(n, {**DEAD, "ret": 0.0, "std": 1.0 + dice.gauss(0.0, 1e-5)}) for n in numbers]
    assert judged(PolicyFrozen, scatters).changes == []


def test_a_kl_that_was_never_there_is_not_believed_while_the_return_improves() -> None:
    """An outside log may be of single-step updates: 0 throughout, and the policy learns. Known settings settle it."""
    improving = [row(n, {**DEAD, "ret": float(n)}) for n in range(1, 200)]
    plateau = [row(n, {**DEAD, "ret": 200.0}) for n in range(200, 300)]
    assert judged(PolicyFrozen, improving + plateau).changes == []
    stuck = [row(n, {**DEAD, "ret": 5.0}) for n in range(1, 200)]
    assert judged(PolicyFrozen, stuck).changes == [(16, "critical")]
    dice = random.Random(1)
    level, wanders = 0.0, list[Row]()
    for n in range(1, 121):
        level = 0.8 * level + dice.gauss(0.0, 1.0)
        wanders.append(row(n, {**DEAD, "ret": level}))
    assert judged(PolicyFrozen, wanders).changes == [(16, "critical")]
    assert judged(PolicyFrozen, improving, Settings(gradient_steps=40)).changes == [(10, "critical")]
    # Of several epochs it is that of the last, and without a rate no step is taken, whatever the return does.
    assert judged(PolicyFrozen, improving, Settings(n_epochs=6)).changes == [(10, "critical")]
    without = [row(n, {**DEAD, "ret": float(n), "learning_rate": 0.0}) for n in range(1, 200)]
    assert judged(PolicyFrozen, without).changes == [(10, "critical")]


CAUSES: list[tuple[Settings, dict[str, float], str, tuple[str, ...]]] = [
    (
        Settings(target_kl=1e-6, n_epochs=10),
        {"n_epochs_done": 0.1},
        "target_kl 1e-6 ends each update after 0.1 of 10 epochs",
        ("ppo.target_kl=0.03",),
    ),
    (
        Settings(target_kl=1e-6, n_epochs=1),
        {},
        "target_kl 1e-6 ends each update once it has moved the policy a little",
        ("ppo.target_kl=0.03",),
    ),
    (
        Settings(),
        {"approx_kl": 4e-6, "grad_norm": 2445.0, "value_loss": 1.2e5},
        "values miss returns by about 346 (root of the value loss); the gradient is clipped as a whole",
        (),
    ),
    (Settings(), {"grad_norm": 2445.0, "value_loss": 1.2e5}, "gradients of norm 2,445 do not change the policy", ()),
    (
        Settings(ent_coef=0.02),
        {"policy/entropy_ratio": 0.001},
        "the policy almost always chooses the same action: its entropy is 0.1% of the maximum",
        ("ppo.ent_coef=0.04",),
    ),
    (
        Settings(target_kl=0.01, n_epochs=10),
        {"grad_norm": 1e-9, "n_epochs_done": 10.0},
        "there is next to no gradient",
        (),
    ),
    (Settings(), {"grad_norm": 1e-9}, "there is next to no gradient (norm 1e-09)", ()),
    (Settings(), {"grad_norm": 0.8}, "gradients of norm 0.8 do not change the policy", ()),
    (
        Settings(learning_rate=1e-7, gradient_steps=640),
        {"grad_norm": 84.0},
        "640 gradient steps x 1e-07 per update is 0.016 x the reference",
        ("ppo.learning_rate=0.00025",),
    ),
    (
        Settings(learning_rate=1e-5, gradient_steps=64),
        {"grad_norm": 84.0},
        "gradients of norm 84 do not change the policy",
        (),
    ),
    (
        Settings(learning_rate=1e-3),
        {"value_loss": 4e10},
        "values miss returns by about 200,000 (root of the value loss); the gradient is clipped as a whole",
        (),
    ),
    (Settings(learning_rate=0.0), {"grad_norm": 0.8}, "the learning rate is 0", ("ppo.learning_rate=0.00025",)),
]


@pytest.mark.parametrize(("settings", "tags", "cause", "assignments"), CAUSES)
def test_the_cause_is_read_from_the_run(
    settings: Settings, tags: dict[str, float], cause: str, assignments: tuple[str, ...]
) -> None:
    """What stops, starves or misses the policy is told apart by the row's own numbers."""
    words = then({**DEAD, **tags}, ret=20.0, settings=settings).words[0]
    assert words.cause.startswith(cause)
    assert words.advice_set == assignments


def test_small_steps_under_low_pressure_ask_for_a_higher_rate() -> None:
    """4 steps of 1e-5 are a hundredth of the reference; the proposal reaches it."""
    words = then(SMALL, ret=20.0, settings=Settings(learning_rate=1e-5, gradient_steps=4)).words[0]
    assert words.cause == "4 gradient steps x 1e-05 per update is 0.01 x the reference (16 x 0.00025)"
    assert words.advice_set == ("ppo.learning_rate=0.001",)


def test_going_back_means_before_the_standstill() -> None:
    """The checkpoint to go back to is older than the first still update, 41."""
    assert then(DEAD, ret=20.0).words[0].advice.endswith("from before update 41")


def test_nobody_goes_back_before_the_first_update() -> None:
    """A policy that hardly moved from the start has no better checkpoint: its steps are too small."""
    lines = [row(n, {**SMALL, "ret": 20.0 + n}) for n in range(2, 60)]
    words = judged(PolicyFrozen, lines, Settings(learning_rate=1e-3)).words[0]
    assert words.advice.endswith("otherwise take larger steps: a higher learning rate, or more epochs")


def test_going_back_means_before_all_of_a_standstill_that_gets_worse() -> None:
    """A policy that hardly moved from update 41 on, and not at all from 71 on, has stood still since 41."""
    lines = [row(n, {"approx_kl": 0.01, "clip_fraction": 0.1, "ret": float(n)}) for n in range(1, 41)]
    lines += [row(n, {**SMALL, "ret": 20.0}) for n in range(41, 71)]
    lines += [row(n, {**DEAD, "ret": 20.0}) for n in range(71, 90)]
    told = judged(PolicyFrozen, lines, SHORT)
    assert told.changes[-1][1] == "critical"
    assert told.words[-1].advice.endswith("from before update 41")


def test_its_limits_are_those_of_the_run() -> None:
    """With `critical_updates` at 30 the finding comes twenty updates later."""
    limits = Limits(policy_frozen=PolicyFrozenLimits(critical_updates=30, updates=30))
    lines = [row(n, DEAD) for n in range(1, 60)]
    assert judged(PolicyFrozen, lines, Settings(gradient_steps=40), limits).changes == [(30, "critical")]


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_no_healthy_run_is_frozen_and_those_that_hardly_move_are_found() -> None:
    """Silent on 40 healthy runs; the five that learned to do nothing and the one of KL 3e-4 are found."""
    found = {name for name in labels() if judged_outside(PolicyFrozen, name).changes}
    assert not [name for name in found if labels()[name] == "healthy"]
    assert "gridtreasure_1733886838" in found
    assert len([name for name in found if labels()[name] == "fail_local_optimum"]) == 5


def test_a_policy_that_learned_in_small_steps_still_moves() -> None:
    """A u of 0.015 that the return rose with for forty updates is no standstill below the best return."""
    lines = [row(n, {**SMALL, "ret": float(n)}) for n in range(1, 81)]
    lines += [row(n, {**SMALL, "ret": 60.0}) for n in range(81, 141)]
    assert "warning" not in [severity for _, severity in judged(PolicyFrozen, lines, SHORT).changes]


def test_a_schedule_brings_a_policy_to_rest_with_what_it_gained() -> None:
    """A rate that decays as planned makes small steps a matter of course, unless half of the gain is lost."""

    def annealed(last: float) -> list[Severity | None]:
        lines = []
        for n in range(1, 201):
            left = 1.0 - n / 210.0
            moves = LIVELY if n < 110 else {"approx_kl": 0.0003 * left, "clip_fraction": 0.0}
            ret = min(n, 100.0) if n < 110 else last + n % 3
            lines.append(row(n, {**moves, "learning_rate": 1e-3 * left, "ret": ret}))
        schedule = Settings(total_timesteps=210 * 1024, rollout=1024, learning_rate=Schedule(start=1e-3, end=0.0))
        return [severity for _, severity in judged(PolicyFrozen, lines, schedule).changes]

    assert "warning" not in annealed(75.0)
    assert "warning" in annealed(20.0)


def test_steps_that_shrink_with_their_schedule_are_no_standstill() -> None:
    """KL goes with the square of the rate. One that does not even move so far has stopped, whatever its schedule."""

    def noisy(share: float) -> list[Severity | None]:
        lines = []
        for n in range(1, 201):
            left = 1.0 - n / 210.0
            kl = 3e-4 * left**2 * (1.0 if n < 120 else share)
            ret = float(n) if n < 60 else 60.0 if n < 120 else 20.0
            lines.append(row(n, {"approx_kl": kl, "clip_fraction": 0.0, "learning_rate": 1e-3 * left, "ret": ret}))
        schedule = Settings(total_timesteps=210 * 1024, rollout=1024, learning_rate=Schedule(start=1e-3, end=0.0))
        return [severity for _, severity in judged(PolicyFrozen, lines, schedule).changes]

    assert set(noisy(1.0)) <= {"info", None}
    assert set(noisy(1e-5)) & {"warning", "critical"}


def test_a_policy_that_moves_again_is_no_worse_for_it() -> None:
    """At rest at its ceiling without a choice left; an update that gives it one again is no standstill."""
    solved = [row(n, LIVELY | {"policy/entropy_ratio": 0.5, "ret": min(8.0, 0.5 * n)}) for n in range(1, 40)]
    solved += [row(n, DEAD | {"policy/entropy_ratio": 0.01, "ret": 8.0}) for n in range(40, 80)]
    moved = [row(n, LIVELY | {"policy/entropy_ratio": 0.3, "ret": 7.0}) for n in range(80, 89)]
    assert {severity for _, severity in judged(PolicyFrozen, solved + moved).changes} == {"info"}


def test_a_clip_range_that_nobody_sets_holds_a_policy_still() -> None:
    """What is clipped is not called unclipped, and larger steps are no remedy."""
    lines = [row(n, {"approx_kl": 3e-6, "clip_fraction": 0.6, "clip_range": 0.001, "ret": 1.0}) for n in range(1, 60)]
    words = judged(PolicyFrozen, lines, SHORT).words[-1]
    assert "nothing clipped" not in words.sentence
    assert words.cause.startswith("a clip range of 0.001 ends what a transition teaches")
    assert words.advice_set == ("ppo.clip_range=0.2",)
