"""`mission-tui import-checkpoint`: a zip of a stock `PPO.save` as an ended run, to evaluate, resume or branch from."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mission_tui.cli.options import json_option, set_option
from mission_tui.cli.plan import LaunchWish, planned
from mission_tui.cli.preset_origins import say_origins
from mission_tui.cli.run_requests import print_accepted
from mission_tui.cli.session import Session, pass_session
from mission_tui.errors import UsageError


@click.command("import-checkpoint")
@click.argument("file", metavar="FILE.zip", type=click.Path(path_type=Path))
@click.option(
    "--preset", required=True, metavar="PRESET", help="What it was trained on: environment, network, settings."
)
@click.option("--name", help="Name of the run.")
@click.option("--trust", is_flag=True, help="You know who made the file. Only tensors and numbers are read from it.")
@set_option
@json_option
@pass_session
def command(
    session: Session,
    file: Path,
    preset: str,
    name: str | None,
    trust: bool,
    assignments: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a run of a foreign Stable-Baselines3 zip."""
    from mission_tui.ipc.own_limits import captured_limits
    from mission_tui.ipc.requests import ImportCheckpoint
    from mission_tui.ipc.start import captured_environ

    path = session.cwd / file
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    plan = planned(LaunchWish((preset,), 1, name, assignments), session.preset_dirs, session.health())
    say_origins(plan.foreign)
    items = plan.items
    if len(items) != 1:
        raise UsageError(f"{preset} stands for {len(items)} runs, and a file is one: name one of their presets")
    environ = captured_environ(session.environ)
    with session.connect() as connection:
        reply = connection.ask(
            lambda id_: ImportCheckpoint(
                id=id_,
                path=str(path),
                item=items[0],
                trusted=trust,
                cwd=str(session.cwd),
                python=sys.executable,
                environ=environ,
                limits=captured_limits(),
            )
        )
    print_accepted(reply, as_json)
