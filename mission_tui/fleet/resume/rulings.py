"""Rulings on single fields: how much is collected per update and how it is cut (`n_envs`, `n_steps`, `batch_size`,
`n_epochs`), what is optimised and how hard (learning rate, budget and schedules, clipping, returns, coefficients), what
makes a run the run it is (its task, its network and what that is fed), and how numbers are computed.

Of the rollout it matters what a change does to the number of gradient steps per update and to Adam's moments.

The updates of SAC, DQN and the other algorithms beside PPO are no rollouts that are gone through again and again, so
PPO's remedies (a warm-up, a target KL) are none there. What a replay buffer holds is of the old policy anyway: most
changes take effect at the next gradient step, of ARS at the next iteration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec.structs import replace

from mission_tui.fleet.resume import remedies
from mission_tui.fleet.resume.remedies import BRANCH
from mission_tui.fleet.resume.sides import LARGEST_QUIET_RISE, LEAST_SHARE, Rule, Ruling, Sides, always, factor, larger
from mission_tui.fleet.resume.verdict import Remedy
from mission_tui.fleet.specs.algorithm import discount_of, learning_table, replay_buffer_of
from mission_tui.fleet.specs.sb3_algorithms import OTHERS, gradient_steps
from mission_tui.fleet.specs.sizes import nearby_divisors
from mission_tui.fleet.specs.spec import EnvSpec, Normalize, Schedule, other_settings

QUIET_RATIO = 1.5
"""Of minibatch sizes: Adam's steps are off by its square root, 1.2 x, while a learning rate may double quietly."""
RARELY = 0.5
NEARLY_ALWAYS = 0.9

_ROUNDED = 1e-3
"""Values are written with four digits."""
NEW_RUN = "branch: a new run with these weights"
OPTIMIZER = frozenset({"optimizer_class", "optimizer_kwargs"})
AT_BIRTH = frozenset({"log_std_init", "ortho_init"})
NOT_EXACT = always("note", "continued, not exact: floating-point sums and random streams differ from before")


def n_envs(sides: Sides) -> Ruling:
    """Another number of environments: another rollout, or the same one in other chunks."""
    if other_settings(sides.now) is not None and sides.was.run.algo == sides.now.run.algo:
        return _n_envs_of_others(sides)
    if sides.rollout_was == sides.rollout_now:
        return _other_chunks(sides)
    return _larger(sides) if sides.rollout_now > sides.rollout_was else _smaller(sides)


def n_steps(sides: Sides) -> Ruling:
    """Another rollout length; a note when `n_envs` changes too, because the ruling on that counts both."""
    if sides.was.env.n_envs != sides.now.env.n_envs:
        return Ruling("note", f"together with env.n_envs: {sides.rollout_was:,} -> {sides.rollout_now:,} transitions")
    return _larger(sides) if sides.rollout_now > sides.rollout_was else _smaller(sides)


def batch_size(sides: Sides) -> Ruling:
    """Another minibatch size: Adam's moments belong to the old one. Also called when the old size no longer divides."""
    was, now = sides.plan_was.batch_size, sides.plan_now.batch_size
    if now < was:
        ruling = _batch_down(sides)
    elif now > was:
        ruling = _batch_up(sides)
    else:
        ruling = Ruling("warn", "")
    left = sides.rollout_now % now
    if not left:
        return replace(ruling, grade="note") if max(now / was, was / now) <= QUIET_RATIO else ruling
    near = " or ".join(f"{divisor:,}" for divisor in nearby_divisors(sides.rollout_now, now))
    truncated = (
        f"{now:,} does not divide the rollout of {sides.rollout_now:,}: the last minibatch of every epoch holds only "
        f"{left:,}, and its noisier gradient counts as much as the others"
    )
    why = f"{ruling.why}; {truncated}" if ruling.why else truncated
    remedy = "; ".join(filter(None, (ruling.remedy, f"ppo.batch_size = {near} would divide it")))
    return Ruling("warn", why, remedy, (*ruling.remedies, *remedies.nearest_batch(sides)))


def n_epochs(sides: Sides) -> Ruling:
    """More passes press the policy harder against the same data; fewer are harmless."""
    if sides.plan_now.n_epochs < sides.plan_was.n_epochs:
        return Ruling("note", f"{sides.steps_change}; each rollout is used less")
    if sides.plan_now.gradient_steps <= sides.plan_was.gradient_steps:
        return Ruling("note", f"{sides.steps_change}; each rollout is used more")
    return Ruling(
        "warn",
        f"{sides.steps_change}: later passes work on data the policy has left behind, so expect more KL and clipping",
        f"--set {sides.target_kl}",
        (remedies.WARM_UP, remedies.target_kl(sides)),
    )


