"""From what a person chose, word by word, to the spec and terms of the resume: each choice is offered by the verdict on
what the choices before it made of the request.
"""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.remedy_application import ResumeTarget, apply_remedy, chosen_remedies, overriding
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.specs.spec import Spec

__all__ = ["apply_choices"]


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
