"""What the health rules say and what is done about it. `mission-tui findings`: about a run, a group or every run of
the fleet, and acting on it. `mission-tui try`: what a finding advises, or any other settings, on branches of a run,
beside branches without; with `--wait`, what they say.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from mission_tui.cli.answers import print_accepted, report_answers
from mission_tui.cli.follow_runs import snapshot_of, snapshots, view_of, views_of
from mission_tui.cli.options import examples, json_option, run_argument, set_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import EX_INTERRUPTED, RowsProgress, print_error, write
from mission_tui.errors import EX_FAILED, DamagedError, MissionError, UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.events.findings import Finding
    from mission_tui.fleet.events.journal import Mark as MarkWord
    from mission_tui.fleet.views.snapshot import RunView, TrialView
    from mission_tui.ipc.replies import Accepted
    from mission_tui.records.runs.layout import RunDir


@click.command(
    "findings",
    epilog=examples(
        "findings @last",
        "findings @last --apply 1",
        "findings @last --silence stall",
    ),
)
@run_argument(required=False)
@click.option("--replay", is_flag=True, help="Judge the run's files again, instead of showing what was judged live.")
@click.option(
    "--acknowledge",
    metavar="N",
    help="Mark a finding as known, by its number in the list, its id, or its rule; it opens again if it gets worse.",
)
@click.option("--silence", metavar="RULE", help="Hide this rule for this run.")
@click.option("--unmute", metavar="RULE", help="Undo --silence.")
@click.option(
    "--apply", "applied", metavar="N", help="Follow a finding's advice from the last good checkpoint; N as above."
)
@click.option("--accept", is_flag=True, help="With --apply: accept what the changes do to the run.")
@json_option
@pass_session
def findings_command(
    session: Session,
    run: str | None,
    replay: bool,
    acknowledge: str | None,
    silence: str | None,
    unmute: str | None,
    applied: str | None,
    accept: bool,
    as_json: bool,
) -> int:
    """Show findings with cause and advice, or act on one. The name of a group stands for its runs."""
    asked = [word for word in (acknowledge, silence, unmute, applied) if word is not None]
    if len(asked) + replay > 1:
        raise UsageError("give one of --replay, --acknowledge, --silence, --unmute and --apply at a time")
    if accept and applied is None:
        raise UsageError("--accept belongs to --apply")
    if asked and run is None:
        raise UsageError("name the run of the finding or rule (an id, a unique prefix, a name, or @last)")
    if run is not None and applied is not None:
        return _apply(session, run, applied, accept, as_json)
    if run is not None and asked:
        mark: MarkWord = "acknowledged" if acknowledge is not None else "silenced" if silence is not None else "open"
        _mark(session, run, mark, acknowledge or "", silence or unmute or "", as_json)
    else:
        _show(session, run, replay, as_json)
    return 0


def _show(session: Session, run: str | None, replay: bool, as_json: bool) -> None:
    from msgspec import to_builtins

    from mission_tui.cli.tables.documents import finding_facts, write_document
    from mission_tui.cli.terminal_output import Table

    views = _views(session, run)
    judged = [(view, _replayed(Path(view.run_dir)) if replay else view.findings) for view in views]
    if as_json:
        facts = [
            {
                "run": view.id,
                "updates": view.update or 0,
                "findings": [finding_facts(it) for it in findings],
                "failed_duties": to_builtins(view.failed_duties),
            }
            for view, findings in judged
        ]
        write_document(facts[0] if run is not None and len(facts) == 1 else {"runs": facts})
        return
    from mission_tui.present.run_settings import proof

    table = Table(("run", "severity", "state", "updates", "finding", "cause", "advice"))
    for view, findings in judged:
        for it in findings:
            span = f"{it.first_update}-{it.last_update}"
            said = f"part of {it.part_of}: {it.sentence}" if it.part_of else it.sentence
            advice = "; ".join(part for part in (it.proposal, proof(it)) if part)
            table.add(view.id, it.severity, it.state, span, said, it.cause, advice)
    table.write(sys.stdout)
    failed = [(view, each) for view, _ in judged for each in view.failed_duties]
    if not table.rows and not failed:
        write("no findings")
    for view, each in failed:
        write(f"{view.id}  {each.sentence}")


def _views(session: Session, run: str | None) -> tuple[RunView, ...]:
    with session.connect() as connection:
        return snapshot_of(connection).runs if run is None else views_of(connection, (run,))


def _replayed(run_dir: Path) -> tuple[Finding, ...]:
    """The incidents of the run as its files give them, with the marks that a person set. Damage is said and passed."""
    from msgspec import structs

    from mission_tui.fleet.events.journal import FleetEvent
    from mission_tui.fleet.events.metrics import MetricRecord
    from mission_tui.fleet.health.replay import replay
    from mission_tui.fleet.history.run import RunHistory
    from mission_tui.records.jsonl import Tail, read_all, read_newest
    from mission_tui.records.runs.attempt import read_attempt_spec
    from mission_tui.records.runs.layout import RunDir

    run = RunDir(run_dir)
    try:
        events, damage = read_all(run.events, FleetEvent)
    except OSError as error:
        _print_unread(run, error)
        return ()
    specs = {}
    for attempt in run.attempts():
        try:
            specs[attempt] = read_attempt_spec(run, attempt)
        except MissionError as error:
            print_error(f"attempt {attempt} is not judged: {error}")
    history = RunHistory(run.id, str(run.path), None)
    for event in events:
        history.apply(event)
    rows = Tail(run.metrics, MetricRecord)
    newest = read_newest(run.metrics, MetricRecord)
    progress = RowsProgress(f"judging {history.journal.name or run.id}", newest[-1].seq if newest else 0)
    try:
        found = replay(specs, progress.passing(rows.each()), events, _died(run))
    except OSError as error:
        _print_unread(run, error)
        return ()
    for sentence in (*damage, *rows.damage):
        print_error(sentence)
    return tuple(structs.replace(finding, state=history.journal.finding_state(finding)) for finding in found)


def _print_unread(run: RunDir, error: OSError) -> None:
    print_error(f"{run.id} is not judged: {error.filename or run.path} cannot be read: {error.strerror or error}")


def _died(run: RunDir) -> dict[int, float]:
    """When each attempt's keeper saw its trainer end (unix seconds), where that is on record."""
    from mission_tui.records.runs.attempt import read_exit

    died: dict[int, float] = {}
    for attempt in run.attempts():
        try:
            record = read_exit(run.attempt(attempt).exit)
        except DamagedError as error:
            print_error(str(error))
            continue
        if record is not None:
            died[attempt] = record.ended_t
    return died


def _mark(session: Session, run: str, mark: MarkWord, finding: str, rule: str, as_json: bool) -> None:
    from mission_tui.ipc.requests import Mark

    with session.connect() as connection:
        reply = connection.ask(lambda id_: Mark(id=id_, run=run, mark=mark, finding=finding, rule=rule))
    print_accepted(reply, as_json)


def _apply(session: Session, run: str, finding: str, accept: bool, as_json: bool) -> int:
    """The exit code: 2 when nothing was begun, because the verdict was not accepted or refuses."""
    from mission_tui.ipc.requests import Apply

    origin = session.origin
    with session.connect() as connection:
        answer = connection.ask(lambda id_: Apply(id=id_, run=run, finding=finding, accept=accept, **origin))
    return report_answers([answer], as_json)


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
    trials = _view(session, run).trials
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
