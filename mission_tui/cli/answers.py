"""How the answer to a request for another attempt is said: accepted, or the verdict on what would change."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.errors import say

if TYPE_CHECKING:
    from mission_tui.fleet.verdict import Change, Remedy
    from mission_tui.ipc.messages import Accepted, VerdictReply

__all__ = ["answer_facts", "print_answer", "words"]


def answer_facts(answer: Accepted | VerdictReply) -> dict[str, Any]:
    """One run of the document of `resume`."""
    from mission_tui.ipc.messages import Accepted

    if isinstance(answer, Accepted):
        return {"id": answer.runs[0], "accepted": True, "notes": list(answer.notes), "verdict": None}
    verdict = {"grade": answer.verdict.grade, "changes": [_change_facts(it) for it in answer.verdict.changes]}
    return {"id": answer.run, "accepted": False, "notes": [], "verdict": verdict}


def _change_facts(change: Change) -> dict[str, Any]:
    plain = {name: getattr(change, name) for name in ("name", "was", "now", "grade", "why", "remedy", "override")}
    remedies = [{"name": it.name, "what": it.what, "set": list(it.assignments)} for it in change.remedies]
    return plain | {"remedies": remedies}


def print_answer(answer: Accepted | VerdictReply) -> None:
    """The run that goes on, on stdout; what was noted, or why it does not, on stderr."""
    from mission_tui.cli.table import Table
    from mission_tui.ipc.messages import Accepted

    if isinstance(answer, Accepted):
        click.echo(answer.runs[0])
        for note in answer.notes:
            say(note)
        return
    table = Table(("grade", "setting", "was", "now", "what it does", "advice"))
    help_ = Table(("option", "for", "what it does"))
    for change in answer.verdict.changes:
        advice = "" if change.remedies else change.remedy
        table.add(change.grade, change.name, change.was, change.now, change.why, advice)
        for remedy in change.remedies:
            option = "--branch" if remedy.name == "branch" else f"--remedy {remedy.name}"
            help_.add(option, change.name, f"{remedy.what}{words(remedy)}")
        if change.override:
            help_.add(f"--override {change.name}", change.name, "resumes against this refusal")
    table.write(sys.stderr)
    help_.write(sys.stderr)
    say(f"{answer.run} was not resumed: {_todo(answer)}")


def words(remedy: Remedy) -> str:
    """The `--set` words that a remedy stands for, in brackets."""
    said = " ".join(f"--set {assignment}" for assignment in remedy.assignments)
    return f" ({said})" if said else ""


def _todo(answer: VerdictReply) -> str:
    if answer.accept_needed:
        return "add --accept to resume all the same, or a remedy from the table"
    if answer.verdict.grade == "refuse":
        return "what is refused must change, or be overridden by name where the table offers that"
    return "nothing keeps it from being resumed; it was only asked about"
