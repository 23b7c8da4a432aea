"""The screen outside a terminal: `mission-tui screenshot` makes a picture of it, the list of runs or one run;
`mission-tui serve` shows it in a browser, on this machine alone, for whoever has the address that is printed.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path
from typing import Literal

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.errors import EX_UNAVAILABLE, MissionError, UsageError, install_words

_LEAST, _MOST = (40, 10), (500, 200)

PORT = 8765
_TOKEN_BYTES = 32


@click.command(
    "screenshot",
    epilog="Examples: mission-tui screenshot --out all.svg; screenshot @last --out run.png --size 120x40",
)
@run_argument(required=False)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ends in .svg, or .png (extra `report`).",
)
@click.option(
    "--size", default="160x50", show_default=True, metavar="COLSxROWS", help="Of the terminal it would be in."
)
@json_option
@pass_session
def screenshot_command(session: Session, run: str | None, out: Path, size: str, as_json: bool) -> None:
    """Save a picture of the screen: of all runs, or of one.

    What was there under that name is replaced. On the screen itself F12 does the same.
    """
    from mission_tui.cli.screen import picture
    from mission_tui.records.files.atomic import write_atomic

    cells, kind = _cells(size), _kind(out)
    if not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}")
    data = picture(session, kind, cells, run)
    write_atomic(out, data)
    if as_json:
        from mission_tui.cli.tables.documents import write_document

        write_document({"path": str(out.absolute()), "size_bytes": len(data), "columns": cells[0], "rows": cells[1]})
    else:
        write(str(out))


def _cells(size: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,4})x(\d{1,4})", size)
    cells = (int(found[1]), int(found[2])) if found else (0, 0)
    if not all(least <= it <= most for it, least, most in zip(cells, _LEAST, _MOST, strict=True)):
        raise UsageError(f"--size {size}: columns x rows from 40x10 to 500x200, such as 160x50")
    return cells


def _kind(out: Path) -> Literal["svg", "png"]:
    match out.suffix.lower():
        case ".svg":
            return "svg"
        case ".png":
            return "png"
    raise UsageError(f"--out {out}: the name has to end in .svg or .png")


class ServeError(MissionError):
    """The screen cannot be served here."""

    exit_code = EX_UNAVAILABLE


@click.command("serve", epilog="Examples: mission-tui serve; mission-tui serve --control --port 0")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    metavar="N",
    help="On 127.0.0.1, which no other machine reaches; 0 takes a free one.",
)
@click.option("--control", is_flag=True, help="Keys act on runs too: whoever has the address can do what you can.")
@json_option
@pass_session
def serve_command(session: Session, port: int, control: bool, as_json: bool) -> None:
    """Show the screen in a browser, read-only; Ctrl-C ends it, and no run.

    From another machine: ssh -L N:127.0.0.1:N HOST, then the same address there.
    """
    if control and session.readonly:
        raise UsageError("--readonly changes nothing and --control is there to change things: give one of them")
    if control and session.received:
        raise UsageError(f"{session.what_was_received}; serve it without --control")
    if control:
        session.require_writable_root()
    from mission_tui.web.screen_process import ScreenCall

    root = () if session.received else ("--runs-dir", str(session.root))
    looks = {} if control else {"MISSION_TUI_SERVED": "1"}
    call = ScreenCall((*root, *(() if control else ("--readonly",))), session.cwd, {**session.environ, **looks})
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        from mission_tui.web.server import HOST, ScreenServer, listening, serve

        server = ScreenServer(call, token)
    except ImportError as error:
        raise ServeError(f"serve needs packages that are missing here ({error}): {install_words('serve')}") from None
    try:
        bound = listening(port)
    except OSError as error:
        raise ServeError(
            f"port {port} of {HOST} cannot be had ({os.strerror(error.errno or 0)}): "
            "give another one with --port, or --port 0 for a free one"
        ) from None
    port = bound.getsockname()[1]
    address = f"http://{HOST}:{port}/{token}/"
    if as_json:
        from mission_tui.cli.tables.documents import write_document

        write_document({"url": address, "port": port, "control": control, "runs_root": str(session.root)})
    else:
        write(address)
        write(f"shows {session.root} to every browser that has this address, until Ctrl-C; no run ends with it")
        if "SSH_CONNECTION" in session.environ:
            write(f"on your own machine: ssh -L {port}:{HOST}:{port} {socket.gethostname()}, then this address there")
    if control:
        print_error("--control: whoever has this address can start commands as you; it is worth your account")
    serve(server, bound)
