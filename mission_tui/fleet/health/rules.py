"""The rules in force, besides `nan` and `hang`, which the judge also tells what no row says. Order is of no meaning."""

from __future__ import annotations

from mission_tui.fleet.health.kl import KlPersistent
from mission_tui.fleet.health.rule import Rule

__all__ = ["RULES"]

RULES: tuple[type[Rule], ...] = (KlPersistent,)
