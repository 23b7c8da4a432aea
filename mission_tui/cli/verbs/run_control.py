"""The verbs that act on runs: `pause`, `freeze`, `park`, `stop`, `kill`, `checkpoint`, `resume`, `set`, and `wait`.

`resume` and `set` first show what the changes do to the run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import click

from mission_tui.cli import options
from mission_tui.cli.answers import print_accepted, report_answers
from mission_tui.cli.follow_runs import ask_engines, exit_code, snapshot_of, until_ended, views_of
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import EX_INTERRUPTED, print_error, write
from mission_tui.errors import EX_FAILED, PresetError, UsageError
from mission_tui.fleet.events.outcome import OVER

if TYPE_CHECKING:
    from mission_tui.fleet.commands import Command
    from mission_tui.fleet.events.journal import ActVerb
    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.ipc.client import Connection
    from mission_tui.ipc.replies import Accepted, VerdictReply

WAIT_S = 60.0
_STANDING = ("paused", "frozen", "parked", "ended")
"""States in which a run of a group can be resumed."""


def order_command(row: Command) -> click.Command:
    """The command of a row of the catalogue that needs to know only which runs are meant."""

    @click.command(row.word, help=row.brief)
    @options.runs_argument()
    @options.all_option
    @options.json_option
    @pass_session
    def command(session: Session, runs: tuple[str, ...], every: bool, as_json: bool) -> None:
        from mission_tui.ipc.requests import Act

        wanted, verb = options.chosen(runs, every), cast("ActVerb", row.word)
        with session.connect() as connection:
            reply = connection.ask(lambda id_: Act(id=id_, verb=verb, runs=wanted))
        print_accepted(reply, as_json)

    return command


@click.command(
    "resume",
    epilog=options.examples(
        "resume @last",
        "resume @last --timesteps 2M",
        "resume @last --set env.n_envs=64 --accept",
    ),
)
@options.runs_argument(required=True)
@options.set_option
@click.option("--timesteps", metavar="N", help="Train until it has N steps in all: 500k, 2M (run.total_timesteps).")
@click.option("--checkpoint", metavar="NAME", help="Begin from this checkpoint (default: the newest verified).")
@click.option("--remedy", "remedies", multiple=True, metavar="NAME[,NAME]", help="Carry out what the verdict offers.")
@click.option("--override", "overrides", multiple=True, metavar="FIELD", help="Resume although FIELD is refused.")
@click.option("--branch", is_flag=True, help="Leave RUN as it is; start a new run with its weights.")
@click.option("--name", metavar="NAME", help="What the branch is called.")
@click.option("--accept", is_flag=True, help="Accept what the changes do to the run.")
@options.json_option
@pass_session
def resume_command(
    session: Session,
    runs: tuple[str, ...],
    assignments: tuple[str, ...],
    timesteps: str | None,
    checkpoint: str | None,
    remedies: tuple[str, ...],
    overrides: tuple[str, ...],
    branch: bool,
    name: str | None,
    accept: bool,
    as_json: bool,
) -> int:
    """Continue paused, frozen, parked or ended runs; of a group those that have not finished and do not train.

    A run that failed or ended before its first checkpoint begins anew, under its id and in its group.

    If the changes would do harm, nothing is started (exit 2), and a verdict lists them with reasons and remedies. Name
    a remedy as listed (reset-adam), or with its field (restore:ppo.gamma).
    """
    from mission_tui.ipc.requests import Resume

    assignments = (*assignments, *options.lasting(timesteps, None))
    if checkpoint is not None and len(runs) > 1:
        raise UsageError("--checkpoint belongs to one run: resume the runs one by one")
    if name is not None and (not branch or len(runs) > 1):
        raise UsageError("--name is what one --branch is called; a resumed run keeps its name")
    chosen_remedies = tuple(word for words in remedies for word in words.split(",") if word)
    origin = session.origin

    def resumed(connection: Connection, run: str) -> Accepted | VerdictReply:
        return connection.ask(
            lambda id_: Resume(
                id=id_, run=run, assignments=assignments, checkpoint=checkpoint, accept=accept, branch=branch,
                remedies=chosen_remedies, overrides=overrides, name=name, **origin,
            )
        )  # fmt: skip

    def of_group(connection: Connection, group: str, views: Sequence[RunView]) -> Iterator[Accepted | VerdictReply]:
        if checkpoint is not None or name is not None:
            raise UsageError(f"{group} is {len(views)} runs: --checkpoint and --name belong to one run")
        for view in views:
            if not branch and (view.state not in _STANDING or view.outcome == "finished"):
                print_error(f"{view.name} was passed over: it is {view.outcome or view.state}")
                continue
            try:
                yield resumed(connection, view.id)
            except (UsageError, PresetError) as error:
                print_error(f"{view.name} was passed over: {error}")

    answers: list[Accepted | VerdictReply] = []
    with session.connect() as connection:
        for run in runs:
            views = views_of(connection, (run,))
            answers += [resumed(connection, run)] if len(views) < 2 else of_group(connection, run, views)
    code = report_answers(answers, as_json)
    said = ask_engines(session, answers)
    return code or said


@click.command("set")
@options.run_argument()
@click.argument(
    "assignments", metavar="KEY=VALUE...", nargs=-1, required=True, shell_complete=options.complete_settings
)
@click.option("--accept", is_flag=True, help="Accept what the changes do to the run.")
@options.json_option
@pass_session
def set_command(session: Session, run: str, assignments: tuple[str, ...], accept: bool, as_json: bool) -> int:
    """Change settings of a run while it trains or waits.

    They take effect with its next update, and later attempts keep them. A queued run begins with them.

    While it trains: learning rate, clip range, ent_coef, vf_coef, target_kl, n_epochs, max_grad_norm, batch_size
    and total_timesteps. If that would do harm, nothing is changed (exit 2), and a verdict lists what and why.
    While it waits: all but what the launch settled, such as its program, folder and environment.
    The name of a group stands for those of its runs that have not ended (of keep.limits: that wait): all are changed,
    or none.

    \b
    mission-tui set @last ppo.learning_rate=1e-4
    mission-tui set heavy-3f9a ppo.clip_range=0.1 ppo.target_kl=0.01 --accept
    mission-tui set waiting keep.limits.runs=8
    """
    from mission_tui.ipc.replies import VerdictReply
    from mission_tui.ipc.requests import Set

    def asked(one: str, *, check_only: bool = False) -> Accepted | VerdictReply:
        return connection.ask(
            lambda id_: Set(id=id_, run=one, assignments=assignments, accept=accept, check_only=check_only)
        )

    with session.connect() as connection:
        views = views_of(connection, (run,))
        # What a run waits for says nothing to those that train.
        waiting = all(word.startswith("keep.limits.") for word in assignments)
        wanted = [
            view
            for view in views
            if (view.state == "queued" and not view.restart if waiting else view.state not in OVER)
        ]
        going = [view.id for view in wanted]
        if len(views) < 2:
            answers = [asked(run)]
        elif not going:
            said = "waits for its turn any more" if waiting else "goes on: all have ended"
            raise UsageError(f"none of the {len(views)} runs of {run} {said}, so there is nothing to set")
        else:
            checked = [asked(one, check_only=True) for one in going]
            refused = ("refuse",) if accept else ("refuse", "warn")
            harmful = [it for it in checked if isinstance(it, VerdictReply) and it.verdict.grade in refused]
            answers = [*harmful] or [asked(one) for one in going]
    return report_answers(answers, as_json, "set", {view.id: view.name for view in views} if len(views) > 1 else {})


@click.command("checkpoint")
@options.runs_argument()
@options.all_option
@click.option("--no-wait", is_flag=True, help="Do not wait until it is written.")
@options.json_option
@pass_session
def checkpoint_command(session: Session, runs: tuple[str, ...], every: bool, no_wait: bool, as_json: bool) -> int:
    """Save a checkpoint at the next update boundary.

    Exit code 0 when all were written, 1 when one was not; the reason is printed.
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.ipc.requests import Act

    wanted = options.chosen(runs, every)
    try:
        with session.connect() as connection:
            wait_s = 0.0 if no_wait else WAIT_S
            reply = connection.ask(lambda id_: Act(id=id_, verb="checkpoint", runs=wanted, wait_s=wait_s))
    except KeyboardInterrupt:
        print_error("no longer waiting; the checkpoint is still written at the next update boundary")
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


@click.command(
    "wait",
    epilog=options.examples(
        "wait @last && mission-tui evaluate @last",
    ),
)
@options.runs_argument()
@options.all_option
@options.json_option
@pass_session
def wait_command(session: Session, runs: tuple[str, ...], every: bool, as_json: bool) -> int:
    """Wait until runs have ended.

    Exit code 0 when all finished, 1 when one failed, else 75: resumable.
    """
    from mission_tui.cli.tables.documents import run_facts, write_document
    from mission_tui.cli.tables.runs import fleet_table

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

    options.chosen(runs, every)
    with session.connect() as connection:
        if every:
            return [view.id for view in snapshot_of(connection).runs if view.state not in OVER]
        return [view.id for view in views_of(connection, runs)]
