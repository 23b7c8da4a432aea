"""`mission-tui track`: runs passed on by hand to wandb, MLflow, trackio or TensorBoard: old and imported ones, and what
could not be passed on while it was news.
"""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from mission_tui.cli.options import json_option, runs_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.errors import EX_FAILED, EX_RESUMABLE, MissionError, UsageError, install_words
from mission_tui.fleet.specs.spec import TRACKERS

if TYPE_CHECKING:
    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.records.runs.attempt import TrackState


@click.command("track", epilog="Examples: mission-tui track @last --to mlflow; track lr-sweep")
@runs_argument(required=True)
@click.option("--to", "tracker", type=click.Choice(TRACKERS), help="Where to, if run.track of a run does not say it.")
@json_option
@pass_session
def track_command(session: Session, runs: tuple[str, ...], tracker: str | None, as_json: bool) -> int:
    """Pass runs on to an experiment tracker: what it does not have yet, from the beginning or from where it was left.

    A run with run.track is passed on by itself while it trains. This is for others, and for what is left after a lost
    network or login. Keys and addresses are those of your shell.
    """
    from mission_tui.cli.follow_runs import views_of

    with session.connect() as connection:
        views = views_of(connection, runs)
    if not views:
        raise UsageError("no run is meant: name runs or groups, as `mission-tui status` lists them")
    if tracker is not None and find_spec(tracker) is None:
        raise MissionError(f"{tracker} is not installed; {install_words(tracker)}")
    states: dict[str, TrackState] = {}
    failed = False
    for view in views:
        try:
            states[view.id] = _passed_on(session, view, tracker)
        except MissionError as error:
            failed = True
            print_error(f"{view.name}: {error}")
            continue
        if not as_json:
            write(f"{view.name}: {states[view.id].where}")
    if as_json:
        from mission_tui.cli.tables.documents import write_document

        write_document({"runs": [{"run": run_id, "tracker": it.tracker, "where": it.where, "online": it.online}
                                 for run_id, it in states.items()]})  # fmt: skip
    return EX_FAILED if failed else 0


def _passed_on(session: Session, view: RunView, tracker: str | None) -> TrackState:
    """How far the run has come there now. Raises `MissionError` with what its process said, and for a foreign run: its
    files would say what of this user's is passed on, and where to.
    """
    from pathlib import Path

    from mission_tui.records.files.atomic import read_json
    from mission_tui.records.runs.attempt import TrackState
    from mission_tui.records.runs.layout import RunDir
    from mission_tui.records.runs.seal import Seals, check_seal
    from mission_tui.records.runs.spec_file import read_spec
    from mission_tui.run_module import module_words

    run_dir = RunDir(Path(view.run_dir))
    check_seal(Seals.of(session.environ, make=False).check(run_dir, max(1, view.attempt)), "track", view.name)
    name = tracker or read_spec(run_dir.spec).run.track
    if name is None:
        raise UsageError(f"run.track of it names no tracker; --to {', '.join(TRACKERS[:-1])} or {TRACKERS[-1]}")
    argv = (*module_words("mission_tui.trainer.tracking"), str(run_dir.path), name, "--once")
    # wandb takes settings of its own from the working folder, such as the address that the key is sent to, and that
    # folder may be anybody's. MLflow's address may be meant from there.
    folder = None if name == "mlflow" else "/"
    # What its libraries print would be taken for ours.
    nothing, words = subprocess.DEVNULL, subprocess.PIPE
    done = subprocess.run(argv, check=False, stdout=nothing, stderr=words, env=os.environ, cwd=folder)
    state = read_json(run_dir.track(name), TrackState)
    if done.returncode == EX_RESUMABLE:
        where = f", to {state.where}" if state is not None and state.where else ""
        raise MissionError(f"another process passes it on at this moment{where}")
    if done.returncode != 0 or state is None:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise MissionError(lines[-1] if lines else f"its process ended with exit code {done.returncode}")
    return state
