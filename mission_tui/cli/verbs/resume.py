"""`mission-tui resume`: let held runs go on, or give ended ones another attempt, after saying what would change."""

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
    from mission_tui.ipc.requests import Resume


@click.command("resume")
@runs_argument(required=True)
@set_option
@click.option("--checkpoint", metavar="NAME", help="Begin from this checkpoint (default: the newest verified).")
@click.option("--remedy", "remedies", multiple=True, metavar="NAME[,NAME]", help="Carry out what the verdict offers.")
@click.option("--override", "overrides", multiple=True, metavar="FIELD", help="Go against the refusal of FIELD.")
@click.option("--branch", is_flag=True, help="Leave RUN as it is; start a new run with its weights.")
@click.option("--name", metavar="NAME", help="What the branch is called.")
@click.option("--accept", is_flag=True, help="Accept what the changes do to the run.")
@json_option
@pass_session
def command(
    session: Session,
    runs: tuple[str, ...],
    assignments: tuple[str, ...],
    checkpoint: str | None,
    remedies: tuple[str, ...],
    overrides: tuple[str, ...],
    branch: bool,
    name: str | None,
    accept: bool,
    as_json: bool,
) -> int:
    """Continue paused, frozen, parked or ended runs.

    Where the changes do harm, a verdict says which, why, and what helps: exit 2, and nothing is started. A remedy is
    named as there (reset-adam), or with its field (restore:ppo.gamma).
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.ipc.own_limits import captured_limits
    from mission_tui.ipc.replies import VerdictReply
    from mission_tui.ipc.requests import Resume
    from mission_tui.ipc.start import captured_environ

    if checkpoint is not None and len(runs) > 1:
        raise UsageError("--checkpoint belongs to one run: resume the runs one by one")
    if name is not None and (not branch or len(runs) > 1):
        raise UsageError("--name is what one --branch is called; a resumed run keeps its name")
    ask = partial(
        Resume,
        assignments=assignments,
        checkpoint=checkpoint,
        accept=accept,
        remedies=tuple(name for names in remedies for name in names.split(",") if name),
        overrides=overrides,
        branch=branch,
        name=name,
        cwd=str(session.cwd),
        python=sys.executable,
        environ=captured_environ(session.environ),
        limits=captured_limits(),
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
