"""From a live run's `metrics.jsonl` to the store and the health judge. The file is the truth; telemetry only says when.

Judging is done in slices, so that catching up on a long history after a restart never blocks the loop for long. The
judge hears breaks from the store, which has them from `events.jsonl`: live and after a restart by the same road.

The rows of a command, of what its script reports or of its logs, are written by a follower: a process that outlives
this one, so that a supervisor that dies loses none, and a log that takes long to read delays nothing here.
"""

from __future__ import annotations

import errno
import time
from functools import partial

from mission_tui.fleet.events.findings import METRICS, Finding
from mission_tui.fleet.events.journal import FindingChanged, GoalReached
from mission_tui.fleet.events.metrics import DutyFailed, MetricRecord, UpdateDone
from mission_tui.fleet.health import is_news
from mission_tui.ipc.telemetry_server import rest_s
from mission_tui.records.jsonl import each_record
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.journal import damaged
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.watching.finding_actions import keep_last_good, notify_failure, react

SLICE_S = 0.03
PAUSE_S = 0.05
READ_S = 0.4
"""A file in which new lines were found is not opened again so soon, unless by the beat of every second."""

LATE_S = 2.0
"""A row is in the file within this time of the moment that it names, so silence is known only up to then."""

FOLLOWING = "following"
_SHORT_HERE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def read_everything(core: Core, run: LiveRun) -> None:
    """Read the whole file of a run that just became live here.

    Its attempt is judged if it lives: one that has ended was judged while it ran, by its own spec.
    """
    run.judging.begin(run.spec if core.store.run(run.id).journal.outcome is None else None)
    records = _read(core, run)
    core.store.load_history(run.id, records)
    core.lanes.load(run.id, records)
    if records:
        # How late a writer is shows when it writes again: until then its newest row is as late as it is old.
        run.judging.take_rows(time.monotonic(), time.time() - run.clock_lag_s - records[-1].t)
    for record in records:
        run.take_record(record)
        _journal_failure(core, run, record)
    _journal_goal(core, run)
    _judge(core, run)


def on_rows_written(core: Core, run: LiveRun, seq: int) -> None:
    """The trainer says that its file ends with record `seq`: take it in at once, or soon where many follow each other.

    Opening a file and coming back to a run costs as much as judging a row, so one that does many updates a second is
    read twice in it, and once where many train: then the beat of the clock has read it just before, or soon will.
    Before it is called paused it is read in any case.
    """
    core.done_for(run.id, METRICS)
    often_s = max(READ_S, rest_s(len(core.live)))
    if seq > core.store.run(run.id).metrics.seq and time.monotonic() - run.judging.news_at >= often_s:
        read_news(core, run)


def read_news(core: Core, run: LiveRun, *, last: bool = False) -> None:
    """Take in the lines completed since the last look; the last look judges all of them at once."""
    records = _read(core, run)
    if records:
        first_t = next((it.t for it in records if isinstance(it, UpdateDone)), time.time())
        run.judging.take_rows(time.monotonic(), time.time() - run.clock_lag_s - first_t)
    for record in records:
        if core.apply(run.id, record):
            run.take_record(record)
            _journal_failure(core, run, record)
    if core.store.run(run.id).metrics.lacking:
        core.store.reload(run.id, each_record(run.dir.metrics, MetricRecord))
    if records:
        _journal_goal(core, run)
    if last or run.judging.catching_up is None:
        _judge(core, run, SLICE_S if not last else float("inf"))


def record_duty_failure(core: Core, run: LiveRun, duty: str, why: str, number: int) -> None:
    """A duty of the trainer failed: journal it once, whether its word or its record came first.

    Where no row can be written no rule sees anything any more, so people are notified of that at once.
    """
    if number not in core.store.run(run.id).journal.failures:
        core.fail_for(run.id, duty, why, number=number)
        if duty == METRICS:
            notify_failure(core, run, core.store.run(run.id).journal.duties[duty])


def judge_some(core: Core, run: LiveRun) -> bool:
    """Judge some of what was read and not judged yet; returns whether there is more."""
    _judge(core, run, SLICE_S)
    return bool(run.judging.unjudged)


