"""The one family of errors: each is a sentence a person can act on, with the exit code a script can branch on.

Standard library only; every room may raise these.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable

EX_FAILED = 1
EX_USAGE = 2
EX_UNAVAILABLE = 69
EX_RESUMABLE = 75
EX_CONFIG = 78


class MissionError(Exception):
    """Something the person can act on; `str(error)` is the whole sentence, `exit_code` the process's status."""

    exit_code = EX_FAILED


class UsageError(MissionError):
    """The words of the command are wrong: unknown run, bad name, contradictory flags."""

    exit_code = EX_USAGE


class PresetError(MissionError):
    """A preset, spec or rules file cannot be used as it stands, or the machine cannot carry it."""

    exit_code = EX_CONFIG


class NeedsAcceptError(UsageError):
    """A resume carries warnings that nobody has accepted yet."""


class NoSupervisorError(MissionError):
    """No supervisor answers and none could be started."""

    exit_code = EX_UNAVAILABLE


class StoppedSupervisorError(NoSupervisorError):
    """Somebody stopped the supervisor on purpose: it is started again when a person asks for that."""


class ProtocolError(MissionError):
    """The other side of a socket said something malformed, too large or of another version."""


class DamagedError(MissionError):
    """A file of a run directory does not hold what was written there."""


class CheckpointError(DamagedError):
    """A checkpoint cannot be loaded: missing, partial, or not the bytes its manifest promises."""


def nearest(word: str, choices: Iterable[str]) -> str:
    """The closest of `choices` as ``; did you mean 'x'?``, or an empty string when nothing is close."""
    close = closest(word, choices)
    return "" if close is None else f"; did you mean '{close}'?"


def closest(word: str, choices: Iterable[str]) -> str | None:
    """The one of `choices` that `word` is most like, however large or small: `Relu` is `ReLU`, not `RNNCell`."""
    written = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), list(written), n=1, cutoff=0.5)
    return written[close[0]] if close else None


def raised_by(error: BaseException) -> str:
    """``ValueError: boom (my_env.py:12)``: what foreign code raised, and in which of its lines.

    Many raise `NotImplementedError` without a word.
    """
    import traceback  # nobody who only names errors pays for it

    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    said = f": {error}" if str(error) else ""
    limit = limit_met(error)
    return f"{type(error).__name__}{said}{place}" + (f"; {limit}" if limit else "")


PROCESSES_LIMIT = (
    "no more processes or threads may be started here (`ulimit -u`, `ulimit -v`, or pids.max of the control group)"
)
_FILES_LIMIT = "one process may open no more files (`ulimit -n`)"
_STARTING = frozenset({"subprocess.py", "popen_fork.py", "popen_spawn_posix.py", "pty.py", "forks.py"})


def limit_met(error: BaseException, *, starting: bool = False) -> str:
    """Which limit of the user or of the control group `error` stands for, where its own words name none; else empty.

    `starting`: it came of starting a process. Elsewhere a socket that has nothing yet says the same.
    """
    match error:
        case BlockingIOError() if starting or _file_of(error) in _STARTING:
            return PROCESSES_LIMIT
        case OSError(errno=errno.EMFILE):
            return _FILES_LIMIT
        case RuntimeError():
            return limit_named(str(error))
        case _:
            return ""


def limit_named(line: str) -> str:
    """The same of a line that a program wrote before it ended."""
    if "can't start new thread" in line or "pthread_create failed" in line or _NO_FORK.search(line):
        return PROCESSES_LIMIT
    return _FILES_LIMIT if "Too many open files" in line else ""


_NO_FORK = re.compile(r"\bfork\b.*Resource temporarily unavailable")


def _file_of(error: BaseException) -> str:
    """The last part of the path of the module that raised it."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return "" if place is None else place.tb_frame.f_code.co_filename.rpartition("/")[2]


def install_words(extra: str) -> str:
    """How the packages of an extra are installed, in the versions that the tests ran with."""
    return f"in the folder of mission-tui: pip install -c constraints.txt -e '.[{extra}]'"
