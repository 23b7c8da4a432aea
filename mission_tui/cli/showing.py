"""An episode in the terminal, picture by picture on a screen of its own; `q` or Ctrl-C leaves at any time.

Into a pipe or a file the pictures go one below the other, without colours.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from mission_tui.cli.tables.words import UNKNOWN, measure

if TYPE_CHECKING:
    from mission_tui.fleet.views.picture import Canvas, Colours
    from mission_tui.ipc.replies import Evaluated, Progress

__all__ = ["canvas_of", "show"]

WATCHED_FPS, FASTEST_FPS = 8.0, 60.0
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _TO_LINE_END, _TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
_LEAVING = frozenset(("q", "Q", "\x1b"))
_FULL = frozenset(("truecolor", "24bit"))


def canvas_of(environ: Mapping[str, str], fps: float | None, out: TextIO) -> Canvas:
    """What pictures have to fit to be shown on `out`: a line is left for how far the episode is."""
    from mission_tui.fleet.views.picture import Canvas

    size = shutil.get_terminal_size()
    # Nobody watches a file being written.
    rate = fps or (WATCHED_FPS if out.isatty() else FASTEST_FPS)
    return Canvas(columns=size.columns, lines=max(1, size.lines - 1), colours=_colours(environ, out), fps=rate)


def show(replies: Iterable[Evaluated | Progress], out: TextIO) -> None:
    """Draw the pictures as they come, and say how it ended; what is left then is the last picture."""
    from mission_tui.ipc.replies import Progress

    last, step, result = "", 0, None
    with _screen(out) as on_screen:
        for reply in replies:
            if not isinstance(reply, Progress):
                result = reply.result
                break
            last, step = reply.note, reply.done
            if not on_screen:
                out.write(f"{last}\nstep {reply.done}\n\n")
                continue
            rows = [f"{row}{_TO_LINE_END}" for row in (*last.split("\n"), f"step {reply.done}   q leaves")]
            out.write(_HOME + "\r\n".join(rows) + _TO_SCREEN_END)
            out.flush()
            if _left():
                break
    if on_screen:
        click.echo(last)
    if result is None:
        click.echo(f"left at step {step}")
    else:
        _say(result)


def _say(result: Mapping[str, Any]) -> None:
    outcome = result.get("outcome") or UNKNOWN
    click.echo(f"checkpoint {result['checkpoint']} of {result['run']}, seed {result['seed']}: one episode")
    click.echo(f"return {measure(result['return'])} in {result['steps']} steps, outcome {outcome}")


def _colours(environ: Mapping[str, str], out: TextIO) -> Colours:
    blocks = (out.encoding or "").lower().replace("-", "") == "utf8"
    if environ.get("NO_COLOR") or not out.isatty() or not blocks or environ.get("TERM", "dumb") == "dumb":
        return "none"
    return "full" if environ.get("COLORTERM", "").lower() in _FULL else "256"


@contextmanager
def _screen(out: TextIO) -> Iterator[bool]:
    """A screen of its own, and keys at once, if this is a terminal at both ends; everything is put back."""
    if not (out.isatty() and sys.stdin.isatty()):
        yield False
        return
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    try:
        tty.setcbreak(keys)
        out.write(_ENTER)
        yield True
    finally:
        out.write(_LEAVE)
        out.flush()
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _left() -> bool:
    """Whether a key that leaves was pressed."""
    while select.select([sys.stdin], [], [], 0.0)[0]:
        pressed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
        if not pressed or not _LEAVING.isdisjoint(pressed):
            return True
    return False
