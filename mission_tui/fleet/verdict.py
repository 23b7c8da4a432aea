"""The words of a resume verdict: one graded, explained change per field, and the sum of them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["Change", "Grade", "ResumeVerdict"]

Grade = Literal["safe", "note", "warn", "refuse"]


class Change(Struct, frozen=True, omit_defaults=True):
    """Field `name` was `was` and will be `now`; `why` says what that does to the run, `remedy` what would help."""

    name: str
    was: str
    now: str
    grade: Grade
    why: str
    remedy: str = ""


class ResumeVerdict(Struct, frozen=True):
    """All changes of a proposed resume and the worst of their grades."""

    grade: Grade
    changes: tuple[Change, ...] = ()
