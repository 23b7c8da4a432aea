"""The verdict on a resume: what changed between the frozen spec and the requested one, field by field, and what each
change does to this run: safe, a note, a warning to accept, or a refusal; and what comes of the remedies chosen. Pure.

Clients read verdicts and judge nothing, so the judge is loaded only when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mission_tui.fleet.resume.judge import apply_choices, judge_resume
    from mission_tui.fleet.resume.sides import ResumeFacts

__all__ = ["ResumeFacts", "apply_choices", "judge_resume"]

_AT = {"ResumeFacts": "sides", "apply_choices": "judge", "judge_resume": "judge"}


def __getattr__(name: str) -> object:
    if name not in _AT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_AT[name]}"), name)
