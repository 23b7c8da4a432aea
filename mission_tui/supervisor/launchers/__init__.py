"""How an attempt becomes processes: one small interface, so that another engine can carry runs later.

With it lies what every engine needs: whose Python, folder and variables an attempt has, and from what it was launched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mission_tui.records.runs.attempt import Identity, LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.identity import Process, Verdict
from mission_tui.supervisor.host.lease import Holder

__all__ = ["Found", "Launcher"]


@dataclass(frozen=True, slots=True)
class Found:
    """Who of an attempt lives: held processes, their verdicts, and what was recorded when they started."""

    identity: Identity | None
    keeper: Process | None = None
    trainer: Process | None = None
    keeper_verdict: Verdict = "stranger"
    trainer_verdict: Verdict = "stranger"


class Launcher(Protocol):
    """Starts attempts and finds those that an earlier supervisor started."""

    def submit(self, run: RunDir, order: LaunchOrder) -> Process:
        """Hand the attempt to a keeper; the returned process is held. Raises `MissionError` when it cannot be."""

    def is_free(self, run: RunDir) -> bool:
        """Whether nobody of any attempt owns the run."""

    def holders(self, run: RunDir, nonce: str) -> list[Holder]:
        """Who of the visible processes owns the run; `nonce` is that of its attempt. Not for every day: it is slow."""

    def is_coming(self, run: RunDir, attempt: int) -> bool:
        """Whether somebody of `attempt` may be about to own the run."""

    def find(self, run: RunDir, attempt: int) -> Found:
        """Who of `attempt` lives now. The caller closes the held processes."""
