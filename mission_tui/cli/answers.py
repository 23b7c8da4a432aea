"""Prints the answer to a request about runs: what was accepted, or what a resume or other settings would change."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TextIO

from mission_tui.cli.terminal_output import Colour, Styled, print_error, write
from mission_tui.errors import EX_USAGE

if TYPE_CHECKING:
    from mission_tui.fleet.resume.verdict import Change, Grade, Remedy
    from mission_tui.ipc.replies import Accepted, VerdictReply


Action = Literal["resume", "set"]

_NOT_DONE: Mapping[Action, str] = {"resume": "was not resumed", "set": "was not changed"}
_OVERRIDE: Mapping[Action, str] = {"resume": ", or override it where --override is listed", "set": ""}
_COLOURS: Mapping[Grade, Colour | None] = {"safe": None, "note": None, "warn": "yellow", "refuse": "red"}
_NO_NAMES: Mapping[str, str] = {}
_INDENT, _HANG = 8, 4
_LEAST, _PIPED = 40, 120
_CHARACTERS = 2000


def answer_facts(answer: Accepted | VerdictReply) -> dict[str, Any]:
    """One run of the document of `resume` and `set`."""
    from mission_tui.ipc.replies import Accepted

    said: dict[str, Any] = {"checkpoint": answer.checkpoint, "damaged": list(answer.damaged)}
    if isinstance(answer, Accepted):
        said |= {"remedies": list(answer.remedies), "warnings": list(answer.warnings)}
        facts = {"id": answer.runs[0], "accepted": True, "notes": list(answer.notes), "verdict": None}
    else:
        said["not_now"] = answer.not_now
        verdict = {"grade": answer.verdict.grade, "changes": [_change_facts(it) for it in answer.verdict.changes]}
        facts = {"id": answer.run, "accepted": False, "notes": [], "verdict": verdict}
    return facts | {name: value for name, value in said.items() if value}


def _change_facts(change: Change) -> dict[str, Any]:
    plain = {name: getattr(change, name) for name in ("name", "was", "now", "grade", "why", "remedy", "override")}
    remedies = [{"name": it.name, "what": it.what, "set": list(it.assignments)} for it in change.remedies]
    taken = {"answered_by": change.answered_by} if change.answered_by else {}
    return plain | {"remedies": remedies} | taken


def print_answer(answer: Accepted | VerdictReply, action: Action = "resume") -> None:
    """The run on stdout; notes, or why `action` was not done, on stderr."""
    from mission_tui.ipc.replies import Accepted

    if isinstance(answer, Accepted):
        print_accepted(answer, as_json=False)
        return
    print_changes(answer.verdict.changes)
    if answer.not_now:
        print_error(answer.not_now)
    print_error(f"{answer.run} {_NOT_DONE[action]}: {_todo(answer, action)}")


def report_answers(
    answers: Sequence[Accepted | VerdictReply],
    as_json: bool,
    action: Action = "resume",
    names: Mapping[str, str] = _NO_NAMES,
) -> int:
    """Print the answers; the exit code: 2 where something was not done, because the verdict was not accepted.

    With `names` by id, what was answered alike to several of these runs is said once, of all of them by name.
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.ipc.replies import VerdictReply

    if as_json:
        write_document({"runs": [answer_facts(answer) for answer in answers]})
    else:
        for alike in _alike(answers) if names else ([it] for it in answers):
            _print_alike(alike, action, [names[_run_of(it)] for it in alike] if names else [])
    return EX_USAGE if any(isinstance(answer, VerdictReply) for answer in answers) else 0


def _run_of(answer: Accepted | VerdictReply) -> str:
    from mission_tui.ipc.replies import Accepted

    return answer.runs[0] if isinstance(answer, Accepted) else answer.run


def _alike(answers: Sequence[Accepted | VerdictReply]) -> list[list[Accepted | VerdictReply]]:
    """Those that differ in nothing but their run together, in the order of the first of each."""
    from msgspec import structs

    from mission_tui.ipc.replies import Accepted

    by_rest: dict[str, list[Accepted | VerdictReply]] = {}
    for answer in answers:
        without_run = (
            structs.replace(answer, re=0, runs=())
            if isinstance(answer, Accepted)
            else structs.replace(answer, re=0, run="")
        )
        by_rest.setdefault(repr(without_run), []).append(answer)
    return list(by_rest.values())


