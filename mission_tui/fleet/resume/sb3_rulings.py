"""What a changed setting of SAC, DQN and the other algorithms beside PPO does to a run that goes on.

Their updates are no rollouts that are gone through again and again, so PPO's remedies (a warm-up, a target KL) are none
here. What a replay buffer holds is of the old policy anyway: most changes take effect at the next gradient step, of ARS
at the next iteration.
"""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.fleet.resume.remedies import BRANCH
from mission_tui.fleet.resume.sides import LARGEST_QUIET_RISE, Rule, Ruling, Sides, always, factor, larger
from mission_tui.fleet.specs.algorithm import discount_of, learning_table, replay_buffer_of
from mission_tui.fleet.specs.sb3_algorithms import OTHERS, gradient_steps
from mission_tui.fleet.specs.spec import other_settings

NEW_RUN = "start a new run"
_SHAPES = always("refuse", "the weights of the checkpoint do not fit", NEW_RUN, BRANCH)
_NEXT_STEP = always("note", "takes effect at the next gradient step")
_BEGINS_EMPTY = "the replay buffer begins empty: it collects before it learns again"


def _learning_rate(sides: Sides) -> Ruling:
    course, ratio = sides.rate_course, sides.rate_ratio
    if sides.learning_rate_now <= sides.learning_rate_was:
        return Ruling("note", f"{course}: smaller steps")
    if ratio <= LARGEST_QUIET_RISE:
        return Ruling("note", f"{course}: every step is {factor(ratio)} as large")
    why = f"{course}: Adam's moments do not soften it, each gradient step is {larger(ratio)} at once"
    return Ruling("warn", why, "rise in several")


def _step_of_search(sides: Sides) -> Ruling:
    course = sides.rate_course
    if sides.learning_rate_now <= LARGEST_QUIET_RISE * sides.learning_rate_was:
        return Ruling("note", f"{course}: takes effect at the next iteration")
    return Ruling("warn", f"{course}: the weights move so much further in each iteration at once", "rise in several")


def _gamma(sides: Sides) -> Ruling:
    was, now = (_horizon(discount_of(spec) or 0.0) for spec in (sides.was, sides.now))
    return Ruling(
        "warn",
        f"the horizon goes from {was} to {now} steps, so value targets change scale: expect the critic's loss to jump",
        "evaluate before and after",
    )


def _horizon(gamma: float) -> str:
    return "unlimited" if gamma == 1.0 else f"{1 / (1 - gamma):,.0f}"


def _buffer_size(sides: Sides) -> Ruling:
    was, now = replay_buffer_of(sides.was), replay_buffer_of(sides.now)
    assert was is not None
    assert now is not None
    if now.n_steps > 1 or now.optimize_memory_usage:
        return Ruling("warn", f"continued, not exact: {_BEGINS_EMPTY}")
    if now.buffer_size > was.buffer_size:
        return Ruling("note", f"continued, not exact: it holds {now.buffer_size:,} transitions from here on")
    return Ruling(
        "warn", f"continued, not exact: the newest {now.buffer_size:,} transitions stay, what is older is forgotten"
    )


def _ent_coef(sides: Sides) -> Ruling:
    was, now = (getattr(learning_table(spec)[1], "ent_coef", None) for spec in (sides.was, sides.now))
    if isinstance(was, str) != isinstance(now, str):
        why = "a coefficient that is learned is part of the checkpoint, and a fixed one is not"
        return Ruling("refuse", why, NEW_RUN, (BRANCH,))
    if isinstance(now, str):
        return Ruling("note", "used only when a training begins, so it changes nothing here")
    return Ruling("note", "other weights in the loss; losses are not comparable with those before")


def n_envs(sides: Sides) -> Ruling:
    """More or fewer environments: gradient steps for each transition, and where the replay buffer keeps what."""
    counts = [(other_settings(spec), spec.env.n_envs) for spec in (sides.was, sides.now)]
    shares = [
        gradient_steps(settings, count) / size
        for (settings, count), size in zip(counts, (sides.rollout_was, sides.rollout_now), strict=True)
        if settings is not None
    ]
    why = f"a gradient step for every {1 / shares[0]:,.3g} transitions was, for every {1 / shares[1]:,.3g} is"
    buffer = replay_buffer_of(sides.now)
    if buffer is not None:
        begins = buffer.n_steps > 1 or buffer.optimize_memory_usage
        why += f"; continued, not exact: {_BEGINS_EMPTY if begins else 'the newest transitions of the buffer stay'}"
    return Ruling("note" if shares[0] == shares[1] else "warn", why)


_BY_NAME: Mapping[str, Rule] = {
    "policy": _SHAPES,
    "net_arch": _SHAPES,
    "policy_kwargs": _SHAPES,
    "use_sde": _SHAPES,
    "learning_rate": _learning_rate,
    "gamma": _gamma,
    "buffer_size": _buffer_size,
    "optimize_memory_usage": always("warn", f"continued, not exact: {_BEGINS_EMPTY}"),
    "ent_coef": _ent_coef,
    "target_entropy": always("warn", "the entropy that the policy is held to changes, and the coefficient follows"),
    "batch_size": always("note", "Adam's moments belong to other minibatches; they adapt in about 1,000 steps"),
    "learning_starts": always("note", "counted from the first step of the run; it matters only before that"),
    "stats_window_size": always("note", "ep_rew_mean averages over another number of episodes"),
    "action_noise": always("note", "experience is collected with other noise from here on"),
    "normalize_advantage": always("warn", "the policy gradient changes scale, and the moments need to adapt"),
    "use_rms_prop": _SHAPES,
}


def _n_steps(sides: Sides) -> Ruling:
    if replay_buffer_of(sides.now) is not None:
        return Ruling(
            "warn", f"value targets look another number of steps ahead; continued, not exact: {_BEGINS_EMPTY}"
        )
    return Ruling("note", f"a rollout is {sides.rollout_now:,} transitions a period now, {sides.rollout_was:,} before")


_OF_SEARCH: Mapping[str, Rule] = {
    "learning_rate": _step_of_search,
    "zero_policy": always("note", "used only when a training begins, so it changes nothing here"),
    "alive_bonus_offset": always("warn", "candidates are ranked by other returns from here on"),
    "stats_window_size": always("note", "successes are averaged over another number of episodes"),
}
"""Of ARS, which has no moments, and whose mean return is that of one iteration."""
_NEXT_ITERATION = always("note", "takes effect at the next iteration")


def _rule(table: str, name: str) -> Rule:
    if table == "ars":
        return _OF_SEARCH.get(name) or (_SHAPES if _BY_NAME.get(name) is _SHAPES else _NEXT_ITERATION)
    return _n_steps if name == "n_steps" else _BY_NAME.get(name, _NEXT_STEP)


RULES_OF_OTHERS: Mapping[str, Rule] = {
    f"{table}.{field}": _rule(table, field) for table, it in OTHERS.items() for field in it.table.__struct_fields__
}


def begins_empty(sides: Sides) -> Ruling | None:
    """The ruling where the replay buffer is not in the checkpoint; None where it is, or none is needed."""
    if replay_buffer_of(sides.now) is None or sides.facts.replay_kept is not False:
        return None
    return Ruling("note", f"continued, not exact: it was not kept, so {_BEGINS_EMPTY}")
