"""How an attempt ended, as one of a closed set of outcomes (finished, stopped, killed, failed, lost) with a cause.

The trainer's own last word counts when the exit agrees with it; what its keeper saw counts when there is none. Which
line of whose code a Python process died in is what its fault handler wrote to stderr.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection
from typing import Literal

from msgspec import Struct, structs

from mission_tui.errors import EX_CONFIG, limit_named
from mission_tui.fleet.events.journal import ENDING, Verb
from mission_tui.fleet.events.metrics import TrainingEnded
from mission_tui.fleet.events.outcome import Failed, Finished, Killed, Lost, Outcome, Stopped
from mission_tui.fleet.text import clean

FOLLOWING = "mission-tui: following: "
"""How lines of a run's log begin that its follower wrote there, and not the script."""
CAUSE_CHARACTERS = 400
_HEAD = re.compile(r"^Fatal Python error: ", re.MULTILINE)
_GUILTY = re.compile(r"^Current thread .*$", re.MULTILINE)
_STACK_END = re.compile(r"\n\s*\n")
_FAULTS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_FRAME = re.compile(r'^[ \t]+File "([^"<]+)", line (\d+) in ', re.MULTILINE)
_STANDARD_LIBRARY = re.compile(r"/lib/python3\.\d+/(?!site-packages/|dist-packages/)")


class ExitFacts(Struct, frozen=True):
    """What the keeper saw: exactly one of `code`, `signal`, `start_error`, or none when the trainer would not die.

    `escalated`: a graceful end ran out of time and SIGKILL followed. `last_output` is the tail of the output file.
    `disk_full` says which disk was full when it ended; empty where none was. Its last words may have found no room.
    `swept` is how many processes outlived it and were killed.
    """

    code: int | None = None
    signal: int | None = None
    asked: Literal["term", "quit", "limit"] | None = None
    escalated: bool = False
    oom_killed: bool = False
    start_error: str | None = None
    last_output: str = ""
    disk_full: str = ""
    swept: int = 0


def classify(
    end: TrainingEnded | None,
    exit_facts: ExitFacts | None,
    asked: Collection[Verb],
    last_checkpoint: str | None,
    *,
    rebooted: bool = False,
    by_exit: bool = False,
) -> Outcome:
    """The outcome of an attempt from the trainer's `end` record, the keeper's exit facts and what was asked of it.

    `last_checkpoint` is the newest verified one. Without exit facts and end record the end was not seen: `Lost`.
    `by_exit`: it was a command, of which nothing but its exit says how it ended.
    """
    if by_exit:
        return _of_command(exit_facts, asked, last_checkpoint, rebooted)
    checkpoint = (end.checkpoint if end else None) or last_checkpoint
    if exit_facts is None:
        return _unseen(end, asked, checkpoint, rebooted)
    if exit_facts.start_error is not None:
        return Failed("start", _sentence(exit_facts.start_error, "its process could not be started"), checkpoint)
    ended_by_us = exit_facts.escalated or exit_facts.asked == "quit" or "kill" in asked
    # An interpreter on its way out lets go of its handlers: asked once more, one that has saved and said so dies of it.
    by_term = exit_facts.asked == "term" and exit_facts.signal == signal.SIGTERM
    if end is not None and (end.how == "failed" or ended_by_us or by_term or exit_facts.code == 0):
        return _as_reported(end, checkpoint, hung=exit_facts.escalated, unasked=_unasked(exit_facts, asked))
    if ended_by_us or by_term:
        return Killed(checkpoint, _why_killed(exit_facts, asked))
    return _failed(end, exit_facts, checkpoint)


def never_begun(asked: Collection[Verb], last_checkpoint: str | None, cancelled: str = "") -> Outcome:
    """The outcome of an attempt of which no process was ever seen, given the newest verified checkpoint of before.

    `cancelled` says who took it from its engine's queue, where nobody did so here.
    """
    here = bool(ENDING & set(asked))
    if not here and not cancelled:
        return Failed("start", "its keeper was never started, or died at once", last_checkpoint)
    cause = "ended by you before it had begun" if here else f"{cancelled} before it had begun"
    if last_checkpoint is None or "kill" in asked:
        return Killed(last_checkpoint, cause)
    return Stopped(last_checkpoint, cause)


def _of_command(facts: ExitFacts | None, asked: Collection[Verb], checkpoint: str | None, rebooted: bool) -> Outcome:
    """Exit 0 is finished. What ended within its grace after it was asked to has stopped, whatever it exited with."""
    if facts is None:
        if "stop" in asked and "kill" not in asked and not rebooted:
            return Stopped(checkpoint, "stopped by you; its exit code is not known")
        return _unseen(None, asked, checkpoint, rebooted)
    if facts.start_error is not None:
        return Failed("start", _sentence(facts.start_error, "its process could not be started"), checkpoint)
    if facts.escalated or facts.asked == "quit" or "kill" in asked:
        return Killed(checkpoint, _why_killed(facts, asked))
    if facts.asked == "term" or "stop" in asked:
        how = f" ({_exit_words(facts)})" if facts.signal != signal.SIGTERM and facts.code != 0 else ""
        return Stopped(checkpoint, f"{_unasked(facts, asked) or 'stopped by you'}{how}")
    if facts.code == 0:
        return Finished(checkpoint, f"exit code 0{_ended_with_it(facts.swept)}")
    failed = _failed(None, facts, checkpoint)
    return failed if facts.code is None else structs.replace(failed, kind="exit", cause=_exited(facts))


def _ended_with_it(swept: int) -> str:
    """What to add where a script left work in the background that was ended with it: nobody looks for that."""
    if swept == 0:
        return ""
    some = (
        "a process that it had left running was" if swept == 1 else f"{swept} processes that it had left running were"
    )
    return f"; {some} ended with it"


