"""From a live run's `metrics.jsonl` to the store and the health judge. The file is the truth; telemetry only says when.

Judging is done in slices, so that catching up on a long history after a restart never blocks the loop for long. The
judge hears breaks from the store, which has them from `events.jsonl`: live and after a restart by the same road.
"""

from __future__ import annotations

import time
from functools import partial

from mission_tui.fleet.events.findings import METRICS, Finding
from mission_tui.fleet.events.journal import FindingChanged
from mission_tui.fleet.events.metrics import DutyFailed, MetricRecord
from mission_tui.fleet.health import is_news
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.journal import damaged
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.watching.finding_actions import keep_last_good, react
from mission_tui.supervisor.watching.notifying import notify_failure

SLICE_S = 0.03
PAUSE_S = 0.05
READ_S = 0.4
"""A file in which new lines were found is not opened again so soon, unless by the beat of every second."""

LATE_S = 2.0
"""A row is in the file within this time of the moment that it names, so silence is known only up to then."""


def read_everything(core: Core, run: LiveRun) -> None:
    """Take in the whole file of a run that just became live here.

    Its attempt is judged if it lives: one that has ended was judged in its time, and by its own spec.
    """
    run.judge_anew(ended=core.store.run(run.id).journal.outcome is not None)
    records = _read(core, run)
    core.store.load_history(run.id, records)
    core.lanes.load(run.id, records)
    for record in records:
        run.take_record(record)
        _journal_failure(core, run, record)
    _judge(core, run)


def on_rows_written(core: Core, run: LiveRun, seq: int) -> None:
    """The trainer says that its file ends with record `seq`: take it in at once, or soon where many follow each other.

    Opening a file and coming back to a run costs as much as judging a row, so one that does many updates a second is
    read twice in it. Before it is called paused it is read in any case.
    """
    core.done_for(run.id, METRICS)
    if seq > core.store.run(run.id).metrics.seq and time.monotonic() - run.news_at >= READ_S:
        read_news(core, run)


def read_news(core: Core, run: LiveRun, *, last: bool = False) -> None:
    """Take in the lines completed since the last look; the last look judges all of them at once."""
    records = _read(core, run)
    if records:
        run.read_at(time.monotonic())
    for record in records:
        if core.apply(run.id, record):
            run.take_record(record)
            _journal_failure(core, run, record)
    if last or run.catching_up is None:
        _judge(core, run, SLICE_S if not last else float("inf"))


def record_duty_failure(core: Core, run: LiveRun, duty: str, why: str, number: int) -> None:
    """A duty of the trainer failed: journal it once, whether its word or its record came first.

    Where no row can be written no rule sees anything any more, so that much is told to people at once.
    """
    if number not in core.store.run(run.id).journal.failures:
        core.fail_for(run.id, duty, why, number=number)
        if duty == METRICS:
            notify_failure(core, run, core.store.run(run.id).journal.duties[duty])


def judge_some(core: Core, run: LiveRun) -> bool:
    """Judge for a moment what was read and not judged yet; whether there is more."""
    _judge(core, run, SLICE_S)
    return bool(run.unjudged)


def judge_silence(core: Core, run: LiveRun, now: float) -> None:
    """Judge that nothing came of a living trainer until unix time `now`; nothing is concluded while rows wait."""
    if run.judge is None or run.unjudged:
        return
    _report_breaks(core, run)
    for finding in run.judge.silence(now):
        _journal(core, run, finding)


def _journal_failure(core: Core, run: LiveRun, record: MetricRecord) -> None:
    if isinstance(record, DutyFailed) and record.attempt == run.attempt:
        record_duty_failure(core, run, record.duty, record.why, record.number)


def _read(runs: Runs, run: LiveRun) -> list[MetricRecord]:
    """The new lines. Damage is journaled; a file that cannot be read at all is said to be so once."""
    records: list[MetricRecord] = []
    try:
        records = run.tail.read()
    except OSError as error:
        if "damaged" not in runs.store.run(run.id).journal.flags:
            run.tail.damage.append(str(error))
    for detail in run.tail.damage:
        runs.record_observed(run, damaged(run.tail.path.name, detail))
    run.tail.damage.clear()
    return records


def _judge(core: Core, run: LiveRun, slice_s: float = SLICE_S) -> None:
    run.judging_now()
    _report_breaks(core, run)
    until = time.monotonic() + slice_s
    while run.unjudged:
        for finding in run.judge_next():
            _journal(core, run, finding)
        if time.monotonic() > until:
            run.judge_later(PAUSE_S, partial(_judge, core, run))
            return


def _report_breaks(core: Core, run: LiveRun) -> None:
    # A row that names a moment after the clock was set is never judged before that is known.
    core.clock_steps.poll(core)
    run.report_breaks(core.store.run(run.id).journal.breaks)


def _journal(core: Core, run: LiveRun, finding: Finding) -> None:
    if is_news(finding, core.store.run(run.id).journal.findings.get(finding.id)):
        core.record_observed(run, lambda seq, t: FindingChanged(seq, t, finding))
        react(core, run, finding)
        keep_last_good(core, run)
