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

from mission_tui.cli.tables.numbers import UNKNOWN, measure
from mission_tui.cli.terminal_output import enter_screen, leave_screen, write, write_picture

if TYPE_CHECKING:
    from mission_tui.fleet.views.episode_picture import Canvas, Colours
    from mission_tui.ipc.replies import Evaluated, Progress

__all__ = ["canvas_of", "show"]

WATCHED_FPS, FASTEST_FPS = 8.0, 60.0
_LEAVING = frozenset(("q", "Q", "\x1b"))
_FULL = frozenset(("truecolor", "24bit"))


def canvas_of(environ: Mapping[str, str], fps: float | None, out: TextIO) -> Canvas:
    """What pictures have to fit to be shown on `out`: a line is left for how far the episode is."""
    from mission_tui.fleet.views.episode_picture import Canvas

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
                write_picture(last, out, below=f"step {reply.done}")
                write(stream=out)
                continue
            write_picture(last, out, below=f"step {reply.done}   q leaves", home=True)
            if _left():
                break
    if on_screen:
        write_picture(last, out)
    if result is None:
        write(f"left at step {step}")
    else:
        _say(result)


def _say(result: Mapping[str, Any]) -> None:
    outcome = result.get("outcome") or UNKNOWN
    write(f"checkpoint {result['checkpoint']} of {result['run']}, seed {result['seed']}: one episode")
    write(f"return {measure(result['return'])} in {result['steps']} steps, outcome {outcome}")


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
        enter_screen(out)
        yield True
    finally:
        leave_screen(out)
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _left() -> bool:
    """Whether a key that leaves was pressed."""
    while select.select([sys.stdin], [], [], 0.0)[0]:
        pressed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
        if not pressed or not _LEAVING.isdisjoint(pressed):
            return True
    return False