def _other_chunks(sides: Sides) -> Ruling:
    was, now = sides.was.ppo.n_steps, sides.now.ppo.n_steps
    effect = "shorter chunks, more of each return is bootstrapped" if now < was else "longer chunks, less bootstrapping"
    keep = (remedies.keep_minibatch(sides),) if sides.plan_now.batch_size != sides.plan_was.batch_size else ()
    return Ruling(
        "warn",
        f"low risk: the rollout stays at {sides.rollout_now:,} transitions with {sides.steps_change}, in chunks of "
        f"{now} steps per environment instead of {was} ({effect}); {_moments(sides)}",
        f"keep ppo.batch_size = {sides.plan_was.batch_size}",
        keep,
    )


def _larger(sides: Sides) -> Ruling:
    was, now = sides.plan_was, sides.plan_now
    grown = f"the rollout grows {factor(sides.rollout_now / sides.rollout_was)}"
    offers = remedies.hold_steps(sides), remedies.target_kl(sides)
    if now.gradient_steps <= was.gradient_steps:
        # Other epochs hold them: that is the remedy. Other minibatches do: the ruling on those warns of the moments.
        why = f"{grown}, with {sides.steps_change}; {_moments(sides)}"
        return Ruling("warn", why, "", offers) if now.n_epochs != was.n_epochs else Ruling("note", why)
    why = (
        f"{sides.steps_change} because {grown}: each update takes the policy further from its data, so expect more KL "
        f"and clipping; {_moments(sides)}"
    )
    return Ruling("warn", why, f"{remedies.remedy_text(offers[0])} ({offers[0].what})", offers)


def _smaller(sides: Sides) -> Ruling:
    shrunk = f"the rollout shrinks from {sides.rollout_was:,} to {sides.rollout_now:,} transitions"
    hold = remedies.hold_steps(sides)
    if sides.plan_now.gradient_steps >= sides.plan_was.gradient_steps:
        why = f"{shrunk}, which are more correlated, with {sides.steps_change}; {_moments(sides)}"
        return (
            Ruling("warn", why, "", (hold,))
            if sides.plan_now.n_epochs != sides.plan_was.n_epochs
            else Ruling("note", why)
        )
    return Ruling(
        "warn",
        f"low risk: {sides.steps_change}, because {shrunk}, which are more correlated; {_moments(sides)}",
        remedies.remedy_text(hold),
        (hold,),
    )


def _moments(sides: Sides) -> str:
    was, now = sides.plan_was.batch_size, sides.plan_now.batch_size
    if was == now:
        return (
            f"Adam's moments still fit, as minibatches stay at {now:,}, and reach back {sides.moments_in_updates} now"
        )
    span = sides.moments_in_updates
    return f"Adam's moments belong to minibatches of {was:,}, not {now:,}, so its steps are off for {span}"


def _batch_down(sides: Sides) -> Ruling:
    was, now = sides.plan_was.batch_size, sides.plan_now.batch_size
    overshoot = math.sqrt(was / now)
    why = (
        f"{_overshoot_risk(sides)}: Adam's second moment belongs to minibatches of {was:,} and is too small for the "
        f"noisier gradients of {now:,}: steps are up to {factor(overshoot)} too large for {sides.moments_in_updates}; "
        f"{sides.steps_change}"
    )
    slower, bound = remedies.scale_lr(sides), remedies.target_kl(sides)
    return Ruling(
        "warn", why, f"{slower.what}, and {remedies.remedy_text(bound)}", (slower, remedies.RESET_ADAM, bound)
    )


def _batch_up(sides: Sides) -> Ruling:
    was, now = sides.plan_was.batch_size, sides.plan_now.batch_size
    why = (
        f"Adam's moments belong to minibatches of {was:,}: with {now:,} its steps are up to "
        f"{factor(math.sqrt(now / was))} too small for {sides.moments_in_updates}, and gradients lose noise that helps "
        f"exploration; {sides.steps_change}"
    )
    keep = remedies.keep_minibatch(sides)
    return Ruling("warn", why, f"keep the minibatch: {remedies.remedy_text(keep)}", (keep, remedies.RESET_ADAM))


def _overshoot_risk(sides: Sides) -> str:
    share = sides.facts.grad_clipped_share
    if share is None:
        return "risk unknown, because the share of clipped gradients is not recorded"
    level = "high risk" if share < RARELY else "some risk" if share < NEARLY_ALWAYS else "low risk"
    return f"{level}, as the norm clip acted on {share:.0%} of this run's gradients"


