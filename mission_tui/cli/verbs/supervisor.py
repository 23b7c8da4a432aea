"""`mission-tui supervisor`: whether one is running, and how to end it; runs go on without it unless --with-runs.

`mission-tui bridge` passes on what a screen on another machine and the supervisor here say to each other.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mission_tui.cli.options import json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.errors import EX_UNAVAILABLE, MissionError, NoSupervisorError, StoppedSupervisorError

if TYPE_CHECKING:
    from mission_tui.ipc.replies import Accepted, Welcome

GONE_WITHIN_S = 10.0
LOOK_S = 0.05


@click.group("supervisor")
def supervisor_command() -> None:
    """The background process that knows every run."""


@supervisor_command.command("status")
@json_option
@pass_session
def status(session: Session, as_json: bool) -> int:
    """Say whether one is running.

    Exit code 69 when none is.
    """
    from mission_tui.cli.tables.documents import write_document

    welcome = _welcome(session)
    if as_json:
        write_document(
            {
                "running": welcome is not None,
                "pid": welcome.pid if welcome else None,
                "version": welcome.version if welcome else None,
                "runs_root": str(session.root),
            }
        )
    elif welcome:
        write(f"supervisor {welcome.pid}, version {welcome.version}, for {session.root}")
    if welcome is None:
        print_error(f"no supervisor is running for {session.root}")
        return EX_UNAVAILABLE
    return 0


@supervisor_command.command("stop")
@click.option("--with-runs", is_flag=True, help="Stop every live run first, each with a checkpoint.")
@json_option
@pass_session
def stop(session: Session, with_runs: bool, as_json: bool) -> None:
    """End the supervisor, not its runs."""
    from mission_tui.cli.tables.documents import write_document

    ended = _shut_down(session, with_runs)
    if as_json:
        stopped = [{"id": run} for run in ended.runs] if ended else []
        write_document({"running": False, "was_running": ended is not None, "runs": stopped})
    elif ended is None:
        print_error(f"no supervisor was running for {session.root}")


def _welcome(session: Session) -> Welcome | None:
    try:
        with session.connect(start=False) as connection:
            return connection.welcome
    except NoSupervisorError:
        return None


def _shut_down(session: Session, with_runs: bool) -> Accepted | None:
    """Ask it to end and wait until the process is gone; None when none was running."""
    from mission_tui.ipc.requests import Shutdown

    try:
        with session.connect(start=False) as connection:
            pid = connection.welcome.pid
            reply = connection.ask(lambda id_: Shutdown(id=id_, with_runs=with_runs))
    except NoSupervisorError:
        return None
    deadline = time.monotonic() + GONE_WITHIN_S
    while (there := _is_supervisor(pid)) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    if there:
        raise MissionError(
            f"supervisor {pid} did not end within {GONE_WITHIN_S:.0f} s: see its log (mission-tui paths shows where)"
        )
    return reply


def _is_supervisor(pid: int) -> bool:
    """Whether the process of this number is a supervisor, zombies aside; only read, never signalled."""
    try:
        return b"mission_tui.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@click.command("bridge")
@click.option("--unless-stopped", is_flag=True, help="Start no supervisor that was stopped on request.")
@pass_session
def bridge_command(session: Session, unless_stopped: bool) -> int:
    """Speak with the supervisor of this machine over standard input and output; `--host` calls it by ssh."""
    from mission_tui.ipc.bridge import carry

    carry(_link(session, unless_stopped=unless_stopped), 0, 1, readonly=session.readonly or session.received)
    return 0


def _link(session: Session, *, unless_stopped: bool) -> socket.socket:
    from mission_tui.ipc.sockets import connect
    from mission_tui.ipc.start import ensure_supervisor, operator_socket, start_readonly_server, was_stopped

    if session.received or (session.readonly and not session.is_supervised):
        if session.received:
            print_error(session.what_was_received)
        return start_readonly_server(session.root)
    with suppress(OSError):
        return connect(operator_socket(session.root), None)
    if unless_stopped and was_stopped(session.root):
        raise StoppedSupervisorError(f"no supervisor runs for {session.root}: it was stopped on request")
    session.require_writable_root()
    ensure_supervisor(session.root)
    return connect(operator_socket(session.root), None)
