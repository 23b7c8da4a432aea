"""How the command line says that something went wrong: one line on stderr and an exit code, in this one place.

Only what a person can act on is rendered; an exception that nobody foresaw stays a traceback. The screen alone does
without click, so what click says is met in `root`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from mission_tui.errors import MissionError

EX_INTERRUPTED = 130
SENTENCE_CHARACTERS = 1000


def print_error(sentence: str) -> None:
    """One diagnostic line on stderr, without anything a terminal would act on."""
    from mission_tui.cli.terminal_output import write
    from mission_tui.fleet.text import clean

    write(f"mission-tui: {clean(sentence, SENTENCE_CHARACTERS)}", stream=sys.stderr)


def exit_code_of(verb: Callable[[], int | None]) -> int:
    """What `verb` returns (None is 0), or the exit code of the error it ended with, after saying that error."""
    try:
        return verb() or 0
    except MissionError as error:
        print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return EX_INTERRUPTED