def learning_rate(sides: Sides) -> Ruling:
    """A warning above twice the rate that the run has now, else a note."""
    now, course, ratio = sides.learning_rate_now, sides.rate_course, sides.rate_ratio
    if now <= sides.learning_rate_was:
        return Ruling("note", f"{course}: smaller steps")
    if ratio <= LARGEST_QUIET_RISE or _is_least(now, sides.was.ppo.learning_rate):
        return Ruling(
            "note", f"{course}: every one of {sides.plan_now.gradient_steps:,} steps is {factor(ratio)} as large"
        )
    return Ruling(
        "warn",
        f"{course}: Adam's moments do not soften it, each of the {sides.plan_now.gradient_steps:,} gradient steps per "
        f"update is {larger(ratio)} at once",
        f"rise in several resumes, or bound it with --set {sides.target_kl}",
        (remedies.WARM_UP, remedies.target_kl(sides)),
    )


def total_timesteps(sides: Sides) -> Ruling:
    """More steps are what a resume is for; with a schedule, progress is recomputed and its values jump."""
    total, done = sides.now.run.total_timesteps, sides.facts.timesteps
    if total is None:
        return Ruling("note", "the budget is now run.duration_s")
    was = sides.was.run.total_timesteps
    if sides.facts.finished and was is not None and total <= was:
        least = max(was, done) + sides.rollout_now
        why = f"the run has finished its {was:,} steps, and only a larger total goes on"
        again = _as_long_again(sides, was, done)
        rollout = remedies.nearest_value("run.total_timesteps", least, f"{least:,} steps in all: one rollout more")
        return Ruling("refuse", why, f"the nearest valid value is {least}", (again, rollout))
    if total <= done:
        least = done + sides.rollout_now
        why = f"{done:,} steps are done already"
        return Ruling(
            "refuse",
            why,
            f"the nearest valid value is {least}",
            (remedies.nearest_value("run.total_timesteps", least),),
        )
    return _jumps(sides, f"{total - done:,} steps remain")


def duration(sides: Sides) -> Ruling:
    """More time, unless the run has used up as much already."""
    was, now = sides.was.run.duration_s, sides.now.run.duration_s
    if now is None:
        return Ruling("note", "the budget is now run.total_timesteps")
    if sides.facts.finished and was is not None and now <= was:
        again = Remedy("as-long-again", f"{2 * was:g} s in all: {_span(was)} more", (f"run.duration_s={2 * was:g}",))
        return Ruling(
            "refuse", f"finished after {was:g} s; only a longer duration goes on", f"more than {was:g}", (again,)
        )
    return _jumps(sides, f"the budget is {now:g} s")


def clip_range(sides: Sides) -> Ruling:
    """Another trust region: KL is read relative to it."""
    was = sides.value_at_resume(sides.was.ppo.clip_range, sides.was)
    now = sides.value_at_resume(sides.now.ppo.clip_range, sides.now)
    if abs(now - was) <= _ROUNDED * was or _is_least(now, sides.was.ppo.clip_range):
        return Ruling("note", f"{was:.3g} -> {now:.3g} at this point: it goes on from where it stands")
    return Ruling(
        "warn",
        f"{was:.3g} -> {now:.3g} at this point: KL of {was * was / 2:.2g} was one unit of trust region, now "
        f"{now * now / 2:.2g} is; the windows of the health rules start anew",
    )


def gamma(sides: Sides) -> Ruling:
    """Another horizon: the value network has learned other targets."""
    was, now = _horizon(sides.was.ppo.gamma), _horizon(sides.now.ppo.gamma)
    return Ruling(
        "warn",
        f"the horizon goes from {was} to {now} steps, so value targets change scale: expect explained variance to dip",
        "evaluate before and after",
    )


def gae_lambda(sides: Sides) -> Ruling:
    """Another mixture of returns and values in the targets."""
    more = (
        "more noise and less bias" if sides.now.ppo.gae_lambda > sides.was.ppo.gae_lambda else "less noise, more bias"
    )
    return Ruling("warn", f"value targets and advantages get {more}: expect explained variance to dip")


def target_kl(sides: Sides) -> Ruling:
    """Where updates stop early."""
    was, now = sides.was.ppo.target_kl, sides.now.ppo.target_kl
    if now is None:
        return Ruling("note", "updates no longer end early")
    sooner = "sooner" if was is None or now < was else "later"
    return Ruling("note", f"updates end {sooner}, at a KL of {1.5 * now:.2g}")


