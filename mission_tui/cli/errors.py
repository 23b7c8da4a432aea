"""Errors of the command line: one line on stderr and an exit code, printed here alone.

Only errors that a person can act on become one line; any other exception stays a traceback. The screen starts without
click, so click's own errors are handled in `root`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from mission_tui.errors import MissionError

EX_INTERRUPTED = 130
SENTENCE_CHARACTERS = 1000


def print_error(sentence: str) -> None:
    """One line on stderr, without characters that a terminal would act on."""
    from mission_tui.cli.terminal_output import write
    from mission_tui.fleet.text import clean

    write(f"mission-tui: {clean(sentence, SENTENCE_CHARACTERS)}", stream=sys.stderr)


def exit_code_of(verb: Callable[[], int | None]) -> int:
    """What `verb` returns (None is 0); if it raises an error, print that and return its exit code."""
    try:
        return verb() or 0
    except MissionError as error:
        print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return EX_INTERRUPTED
