"""What `doctor` looks at: each check says what it found, and what would help where it matters.

A check never fails because of what it finds, leaves nothing running, and loads neither torch nor a driver library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mission_tui.cli.doctor_checks.check import Check
    from mission_tui.cli.session import Session

__all__ = ["all_checks"]


def all_checks(session: Session) -> list[Check]:
    """Every check, in the order of the report."""
    from mission_tui.cli.doctor_checks import installation, machine, places

    return [
        *installation.software_checks(),
        *machine.machine_checks(session.root),
        *machine.gpu_checks(),
        *machine.mps_checks(session.environ),
        *places.place_checks(session),
        *installation.upgrade_checks(session),
        *places.login_checks(),
        *installation.terminal_checks(session.environ),
    ]
