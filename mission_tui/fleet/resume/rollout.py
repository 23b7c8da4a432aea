"""Rulings on how much is collected per update and how it is cut: `n_envs`, `n_steps`, `batch_size`, `n_epochs`.

What matters is what a change does to the number of gradient steps per update and to Adam's moments.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mission_tui.fleet.resume import remedies
from mission_tui.fleet.resume.sides import Ruling, Sides, factor
from mission_tui.fleet.specs.sizes import nearby_divisors

QUIET_RATIO = 1.5
"""Of minibatch sizes: Adam's steps are off by its square root, 1.2 x, while a learning rate may double quietly."""
RARELY = 0.5
NEARLY_ALWAYS = 0.9


def n_envs(sides: Sides) -> Ruling:
    """Another number of environments: another rollout, or the same one in other chunks."""
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
