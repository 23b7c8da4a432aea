"""The trainer's line to a supervisor, or to nobody: without one in the environment a training runs just the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from mission_tui.fleet.events.processes import EnvWorkers
from mission_tui.ipc.requests import PROTOCOL
from mission_tui.ipc.telemetry import Telemetry
from mission_tui.ipc.telemetry_messages import Order, TelemetryMessage, TrainerHello
from mission_tui.trainer.attempt import Attempt

__all__ = ["Link"]


class Link:
    """Says facts and receives orders; never blocks and never raises."""

    def __init__(self, attempt: Attempt, environ: Mapping[str, str]) -> None:
        self._telemetry: Telemetry | None = None
        path = environ.get("MISSION_TUI_TELEMETRY")
        if path:
            run = environ.get("MISSION_TUI_RUN", attempt.run_dir.id)
            nonce = environ.get("MISSION_TUI_NONCE", "")
            self._telemetry = Telemetry(Path(path), TrainerHello(PROTOCOL, run, attempt.number, nonce, os.getpid()))

    def send(self, message: TelemetryMessage) -> None:
        """Tell the supervisor, if there is one."""
        if self._telemetry is not None:
            self._telemetry.send(message)

    def orders(self) -> list[Order]:
        """Orders that came since the last call."""
        return [] if self._telemetry is None else self._telemetry.orders()

    def name_workers(self, pids: tuple[int, ...], look: Callable[[], EnvWorkers] | None = None) -> None:
        """Have heartbeats name the processes that environments live in, and say how these are, as `look` tells."""
        if self._telemetry is not None:
            self._telemetry.workers, self._telemetry.look = pids, look

    def close(self) -> None:
        """Say what is unsaid and hang up."""
        if self._telemetry is not None:
            self._telemetry.close()
