"""The ways a key moves through a list, a tab or a text."""

from __future__ import annotations

from typing import Literal

__all__ = ["Move"]

Move = Literal["up", "down", "first", "last", "page_up", "page_down", "left", "right"]
