"""Carrying remedies out on paper: from a requested spec and what a person chose to the spec and terms that result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import structs

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.resume.terms import AS_IT_WAS, Terms
from mission_tui.fleet.resume.verdict import Remedy, ResumeVerdict
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.spec import Spec

__all__ = ["ResumeTarget", "apply_remedy", "chosen_remedies", "overriding", "restore_field"]

_BUDGETS = ("run.total_timesteps", "run.duration_s")


@dataclass(frozen=True, slots=True)
class ResumeTarget:
    """What a resume is to be: its spec, and the terms on which it goes on."""

    spec: Spec
    terms: Terms = AS_IT_WAS


def apply_remedy(was: Spec, target: ResumeTarget, field: str, remedy: Remedy) -> ResumeTarget:
    """`target` with the `remedy` of `field` carried out. A branch is another deed and changes nothing here.

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
