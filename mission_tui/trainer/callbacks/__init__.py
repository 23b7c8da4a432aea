"""Callbacks of SB3's kind that a preset names: made from its words, called as SB3 does, what they log kept."""

from __future__ import annotations

from mission_tui.trainer.callbacks.building import build_callbacks, check_callbacks
from mission_tui.trainer.callbacks.calling import Callbacks

__all__ = ["Callbacks", "build_callbacks", "check_callbacks"]
