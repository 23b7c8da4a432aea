"""Both sides of a resume, the spec that was and the one that would be, with the numbers that rulings are made of; and
what helps against a change, as remedies that can be carried out: by `--set` words, on terms, or as a branch. Carrying
them out is done on paper, from a requested spec and what a person chose to the spec and terms that result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, structs

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.resume.verdict import AS_IT_WAS, WARM_UP_UPDATES, Grade, Remedy, ResumeVerdict, Terms
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.sizes import FEWEST_EPOCHS, BatchPlan, nearby_divisors, plan_batch
from mission_tui.fleet.specs.spec import Schedule, Spec, rollout_size

LARGEST_QUIET_RISE = 2.0
"""Of a learning rate at once, without a warning."""
MOMENT_STEPS = 1000
"""How far back Adam's second moment reaches, in gradient steps: 1 / (1 - 0.999)."""


class ResumeFacts(Struct, frozen=True):
    """What is known of the run besides its specs. None is unknown.

    `timesteps` are those of the checkpoint, `finished` says that the run used up its budget, the spaces are their
    printed forms, `steps_per_s` is the speed of its last updates, `grad_clipped_share` (0..1) is the share of gradients
    that ``max_grad_norm`` clipped lately, `replay_kept` says whether the checkpoint has its replay buffer, and
    `collapsed` is the sentence of the finding by which the checkpoint's policy was frozen or collapsed.
    """

    timesteps: int
    finished: bool = False
    obs_space_was: str | None = None
    obs_space_now: str | None = None
    act_space_was: str | None = None
    act_space_now: str | None = None
    steps_per_s: float | None = None
    grad_clipped_share: float | None = None
    collapsed: str | None = None
    replay_kept: bool | None = None


class Ruling(Struct, frozen=True):
    """What one rule says about one changed field."""

    grade: Grade
    why: str
    remedy: str = ""
    remedies: tuple[Remedy, ...] = ()
    override: bool = False
    answered_by: str = ""


class Sides(Struct, frozen=True):
    """The spec that `was` and the one that is asked for `now`, with the plans of their updates."""

    was: Spec
    now: Spec
    facts: ResumeFacts
    plan_was: BatchPlan
    plan_now: BatchPlan
    terms: Terms = AS_IT_WAS

    @classmethod
    def of(cls, was: Spec, now: Spec, facts: ResumeFacts, terms: Terms = AS_IT_WAS) -> Sides:
        """The sides with their plans worked out; `terms` are those that were chosen already."""
        return cls(was, now, facts, plan_batch(was), plan_batch(now), terms)

    @property
    def rollout_was(self) -> int:
        return rollout_size(self.was)

    @property
    def rollout_now(self) -> int:
        return rollout_size(self.now)

    @property
    def steps_change(self) -> str:
        """Gradient steps per update on both sides, in words."""
        was, now = self.plan_was.gradient_steps, self.plan_now.gradient_steps
        if was == now:
            return f"{now:,} gradient steps per update as before"
        ratio = f"{factor(now / was)} gradient steps" if now > was else "fewer gradient steps"
        return f"{ratio} per update ({was:,} -> {now:,})"

    @property
    def moments_in_updates(self) -> str:
        """How long Adam's moments remember, counted in updates of the new kind."""
        updates = MOMENT_STEPS / self.plan_now.gradient_steps
        return f"about 1,000 gradient steps ({updates:,.0f} updates)" if updates >= 2 else "about 1,000 gradient steps"

    def value_at_resume(self, value: float | Schedule, spec: Spec) -> float:
        """What a constant or schedule of `spec` is worth at the checkpoint; a timed schedule's progress is not known,
        so its start is taken."""
        if not isinstance(value, Schedule):
            return value
        total = spec.run.total_timesteps
        remaining = 1.0 if total is None else max(0.0, 1.0 - self.facts.timesteps / total)
        return value.end + remaining * (value.start - value.end)

    @property
    def learning_rate_was(self) -> float:
        return self.value_at_resume(learning_table(self.was)[1].learning_rate, self.was)

    @property
    def learning_rate_now(self) -> float:
        return self.value_at_resume(learning_table(self.now)[1].learning_rate, self.now)

    @property
    def rate_course(self) -> str:
        """How the learning rate changes, in words."""
        return f"{self.learning_rate_was:.3g} -> {self.learning_rate_now:.3g} at this point"

    @property
    def rate_ratio(self) -> float:
        """How many times as large the learning rate is; infinite where it had decayed to 0."""
        return self.learning_rate_now / self.learning_rate_was if self.learning_rate_was > 0.0 else math.inf

    def scaled_learning_rate(self, scale: float) -> tuple[str, ...]:
        """The assignments for `scale` times the learning rate, of a schedule for both its ends."""
        rate = self.now.ppo.learning_rate
        if not isinstance(rate, Schedule):
            return (f"ppo.learning_rate={scale * rate:.4g}",)
        start = f"ppo.learning_rate.start={scale * rate.start:.4g}"
        return (start, f"ppo.learning_rate.end={scale * rate.end:.4g}") if rate.end > 0.0 else (start,)

    @property
    def target_kl(self) -> str:
        """The assignment for 1.5 x clip_range^2 / 2, or for the target that holds already where that is no higher."""
        # A clip range that only jumps with the budget counts as it was: the jump has a remedy of its own.
        spec = self.was if self.was.ppo.clip_range == self.now.ppo.clip_range else self.now
        clip = self.value_at_resume(spec.ppo.clip_range, spec)
        level, held = float(f"{max(0.75 * clip * clip, 1e-6):.2g}"), self.now.ppo.target_kl
        return f"ppo.target_kl={level if held is None else min(level, held):g}"


Rule = Callable[[Sides], Ruling]


def always(grade: Grade, why: str, remedy: str = "", *remedies: Remedy, override: bool = False) -> Rule:
    """A rule that says the same whatever the numbers are."""
    ruling = Ruling(grade, why, remedy, remedies, override)
    return lambda _sides: ruling


def factor(ratio: float) -> str:
    """``8 x`` or ``1.5 x``."""
    return f"{ratio:.3g} x"


def larger(ratio: float) -> str:
    """``8 x larger``, also than nothing."""
    return f"{factor(ratio)} larger" if math.isfinite(ratio) else "larger (it had decayed to 0)"


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
