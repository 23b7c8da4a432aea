"""Findings of what a machine does to a run, which no row shows: threads of a command that wait for each other while the
machine is full, and a GPU that is held and hardly used.

Our own trainers have the threads that their spec says, so those are not looked at. The kernel counts for each thread
how long it ran and how long it waited for a core; where it does not, nothing is concluded. How busy a GPU is with a
run's processes is what the driver says, and is shown beside the phases of the run.
"""

from __future__ import annotations

import socket

from msgspec import Struct, field, structs

from mission_tui.fleet.events.findings import Finding, Severity
from mission_tui.fleet.events.journal import FindingChanged
from mission_tui.fleet.health import acts, cleared, gpu_idle, thread_contention
from mission_tui.fleet.health.gpu_idle import GpuIdle, GpuShareSample
from mission_tui.fleet.health.rule import Explanation
from mission_tui.fleet.health.thread_contention import MUCH, ProcessThreads, ThreadContention, ThreadSample
from mission_tui.fleet.specs.consistency import is_python
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.tuning.profile import task_of
from mission_tui.records.tuning_files import all_kept
from mission_tui.supervisor.host.process_files import thread_times
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.watching.metrics_feed import record_finding


def open_finding(core: Core, run_id: str, rule: str) -> Finding | None:
    """The finding of `rule` that is open in the run's newest attempt."""
    journal = core.store.run(run_id).journal
    mine = (it for it in journal.findings.values() if it.rule == rule and it.attempt == journal.attempt)
    return next((it for it in mine if it.state == "open"), None)


def end_finding(core: Core, run_id: str, rule: str, t: float) -> None:
    """The finding ends with the processes of its run, at unix time `t`; it stays on record."""
    if run_id in core.store and (found := open_finding(core, run_id, rule)) is not None:
        over = cleared(found, found.last_update, t)
        core.record_observed_of(run_id, lambda seq, at: FindingChanged(seq, at, over))


def new_finding(rule: str, severity: Severity, words: Explanation, attempt: int, update: int, t: float) -> Finding:
    """A finding of `rule` that begins at `update`, unix time `t`."""
    finding = Finding(
        id=f"{rule}-{attempt}-{update}",
        rule=rule,
        severity=severity,
        first_update=update,
        last_update=update,
        sentence=words.sentence,
        cause=words.cause,
        advice=words.advice,
        first_t=t,
        last_t=t,
    )
    return structs.replace(
        finding,
        advice_set=words.advice_set,
        evidence=words.evidence,
        signal=words.signal,
        window=words.window,
    )


FULL_PERCENT = 90.0
LOOK_S = 5
"""Of the last seconds of the processors."""
_NS = 1e9

Times = dict[int, dict[int, tuple[int, int]]]
"""By process and thread the nanoseconds that it ran and waited."""


class _Attempt(Struct):
    """What is known of a command's attempt `number`; `at` (monotonic) is when its threads were looked at."""

    number: int
    rule: ThreadContention
    times: Times = field(default_factory=dict)
    at: float = 0.0


