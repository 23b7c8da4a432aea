"""The runs root with real processes, as the supervisor's own tests have it."""

from __future__ import annotations

from tests.nvml import library, machine
from tests.supervisor.conftest import idle_lab, idle_sim, lab, sim
from tests.supervisor.gpu_watching import watch

__all__ = ["idle_lab", "idle_sim", "lab", "library", "machine", "sim", "watch"]