def _print_alike(answers: Sequence[Accepted | VerdictReply], action: Action, names: Sequence[str]) -> None:
    from mission_tui.fleet.capacity.admission import listed
    from mission_tui.ipc.replies import VerdictReply

    if not names:
        print_answer(answers[0], action)
        return
    first = answers[0]
    if isinstance(first, VerdictReply):
        print_changes(first.verdict.changes)
        if first.not_now:
            print_error(first.not_now)
        not_done = _NOT_DONE[action] if len(names) == 1 else _NOT_DONE[action].replace("was", "were", 1)
        print_error(f"{listed(names)} {not_done}: {_todo(first, action)}")
        return
    for answer in answers:
        write(_run_of(answer))
    for note in first.notes:
        print_error(f"{listed(names)}: {note}")


def print_changes(changes: Iterable[Change]) -> None:
    """On stderr, folded to its width."""
    width = width_of(sys.stderr)
    for change in changes:
        for line in change_lines(change, width):
            write(*line, stream=sys.stderr)


def change_lines(change: Change, width: int) -> Iterator[tuple[str | Styled, ...]]:
    """One change in `width` columns, a line's parts each: grade and values, why it matters, each option that helps."""
    head = folded(f"{change.name}: {change.was} -> {change.now}", width, _INDENT)
    yield Styled(f"{change.grade:<{_INDENT}}", _COLOURS[change.grade]), head[0][_INDENT:]
    rest = head[1:]
    rest += folded(change.why, width, _INDENT)
    for remedy in change.remedies:
        option = "--branch" if remedy.name == "branch" else f"--remedy {remedy.name}"
        rest += folded(f"{option}: {remedy.what}{words(remedy)}", width, _INDENT, _HANG)
    if change.override:
        rest += folded(f"--override {change.name}: resume although this is refused", width, _INDENT, _HANG)
    if change.remedy and not change.remedies:
        rest += folded(f"instead: {change.remedy}", width, _INDENT, _HANG)
    yield from ((line,) for line in rest)


def folded(text: str, width: int, indent: int, hang: int = 0) -> list[str]:
    """`text` in lines of `width` columns, all but the first `hang` further in than `indent`.

    A word that is longer than a line stays whole, so that it can be copied.
    """
    from textwrap import wrap

    from mission_tui.fleet.text import clean

    first, later = " " * indent, " " * (indent + hang)
    return wrap(
        clean(text, _CHARACTERS),
        width,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def width_of(stream: TextIO) -> int:
    """Columns of the terminal that `stream` is, else 120: a pipe has none, and a file should read well."""
    if not stream.isatty():
        return _PIPED
    try:
        return max(_LEAST, os.get_terminal_size(stream.fileno()).columns)
    except OSError:
        return _PIPED


def words(remedy: Remedy) -> str:
    """The `--set` words that a remedy stands for, in brackets."""
    said = " ".join(f"--set {assignment}" for assignment in remedy.assignments)
    return f" ({said})" if said else ""


def _todo(answer: VerdictReply, action: Action) -> str:
    if answer.accept_needed:
        return f"add --accept to {action} it anyway, or use an option listed above"
    if answer.verdict.grade == "refuse":
        return f"change what is refused{_OVERRIDE[action]}"
    return "it can be resumed; this was only a check"


def merged(replies: Sequence[Accepted]) -> Accepted:
    """What was accepted of one request for several runs: all runs, and each note once."""
    from mission_tui.fleet.capacity.admission import without_older_counts
    from mission_tui.ipc.replies import Accepted

    runs = tuple(run for reply in replies for run in reply.runs)
    notes = without_older_counts(note for reply in replies for note in reply.notes)
    return Accepted(re=replies[0].re, runs=runs, notes=notes)


def print_accepted(reply: Accepted, as_json: bool) -> None:
    """One document, or the runs on stdout, one id a line, and the notes on stderr."""
    from mission_tui.cli.tables.documents import write_document

    if as_json:
        write_document({"runs": [{"id": run} for run in reply.runs], "notes": list(reply.notes)})
        return
    for run in reply.runs:
        write(run)
    for note in reply.notes:
        print_error(note)
