"""Whether the threads of commands wait for each other: what the kernel says of them, while the machine is full.

Our own trainers have the threads that their spec says, so nobody looks at those. The kernel counts for each thread how
long it ran and how long it waited for a core; where it does not, nothing is concluded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mission_tui.fleet.health import acts, cleared
from mission_tui.fleet.health.thread_contention import ID, MUCH, ProcessLook, ThreadContention, ThreadLook
from mission_tui.fleet.specs.consistency import is_python
from mission_tui.fleet.specs.spec import Spec
from mission_tui.supervisor.host.process_files import thread_times
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.watching.machine_findings import end_finding, new_finding, open_finding
from mission_tui.supervisor.watching.metrics_feed import record_finding

FULL_PERCENT = 90.0
LOOK_S = 5
"""Of the last seconds of the processors."""
_NS = 1e9

Times = dict[int, dict[int, tuple[int, int]]]
"""By process and thread the nanoseconds that it ran and waited."""


@dataclass(slots=True)
class _Attempt:
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
            end_finding(self._core, run_id, ID, t)

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
        is_open = open_finding(self._core, run.id, ID)
        if known.rule.on and is_open is None:
            update = 0 if row is None else row.update
            record_finding(
                self._core, run, new_finding(ID, "warning", known.rule.explain(spec), run.attempt, update, t)
            )
        elif known.rule.off and is_open is not None:
            update = is_open.first_update if row is None else row.update
            record_finding(self._core, run, cleared(is_open, update, t))

    def _is_full(self) -> bool:
        recent = list(self._core.machine.host.recent)[-LOOK_S:]
        return bool(recent) and sum(recent) / len(recent) >= FULL_PERCENT

    def _look(self, run: LiveRun, known: _Attempt, now: float) -> ThreadLook | None:
        """What its threads did since the last look; None for the first one."""
        usage, pids = self._core.store.run(run.id).observed.usage, self._core.store.run(run.id).observed.pids
        host = self._core.machine.host
        if usage is None:
            return None
        if usage.threads <= usage.processes:
            return ThreadLook((), host.cores, 0.0)
        family = [pid for pid in (pids.trainer, *pids.workers) if pid is not None]
        elapsed_s, known.at = now - known.at, now
        before, known.times = known.times, {pid: thread_times(pid) for pid in family}
        if not before or elapsed_s <= 0.0:
            return None
        looks = [_process(known.times[pid], before[pid], elapsed_s) for pid in family if pid in before]
        busy = host.cores * host.recent[-1] / 100.0
        return ThreadLook(looks, host.cores, max(0.0, busy - usage.cpu_percent / 100.0))


def is_watched(spec: Spec) -> bool:
    """Whether the advice would mean anything: it is a command that starts Python, and nobody switched the rule off."""
    return is_python(spec.run.command or ()) and acts(spec.keep.health, ID) != "off"


def _process(now: dict[int, tuple[int, int]], then: dict[int, tuple[int, int]], elapsed_s: float) -> ProcessLook:
    both = [tid for tid in now if tid in then]
    ran = [max(0, now[tid][0] - then[tid][0]) / _NS / elapsed_s for tid in both]
    wanted = [max(0, sum(now[tid]) - sum(then[tid])) / _NS / elapsed_s for tid in both]
    return ProcessLook(sum(each >= MUCH for each in wanted), sum(wanted), sum(ran))
