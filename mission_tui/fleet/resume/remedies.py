"""What helps against a change, as remedies that can be carried out: by `--set` words, on terms, or as a branch."""

from __future__ import annotations

import math

from mission_tui.fleet.resume.sides import MOMENT_STEPS, Sides, factor
from mission_tui.fleet.resume.terms import WARM_UP_UPDATES, Terms
from mission_tui.fleet.resume.verdict import Remedy
from mission_tui.fleet.specs.divisors import nearby_divisors
from mission_tui.fleet.specs.sizes import FEWEST_EPOCHS

__all__ = [
    "BRANCH",
    "RESET_ADAM",
    "WARM_UP",
    "hold_steps",
    "keep_minibatch",
    "nearest_batch",
    "nearest_value",
    "remedy_text",
    "scale_lr",
    "target_kl",
]

BRANCH = Remedy("branch", "a new run that begins with these weights where their shapes fit")
RESET_ADAM = Remedy(
    "reset-adam",
    f"Adam begins anew, the learning rate warms up over {WARM_UP_UPDATES} updates",
    terms=Terms(fresh_optimizer=True, warm_up_updates=WARM_UP_UPDATES),
)
WARM_UP = Remedy(
    "warm-up",
    f"the learning rate warms up over {WARM_UP_UPDATES} updates",
    terms=Terms(warm_up_updates=WARM_UP_UPDATES),
)


def remedy_text(remedy: Remedy) -> str:
    """The remedy as the `--set` words that one would type, or in its own words."""
    return " ".join(f"--set {assignment}" for assignment in remedy.assignments) or remedy.what


def keep_minibatch(sides: Sides) -> Remedy:
    """The old minibatch size and, as nearly as epochs allow, the old gradient steps."""
    kept = sides.plan_was.batch_size
    minibatches = math.ceil(sides.rollout_now / kept)
    epochs = max(FEWEST_EPOCHS, round(sides.plan_was.gradient_steps / minibatches))
    fewer = (f"ppo.n_epochs={epochs}",) if epochs < sides.plan_now.n_epochs else ()
    steps = minibatches * (epochs if fewer else sides.plan_now.n_epochs)
    what = f"minibatches stay at {kept:,}, {steps:,} gradient steps per update"
    return Remedy("keep-minibatch", what, (f"ppo.batch_size={kept}", *fewer))


def hold_steps(sides: Sides) -> Remedy:
    """As many gradient steps per update as before, by epochs; where those are too few already, by the learning rate."""
    was, now = sides.plan_was, sides.plan_now
    ratio = now.gradient_steps / was.gradient_steps
    if ratio < 1.0:
        epochs = min(round(now.n_epochs / ratio), 2 * now.n_epochs)
        return Remedy("hold-steps", f"{now.minibatches * epochs:,} gradient steps per update", (_epochs(epochs),))
    epochs = min(now.n_epochs, max(FEWEST_EPOCHS, round(now.n_epochs / ratio)))
    steps = now.minibatches * epochs
    what, slower = f"{steps:,} gradient steps per update", was.gradient_steps / steps
    if slower >= 1.0:
        return Remedy("hold-steps", what, (_epochs(epochs),))
    what = f"{what}, each {factor(slower)} as large"
    return Remedy("hold-steps", what, (_epochs(epochs), *sides.scaled_learning_rate(slower)))


def scale_lr(sides: Sides) -> Remedy:
    """Smaller steps until Adam's second moment belongs to the smaller minibatches: lr x sqrt(new / old)."""
    scale = math.sqrt(sides.plan_now.batch_size / sides.plan_was.batch_size)
    what = f"the learning rate is {factor(scale)} as large for {MOMENT_STEPS:,} gradient steps, then back"
    return Remedy("scale-lr", what, terms=Terms(lr_scale=scale, lr_scale_steps=MOMENT_STEPS))


def target_kl(sides: Sides) -> Remedy:
    """Updates that go too far end early."""
    level = float(sides.target_kl.partition("=")[2])
    return Remedy("target-kl", f"an update ends early at a KL of {1.5 * level:.2g}", (sides.target_kl,))


def nearest_batch(sides: Sides) -> tuple[Remedy, ...]:
    """The divisors of the rollout next to the minibatch size; the nearest one can be taken by name."""
    near = nearby_divisors(sides.rollout_now, sides.plan_now.batch_size)
    fitting = [size for size in near if size >= 2]
    if not fitting:
        return ()
    best = min(fitting, key=lambda size: abs(math.log(size / sides.plan_now.batch_size)))
    return (nearest_value("ppo.batch_size", best, f"minibatches of {best:,} divide the rollout"),)


def nearest_value(name: str, value: int, what: str = "") -> Remedy:
    """The nearest valid value of field `name`."""
    return Remedy("nearest", what or f"{name} = {value:,}, the nearest valid value", (f"{name}={value}",))


def _epochs(count: int) -> str:
    return f"ppo.n_epochs={count}"
