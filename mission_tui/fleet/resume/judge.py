"""The table of rulings, one row per field of a spec, and the verdict that they add up to.

Every difference gets exactly one change; a field without a row does not touch learning. The verdict is as severe as its
most severe change, and an unchanged spec is safe.

What a person chose, word by word, makes the spec and terms of the resume: each choice is offered by the verdict on what
the choices before it made of the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, get_args

from msgspec import Struct, structs
from msgspec.structs import replace

from mission_tui.errors import MissionError
from mission_tui.fleet.resume import rulings
from mission_tui.fleet.resume.remedies import (
    BRANCH,
    RESET_ADAM,
    ResumeTarget,
    apply_remedy,
    chosen_remedies,
    nearest_value,
    overriding,
    restore_field,
)
from mission_tui.fleet.resume.sides import ResumeFacts, Rule, Ruling, Sides, always
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Change, Grade, Remedy, ResumeVerdict, Terms
from mission_tui.fleet.specs.algorithm import algorithm_name, learning_table, towers
from mission_tui.fleet.specs.consistency import LARGEST_ROLLOUT, violations
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.schema import ENGINES, TABLES
from mission_tui.fleet.specs.sizes import BatchPlan, nearby_workers, plan_batch
from mission_tui.fleet.specs.spec import Part, Schedule, Spec, part_words, rollout_size
from mission_tui.fleet.text import clean

_GRAVITY: tuple[Grade, ...] = get_args(Grade)
_OTHER_RETURNS = always(
    "warn",
    "returns are not comparable with those before, and neither are trends across the resume",
    "evaluate before and after",
)
_SHAPELESS = rulings.AT_BIRTH | rulings.OPTIMIZER | {"activation_fn"}
"""Arguments of a policy that change the shape of no layer."""
_WITHOUT_WEIGHTS = "a new run without these weights, of which none fits (clone)"
_SHAPES = always("refuse", "the weights of the checkpoint do not fit", rulings.NEW_RUN, BRANCH)
_COEFFICIENT = always("note", "other weights in the loss; losses are not comparable with those before")
_OTHER_PYTHON = always("note", "continued, not exact: other packages or variables may change the last bits of results")
_KEPT = always("safe", "changes what is kept, not what is learned")

_OTHER_TASK = "another task: observations and rewards mean something else there"

RULES: Mapping[str, Rule] = {
    "env.id": always("refuse", _OTHER_TASK, rulings.NEW_RUN, BRANCH, override=True),
    "env.n_envs": rulings.n_envs,
    "env.vec": rulings.NOT_EXACT,
    "env.n_workers": always("safe", "each environment keeps its state and its seed, whichever process steps it"),
    "env.kwargs": _OTHER_RETURNS,
    "env.config": _OTHER_RETURNS,
    "env.wrappers": _OTHER_RETURNS,
    "env.imports": always("note", "other modules are imported before the environment is made"),
    "env.normalize": rulings.normalize,
    "env.frame_stack": _SHAPES,
    "ppo.algo": always(
        "refuse", "another algorithm needs another network and another environment", rulings.NEW_RUN, BRANCH
    ),
    "ppo.policy": _SHAPES,
    "ppo.n_steps": rulings.n_steps,
    "ppo.batch_size": rulings.batch_size,
    "ppo.n_epochs": rulings.n_epochs,
    "ppo.learning_rate": rulings.learning_rate,
    "ppo.gamma": rulings.gamma,
    "ppo.gae_lambda": rulings.gae_lambda,
    "ppo.clip_range": rulings.clip_range,
    "ppo.clip_range_vf": always("note", "the value network is held closer to, or freer from, its old values"),
    "ppo.normalize_advantage": always(
        "warn",
        "the policy gradient changes scale, and Adam's moments need about 1,000 gradient steps to adapt",
        "",
        RESET_ADAM,
    ),
    "ppo.ent_coef": _COEFFICIENT,
    "ppo.vf_coef": _COEFFICIENT,
    "ppo.max_grad_norm": always("note", "gradients are clipped at another norm; Adam's moments adapt"),
    "ppo.use_sde": always(
        "refuse", "state-dependent exploration changes the policy's shapes and meaning", rulings.NEW_RUN, BRANCH
    ),
    "ppo.sde_sample_freq": always("note", "exploration noise is drawn at another pace"),
    "ppo.target_kl": rulings.target_kl,
    "ppo.stats_window_size": always("note", "ep_rew_mean averages over another number of episodes"),
    "ppo.net_arch": _SHAPES,
    "ppo.policy_kwargs": rulings.policy_kwargs,
    "run.algo": always("refuse", "another algorithm learns other networks by other losses", rulings.NEW_RUN, BRANCH),
    **rulings.RULES_OF_OTHERS,
    "run.total_timesteps": rulings.total_timesteps,
    "run.duration_s": rulings.duration,
    "run.seed": always("note", "other starts from here on; the same seed would replay the first attempt's starts"),
    "run.device": rulings.NOT_EXACT,
    "run.threads": rulings.NOT_EXACT,
    "run.auto_scale": always("note", "changes who chooses batch size and epochs; changed sizes are listed separately"),
    "run.engine": always(
        "note", "continued, not exact: the engines compute the same numbers and round them differently"
    ),
    "run.precision": rulings.precision,
    "run.compile": always("note", "continued, not exact: compiled sums are rounded in another order"),
    "run.tf32": rulings.tf32,
    "run.python": _OTHER_PYTHON,
    "run.cwd": always("note", "relative paths mean other files from here on"),
    "run.env": _OTHER_PYTHON,
    "run.env_file": _OTHER_PYTHON,
    "run.pythonpath": _OTHER_PYTHON,
    **dict.fromkeys(("evaluate.every", "evaluate.episodes", "evaluate.deterministic", "evaluate.share"), _KEPT),
    "run.grace_s": _KEPT,
    "run.launcher": always("note", "it goes on elsewhere; what it trains with stays"),
    **{
        f"{engine}.{field.name}": always("safe", "changes where the next job runs, not what is learned")
        for engine in ENGINES
        for field in TABLES[engine].fields
    },
    "run.follow": _KEPT,
    "run.track": _KEPT,
    "run.track_checkpoints": _KEPT,
    "run.goal": always("note", "it is held against another goal; what it learns stays"),
    "run.preload": always("safe", "changes how its processes are started, not what is learned"),
    "run.callbacks": always(
        "note", "other callbacks are called from here on; one of the same class in the same place goes on counting"
    ),
    "run.values": always("refuse", "they fill a command, and this run is a training"),
    "run.resume_command": always("refuse", "it resumes a command, and this run is a training"),
    "run.command": always("refuse", "a command cannot go on from a checkpoint of the trainer", rulings.NEW_RUN),
}


def judge_resume(was: Spec, now: Spec, facts: ResumeFacts, terms: Terms = AS_IT_WAS) -> ResumeVerdict:
    """The verdict on going on with `now` on `terms` where a run of `was` stands at `facts`.

    Each change carries the remedies that can be carried out and leave the verdict no more severe than it is.
    """
    verdict = _judged(Sides.of(was, now, facts, terms))
    changes = (_with_offers(was, ResumeTarget(now, terms), facts, verdict.grade, change) for change in verdict.changes)
    return structs.replace(verdict, changes=tuple(changes))


def _judged(sides: Sides) -> ResumeVerdict:
    changes = tuple(_changes(sides))
    grade: Grade = max((change.grade for change in changes), key=_GRAVITY.index, default="safe")
    return ResumeVerdict(grade, changes)


def _with_offers(was: Spec, target: ResumeTarget, facts: ResumeFacts, grade: Grade, change: Change) -> Change:
    """`change` with those of its remedies that help, and with going back to the old value where that helps."""
    if change.name == "run.algo":
        return change  # settings of the other one went with it, and only a new run has some
    offers, severe = change.remedies, _GRAVITY.index(change.grade) >= _GRAVITY.index("warn")
    if severe and change.name in RULES and restore_field(was, target.spec, change.name) != target.spec:
        offers = (*offers, Remedy("restore", f"{change.name} stays as it was"))
    if BRANCH in offers and not weights_may_fit(was, target.spec):
        change = structs.replace(change, remedy=_WITHOUT_WEIGHTS)
        offers = tuple(it for it in offers if it != BRANCH)
    return structs.replace(change, remedies=tuple(it for it in offers if _helps(was, target, facts, grade, change, it)))


def _helps(was: Spec, target: ResumeTarget, facts: ResumeFacts, grade: Grade, change: Change, remedy: Remedy) -> bool:
    if remedy.name == "branch":
        return True
    try:
        better = apply_remedy(was, target, change.name, remedy)
    except MissionError:
        return False
    if better == target:
        return False
    after = _judged(Sides.of(was, better.spec, facts, better.terms))
    if _GRAVITY.index(after.grade) > _GRAVITY.index(grade):
        return False
    own = next((it.grade for it in after.changes if it.name == change.name), "safe")
    return _GRAVITY.index(own) < max(_GRAVITY.index(change.grade), _GRAVITY.index("warn"))


def _changes(sides: Sides) -> Iterator[Change]:
    contradictions = {violation.keys[0]: violation.sentence for violation in violations(sides.now)}
    before, after = _values(sides.was, sides.plan_was), _values(sides.now, sides.plan_now)
    for name, value in after.items():
        if name not in before:
            continue  # of another algorithm, which is refused by its own row
        if name in contradictions:
            ruling = Ruling("refuse", contradictions[name], remedies=_nearest(sides.now, name))
        elif before[name] != value or _forced(sides, name):
            ruling = _settled(sides, name, RULES.get(name, _KEPT)(sides))
        else:
            continue
        yield Change(
            name,
            _said(before[name]),
            _said(value),
            ruling.grade,
            ruling.why,
            ruling.remedy,
            ruling.remedies,
            ruling.override and ruling.grade == "refuse",
            ruling.answered_by,
        )
    if sides.was.run.algo == sides.now.run.algo:
        yield from _without_effect(sides, {name: it for name, it in contradictions.items() if name not in after})
    yield from _spaces(sides.facts)
    if (empty := rulings.begins_empty(sides)) is not None:
        yield Change("replay buffer", "not in the checkpoint", "empty", empty.grade, empty.why)
    if sides.facts.collapsed is not None:
        ruling = _settled(sides, "policy", rulings.collapsed(sides))
        override = ruling.grade == "refuse"
        yield Change("policy", "alive", "collapsed", ruling.grade, ruling.why, ruling.remedy, override=override)


def _settled(sides: Sides, name: str, ruling: Ruling) -> Ruling:
    """The ruling as it is once a person has overridden it by name, or has chosen a remedy that answers it."""
    terms = sides.terms
    if ruling.grade == "refuse" and ruling.override and name in terms.overridden:
        return Ruling("warn", f"overridden: {ruling.why}", ruling.remedy)
    if ruling.grade != "warn":
        return ruling if ruling.grade == "refuse" else replace(ruling, remedies=())
    taken = [remedy for remedy in ruling.remedies if _is_taken(sides, remedy)]
    if not taken:
        return ruling
    # What eases a training in is chosen once; settings that help besides, such as a target KL, stay on offer.
    eased = any(remedy.terms != AS_IT_WAS for remedy in taken)
    besides = tuple(it for it in ruling.remedies if it not in taken and not (eased and it.terms != AS_IT_WAS))
    why = f"answered by {taken[0].name} ({taken[0].what}): {ruling.why}"
    return Ruling("note", why, remedies=besides, answered_by=taken[0].name)


def _is_taken(sides: Sides, remedy: Remedy) -> bool:
    """Whether `remedy` was chosen: its terms hold, and what it assigns is asked for and was not so before."""
    if not remedy.assignments:
        return remedy.terms != AS_IT_WAS and sides.terms.covers(remedy.terms)
    fields = {".".join(word.partition("=")[0].split(".")[:2]) for word in remedy.assignments}
    was, now = _values(sides.was, sides.plan_was), _values(sides.now, sides.plan_now)
    try:
        after = draft_change(sides.now, remedy.assignments)
    except MissionError:
        return False
    return _values(after, plan_batch(after)) == now and any(was[name] != now[name] for name in fields)


def _without_effect(sides: Sides, contradictions: Mapping[str, str]) -> Iterator[Change]:
    """What is now set in a table that trains nothing here, such as PPO's of a run of SAC: it would do nothing."""
    old = {violation.keys[0] for violation in violations(sides.was)}
    for name, sentence in contradictions.items():
        if name not in old:
            before, now = (_looked_up(spec, name) for spec in (sides.was, sides.now))
            yield Change(name, _said(before), _said(now) if "." in name else "set", "refuse", sentence)


