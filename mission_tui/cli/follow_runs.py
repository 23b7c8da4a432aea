"""Snapshots across restarts of the supervisor, waiting for runs, and all runs roots of this user with a supervisor.

A wait outlives the supervisor it began with, as the runs do; it fails only if no supervisor can be started.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mission_tui.cli.terminal_output import EX_INTERRUPTED, print_error, write
from mission_tui.errors import EX_FAILED, EX_RESUMABLE, MissionError
from mission_tui.fleet.events.outcome import OVER

if TYPE_CHECKING:
    from mission_tui.cli.session import Session
    from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
    from mission_tui.ipc.client import Connection
    from mission_tui.ipc.replies import Accepted, DetailsReply, VerdictReply


Seen = Callable[[tuple["RunView", ...], float], None]
ANSWER_S = 30.0
"""For so long a verb that starts runs waits for what their engine says to them: a bit more than one call may take."""


def snapshot_of(connection: Connection) -> FleetSnapshot:
    """The fleet as it is now."""
    from mission_tui.ipc.requests import GetSnapshot

    return connection.ask(lambda id_: GetSnapshot(id=id_)).snapshot


def details_of(connection: Connection, run: str) -> DetailsReply:
    """All that is known of `run`. Raises `UsageError` for an unknown or ambiguous one."""
    from mission_tui.ipc.requests import GetDetails

    return connection.ask(lambda id_: GetDetails(id=id_, run=run))


def view_of(connection: Connection, run: str) -> RunView:
    """The run behind a reference, ended ones of any age included."""
    return details_of(connection, run).view


def views_of(connection: Connection, refs: Sequence[str]) -> tuple[RunView, ...]:
    """The runs behind references, those of any age, each once; a group's name stands for its runs.

    Raises `UsageError` for an unknown or ambiguous one.
    """
    from mission_tui.ipc.requests import GetNamed

    return connection.ask(lambda id_: GetNamed(id=id_, refs=tuple(refs))).runs


def of_each_saved(views: Sequence[RunView], act: Callable[[RunView], None], done: str) -> int:
    """The exit code of `act` done with the one run, which may raise `MissionError`, or with each of a group that has a
    checkpoint. What was not `done` of a group is said with its reason, and keeps no other run from it.
    """
    if len(views) == 1:
        act(views[0])
        return 0
    did = failed = 0
    for view in views:
        if view.last_checkpoint is None:
            print_error(f"{view.name} was passed over: it has no checkpoint")
            continue
        try:
            act(view)
        except MissionError as error:
            failed += 1
            print_error(f"{view.name} could not be {done}: {error}")
        else:
            did += 1
    if not did and not failed:
        print_error(f"nothing was {done}: none of these {len(views)} runs has a checkpoint")
    return 0 if did and not failed else EX_FAILED


def snapshots(session: Session) -> Iterator[FleetSnapshot]:
    """Snapshots as they change, for ever; a lost supervisor is replaced (`NoSupervisorError` when that fails)."""
    from mission_tui.ipc.replies import SnapshotReply
    from mission_tui.ipc.requests import Watch
    from mission_tui.ipc.sockets import ConnectionLostError

    while True:
        with session.connect() as connection:
            try:
                for reply in connection.stream(lambda id_: Watch(id=id_)):
                    if isinstance(reply, SnapshotReply):
                        yield reply.snapshot
            except ConnectionLostError:
                continue


def until_ended(session: Session, runs: Sequence[str], seen: Seen) -> tuple[RunView, ...]:
    """Wait until each of `runs` (ids) has ended; `seen(views, t)` is called for each snapshot."""
    from mission_tui.ipc.sockets import ConnectionLostError
    from mission_tui.records.runs_roots import note_look

    for snapshot in snapshots(session):
        known = {view.id: view for view in snapshot.runs}
        missing = [run for run in runs if run not in known]
        try:
            if missing:
                with session.connect() as connection:
                    known |= {run: view_of(connection, run) for run in missing}
            views = tuple(known[run] for run in runs)
            seen(views, snapshot.t)
        except ConnectionLostError:
            continue
        if all(view.state in OVER for view in views):
            if sys.stderr.isatty():  # a person waited, and knows of them now
                note_look(session.root, session.environ)
            return views
    raise AssertionError("snapshots end only with an error")


def until_answered(session: Session, runs: Sequence[str]) -> tuple[RunView, ...]:
    """Those of `runs` (ids) that an engine carries out, once it has taken them or not, or after `ANSWER_S` seconds."""
    from mission_tui.fleet.specs.spec import LAUNCHERS

    if not runs:
        return ()
    until = time.monotonic() + ANSWER_S
    with session.connect() as connection:
        views = tuple(view for view in views_of(connection, runs) if view.launcher != LAUNCHERS[0])
    if all(map(_is_answered, views)):
        return views
    for snapshot in snapshots(session):
        known = {view.id: view for view in snapshot.runs}
        views = tuple(known.get(view.id, view) for view in views)
        if all(map(_is_answered, views)) or time.monotonic() > until:
            break
    return views


def say_answers(views: Sequence[RunView]) -> int:
    """Say which runs their engine has not taken, or not answered for; the exit code is 1 where there are the first."""
    for view in views:
        if view.outcome == "failed":
            print_error(f"{view.name} failed: {view.cause}")
        elif not _is_answered(view):
            print_error(
                f"{view.name}: {view.launcher} has not said within {ANSWER_S:g} s whether it takes it "
                f"(`mission-tui status {view.id}`)"
            )
    return EX_FAILED if any(view.outcome == "failed" for view in views) else 0


def ask_engines(session: Session, answers: Sequence[Accepted | VerdictReply]) -> int:
    """The exit code of a verb whose `answers` had runs begin: what their engines say to those is waited for."""
    from mission_tui.ipc.replies import Accepted

    runs = [run for answer in answers if isinstance(answer, Accepted) for run in answer.runs]
    try:
        return say_answers(until_answered(session, runs))
    except KeyboardInterrupt:
        return EX_INTERRUPTED


def _is_answered(view: RunView) -> bool:
    """Whether the engine of a run has taken it, or said why not; one that waits in our own queue was not asked yet."""
    from mission_tui.fleet.events.processes import BEING_HANDED, FOR_COMPANY

    if view.state != "starting" or view.node is not None:
        return True
    return view.cause is not None and BEING_HANDED not in view.cause and FOR_COMPANY not in view.cause


def exit_code(views: Sequence[RunView]) -> int:
    """0 when every run finished, 1 when any failed, else 75: each can be resumed."""
    if any(view.outcome == "failed" for view in views):
        return EX_FAILED
    return 0 if all(view.outcome == "finished" for view in views) else EX_RESUMABLE


def show_all_roots(as_json: bool) -> None:
    """Print them; one that ends meanwhile, or has another version, is reported and skipped."""
    from mission_tui.cli.tables.documents import status_facts, write_document
    from mission_tui.cli.tables.runs import fleet_table, machine_line
    from mission_tui.ipc.start import live_roots

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
        print_error("no supervisor of yours is running; `mission-tui status` starts one for this folder")


def _snapshot(root: Path) -> FleetSnapshot | None:
    from mission_tui.ipc.client import Connection

    try:
        with Connection.connect(root, start=False) as connection:
            return snapshot_of(connection)
    except MissionError as error:
        print_error(f"{root}: {error}")
        return None
