"""What `doctor` looks at: each check says what it found, and what would help where it matters.

A check never fails because of what it finds, leaves nothing running, and loads neither torch nor a driver library:
NVML is asked by a process of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from mission_tui.cli.session import Session

__all__ = ["Check", "all_checks"]

Level = Literal["ok", "note", "warn", "bad"]


class Check(Struct, frozen=True):
    """Level `bad`: trainings cannot run here; `warn`: something will go wrong; `note`: something optional is absent."""

    name: str
    level: Level
    detail: str
    advice: str = ""


def all_checks(session: Session) -> list[Check]:
    """Every check, in the order of the report."""
    from mission_tui.cli.doctor_checks import installation, machine

    return [
        *installation.software_checks(),
        *machine.machine_checks(session.root),
        *machine.gpu_checks(session.environ),
        *installation.place_checks(session),
        *installation.upgrade_checks(session),
        *installation.login_checks(),
        *installation.terminal_checks(session.environ),
    ]