def _exit_words(facts: ExitFacts) -> str:
    return _signal_name(facts.signal) if facts.signal is not None else f"exit code {facts.code}"


def _unseen(end: TrainingEnded | None, asked: Collection[Verb], checkpoint: str | None, rebooted: bool) -> Outcome:
    if end is not None:
        return _as_reported(end, checkpoint, hung=False)
    if rebooted:
        return Lost("the machine was restarted while it ran", checkpoint)
    if "kill" in asked:
        return Killed(checkpoint)
    # Little ends both at once but what ends a whole session or control group.
    return Lost(
        "its keeper and its trainer are gone, and how it ended is not known; `mission-tui doctor` says whether a "
        "logout from this machine ends runs, which is the usual reason",
        checkpoint,
    )


def _unasked(facts: ExitFacts, asked: Collection[Verb]) -> str:
    """That a signal ended it which nobody here asked for; empty where somebody asked. What is asked here is on record
    before the first signal, so one without a request came from outside: a `kill` by hand, a batch system, a shutdown.
    """
    if ENDING & set(asked):
        return ""
    if facts.asked == "limit":
        return "saved and ended before the time limit of its job"
    # The keeper counts what it was sent itself; a trainer that stops all the same was sent its signal directly.
    who = "trainer" if facts.asked is None else "keeper"
    return f"terminated by a signal from outside ({'SIGQUIT' if facts.asked == 'quit' else 'SIGTERM'} to its {who})"


def _as_reported(end: TrainingEnded, checkpoint: str | None, *, hung: bool, unasked: str = "") -> Outcome:
    """The trainer's own word. What it claims to have saved must be named, or it was not saved."""
    after = "; its process hung afterwards and was killed" if hung else ""
    match end.how:
        case "finished" if checkpoint is not None:
            return Finished(checkpoint, _sentence(end.cause, "reached its budget") + after)
        case "stopped" if checkpoint is not None:
            return Stopped(checkpoint, _sentence(end.cause, unasked or "stopped by you") + after)
        case "failed":
            return Failed(end.failure or "unknown", _sentence(end.cause, "failed without naming a cause"), checkpoint)
        case _:
            return Failed("unknown", f"said it {end.how}, but saved no checkpoint")


def _why_killed(facts: ExitFacts, asked: Collection[Verb]) -> str:
    unasked = _unasked(facts, asked)
    if unasked and facts.asked == "limit":
        return (
            "the time limit of its job was near, and it could not save in time; a larger slurm.warn_s gives it longer"
        )
    if facts.escalated:
        return f"{unasked}; it did not end in time and was killed" if unasked else "did not stop in time and was killed"
    if facts.code is None and facts.signal is None:
        return "killed by you, but its process does not die"
    if unasked:
        return unasked if facts.asked == "quit" else f"{unasked} before it could save"
    if facts.asked == "quit" or "kill" in asked:
        return "killed by you"
    return "ended by SIGTERM before it could save"


def _failed(end: TrainingEnded | None, facts: ExitFacts, checkpoint: str | None) -> Failed:
    said = f" after it said it had {end.how}" if end else ""
    last_line = _last_line(facts.last_output)
    if facts.oom_killed:
        return Failed("oom", f"the kernel ended it for lack of memory{said}", checkpoint, facts.signal)
    if facts.signal is not None:
        place = faulting_line(facts.last_output) if facts.signal in _FAULTS else None
        where = f", at {clean(place)}" if place else ""
        return Failed("crash", f"ended by {_signal_name(facts.signal)}{said}{where}", checkpoint, facts.signal)
    if facts.code == EX_CONFIG:
        return Failed("config", last_line or "its settings cannot be used; its log says more", checkpoint)
    if facts.code == 0:
        return Failed("unknown", "exit code 0 without saying how it ended", checkpoint)
    if facts.code is None:
        return Failed("unknown", "its process does not die", checkpoint)
    return Failed("unknown", _exited(facts, said), checkpoint)


def _exited(facts: ExitFacts, said: str = "") -> str:
    last_line = _last_line(facts.last_output)
    why = (
        f": {last_line}" if last_line else "",
        *(f"; {it}" for it in (limit_named(last_line), facts.disk_full) if it),
    )
    return f"exit code {facts.code}{said}{''.join(why)}"


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


def _last_line(output: str) -> str:
    lines = (clean(line, CAUSE_CHARACTERS) for line in reversed(output.splitlines()))
    return next((line for line in lines if line and not line.startswith(FOLLOWING)), "")


def _sentence(text: str, otherwise: str) -> str:
    return clean(text, CAUSE_CHARACTERS) or otherwise


def faulting_line(said: str) -> str | None:
    """``/home/ada/lab/my_env.py:3``: the innermost line of the last fatal error in `said`, if there is one.

    Of all threads the one counts that the error hit; the head may be cut off before it, because the others come first.
    Python's own library is blamed only where nobody else is there: `ctypes` crashes for others.
    """
    head = next(reversed([*_HEAD.finditer(said)]), None)
    guilty = next(reversed([*_GUILTY.finditer(said, head.end() if head else 0)]), None)
    if guilty is not None:
        stack = _STACK_END.split(said[guilty.end() :], maxsplit=1)[0]
    elif head is not None:
        stack = said[head.end() :]
    else:
        return None
    frames = list(_FRAME.finditer(stack))
    blamed = next((frame for frame in frames if not _STANDARD_LIBRARY.search(frame[1])), next(iter(frames), None))
    return None if blamed is None else f"{blamed[1]}:{blamed[2]}"
