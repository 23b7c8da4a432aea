"""The sides of a comparison, read from their run directories alone: live runs, ended ones, and those of other hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mission_tui.errors import DamagedError, MissionError
from mission_tui.fleet.comparison import Comparison, compare, in_cohorts
from mission_tui.fleet.comparison_sides import Axis, Side, trace_of
from mission_tui.fleet.events.findings import Severity, stories
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.metrics import RETURN, Episodes, MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.preset import with_words
from mission_tui.fleet.views.run import view_of
from mission_tui.records.given_files import read_toml
from mission_tui.records.jsonl import Tail, read_all
from mission_tui.records.runs.attempt import read_attempt_spec, read_exit
from mission_tui.records.runs.code_files import read_provenance, rules_identity, rules_of
from mission_tui.records.runs.layout import RunDir

Say = Callable[[str], None]
_RULES_CHARS = 12


def compare_runs(
    folders: Sequence[Path], say: Say, metric: str = RETURN, by: Axis = "step", threshold: float | None = None
) -> Comparison:
    """The comparison of the runs in `folders`, each once, seeds of one setting beside each other; `say` hears of damage
    in their files.

    Raises `UsageError` for runs that cannot be compared, `MissionError` where too few of them can be read.
    """
    sides = in_cohorts(read_sides(folders, say, (metric,), least=2)[metric])
    return naming_left_out(compare(sides, metric, by, threshold), folders)


def naming_left_out(found: Comparison, folders: Sequence[Path]) -> Comparison:
    """`found` with a note of the runs in `folders` that it is not about, as they could not be read."""
    missing = [name for name in dict.fromkeys(it.name for it in folders) if name not in {run.id for run in found.runs}]
    note = f"left out, as {'its' if len(missing) == 1 else 'their'} files cannot be read: {', '.join(missing)}"
    return replace(found, notes=(note, *found.notes)) if missing else found


def read_sides(folders: Sequence[Path], say: Say, metrics: Sequence[str], *, least: int = 1) -> dict[str, list[Side]]:
    """By metric the runs in `folders`, each read once; one of several that cannot be read is left out. `say` hears of
    that, and of damage in their files.

    Raises `MissionError` where fewer than `least` can be read.
    """
    runs: list[list[Side]] = []
    failed: MissionError | None = None
    chosen = dict.fromkeys(folders)
    for folder in chosen:
        try:
            runs.append(_read_sides(RunDir(folder), say, metrics))
        except (MissionError, OSError) as error:
            failed = MissionError(f"{folder} cannot be read: {error}") if isinstance(error, OSError) else error
            if len(chosen) > least:
                say(f"{folder.name} is left out: {failed}")
    if failed is not None and len(runs) < least:
        raise failed
    return {metric: [sides[at] for sides in runs] for at, metric in enumerate(metrics)}


def _read_sides(run: RunDir, say: Say, metrics: Sequence[str]) -> list[Side]:
    """What there is to compare of one run. Raises `MissionError` when its spec cannot be read."""
    events, events_damage = read_all(run.events, FleetEvent)
    tail, records = Tail(run.metrics, MetricRecord), list[MetricRecord]()
    attempt = max(run.attempts(), default=1)
    spec = read_attempt_spec(run, attempt)
    history = RunHistory(run.id, str(run.path), spec)
    for event in events:
        history.apply(event)
    history.load(_kept_lean(tail.each(), metrics, records))
    for sentence in (*events_damage, *tail.damage):
        say(f"{run.id}: {sentence}")
    try:
        history.spec = with_words(spec, [asked.assignments for asked in history.journal.sets])
    except MissionError as error:
        say(f"{run.id}: what was set while it trained does not fit its spec: {error}")
    findings: dict[Severity, int] = dict(history.journal.forgotten)
    for finding in stories(tuple(history.journal.findings.values())):
        findings[finding.severity] = findings.get(finding.severity, 0) + 1
    thresholds = [it.reward_threshold for it in records if isinstance(it, TrainingStarted)]
    first = Side(
        view=view_of(history),
        spec=history.spec or spec,
        trace=trace_of(records, metrics[0]),
        findings=findings,
        peak_rss_bytes=_peak_rss_bytes(run),
        effective=_effective(run, attempt),
        provenance=read_provenance(run, attempt),
        threshold=thresholds[-1] if thresholds else None,
        rules=rules_identity(rules_of(run, attempt))[:_RULES_CHARS],
    )
    return [first, *(replace(first, trace=trace_of(records, metric)) for metric in metrics[1:])]


def _kept_lean(
    records: Iterable[MetricRecord], wanted: Collection[str], kept: list[MetricRecord]
) -> Iterator[MetricRecord]:
    """Each of `records`, and into `kept` what traces of `wanted` are made of: all that a run of days logged would take
    a gigabyte. Any other metric is kept where it comes first in its attempt, since which there are is compared too.
    """
    seen: set[str] = set()
    for record in records:
        if isinstance(record, UpdateDone):
            metrics = {tag: it for tag, it in record.metrics.items() if tag in wanted or tag not in seen}
            seen |= metrics.keys()
            kept.append(replace(record, metrics=metrics, episodes=Episodes(n=record.episodes.n)))
        else:
            if isinstance(record, TrainingStarted):
                seen = set()
            kept.append(record)
        yield record


def _peak_rss_bytes(run: RunDir) -> int | None:
    """The most of all attempts that have ended; None where no keeper has said it."""
    known = []
    for attempt in run.attempts():
        with suppress(DamagedError):
            ended = read_exit(run.attempt(attempt).exit)
            known.append(ended.peak_rss_bytes if ended is not None else None)
    return max((peak for peak in known if peak is not None), default=None)


def _effective(run: RunDir, attempt: int) -> dict[str, Any]:
    """What the model said it uses; nothing where it has not said it, or where that cannot be read."""
    path = run.attempt(attempt).effective
    with suppress(DamagedError):
        return read_toml(path, DamagedError) if path.is_file() else {}
    return {}