def silent_until(run: LiveRun) -> float:
    """Unix time, on the clock of the run's rows, up to which it is known whether there is a row."""
    # Those of a followed log are as late as its writer flushes: TensorBoard's may keep two minutes of them.
    follows = run.spec is not None and run.spec.run.follow is not None
    return time.time() - run.clock_lag_s - max(LATE_S, run.judging.late_s if follows else 0.0)


def judge_silence(core: Core, run: LiveRun, now: float) -> None:
    """Judge that a live trainer has written nothing until unix time `now`; not while rows wait to be judged."""
    if run.judging.judge is None or run.judging.unjudged:
        return
    _report_breaks(core, run)
    for finding in run.judging.judge.silence(now):
        record_finding(core, run, finding)


def _journal_failure(core: Core, run: LiveRun, record: MetricRecord) -> None:
    if not isinstance(record, DutyFailed) or record.attempt != run.attempt:
        return
    if not record.over:
        record_duty_failure(core, run, record.duty, record.why, record.number)
    elif max(core.store.run(run.id).journal.failures, default=0) <= record.number:  # else read once more, later
        core.done_for(run.id, record.duty)


def _journal_goal(core: Core, run: LiveRun) -> None:
    """Journal once that the run reached its goal; again where that update was rolled back and repeated."""
    known = core.store.run(run.id)
    goal, before = known.goal, known.journal.goal
    place = known.metrics.scanned(goal).reached if goal is not None else None
    if goal is None or place is None or (before and (before.goal, before.update) == (goal.words, place.update)):
        return
    words, attempt = goal.words, run.attempt
    core.record_observed(
        run,
        lambda seq, t: GoalReached(seq, t, attempt, words, place.value, place.update, place.timesteps),
    )


def _read(runs: Runs, run: LiveRun) -> list[MetricRecord]:
    """The new lines. Damage is journaled; a file that cannot be read at all is said to be so once.

    Where this process has no descriptor or memory left the file is as good as before: it is read the next time.
    """
    records: list[MetricRecord] = []
    try:
        records = run.tail.read()
    except OSError as error:
        if error.errno not in _SHORT_HERE and "damaged" not in runs.store.run(run.id).journal.flags:
            run.tail.damage.append(str(error))
    for detail in run.tail.damage:
        runs.record_observed(run, damaged(run.tail.path.name, detail))
    run.tail.damage.clear()
    return records


def _judge(core: Core, run: LiveRun, slice_s: float = SLICE_S) -> None:
    run.judging.cancel_later()
    _report_breaks(core, run)
    until = time.monotonic() + slice_s
    while run.judging.unjudged:
        for finding in run.judging.judge_next():
            record_finding(core, run, finding)
        if time.monotonic() > until:
            run.judging.go_on_later(PAUSE_S, partial(_judge, core, run))
            return


def _report_breaks(core: Core, run: LiveRun) -> None:
    # A row that names a moment after the clock was set is never judged before that is known.
    core.clock_steps.poll(core)
    journal = core.store.run(run.id).journal
    run.judging.report_breaks(journal.breaks, journal.changes)


def record_finding(core: Core, run: LiveRun, finding: Finding) -> None:
    """Journal how an incident stands now, unless that is known, and do what may be done about it."""
    journal = core.store.run(run.id).journal
    known = journal.findings.get(finding.id)
    if is_news(finding, known) and (known is not None or not journal.was_forgotten(finding)):
        core.record_observed(run, lambda seq, t: FindingChanged(seq, t, finding))
        react(core, run, finding)
        keep_last_good(core, run)


def follow(runs: Runs, run: LiveRun) -> None:
    """See that a live command which reports, or whose spec asks for it, is followed; once an attempt."""
    if run.follower.until or (run.spec is not None and run.spec.run.command is None):
        return
    pattern = run.spec.run.follow if run.spec is not None else None
    if pattern is not None or run.dir.attempt(run.attempt).reported.exists():
        run.follower.start(run.dir, run.attempt, pattern, partial(runs.fail_for, run.id, FOLLOWING))


def still_follows(runs: Runs, run: LiveRun) -> bool:
    """Whether the last lines of an attempt that has ended are still being read; false after a few seconds at most."""
    if run.follower.elsewhere:
        # That one may be at the last lines now: another one waits for it, and reads what it left.
        run.follower.begin_anew()
    follow(runs, run)  # it may have been over before anybody looked
    return run.follower.still_reads()
