"""How the answer to a request for another attempt is said: accepted, or the verdict on what would change."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.errors import say

if TYPE_CHECKING:
    from mission_tui.ipc.messages import Accepted, VerdictReply

__all__ = ["answer_facts", "print_answer"]


def answer_facts(answer: Accepted | VerdictReply) -> dict[str, Any]:
    """One run of the document of `resume`."""
    import msgspec

    from mission_tui.ipc.messages import Accepted

    if isinstance(answer, Accepted):
        return {"id": answer.runs[0], "accepted": True, "notes": list(answer.notes), "verdict": None}
    return {"id": answer.run, "accepted": False, "notes": [], "verdict": msgspec.to_builtins(answer.verdict)}


def print_answer(answer: Accepted | VerdictReply) -> None:
    """The run that goes on, on stdout; what was noted, or why it does not, on stderr."""
    from mission_tui.cli.table import Table
    from mission_tui.ipc.messages import Accepted

    if isinstance(answer, Accepted):
        click.echo(answer.runs[0])
        for note in answer.notes:
            say(note)
        return
    table = Table(("grade", "setting", "was", "now", "what it does", "remedy"))
    for change in answer.verdict.changes:
        table.add(change.grade, change.name, change.was, change.now, change.why, change.remedy)
    table.write(sys.stderr)
    todo = "add --accept to resume all the same" if answer.accept_needed else "these changes make it another run"
    say(f"{answer.run} was not resumed: {todo}")
