"""What the health rules say. `mission-tui findings`: about a run, a group or every run of the fleet, and acting on it;
with `--replay` the run's files are judged again, by the rules as they are now. `mission-tui judge`: of any log: our
runs, SB3's CSV and JSON, TensorBoard, monitors.

To judge a log nothing is started and nothing is written: the same rules that watch live runs read the file from its
first row. Of several logs each gets one line as soon as it is judged, and is forgotten then.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.options import complete_presets, count_of, json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Colour, Styled, print_error, write
from mission_tui.errors import DamagedError, MissionError, UsageError

if TYPE_CHECKING:
    from mission_tui.cli.judge_settings import JudgeSettings
    from mission_tui.fleet.events.findings import Finding
    from mission_tui.fleet.events.journal import Mark as MarkWord
    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.records.logs.log import TrainingLog
    from mission_tui.records.runs.layout import RunDir


@click.command("findings")
@run_argument(required=False)
@click.option("--replay", is_flag=True, help="Judge the run's files again, instead of showing what was judged live.")
@click.option("--acknowledge", metavar="ID", help="Mark a finding as known; it opens again if it gets worse.")
@click.option("--silence", metavar="RULE", help="Hide this rule for this run.")
@click.option("--unmute", metavar="RULE", help="Undo --silence.")
@click.option("--apply", "apply_id", metavar="ID", help="Follow a finding's advice from the last good checkpoint.")
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
    apply_id: str | None,
    accept: bool,
    as_json: bool,
) -> int:
    """Show findings with cause and advice, or act on one. The name of a group stands for its runs."""
    asked = [word for word in (acknowledge, silence, unmute, apply_id) if word is not None]
    if len(asked) + replay > 1:
        raise UsageError("give one of --replay, --acknowledge, --silence, --unmute and --apply at a time")
    if accept and apply_id is None:
        raise UsageError("--accept belongs to --apply")
    if asked and run is None:
        raise UsageError("name the run of the finding or rule (an id, a unique prefix, a name, or @last)")
    if run is not None and apply_id is not None:
        return _apply(session, run, apply_id, accept, as_json)
    if run is not None and asked:
        mark: MarkWord = "acknowledged" if acknowledge is not None else "silenced" if silence is not None else "open"
        _mark(session, run, mark, acknowledge or "", silence or unmute or "", as_json)
    else:
        _show(session, run, replay, as_json)
    return 0


def _show(session: Session, run: str | None, replay: bool, as_json: bool) -> None:
    from msgspec import to_builtins

    from mission_tui.cli.tables.documents import finding_facts, write_document
    from mission_tui.cli.tables.table import Table

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
    from mission_tui.records.files.tail import read_all
    from mission_tui.records.runs.layout import RunDir
    from mission_tui.records.runs.spec_file import read_attempt_spec

    run = RunDir(run_dir)
    try:
        events, events_damage = read_all(run.events, FleetEvent)
        records, records_damage = read_all(run.metrics, MetricRecord)
    except OSError as error:
        print_error(f"{run.id} is not judged: {error.filename or run.path} cannot be read: {error.strerror or error}")
        return ()
    for sentence in (*events_damage, *records_damage):
        print_error(sentence)
    specs = {}
    for attempt in run.attempts():
        try:
            specs[attempt] = read_attempt_spec(run, attempt)
        except MissionError as error:
            print_error(f"attempt {attempt} is not judged: {error}")
    history = RunHistory(run.id, str(run.path), None)
    for event in events:
        history.apply(event)
    found = replay(specs, records, events, _died(run))
    return tuple(structs.replace(finding, state=history.journal.finding_state(finding)) for finding in found)


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


POSITIVE = click.FloatRange(min=0.0, min_open=True)
COLOURS: dict[str, Colour] = {"info": "cyan", "warning": "yellow", "critical": "red"}


@click.command("judge")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-r", "--recursive", is_flag=True, help="A folder stands for all logs below it.")
@click.option("--full", is_flag=True, help="Of several logs too, print every finding with cause and advice.")
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=complete_presets,
    help="The logs were trained with this preset (a name or a file).",
)
@click.option("--spec", "spec_file", metavar="FILE", type=click.Path(path_type=Path), help="Or with this spec.toml.")
@click.option("--health", "health", metavar="FILE", type=click.Path(path_type=Path), help="A health.toml to judge by.")
@click.option("--env-id", metavar="ID", help="The environment, named in explanations.")
@click.option(
    "--total-timesteps",
    type=count_of("--total-timesteps"),
    metavar="N",
    help="Planned steps (default: the last row's).",
)
@click.option("--learning-rate", type=POSITIVE, metavar="X", help="Used where the log has no such column.")
@click.option("--clip-range", type=POSITIVE, metavar="X", help="Used where the log has no such column (default: 0.2).")
@click.option(
    "--n-epochs", type=count_of("--n-epochs"), metavar="N", help="Epochs per update (default: from train/n_updates)."
)
@click.option(
    "--batch-size",
    type=count_of("--batch-size"),
    metavar="N",
    help="Minibatch size, for the gradient steps of an update.",
)
@click.option("--target-kl", type=POSITIVE, metavar="X", help="KL at which updates were ended early.")
@click.option(
    "--max-episode-steps", type=count_of("--max-episode-steps"), metavar="N", help="The environment's step cap."
)
@click.option("--reward-threshold", type=float, metavar="X", help="The return at which the task counts as solved.")
@json_option
@pass_session
def judge_command(
    session: Session,
    /,
    files: tuple[Path, ...],
    recursive: bool,
    full: bool,
    preset: str | None,
    spec_file: Path | None,
    health: Path | None,
    as_json: bool,
    **said: Any,
) -> int:
    """Judge training logs by the health rules.

    A FILE is a run directory, metrics.jsonl, SB3's progress.csv or progress.json, a monitor.csv, or a TensorBoard event
    file; a folder stands for the log in it, with -r for all logs below it. Of several logs each gets one line.
    """
    from mission_tui.cli.judge_settings import JudgeSettings
    from mission_tui.cli.tables.documents import write_document

    judge_settings = JudgeSettings.of(
        session, preset, spec_file, health, {name: it for name, it in said.items() if it is not None}
    )
    if len(files) == 1 and not recursive:
        one = _judged(files[0], judge_settings)
        if as_json:
            write_document(one.document)
        else:
            one.say_all()
        return 0
    documents: list[dict[str, Any]] = []
    unread: list[dict[str, str]] = []
    named = 0
    counts = dict.fromkeys(("critical", "warning", "info", ""), 0)
    for path, found in _asked(files, recursive=recursive):
        try:
            if isinstance(found, UsageError):
                raise found
            one = _judged(found, judge_settings)
        except UsageError as error:
            named += path == found
            file = str(found) if isinstance(found, Path) else str(error).partition(": ")[0]
            unread.append({"file": file, "why": str(error)})
            print_error(str(error))
            continue
        counts[one.worst] += 1
        if as_json:
            documents.append(one.document)
        elif full:
            one.say_all()
        else:
            if sum(counts.values()) == 1:
                write(f"{'worst':<8} {'rows':>7} {'by':<7} log: rules")
            one.say_line()
    if as_json:
        write_document({"files": documents, "unread": unread})
    else:
        _write_sum(counts, len(unread))
    return UsageError.exit_code if named or not any(counts.values()) else 0


def _asked(files: Sequence[Path], *, recursive: bool) -> Iterator[tuple[Path, Path | UsageError]]:
    """Every log that is meant, with itself or the reason why it is none; where the first is the second it was named."""
    from mission_tui.records.logs.find import logs_below

    for path in files:
        if not recursive or not path.is_dir():
            yield path, path
            continue
        found: Path | UsageError | None = None
        for found in logs_below(path):
            yield path, found
        if found is None:
            yield path, UsageError(f"{path}: holds no file, so no log of a training")


@dataclass(frozen=True, slots=True)
class _Judged:
    """One log with what was found in it."""

    log: TrainingLog
    algorithm: str
    unfit: tuple[str, ...]
    settings: str
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> str:
        """The worst severity of its findings; empty without any."""
        return next((it for it in ("critical", "warning", "info") if any(f.severity == it for f in self.findings)), "")

    @property
    def document(self) -> dict[str, Any]:
        """It as scripts see it."""
        from mission_tui.cli.tables.documents import finding_facts

        return {
            "file": str(self.log.path),
            "updates": self.log.updates,
            "algorithm": self.algorithm,
            "unfit": list(self.unfit),
            "findings": [finding_facts(it) for it in self.findings],
        }

    def say_line(self) -> None:
        """Its line among several: the worst of it, its size, its algorithm, where it is, and which rules spoke."""
        from mission_tui.fleet.health.algorithms import UNKNOWN
        from mission_tui.fleet.text import clean
        from mission_tui.present.numbers import count

        by = "-" if self.algorithm == UNKNOWN else self.algorithm
        rules = Counter(it.rule for it in self.findings if it.severity == self.worst or it.severity != "info")
        named = ", ".join(f"{rule} x{many}" if many > 1 else rule for rule, many in rules.items()) or "no findings"
        worst = Styled(f"{self.worst or '-':<8}", COLOURS.get(self.worst))
        write(worst, f" {count(self.log.updates):>7} {by:<7} {clean(str(self.log.path), 1000)}: {named}")

    def say_all(self) -> None:
        """All that is to be said of it."""
        from mission_tui.fleet.text import clean
        from mission_tui.present.numbers import count

        findings = self.findings
        many = f"{len(findings)} finding{'s' if len(findings) > 1 else ''}" if findings else "no findings"
        counted = "updates" if self.log.log_interval == 1 and self.algorithm == "PPO" else "rows"
        write(f"{clean(str(self.log.path), 1000)}: {count(self.log.updates)} {counted}, {many}")
        write(f"  {self.settings}")
        for it in findings:
            write()
            where = f" {it.rule}, {counted} {it.first_update:,} to {it.last_update:,}, {it.state}"
            write("  ", Styled(it.severity, COLOURS[it.severity]), where)
            for title, words in (("", it.sentence), ("cause: ", it.cause), ("advice: ", it.proposal)):
                if words:
                    write(f"    {title}{clean(words, 1000)}")
        write()


def _judged(path: Path, judge_settings: JudgeSettings) -> _Judged:
    """The log at `path`, judged; what of it could not be used is said. Raises `UsageError`."""
    from mission_tui.cli.judge_settings import algorithm_of, judge_log
    from mission_tui.records.logs.find import read_any

    if path.name == str(path) and not path.suffix and not path.exists():
        why = "there is no such file; `findings NAME --replay` judges the files of a run, or of each run of a group"
        raise UsageError(f"{path}: {why}")
    log = read_any(path)
    for sentence in log.damage:
        print_error(f"{path}: {sentence}")
    return _Judged(log, *algorithm_of(log), *judge_log(log, judge_settings))


def _write_sum(counts: Mapping[str, int], unread: int) -> None:
    """How many logs there were, and how bad the worst of each is."""
    total = sum(counts.values())
    said = ", ".join(f"{many} {name or 'without findings'}" for name, many in counts.items() if many)
    rest = f"; {unread} file{'' if unread == 1 else 's'} could not be judged, as said above" if unread else ""
    write(f"{total} log{'' if total == 1 else 's'}{f': {said}' if said else ''}{rest}")
