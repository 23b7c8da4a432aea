"""`mission-tui resume`: let paused runs go on, or give ended ones another attempt, after saying what would change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.errors import say
from mission_tui.cli.options import json_option, runs_argument, set_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.errors import EX_USAGE, UsageError

if TYPE_CHECKING:
    from mission_tui.ipc.messages import Accepted, Resume, VerdictReply


@click.command("resume")
@runs_argument(required=True)
@set_option
@click.option("--checkpoint", metavar="NAME", help="Begin from this checkpoint (default: the newest verified).")
@click.option("--accept", is_flag=True, help="Accept what the changes do to the run.")
@json_option
@pass_session
def command(
    session: Session,
    runs: tuple[str, ...],
    assignments: tuple[str, ...],
    checkpoint: str | None,
    accept: bool,
    as_json: bool,
) -> int:
    """Continue paused or ended runs."""
    from mission_tui.cli.documents import write_document
    from mission_tui.ipc.messages import Resume, VerdictReply
    from mission_tui.ipc.start import captured_environ

    if checkpoint is not None and len(runs) > 1:
        raise UsageError("--checkpoint belongs to one run: resume the runs one by one")
    ask = partial(
        Resume,
        assignments=assignments,
        checkpoint=checkpoint,
        accept=accept,
        cwd=str(session.cwd),
        python=sys.executable,
        environ=captured_environ(session.environ),
    )
    with session.connect() as connection:
        answers = [connection.ask(partial(_as_request, ask, run)) for run in runs]
    if as_json:
        write_document({"runs": [_facts(answer) for answer in answers]})
    else:
        for answer in answers:
            _print(answer)
    return EX_USAGE if any(isinstance(answer, VerdictReply) for answer in answers) else 0


def _as_request(ask: Callable[..., Resume], run: str, id_: int) -> Resume:
    return ask(run=run, id=id_)


def _facts(answer: Accepted | VerdictReply) -> dict[str, Any]:
    import msgspec

    from mission_tui.ipc.messages import Accepted

    if isinstance(answer, Accepted):
        return {"id": answer.runs[0], "accepted": True, "notes": list(answer.notes), "verdict": None}
    return {"id": answer.run, "accepted": False, "notes": [], "verdict": msgspec.to_builtins(answer.verdict)}


def _print(answer: Accepted | VerdictReply) -> None:
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
