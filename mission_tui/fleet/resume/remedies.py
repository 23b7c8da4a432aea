"""What helps against a change of a resume, as remedies that can be carried out: by `--set` words, on terms, or as a
branch. Carrying them out is done on paper, from a requested spec and what a person chose to the spec and terms that
result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.resume.sides import MOMENT_STEPS, Sides, factor
from mission_tui.fleet.resume.verdict import AS_IT_WAS, WARM_UP_UPDATES, Remedy, ResumeVerdict, Terms
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.sizes import FEWEST_EPOCHS, nearby_divisors
from mission_tui.fleet.specs.spec import Spec

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
_NO_SLOWER = 0.999
"""Learning rates are written with four digits; what is left by rounding is no reason to write another."""
_BUDGETS = ("run.total_timesteps", "run.duration_s")


def remedy_text(remedy: Remedy) -> str:
    """The remedy as the `--set` words that one would type, or in its own words."""
    return " ".join(f"--set {assignment}" for assignment in remedy.assignments) or remedy.what


def keep_minibatch(sides: Sides) -> Remedy:
    """The old minibatch size, with no more gradient steps than before or smaller ones."""
    kept = sides.plan_was.batch_size
    words, what = _held_steps(sides, math.ceil(sides.rollout_now / kept))
    return Remedy("keep-minibatch", f"minibatches stay at {kept:,}, {what}", (f"ppo.batch_size={kept}", *words))


def hold_steps(sides: Sides) -> Remedy:
    """As many gradient steps per update as before, by epochs; where those are too few already, by the learning rate.

    Everything is worked out from the run as it was, so that what was held once is not held again.
    """
    was, now = sides.plan_was, sides.plan_now
    if sides.rollout_now >= sides.rollout_was:
        words, what = _held_steps(sides, now.minibatches)
        return Remedy("hold-steps", what, words or (_epochs(now.n_epochs),))
    epochs = max(now.n_epochs, min(was.gradient_steps // now.minibatches, 2 * was.n_epochs))
    return Remedy("hold-steps", f"{now.minibatches * epochs:,} gradient steps per update", (_epochs(epochs),))


def _held_steps(sides: Sides, minibatches: int) -> tuple[tuple[str, ...], str]:
    """The assignments that bring so many minibatches to the old gradient steps, and what comes of them in words."""
    was, now = sides.plan_was.gradient_steps, sides.plan_now.n_epochs
    epochs = min(now, max(FEWEST_EPOCHS, round(was / minibatches)))
    steps = minibatches * epochs
    words, what = ((_epochs(epochs),) if epochs < now else ()), f"{steps:,} gradient steps per update"
    if steps <= was or sides.learning_rate_now <= 0.0:
        return words, what
    scale = was / steps * sides.learning_rate_was / sides.learning_rate_now
    slower = sides.scaled_learning_rate(scale)
    if scale > _NO_SLOWER:
        # Slow enough: what it was slowed down to belongs to the remedy, so that taking it is seen.
        slowed = sides.learning_rate_now < _NO_SLOWER * sides.learning_rate_was
        slower = sides.scaled_learning_rate(1.0) if slowed else ()
    return (*words, *slower), f"{what}, each {factor(was / steps)} as large"


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


class ResumeTarget(Struct, frozen=True):
    """What a resume is to be: its spec, and the terms on which it goes on."""

    spec: Spec
    terms: Terms = AS_IT_WAS


def apply_remedy(was: Spec, target: ResumeTarget, field: str, remedy: Remedy) -> ResumeTarget:
    """`target` with the `remedy` of `field` carried out. A branch is a run of its own and changes nothing here.

    Raises `PresetError` for words that fit no field.
    """
    spec = target.spec
    if remedy.name == "restore":
        spec = restore_field(was, spec, field)
    elif remedy.assignments:
        spec = draft_change(spec, remedy.assignments)
    return ResumeTarget(spec, target.terms.joined(remedy.terms))


def restore_field(was: Spec, now: Spec, field: str) -> Spec:
    """`now` with `field` as it was; a budget is restored whole, be it in steps or seconds."""
    for name in _BUDGETS if field in _BUDGETS else (field,):
        table, _, key = name.partition(".")
        ours = structs.replace(getattr(now, table), **{key: getattr(getattr(was, table), key)})
        now = structs.replace(now, **{table: ours})
    return now


def chosen_remedies(verdict: ResumeVerdict, words: Sequence[str]) -> tuple[tuple[str, Remedy], ...]:
    """The remedies that `words` name, with their fields: ``NAME`` those of every change, ``NAME:FIELD`` one of them.

    Raises `UsageError` for a word that names none, with the nearest that is offered.
    """
    offered = list(_offered(verdict))
    found: dict[tuple[str, str], Remedy] = {}
    for word in words:
        name, _, field = word.partition(":")
        matching = [(at, it) for at, it in offered if it.name == name and field in ("", at)]
        if not matching:
            names = dict.fromkeys(known for at, it in offered for known in (it.name, f"{it.name}:{at}"))
            shown = ", ".join(dict.fromkeys(it.name for _, it in offered)) or "none"
            raise UsageError(f"no remedy '{word[:60]}' is offered here{nearest(word, names)}; offered: {shown}")
        found |= {(at, it.name): it for at, it in matching}
    return tuple((field, remedy) for (field, _), remedy in found.items())


def overriding(verdict: ResumeVerdict, fields: Sequence[str]) -> Terms:
    """The terms that override the refusals of `fields`. Raises `UsageError` for one that cannot be overridden."""
    refused = {change.name: change for change in verdict.changes if change.grade == "refuse"}
    for field in fields:
        change = refused.get(field)
        if change is None:
            raise UsageError(f"--override {field[:60]}: it is not refused; refused: {', '.join(refused) or 'nothing'}")
        if not change.override:
            raise UsageError(f"--override {field}: this refusal stands, because {change.why}")
    return Terms(overridden=tuple(dict.fromkeys(fields)), fresh_normalizer="env.normalize" in fields)


def _offered(verdict: ResumeVerdict) -> Iterator[tuple[str, Remedy]]:
    for change in verdict.changes:
        yield from ((change.name, remedy) for remedy in change.remedies)
