"""The result of one check of `doctor`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Level = Literal["ok", "note", "warn", "bad"]


class Check(Struct, frozen=True):
    """Level `bad`: trainings cannot run here; `warn`: something will hurt; `note`: something optional is absent."""

    name: str
    level: Level
    detail: str
    advice: str = ""
