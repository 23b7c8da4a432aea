"""Rulings on single fields: how much is collected per update and how it is cut (`n_envs`, `n_steps`, `batch_size`,
`n_epochs`), what is optimised and how hard (learning rate, budget and schedules, clipping, returns, coefficients), what
makes a run the run it is (its task, its network and what that is fed), and how numbers are computed.

Of the rollout it matters what a change does to the number of gradient steps per update and to Adam's moments.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from mission_tui.fleet.resume import remedies, sb3_rulings
from mission_tui.fleet.resume.sides import LARGEST_QUIET_RISE, LEAST_SHARE, Ruling, Sides, always, factor, larger
from mission_tui.fleet.resume.verdict import Remedy
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.sizes import nearby_divisors
from mission_tui.fleet.specs.spec import EnvSpec, Normalize, Schedule, Spec, other_settings

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
        return sb3_rulings.n_envs(sides)
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
        return Ruling("refuse", why, f"the nearest valid value is {least}", (_steps(least),))
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
    was, now = _horizon(sides.was), _horizon(sides.now)
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


def _steps(least: int) -> Remedy:
    return remedies.nearest_value("run.total_timesteps", least)


def _is_least(value: float, was: float | Schedule) -> bool:
    """Whether `value` is no more than what a schedule goes on with once it has decayed to 0."""
    return isinstance(was, Schedule) and was.end == 0.0 and value <= LEAST_SHARE * was.start * (1.0 + _ROUNDED)


def _horizon(spec: Spec) -> str:
    return "unlimited" if spec.ppo.gamma == 1.0 else f"{1 / (1 - spec.ppo.gamma):,.0f}"


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
    return Ruling("refuse", why, NEW_RUN, (remedies.BRANCH,))


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