def _as_long_again(sides: Sides, was: int, done: int) -> Remedy:
    """The budget once more, and about how long that takes where the speed of the last updates is known."""
    total = max(was, done) + was
    speed = sides.facts.steps_per_s
    price = f", about {_span(was / speed)} at its last speed" if speed else ""
    return Remedy("as-long-again", f"{total:,} steps in all: {was:,} more{price}", (f"run.total_timesteps={total}",))


def _span(seconds: float) -> str:
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} minutes" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} hours"


def _is_least(value: float, was: float | Schedule) -> bool:
    """Whether `value` is no more than what a schedule goes on with once it has decayed to 0."""
    return isinstance(was, Schedule) and was.end == 0.0 and value <= LEAST_SHARE * was.start * (1.0 + _ROUNDED)


def _horizon(gamma: float) -> str:
    return "unlimited" if gamma == 1.0 else f"{1 / (1 - gamma):,.0f}"


def _jumps(sides: Sides, budget: str) -> Ruling:
    """The ruling on a new budget: whatever follows a schedule jumps, because its progress is recomputed."""
    jumps: list[str] = []
    pins: list[str] = []
    stays: list[str] = []
    (table, of_was), (_, of_now) = learning_table(sides.was), learning_table(sides.now)
    for name in ("learning_rate", "clip_range", "clip_range_vf"):
        was, now = getattr(of_was, name, None), getattr(of_now, name, None)
        if not isinstance(now, Schedule) or was != now:
            continue
        before, after = sides.value_at_resume(now, sides.was), sides.value_at_resume(now, sides.now)
        jumps.append(f"{table}.{name} {before:.3g} -> {after:.3g}")
        word, kept = _pin(sides, f"{table}.{name}", now, before)
        pins.append(word)
        stays.append(f"{table}.{name} {kept:.3g}")
    if not jumps:
        return Ruling("note", budget)
    why = f"{budget}; progress is recomputed from it and schedules jump: {', '.join(jumps)}"
    pin = Remedy("pin-schedule", f"schedules go on from where they stand: {', '.join(stays)}", tuple(pins))
    words = " and ".join(f"--set {word}" for word in pins)
    return Ruling("warn", why, words, (pin,))


def _pin(sides: Sides, key: str, schedule: Schedule, before: float) -> tuple[str, float]:
    """The assignment with which a schedule goes on from the value it has `before`, to the same end; and that value.

    One that has reached its end, or whose progress is not known, goes on as a constant.
    """
    total = sides.now.run.total_timesteps
    if total is None or before == schedule.end:
        kept = before or schedule.start * LEAST_SHARE
        return f"{key}={kept:.4g}", kept
    remaining = 1.0 - sides.facts.timesteps / total
    return f"{key}.start={schedule.end + (before - schedule.end) / remaining:.4g}", before


def normalizer(env: EnvSpec) -> Normalize | None:
    """The normaliser that `env` asks for: True means the default one, False none."""
    if isinstance(env.normalize, Normalize):
        return env.normalize
    return Normalize() if env.normalize else None


def normalize(sides: Sides) -> Ruling:
    """Statistics that appear or vanish change every input of the network, unless they are of rewards alone."""
    was, now = normalizer(sides.was.env), normalizer(sides.now.env)
    if was is None and now is not None and not now.obs:
        return Ruling("warn", "rewards are normalized from here on: the value function has to learn their new scale")
    if was is None or now is None:
        what = "added" if was is None else "missing"
        why = f"the normalizer is {what}: the network would see inputs it was never trained on"
        return Ruling("refuse", why, "leave env.normalize as it was", override=True)
    if (was.obs, was.reward) != (now.obs, now.reward):
        return Ruling(
            "refuse",
            "inputs or value targets change scale at once",
            f"restore obs = {str(was.obs).lower()}, reward = {str(was.reward).lower()}",
            override=True,
        )
    return Ruling("warn", "normalized values are clipped at other limits from here on")


def policy_kwargs(sides: Sides) -> Ruling:
    """Arguments that shape the network refuse; those of the optimizer warn; those used only at birth do nothing."""
    was, now = sides.was.ppo.policy_kwargs, sides.now.ppo.policy_kwargs
    changed = {name for name in {*was, *now} if was.get(name) != now.get(name) or (name in was) != (name in now)}
    if changed <= AT_BIRTH:
        return Ruling("note", "used only when a network is made, so it changes nothing here")
    if changed <= AT_BIRTH | OPTIMIZER:
        why = "Adam's moments mean nothing to another optimizer: its first 1,000 gradient steps start from wrong ones"
        return Ruling("warn", why, f"--set {sides.target_kl}", (remedies.RESET_ADAM,))
    why = "the network's shape or function changes, so its weights do not fit"
    return Ruling("refuse", why, NEW_RUN, (BRANCH,))


