"""`mission-tui try`: other settings on branches of a run, beside branches without; with `--wait`, what they say."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import click

from mission_tui.cli.answers import print_accepted
from mission_tui.cli.follow_runs import snapshots, view_of
from mission_tui.cli.options import json_option, run_argument, set_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import EX_INTERRUPTED, print_error, write
from mission_tui.errors import EX_FAILED, UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.views.snapshot import RunView, TrialView
    from mission_tui.ipc.replies import Accepted

TrialAction = Literal["begin", "discard", "take", "return"]


@click.command("try")
@run_argument()
@click.option("--finding", metavar="N", default="", help="Whose advice: its number in `findings`, its id, or its rule.")
@set_option
@click.option(
    "--seeds",
    type=int,
    metavar="N",
    help="Pairs of branches, each with its own seed (default: 3, or 5 where a branch takes at most 15 s).",
)
@click.option("--budget", metavar="20u|10m", help="How long each branch trains: updates, or minutes at RUN's pace.")
@click.option("--wait", "wait", is_flag=True, help="Stay until it is known; Ctrl-C leaves the branches training.")
@click.option("--show", "show", is_flag=True, help="Say what the newest trial of RUN says, or how far it is.")
@click.option("--take", "take", is_flag=True, help="Let the best branch take RUN's place and name, if it helps.")
@click.option("--undo", "undo", is_flag=True, help="Take --take back.")
@click.option("--discard", "discard", is_flag=True, help="Move the branches to the trash.")
@json_option
@pass_session
def try_command(
    session: Session,
    run: str,
    finding: str,
    assignments: tuple[str, ...],
    seeds: int | None,
    budget: str | None,
    wait: bool,
    show: bool,
    take: bool,
    undo: bool,
    discard: bool,
    as_json: bool,
) -> int:
    """Try other settings on branches of a run, before it has them.

    From its last good checkpoint two branches for each seed train for a short budget: one as RUN is, one with --set, or
    with what a finding advises (default: the most severe that advises settings). Then one sentence: helps, hurts, no
    difference, or too noisy.

    \b
    mission-tui try heavy-3f9a --wait
    mission-tui try @last --set ppo.learning_rate=1e-4 --budget 30u --seeds 5
    mission-tui try heavy-3f9a --take
    """
    options: dict[TrialAction, bool] = {"take": take, "return": undo, "discard": discard}
    asked = [action for action, given in options.items() if given]
    settings = bool(finding or assignments or budget)
    if len(asked) + show > 1 or ((asked or show) and settings):
        raise UsageError(
            "--show, --take, --undo and --discard are about the newest trial of RUN: give one of them alone"
        )
    if asked:
        reply = _ask(session, run, asked[0])
        if wait and asked[0] in ("take", "return"):
            # By its id: the name is another run's once its place is taken.
            _until(session, reply.runs[-1], lambda trial: trial.closed not in ("taking", "returning"))
        print_accepted(reply, as_json)
        return 0
    if show or (wait and not settings and (known := _newest(session, run)) is not None and _goes_on(known)):
        trial = _newest(session, run)
        if trial is None:
            raise UsageError(f"nothing was tried on {run}")
        return _wait(session, run, as_json) if wait else _say(session, run, trial, as_json)
    reply = _ask(session, run, "begin", finding, assignments, seeds, budget)
    if not wait and not as_json:
        print_accepted(reply, as_json)
        for warning in reply.warnings:
            print_error(warning)
        return 0
    for sentence in (*reply.notes, *reply.warnings):
        print_error(sentence)
    if wait:
        return _wait(session, run, as_json)
    trial = _newest(session, run)
    assert trial is not None  # it was journaled before the answer
    return _say(session, run, trial, as_json)


def _ask(
    session: Session,
    run: str,
    action: TrialAction,
    finding: str = "",
    assignments: tuple[str, ...] = (),
    seeds: int | None = None,
    budget: str | None = None,
) -> Accepted:
    from mission_tui.ipc.requests import Try

    with session.connect() as connection:
        return connection.ask(
            lambda id_: Try(
                id=id_, run=run, do=action, finding=finding, assignments=assignments, seeds=seeds, budget=budget
            )
        )


def _newest(session: Session, run: str) -> TrialView | None:

    with session.connect() as connection:
        trials = view_of(connection, run).trials
    return trials[-1] if trials else None


def _goes_on(trial: TrialView) -> bool:
    return trial.verdict is None and not trial.closed


def _wait(session: Session, run: str, as_json: bool) -> int:
    """Say how far it is on stderr until it is known, then what it says."""
    try:
        trial = _until(session, run, lambda trial: not _goes_on(trial))
    except KeyboardInterrupt:
        print_error(f"no longer waiting; the branches go on, and `mission-tui try {run} --show` says what they say")
        return EX_INTERRUPTED
    return _say(session, run, trial, as_json)


def _until(session: Session, run: str, done: Callable[[TrialView], bool]) -> TrialView:
    """The run's newest trial once it is `done`, however often the supervisor is replaced meanwhile."""
    from mission_tui.fleet.events.outcome import OVER
    from mission_tui.ipc.sockets import ConnectionLostError

    with session.connect() as connection:
        run_id, told = view_of(connection, run).id, -1
    for snapshot in snapshots(session):
        view = next((it for it in snapshot.runs if it.id == run_id), None)
        try:
            if view is None:
                with session.connect() as connection:
                    view = view_of(connection, run_id)
        except ConnectionLostError:
            continue
        trial = view.trials[-1]
        branches = [it for it in snapshot.runs if it.branch_of and it.branch_of.of == run_id]
        branches = [it for it in branches if it.branch_of and it.branch_of.number == trial.plan.number]
        over = sum(it.state in OVER for it in branches)
        if over != told and _goes_on(trial):
            told = over
            print_error(f"{over} of {2 * len(trial.plan.seeds)} branches are over")
        if done(trial):
            return trial
    raise AssertionError("snapshots end only with an error")


def _say(session: Session, run: str, trial: TrialView, as_json: bool) -> int:
    from mission_tui.cli.tables.documents import trial_facts, write_document
    from mission_tui.cli.terminal_output import Table
    from mission_tui.fleet.events.trials import mean_word

    if as_json:
        write_document({"run": _view(session, run).id, "trial": trial_facts(trial)})
    else:
        if trial.verdict is not None:
            table = Table(("pair", "seed", "control", "advised", ""))
            for pair in trial.verdict.pairs:
                table.add(str(pair.pair), str(pair.seed), mean_word(pair.control), mean_word(pair.advised), pair.why)
            table.write(sys.stdout)
        write(trial.sentence)
    return EX_FAILED if trial.verdict is not None and trial.verdict.says == "failed" else 0


def _view(session: Session, run: str) -> RunView:

    with session.connect() as connection:
        return view_of(connection, run)