def _looked_up(spec: Spec, name: str) -> Any:
    value: Any = spec
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _values(spec: Spec, plan: BatchPlan) -> dict[str, Any]:
    """Every field by its dotted name, as it takes effect: chosen sizes as numbers, the normalizer as what it is,
    one frame where none are stacked.
    """
    learning, settings = learning_table(spec)
    values = {
        f"{table}.{field.name}": getattr(settings if table == learning else getattr(spec, table), field.name)
        for table, struct in TABLES.items()
        if table == learning or (table != "ppo" and table not in OTHERS)
        for field in struct.fields
    }
    effective = {
        **({"ppo.batch_size": plan.batch_size, "ppo.n_epochs": plan.n_epochs} if learning == "ppo" else {}),
        "run.algo": spec.run.algo or "ppo",
        "env.normalize": rulings.normalizer(spec.env),
        "env.frame_stack": spec.env.frame_stack or 1,
    }
    return values | effective


def _forced(sides: Sides, name: str) -> bool:
    """Whether an unchanged field must be ruled on: a batch that no longer divides, a budget that is used up."""
    run, done = sides.now.run, sides.facts.timesteps
    match name:
        case "ppo.batch_size":
            left = sides.rollout_now % sides.plan_now.batch_size
            return left > 0 and sides.rollout_was != sides.rollout_now
        case "run.total_timesteps":
            return run.total_timesteps is not None and (sides.facts.finished or run.total_timesteps <= done)
        case "run.duration_s":
            return run.duration_s is not None and sides.facts.finished
        case _:
            return False


