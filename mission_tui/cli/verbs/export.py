"""`mission-tui export`: a checkpoint as an ordinary SB3 zip, for `PPO.load` and everyone else's tools."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import write
from mission_tui.errors import UsageError


@click.command("export")
@run_argument()
@click.argument("file", metavar="FILE.zip", type=click.Path(path_type=Path))
@click.option("--checkpoint", metavar="NAME", help="Export this checkpoint (default: the newest).")
@json_option
@pass_session
def command(session: Session, run: str, file: Path, checkpoint: str | None, as_json: bool) -> None:
    """Write a run's policy as a Stable-Baselines3 zip."""
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.tables.progress import TaskBar
    from mission_tui.ipc.replies import Progress
    from mission_tui.ipc.requests import Export

    target = session.cwd / file
    if target.suffix != ".zip":
        raise UsageError(f"the file must end in .zip: {target.with_suffix('.zip').name}, not {target.name}")
    if not target.parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no folder {target.parent}")
    with session.connect() as connection, TaskBar("export", sys.stderr) as bar:
        for reply in connection.stream(lambda id_: Export(id=id_, run=run, path=str(target), checkpoint=checkpoint)):
            if isinstance(reply, Progress):
                bar.advance(reply.done, reply.total)
            else:
                exported = reply
    if as_json:
        write_document({"path": exported.path, "checkpoint": exported.checkpoint})
    else:
        write(exported.path)