class CommandThreads:
    """Looked at every few seconds; a run of which no thread waits costs nothing but the reading of what it reports."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._attempts: dict[str, _Attempt] = {}

    def poll(self, now: float, t: float) -> None:
        """At monotonic `now`, unix time `t`: look at the threads of commands, journal what begins or is over."""
        before, self._attempts = self._attempts, {}
        for run in list(self._core.live.values()):
            spec = run.spec
            if spec is None or not run.attempt or not is_watched(spec):
                continue
            known = before.get(run.id)
            if known is None or known.number != run.attempt:
                known = _Attempt(run.attempt, ThreadContention(spec.keep.health.thread_contention))
            self._attempts[run.id] = known
            if not self._core.store.run(run.id).journal.held:
                self._follow(run, spec, known, now, t)
        for run_id in before.keys() - self._attempts.keys():
            end_finding(self._core, run_id, thread_contention.ID, t)

    def _follow(self, run: LiveRun, spec: Spec, known: _Attempt, now: float, t: float) -> None:
        row = self._core.store.run(run.id).metrics.row
        speed = row.steps_per_s if row is not None and row.attempt == run.attempt and row.steps_per_s > 0.0 else None
        if not self._is_full():
            known.times = {}
            known.rule.update(None, speed)
        elif (look := self._look(run, known, now)) is not None:
            known.rule.update(look, speed)
        else:
            return
        is_open = open_finding(self._core, run.id, thread_contention.ID)
        if known.rule.on and is_open is None:
            update = 0 if row is None else row.update
            words = known.rule.explain(spec)
            begun = new_finding(thread_contention.ID, "warning", words, run.attempt, update, t)
            record_finding(self._core, run, begun)
        elif known.rule.off and is_open is not None:
            update = is_open.first_update if row is None else row.update
            record_finding(self._core, run, cleared(is_open, update, t))

    def _is_full(self) -> bool:
        recent = list(self._core.machine.host.recent)[-LOOK_S:]
        return bool(recent) and sum(recent) / len(recent) >= FULL_PERCENT

    def _look(self, run: LiveRun, known: _Attempt, now: float) -> ThreadSample | None:
        """What its threads did since the last look; None for the first one."""
        usage, pids = self._core.store.run(run.id).observed.usage, self._core.store.run(run.id).observed.pids
        host = self._core.machine.host
        if usage is None:
            return None
        if usage.threads <= usage.processes:
            return ThreadSample((), host.cores, 0.0)
        family = [pid for pid in (pids.trainer, *pids.workers) if pid is not None]
        elapsed_s, known.at = now - known.at, now
        before, known.times = known.times, {pid: thread_times(pid) for pid in family}
        if not before or elapsed_s <= 0.0:
            return None
        looks = [_process(known.times[pid], before[pid], elapsed_s) for pid in family if pid in before]
        busy = host.present * host.recent[-1] / 100.0
        return ThreadSample(looks, host.cores, max(0.0, busy - usage.cpu_percent / 100.0))


def is_watched(spec: Spec) -> bool:
    """Whether the advice would help: the command starts Python, and the rule is not switched off."""
    return is_python(spec.run.command or ()) and acts(spec.keep.health, thread_contention.ID) != "off"


def _process(now: dict[int, tuple[int, int]], then: dict[int, tuple[int, int]], elapsed_s: float) -> ProcessThreads:
    both = [tid for tid in now if tid in then]
    ran = [max(0, now[tid][0] - then[tid][0]) / _NS / elapsed_s for tid in both]
    wanted = [max(0, sum(now[tid]) - sum(then[tid])) / _NS / elapsed_s for tid in both]
    return ProcessThreads(sum(each >= MUCH for each in wanted), sum(wanted), sum(ran))


class IdleGpus:
    """Looked at every few seconds; a run that holds no GPU costs nothing. Commands are left alone: their phases and
    settings are not known.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._attempts: dict[str, tuple[int, GpuIdle]] = {}

    def poll(self, t: float) -> None:
        """At unix time `t`: look at the runs that hold a GPU, journal what begins or is over."""
        before, self._attempts = self._attempts, {}
        for run in list(self._core.live.values()):
            spec = run.spec
            if (
                spec is None
                or not run.attempt
                or spec.run.command is not None
                or acts(spec.keep.health, gpu_idle.ID) == "off"
            ):
                continue
            number, rule = before.get(run.id, (0, None))
            if rule is None or number != run.attempt:
                rule = GpuIdle(spec.keep.health.gpu_idle)
            self._attempts[run.id] = run.attempt, rule
            if not self._core.store.run(run.id).journal.held:
                self._follow(run, spec, rule, t)
        for run_id in before.keys() - self._attempts.keys():
            end_finding(self._core, run_id, gpu_idle.ID, t)

    def _follow(self, run: LiveRun, spec: Spec, rule: GpuIdle, t: float) -> None:
        known = self._core.store.run(run.id)
        usage, row = known.observed.usage, known.metrics.row
        if usage is None or usage.gpu_percent is None or row is None or row.attempt != run.attempt:
            return
        rule.update(GpuShareSample(usage.gpu_percent, row.rollout_s, row.update_s, row.env_s))
        is_open = open_finding(self._core, run.id, gpu_idle.ID)
        if rule.on and is_open is None:
            words = rule.explain(spec, faster_on_cpu(self._core, spec))
            record_finding(self._core, run, new_finding(gpu_idle.ID, "info", words, run.attempt, row.update, t))
        elif rule.off and is_open is not None:
            record_finding(self._core, run, cleared(is_open, row.update, t))


def faster_on_cpu(core: Core, spec: Spec) -> str:
    """The sentence of a measurement on this machine by which such a net is faster on the CPU; "" without one."""
    wanted = {name: value for name, value in task_of(spec).items() if name != "run.device"}
    wanted |= {"host": socket.gethostname()}
    speeds = next((it.speeds for it in all_kept(core.root) if wanted.items() <= it.of.items()), None)
    return speeds.sentence if speeds is not None and speeds.faster == "cpu" else ""