def _spaces(facts: ResumeFacts) -> Iterator[Change]:
    pairs = {
        "observation space": (facts.obs_space_was, facts.obs_space_now),
        "action space": (facts.act_space_was, facts.act_space_now),
    }
    for name, (was, now) in pairs.items():
        if was is not None and now is not None and was != now:
            why = "the network's first or last layer does not fit"
            yield Change(name, clean(was), clean(now), "refuse", why, rulings.NEW_RUN, (BRANCH,))


def _said(value: Any) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case Schedule():
            return f"{value.start:g} to {value.end:g}, {value.kind}"
        case Part():
            return clean(part_words(value) or value.cls)
        case Struct():
            return ", ".join(f"{name} {_said(getattr(value, name))}" for name in value.__struct_fields__)
        case tuple():
            return "-".join(_said(item) for item in value) or "none"
        case _:
            return clean(str(value))


def _nearest(spec: Spec, name: str) -> tuple[Remedy, ...]:
    """The remedy that gives field `name` of the contradictory `spec` its nearest valid value; none where none is."""
    rollout = rollout_size(spec)
    match name:
        case "ppo.batch_size" if rollout >= 2:
            return (nearest_value(name, rollout, f"one minibatch of {rollout:,}, the whole rollout"),)
        case "ppo.n_steps":
            return (nearest_value(name, 2),)
        case "env.n_envs":
            most = LARGEST_ROLLOUT // spec.ppo.n_steps
            return (nearest_value(name, most),) if most else ()
        case "env.n_workers" if spec.env.n_workers is not None:
            near = nearby_workers(spec.env.vec, spec.env.n_envs, spec.env.n_workers)
            return tuple(nearest_value(name, count) for count in near[:1])
        case _:
            return ()


