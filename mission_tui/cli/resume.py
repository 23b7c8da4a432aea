"""`mission-tui resume`: let paused runs go on, or give ended ones another attempt, after saying what would change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from mission_tui.cli.answers import answer_facts, print_answer
from mission_tui.cli.options import json_option, runs_argument, set_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.errors import EX_USAGE, UsageError

if TYPE_CHECKING:
    from mission_tui.ipc.messages import Resume


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
        write_document({"runs": [answer_facts(answer) for answer in answers]})
    else:
        for answer in answers:
            print_answer(answer)
    return EX_USAGE if any(isinstance(answer, VerdictReply) for answer in answers) else 0


def _as_request(ask: Callable[..., Resume], run: str, id_: int) -> Resume:
    return ask(run=run, id=id_)
