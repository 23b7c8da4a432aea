"""The verbs that act on runs: `pause`, `freeze`, `park`, `stop`, `kill`, `checkpoint`, `resume`, `set`, and `wait`.

`resume` and `set` say first what the changes do to the run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

import click

from mission_tui.cli.answers import answer_facts, print_accepted, print_answer
from mission_tui.cli.errors import EX_INTERRUPTED, print_error
from mission_tui.cli.options import all_option, chosen, json_option, run_argument, runs_argument, set_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import write
from mission_tui.errors import EX_FAILED, EX_USAGE, UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.commands import Command
    from mission_tui.fleet.events.journal import ActVerb
    from mission_tui.ipc.requests import Resume

WAIT_S = 60.0


def order_command(row: Command) -> click.Command:
    """The command of a row of the catalogue that needs to know only which runs are meant."""

    @click.command(row.word, help=row.brief)
    @runs_argument()
    @all_option
    @json_option
    @pass_session
    def command(session: Session, runs: tuple[str, ...], every: bool, as_json: bool) -> None:
        from mission_tui.ipc.requests import Act

        wanted, verb = chosen(runs, every), cast("ActVerb", row.word)
        with session.connect() as connection:
            reply = connection.ask(lambda id_: Act(id=id_, verb=verb, runs=wanted))
        print_accepted(reply, as_json)

    return command


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
def resume_command(
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
    from mission_tui.ipc.captured import origin_of
    from mission_tui.ipc.replies import VerdictReply
    from mission_tui.ipc.requests import Resume

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
        **origin_of(session.cwd, session.environ),
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


@click.command("set")
@run_argument()
@click.argument("assignments", metavar="KEY=VALUE...", nargs=-1, required=True)
@click.option("--accept", is_flag=True, help="Accept what the changes do to the run.")
@json_option
@pass_session
def set_command(session: Session, run: str, assignments: tuple[str, ...], accept: bool, as_json: bool) -> int:
    """Change settings of a run while it trains.

    They take effect with its next update, and later attempts keep them.

    Learning rate, clip range, ent_coef, vf_coef, target_kl, n_epochs, max_grad_norm, batch_size and total_timesteps.
    Where that does harm, a verdict says which and why: exit 2, and nothing is changed.

    \b
    mission-tui set @last ppo.learning_rate=1e-4
    mission-tui set heavy-3f9a ppo.clip_range=0.1 ppo.target_kl=0.01 --accept
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.ipc.replies import VerdictReply
    from mission_tui.ipc.requests import Set

    with session.connect() as connection:
        answer = connection.ask(lambda id_: Set(id=id_, run=run, assignments=assignments, accept=accept))
    if as_json:
        write_document({"runs": [answer_facts(answer)]})
    else:
        print_answer(answer, "set")
    return EX_USAGE if isinstance(answer, VerdictReply) else 0


@click.command("checkpoint")
@runs_argument()
@all_option
@click.option("--no-wait", is_flag=True, help="Return once it is asked for, not when it is written.")
@json_option
@pass_session
def checkpoint_command(session: Session, runs: tuple[str, ...], every: bool, no_wait: bool, as_json: bool) -> int:
    """Save a checkpoint at the next update boundary.

    Exit code 0 when all were written, 1 when one was not; the reason is said.
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.ipc.requests import Act

    wanted = chosen(runs, every)
    try:
        with session.connect() as connection:
            wait_s = 0.0 if no_wait else WAIT_S
            reply = connection.ask(lambda id_: Act(id=id_, verb="checkpoint", runs=wanted, wait_s=wait_s))
    except KeyboardInterrupt:
        print_error("no longer waiting; the checkpoint was asked for, and is written at the next update boundary")
        return EX_INTERRUPTED
    missing = [outcome for outcome in reply.checkpoints if outcome.checkpoint is None]
    if not reply.checkpoints:
        print_accepted(reply, as_json)
    elif as_json:
        rows = [{"id": it.run, "checkpoint": it.checkpoint, "why": it.why} for it in reply.checkpoints]
        write_document({"runs": rows, "notes": list(reply.notes)})
    else:
        for run in reply.runs:
            write(run)
        for note in reply.notes:
            print_error(note)
        for outcome in reply.checkpoints:
            if outcome.checkpoint is not None:
                print_error(f"{outcome.run}: checkpoint {outcome.checkpoint} was written")
            else:
                print_error(f"{outcome.run}: no checkpoint was written: {outcome.why}")
    return EX_FAILED if missing else 0


@click.command("wait")
@runs_argument()
@all_option
@json_option
@pass_session
def wait_command(session: Session, runs: tuple[str, ...], every: bool, as_json: bool) -> int:
    """Wait until runs have ended.

    Exit code 0 when all finished, 1 when one failed, else 75: resumable.
    """
    from mission_tui.cli.follow_runs import exit_code, until_ended
    from mission_tui.cli.tables.documents import run_facts, write_document
    from mission_tui.cli.tables.fleet import fleet_table

    ids = _ids(session, runs, every)
    try:
        views = until_ended(session, ids, lambda _views, _t: None) if ids else ()
    except KeyboardInterrupt:
        print_error(f"no longer waiting; {'the run goes' if len(ids) == 1 else 'the runs go'} on")
        return EX_INTERRUPTED
    if as_json:
        write_document({"runs": [run_facts(view) for view in views]})
    else:
        fleet_table(views).write(sys.stdout)
    return exit_code(views)


def _ids(session: Session, runs: tuple[str, ...], every: bool) -> list[str]:
    """The ids behind the words; with `--all` those of every run that has not ended."""
    from mission_tui.cli.follow_runs import views_of
    from mission_tui.fleet.events.outcome import OVER
    from mission_tui.ipc.requests import GetSnapshot

    chosen(runs, every)
    with session.connect() as connection:
        if every:
            reply = connection.ask(lambda id_: GetSnapshot(id=id_))
            return [view.id for view in reply.snapshot.runs if view.state not in OVER]
        return [view.id for view in views_of(connection, runs)]
