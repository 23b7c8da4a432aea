"""How the command line says that something went wrong: one line on stderr and an exit code, in this one place.

Only what a person can act on is rendered; an exception that nobody foresaw stays a traceback.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from mission_tui.errors import EX_USAGE, MissionError

__all__ = ["EX_INTERRUPTED", "exit_code_of", "say"]

EX_INTERRUPTED = 130
SENTENCE_CHARACTERS = 1000


def say(sentence: str) -> None:
    """One diagnostic line on stderr, without anything a terminal would act on."""
    from mission_tui.fleet.text import clean

    click.echo(f"mission-tui: {clean(sentence, SENTENCE_CHARACTERS)}", err=True)


def exit_code_of(verb: Callable[[], int | None]) -> int:
    """What `verb` returns (None is 0), or the exit code of the error it ended with, after saying that error."""
    try:
        return verb() or 0
    except MissionError as error:
        say(str(error))
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EX_USAGE
    except click.UsageError as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        say(f"{error.format_message().rstrip('.')}{where}")
        return EX_USAGE
    except click.Abort:
        return EX_INTERRUPTED
