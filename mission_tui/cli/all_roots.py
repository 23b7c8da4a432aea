"""`status --all-roots`: every runs root of this user at which a supervisor answers, asked one after another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mission_tui.cli.errors import print_error
from mission_tui.cli.terminal_output import write
from mission_tui.errors import MissionError

if TYPE_CHECKING:
    from mission_tui.fleet.views.snapshot import FleetSnapshot

__all__ = ["show_all_roots"]


def show_all_roots(as_json: bool) -> None:
    """Print them; one that goes away meanwhile, or is of another version, is named and passed over."""
    from mission_tui.cli.tables.documents import status_facts, write_document
    from mission_tui.cli.tables.fleet import fleet_table, machine_line
    from mission_tui.ipc.roots import live_roots

    snapshots = [snapshot for other in live_roots() if (snapshot := _snapshot(Path(other.root))) is not None]
    if as_json:
        write_document({"roots": [status_facts(snapshot, snapshot.runs) for snapshot in snapshots]})
        return
    for place, snapshot in enumerate(snapshots):
        if place:
            write()
        write(machine_line(snapshot))
        fleet_table(snapshot.runs).write(sys.stdout)
    if not snapshots:
        print_error("no runs root of yours has a supervisor now; `mission-tui status` starts that of this folder")


def _snapshot(root: Path) -> FleetSnapshot | None:
    from mission_tui.ipc.client import Connection
    from mission_tui.ipc.requests import GetSnapshot

    try:
        with Connection.connect(root, start=False) as connection:
            return connection.ask(lambda id_: GetSnapshot(id=id_)).snapshot
    except MissionError as error:
        print_error(f"{root}: {error}")
        return None