def apply_choices(
    was: Spec, now: Spec, facts: ResumeFacts, remedies: Sequence[str], overrides: Sequence[str]
) -> ResumeTarget:
    """What comes of `now` with the `remedies` (NAME or NAME:FIELD) and `overrides` (fields) carried out in order.

    Raises `UsageError` for a word that is not offered when its turn comes.
    """
    target = ResumeTarget(now, overriding(judge_resume(was, now, facts), overrides))
    for word in remedies:
        verdict = judge_resume(was, target.spec, facts, target.terms)
        for field, remedy in chosen_remedies(verdict, (word,)):
            target = apply_remedy(was, target, field, remedy)
    return target


def weights_may_fit(was: Spec, now: Spec) -> bool:
    """Whether a branch can begin with anything: some layer of `now` may have the shape of one of `was`, as far as specs
    tell. Only a certain no counts; the trainer, which has both networks, judges every branch again.
    """
    if algorithm_name(was) != algorithm_name(now) or not (_of_plain_layers(was) and _of_plain_layers(now)):
        return True
    return any(_share_a_layer(old, new) for old, new in zip(towers(was), towers(now), strict=True))


def _of_plain_layers(spec: Spec) -> bool:
    """Whether the widths say everything: nothing lies below the layers, and no class of a user builds them."""
    settings = learning_table(spec)[1]
    return settings.policy == "MlpPolicy" and settings.policy_kwargs.keys() <= _SHAPELESS


def _share_a_layer(was: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Whether two stacks of layers have one in common; what goes in at their bottom and out at their top may be equal.

    SB3 names layers by their place, so the top of a lower stack stands where a higher one has another layer.
    """
    lower = min(len(was), len(now))
    if lower == 0:
        return True
    at_an_end = was[0] == now[0] or was[-1] == now[-1] or was[lower - 1] == now[lower - 1]
    return at_an_end or any(old == new for old, new in zip(pairwise(was), pairwise(now), strict=False))
