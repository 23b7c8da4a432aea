"""The words of a resume verdict: one graded, explained change per field with its remedies, and the sum of them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mission_tui.fleet.resume.terms import AS_IT_WAS, Terms

__all__ = ["Change", "Grade", "Remedy", "RemedyName", "ResumeVerdict"]

Grade = Literal["safe", "note", "warn", "refuse"]
RemedyName = Literal[
    "keep-minibatch",
    "hold-steps",
    "scale-lr",
    "reset-adam",
    "warm-up",
    "target-kl",
    "pin-schedule",
    "nearest",
    "restore",
    "branch",
]


class Remedy(Struct, frozen=True, omit_defaults=True):
    """One thing that helps and that can be done: by `--set` words, on `terms`, by `restore`-ing the old value of its
    field, or as a `branch`, a new run with these weights. `what` says it in a few words.
    """

    name: RemedyName
    what: str
    assignments: tuple[str, ...] = ()
    terms: Terms = AS_IT_WAS


class Change(Struct, frozen=True, omit_defaults=True):
    """Field `name` was `was` and will be `now`; `why` says what that does to the run, `remedy` what would help.

    `remedies` are those that can be carried out by name. `override`: a person may go on against this refusal.
    """

    name: str
    was: str
    now: str
    grade: Grade
    why: str
    remedy: str = ""
    remedies: tuple[Remedy, ...] = ()
    override: bool = False


class ResumeVerdict(Struct, frozen=True):
    """All changes of a proposed resume and the worst of their grades."""

    grade: Grade
    changes: tuple[Change, ...] = ()
