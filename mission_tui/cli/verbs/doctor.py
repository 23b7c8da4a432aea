"""`mission-tui doctor`: what this machine and this environment mean for trainings, and what would help."""

from __future__ import annotations

import click

from mission_tui.cli.options import json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Colour, styled, write
from mission_tui.errors import EX_FAILED

COLOURS: dict[str, Colour] = {"ok": "green", "note": "cyan", "warn": "yellow", "bad": "red"}


@click.command("doctor")
@json_option
@pass_session
def command(session: Session, as_json: bool) -> int:
    """Check this machine and this environment.

    Exit code 1 when trainings cannot run here.
    """
    from msgspec.structs import asdict

    from mission_tui import __version__
    from mission_tui.cli.doctor_checks import all_checks
    from mission_tui.cli.tables.documents import write_document

    found = all_checks(session)
    healthy = all(check.level != "bad" for check in found)
    if as_json:
        write_document({"version": __version__, "healthy": healthy, "checks": [asdict(check) for check in found]})
    else:
        for check in found:
            write(styled(check.level.ljust(4), COLOURS[check.level]), f"  {check.name:14} {check.detail}")
            if check.advice:
                write(f"      {'':14} -> {check.advice}")
    return 0 if healthy else EX_FAILED
