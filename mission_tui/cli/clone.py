"""`mission-tui clone`: a new run like another one, with changes; with its weights it is a branch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mission_tui.cli.answers import print_answer
from mission_tui.cli.options import json_option, run_argument, set_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.errors import UsageError

if TYPE_CHECKING:
    from mission_tui.ipc.replies import Accepted, VerdictReply


@click.command("clone")
@run_argument()
@set_option
@click.option("--weights", is_flag=True, help="Begin with what RUN has learned (resume --branch does the same).")
@click.option("--checkpoint", metavar="NAME", help="With --weights: those of this checkpoint (default: the newest).")
@click.option("--name", metavar="NAME", help="What the new run is called.")
@json_option
@pass_session
def command(
    session: Session,
    run: str,
    assignments: tuple[str, ...],
    weights: bool,
    checkpoint: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Start a new run like another one.

    It has the settings, rules and seed of RUN, but for what is changed; RUN may be live.

    \b
    mission-tui clone @last --set ppo.learning_rate=1e-4 --name slower
    mission-tui clone heavy-3f9a --weights --set env.kwargs.shaping=two_way
    """
    from mission_tui.cli.documents import write_document

    if checkpoint is not None and not weights:
        raise UsageError("--checkpoint is where --weights come from; give both, or neither to learn from scratch")
    answer = _ask(session, run, assignments, checkpoint, name, weights=weights)
    if as_json:
        write_document({"runs": [{"id": made} for made in answer.runs], "notes": list(answer.notes)})
    else:
        print_answer(answer)


def _ask(
    session: Session, run: str, assignments: tuple[str, ...], checkpoint: str | None, name: str | None, *, weights: bool
) -> Accepted:
    from mission_tui.ipc.replies import Accepted
    from mission_tui.ipc.requests import Clone, Resume
    from mission_tui.ipc.start import captured_environ

    cwd, environ = str(session.cwd), captured_environ(session.environ)

    def resume(id_: int) -> Resume:
        return Resume(
            id=id_,
            run=run,
            assignments=assignments,
            checkpoint=checkpoint,
            branch=True,
            name=name,
            cwd=cwd,
            python=sys.executable,
            environ=environ,
        )

    def clone(id_: int) -> Clone:
        return Clone(
            id=id_, run=run, assignments=assignments, name=name, cwd=cwd, python=sys.executable, environ=environ
        )

    answer: Accepted | VerdictReply
    with session.connect() as connection:
        answer = connection.ask(resume) if weights else connection.ask(clone)
    assert isinstance(answer, Accepted)  # a verdict comes only to who asks for one
    return answer
