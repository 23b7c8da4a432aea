"""`mission-tui findings`: what the health rules say about a run, a group or every run of the fleet, and acting on it.

With `--replay` the run's files are judged again, by the rules as they are now.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import RowsProgress, print_error, write
from mission_tui.errors import DamagedError, MissionError, UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.events.findings import Finding
    from mission_tui.fleet.events.journal import Mark as MarkWord
    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.records.runs.layout import RunDir


@click.command("findings")
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
    from mission_tui.cli.follow_runs import snapshot_of, views_of

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
    from mission_tui.cli.answers import print_accepted
    from mission_tui.ipc.requests import Mark

    with session.connect() as connection:
        reply = connection.ask(lambda id_: Mark(id=id_, run=run, mark=mark, finding=finding, rule=rule))
    print_accepted(reply, as_json)


def _apply(session: Session, run: str, finding: str, accept: bool, as_json: bool) -> int:
    """The exit code: 2 when nothing was begun, because the verdict was not accepted or refuses."""
    from mission_tui.cli.answers import report_answers
    from mission_tui.ipc.requests import Apply

    origin = session.origin
    with session.connect() as connection:
        answer = connection.ask(lambda id_: Apply(id=id_, run=run, finding=finding, accept=accept, **origin))
    return report_answers([answer], as_json)