def collapsed(sides: Sides) -> Ruling:
    """A policy that was frozen or collapsed where the checkpoint was taken: no log seen ever recovered from it."""
    why = f"the policy had stopped learning here ({sides.facts.collapsed}); no recorded run recovered from it"
    return Ruling("refuse", why, "resume from an earlier checkpoint: --checkpoint NAME", override=True)


def precision(sides: Sides) -> Ruling:
    """What is kept is float32 on both sides, so weights and moments fit; what is computed of them differs."""
    where = "to 8 bits" if sides.now.run.precision == "bf16" else "to 24 bits again"
    return Ruling("note", f"continued, not exact: layers round {where}; weights and Adam's moments stay float32")


def tf32(sides: Sides) -> Ruling:
    """TF32 exists on CUDA only, so between two attempts on a CPU the switch does nothing."""
    if sides.was.run.device == sides.now.run.device == "cpu":
        return Ruling("safe", "TF32 exists on CUDA only, so on a CPU it changes nothing")
    return NOT_EXACT(sides)


_BEGIN_ANEW = "start a new run"
_SHAPES = always("refuse", "the weights of the checkpoint do not fit", _BEGIN_ANEW, BRANCH)
_NEXT_STEP = always("note", "takes effect at the next gradient step")
_BEGINS_EMPTY = "the replay buffer begins empty: it collects before it learns again"


def _learning_rate_of_others(sides: Sides) -> Ruling:
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


def _gamma_of_others(sides: Sides) -> Ruling:
    was, now = (_horizon(discount_of(spec) or 0.0) for spec in (sides.was, sides.now))
    return Ruling(
        "warn",
        f"the horizon goes from {was} to {now} steps, so value targets change scale: expect the critic's loss to jump",
        "evaluate before and after",
    )


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


def _ent_coef_of_others(sides: Sides) -> Ruling:
    was, now = (getattr(learning_table(spec)[1], "ent_coef", None) for spec in (sides.was, sides.now))
    if isinstance(was, str) != isinstance(now, str):
        why = "a coefficient that is learned is part of the checkpoint, and a fixed one is not"
        return Ruling("refuse", why, _BEGIN_ANEW, (BRANCH,))
    if isinstance(now, str):
        return Ruling("note", "used only when a training begins, so it changes nothing here")
    return Ruling("note", "other weights in the loss; losses are not comparable with those before")


def _n_envs_of_others(sides: Sides) -> Ruling:
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


_OF_OTHERS: Mapping[str, Rule] = {
    "policy": _SHAPES,
    "net_arch": _SHAPES,
    "policy_kwargs": _SHAPES,
    "use_sde": _SHAPES,
    "learning_rate": _learning_rate_of_others,
    "gamma": _gamma_of_others,
    "buffer_size": _buffer_size,
    "optimize_memory_usage": always("warn", f"continued, not exact: {_BEGINS_EMPTY}"),
    "ent_coef": _ent_coef_of_others,
    "target_entropy": always("warn", "the entropy that the policy is held to changes, and the coefficient follows"),
    "batch_size": always("note", "Adam's moments belong to other minibatches; they adapt in about 1,000 steps"),
    "learning_starts": always("note", "counted from the first step of the run; it matters only before that"),
    "stats_window_size": always("note", "ep_rew_mean averages over another number of episodes"),
    "action_noise": always("note", "experience is collected with other noise from here on"),
    "normalize_advantage": always("warn", "the policy gradient changes scale, and the moments need to adapt"),
    "use_rms_prop": _SHAPES,
}


def _n_steps_of_others(sides: Sides) -> Ruling:
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


def _rule_of_others(table: str, name: str) -> Rule:
    if table == "ars":
        return _OF_SEARCH.get(name) or (_SHAPES if _OF_OTHERS.get(name) is _SHAPES else _NEXT_ITERATION)
    return _n_steps_of_others if name == "n_steps" else _OF_OTHERS.get(name, _NEXT_STEP)


RULES_OF_OTHERS: Mapping[str, Rule] = {
    f"{table}.{field}": _rule_of_others(table, field)
    for table, it in OTHERS.items()
    for field in it.table.__struct_fields__
}


def begins_empty(sides: Sides) -> Ruling | None:
    """The ruling where the replay buffer is not in the checkpoint; None where it is, or none is needed."""
    if replay_buffer_of(sides.now) is None or sides.facts.replay_kept is not False:
        return None
    return Ruling("note", f"continued, not exact: it was not kept, so {_BEGINS_EMPTY}")
