"""The output of a command line, as it comes. Closing it ends the command, as Ctrl-C would; runs go on."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from textual.strip import Strip

from mission_tui.errors import UsageError
from mission_tui.run_module import module_words
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line, wrap
from mission_tui.tui.screens.sheet import Sheet, still_open
from mission_tui.tui.state.app_context import AppContext

_MOST_LINES = 2000
_MOST_LETTERS = 1 << 18
"""All of it is folded again whenever there is more."""
_READ_BYTES = 1 << 16
_PACE_S = 0.1


class OutputScreen(Sheet[None]):
    """The words after `mission-tui`, carried out for the runs in `root`."""

    def __init__(self, app_context: AppContext, words: Sequence[str], root: str) -> None:
        super().__init__(f"mission-tui {' '.join(words)}", "Esc ends it")
        self._app_context, self._words, self._root = app_context, list(words), root
        self._text = ""
        self._cut = self._due = False
        self._process: asyncio.subprocess.Process | None = None

    def on_mount(self) -> None:
        """Begin."""
        self._app_context.start(self._carry_out())

    def on_unmount(self) -> None:
        """Nobody listens any more."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)

    async def _carry_out(self) -> None:
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *module_words("mission_tui"), *self._words,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, "MISSION_TUI_RUNS": self._root, "NO_COLOR": "1"},
            )  # fmt: skip
        except (OSError, ValueError) as error:  # a line may have been pasted that no program can be given
            raise UsageError(f"this cannot be carried out: {error}") from error
        assert process.stdout is not None
        letters = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while data := await process.stdout.read(_READ_BYTES):
            self._keep(self._text + letters.decode(data))
            if not self._due:
                self._due = True
                self.set_timer(_PACE_S, self._show)
        code = await process.wait()
        if still_open(self):
            self.hint("Esc back" if code == 0 else f"it ended with {code}   Esc back")
        self._show()

    def _keep(self, text: str) -> None:
        """The newest lines of `text`, or as much as there may be of a line without an end."""
        kept = "\n".join(text.split("\n")[-_MOST_LINES:])[-_MOST_LETTERS:]
        self._cut = self._cut or len(kept) < len(text)
        self._text = kept

    def _show(self) -> None:
        self._due = False
        if still_open(self):
            self.refill()

    def lines(self, width: int) -> list[Strip]:
        """What it said so far."""
        if not self._text:
            return [line([("…", colours.QUIET)], width)]
        said = self._text.rstrip("\n").split("\n")
        earlier = [line([("what came before is not kept here; a shell shows all", colours.QUIET)], width)]
        return earlier * self._cut + [
            line([(part, colours.INK)], width) for raw in said for part in wrap(raw, width) or [""]
        ]
