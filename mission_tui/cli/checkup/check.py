"""The result of one check of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "Level"]

Level = Literal["ok", "note", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Check:
    """Level `bad`: trainings cannot run here; `warn`: something will hurt; `note`: something optional is absent."""

    name: str
    level: Level
    detail: str
    advice: str = ""
