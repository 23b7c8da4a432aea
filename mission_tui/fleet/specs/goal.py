"""What a run is to reach: a mean return, or a share of episodes that succeed. Pure."""

from __future__ import annotations

import math
import re
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.specs.quantity import format_quantity, parse_real

GoalOf = Literal["return", "success"]
_SHARE = re.compile(r"(?:(?:reached|success(?:[ _]rate)?)\s+)?(-?\d{1,9}(?:\.\d{0,9})?)\s*%", re.IGNORECASE | re.ASCII)
_WORDED = re.compile(r"(reached|return|success(?:[ _]rate)?)\s+(\S{1,30})", re.IGNORECASE | re.ASCII)


class Goal(Struct, frozen=True):
    """`value` is a mean return, or a share of 0..1."""

    of: GoalOf
    value: float

    @property
    def words(self) -> str:
        """As it can be written: `475`, `success 80%`."""
        return f"{self.value:g}" if self.of == "return" else f"success {self.value * 100:g}%"


def parse_goal(written: float | str) -> Goal:
    """The goal that `run.goal` means; raises `ValueError` with a sentence that names the nearest valid value."""
    if isinstance(written, str):
        text = written.strip()
        if (share := _SHARE.fullmatch(text)) is not None:
            return _success(written, float(share[1]) / 100)
        if (worded := _WORDED.fullmatch(text)) is not None and (number := parse_real(worded[2])) is not None:
            return _success(written, number) if worded[1].lower().startswith("success") else Goal("return", number)
    number = parse_real(written)
    if number is None or not math.isfinite(number):
        raise ValueError(
            f"run.goal = {format_quantity(written)} must be a mean return such as 475, "
            "or a success rate such as 'success 80%'"
        )
    return Goal("return", number)


def _success(written: str, share: float) -> Goal:
    if 0.0 < share <= 1.0:
        return Goal("success", share)
    near = "'success 100%'" if share > 1.0 else "'success 1%'"
    raise ValueError(
        f"run.goal = {format_quantity(written)} must be above 0% and at most 100%; the nearest valid value is {near}"
    )
