"""From what a person chose, word by word, to the spec and terms of the resume: each choice is offered by the verdict on
what the choices before it made of the request.
"""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.taking import Wanted, chosen, overriding, take
from mission_tui.fleet.specs.spec import Spec

__all__ = ["as_chosen"]


def as_chosen(was: Spec, now: Spec, facts: ResumeFacts, remedies: Sequence[str], overrides: Sequence[str]) -> Wanted:
    """What comes of `now` with the `remedies` (NAME or NAME:FIELD) and `overrides` (fields) carried out in order.

    Raises `UsageError` for a word that is not offered when its turn comes.
    """
    wanted = Wanted(now, overriding(judge_resume(was, now, facts), overrides))
    for word in remedies:
        verdict = judge_resume(was, wanted.spec, facts, wanted.terms)
        for field, remedy in chosen(verdict, (word,)):
            wanted = take(was, wanted, field, remedy)
    return wanted
