"""The runs root with real processes, as the supervisor's own tests have it."""

from __future__ import annotations

from tests.supervisor.conftest import idle_lab, lab

__all__ = ["idle_lab", "lab"]
