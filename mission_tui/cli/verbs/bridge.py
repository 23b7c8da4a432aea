"""`mission-tui bridge`: the supervisor's operator plane over standard streams, for a screen on another machine."""

from __future__ import annotations

import socket
from contextlib import suppress

import click

from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error
from mission_tui.errors import StoppedSupervisorError


@click.command("bridge")
@click.option("--unless-stopped", is_flag=True, help="Start no supervisor that was stopped on request.")
@pass_session
def bridge_command(session: Session, unless_stopped: bool) -> int:
    """Speak with the supervisor of this machine over standard input and output; `--host` calls it by ssh."""
    from mission_tui.ipc.hosts import carry

    carry(_link(session, unless_stopped=unless_stopped), 0, 1)
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
