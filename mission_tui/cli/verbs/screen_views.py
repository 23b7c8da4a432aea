"""The screen outside a terminal: `mission-tui screenshot` makes a picture of any of its views;
`mission-tui serve` shows it in a browser, on this machine alone, for whoever has the address that is printed.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from mission_tui.cli.options import examples, json_option, runs_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.errors import EX_UNAVAILABLE, MissionError, UsageError, install_words, nearest
from mission_tui.paths import SERVED

if TYPE_CHECKING:
    from mission_tui.fleet.views.snapshot import RunView

_LEAST, _MOST = (40, 10), (500, 200)

PORT = 8765
_TOKEN_BYTES = 32


TABS = ("learn", "health", "config", "machine", "episodes", "journal", "checkpoints", "watch", "log")
_OTHER_WORDS = {"chart": "learn", "charts": "learn", "findings": "health", "settings": "config", "outcomes": "episodes"}
"""What the verbs and keys that lead to a tab call it."""
COMPARE, MACHINE = "compare", "machine"


@click.command(
    "screenshot",
    epilog=examples(
        "screenshot --out all.svg",
        "screenshot @last --tab findings --out findings.png",
        "screenshot base slower --out both.svg",
    ),
)
@runs_argument()
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ends in .svg, or .png (extra `report`).",
)
@click.option(
    "--tab",
    metavar="NAME",
    help=f"Of a run: {', '.join(TABS)}; also chart, findings, settings, outcomes. Of no run: {MACHINE}.",
)
@click.option(
    "--size", default="160x50", show_default=True, metavar="COLSxROWS", help="Size of the terminal that is shown."
)
@json_option
@pass_session
def screenshot_command(
    session: Session, runs: tuple[str, ...], out: Path, tab: str | None, size: str, as_json: bool
) -> None:
    """Save a picture of the screen: of all runs, of a tab of one, or of several compared.

    What was there under that name is replaced. On the screen itself F12 does the same.
    """
    from mission_tui.cli.screen import picture
    from mission_tui.records.atomic import write_atomic

    cells, kind, tab = _cells(size), _kind(out), _tab(tab)
    if not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}")
    views = _views(session, runs)
    data = picture(session, kind, cells, views, _view_of(session, tab, views))
    write_atomic(out, data)
    if as_json:
        from mission_tui.cli.tables.documents import write_document

        write_document({"path": str(out.absolute()), "size_bytes": len(data), "columns": cells[0], "rows": cells[1]})
    else:
        write(str(out))


def _tab(word: str | None) -> str | None:
    """The screen's own name for it. Raises `UsageError`."""
    if word is None or word in (*TABS, COMPARE):
        return word
    if word in _OTHER_WORDS:
        return _OTHER_WORDS[word]
    raise UsageError(
        f"--tab {word}: a run has {', '.join(TABS)}, and several have {COMPARE}"
        f"{nearest(word, (*TABS, *_OTHER_WORDS, COMPARE))}"
    )


def _views(session: Session, refs: tuple[str, ...]) -> tuple[RunView, ...]:
    """The runs that are meant, a group's name for all of its own; asked for before anything is drawn."""
    from mission_tui.cli.follow_runs import views_of

    if not refs:
        return ()
    with session.connect() as connection:
        return views_of(connection, refs)


def _view_of(session: Session, tab: str | None, views: tuple[RunView, ...]) -> str | None:
    """What of `views` is shown; None is the list. Raises `UsageError` for a tab that these runs do not have."""
    from mission_tui.fleet.comparison import MOST

    if not views:
        if tab in (None, MACHINE):
            return tab
        raise UsageError(f"--tab {tab} is of {'several runs' if tab == COMPARE else 'a run'}: name it, such as @last")
    if len(views) == 1:
        if tab == COMPARE:
            raise UsageError(f"--tab {COMPARE} needs two runs or more, and only {views[0].name} is named")
        if tab == "watch" and (session.readonly or session.received):
            raise UsageError("--tab watch plays the policy in a process of its own, and a read-only screen starts none")
        return tab or TABS[0]
    if tab not in (None, COMPARE):
        raise UsageError(f"--tab {tab} is of one run, and {len(views)} are meant; several are compared")
    if len(views) > MOST:
        raise UsageError(f"{len(views)} runs are meant, and {MOST} are the most that can be told apart")
    return COMPARE


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


@click.command(
    "serve",
    epilog=examples(
        "serve",
        "serve --control --port 0",
    ),
)
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
    root = () if session.received else ("--runs-dir", str(session.root))
    looks = {} if control else {SERVED: "1"}
    words = (*root, *(() if control else ("--readonly",)))
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        from mission_tui.web.server import HOST, ScreenCall, ScreenServer, listening, serve

        server = ScreenServer(ScreenCall(words, session.cwd, {**session.environ, **looks}), token)
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
