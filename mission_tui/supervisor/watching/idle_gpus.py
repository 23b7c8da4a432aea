"""Whether a run holds a GPU that it hardly uses: what the driver says of its processes, beside its own phases."""

from __future__ import annotations

import socket

from mission_tui.fleet.bench.device_speeds import DevicesMeasured
from mission_tui.fleet.health import acts, cleared
from mission_tui.fleet.health.gpu_idle import ID, GpuIdle, GpuLook
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.tuning.profile import task_of
from mission_tui.records.files.tail import read_all
from mission_tui.records.tuning_files import devices_journal
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.watching.machine_findings import end_finding, new_finding, open_finding
from mission_tui.supervisor.watching.metrics_feed import record_finding


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
            if spec is None or not run.attempt or spec.run.command is not None or acts(spec.keep.health, ID) == "off":
                continue
            number, rule = before.get(run.id, (0, None))
            if rule is None or number != run.attempt:
                rule = GpuIdle(spec.keep.health.gpu_idle)
            self._attempts[run.id] = run.attempt, rule
            if not self._core.store.run(run.id).journal.held:
                self._follow(run, spec, rule, t)
        for run_id in before.keys() - self._attempts.keys():
            end_finding(self._core, run_id, ID, t)

    def _follow(self, run: LiveRun, spec: Spec, rule: GpuIdle, t: float) -> None:
        known = self._core.store.run(run.id)
        usage, row = known.observed.usage, known.metrics.row
        if usage is None or usage.gpu_percent is None or row is None or row.attempt != run.attempt:
            return
        rule.update(GpuLook(usage.gpu_percent, row.rollout_s, row.update_s, row.env_s))
        is_open = open_finding(self._core, run.id, ID)
        if rule.on and is_open is None:
            words = rule.explain(spec, faster_on_cpu(self._core, spec))
            record_finding(self._core, run, new_finding(ID, "info", words, run.attempt, row.update, t))
        elif rule.off and is_open is not None:
            record_finding(self._core, run, cleared(is_open, row.update, t))


def faster_on_cpu(core: Core, spec: Spec) -> str:
    """The sentence of a check or a launch that has measured so on this machine, for such a net; "" where none has."""
    wanted = {name: value for name, value in task_of(spec).items() if name != "run.device"}
    wanted |= {"host": socket.gethostname()}
    try:
        records, _ = read_all(devices_journal(core.root), DevicesMeasured)
    except OSError:
        return ""
    speeds = next((it.speeds for it in reversed(records) if wanted.items() <= it.of.items()), None)
    return speeds.sentence if speeds is not None and speeds.faster == "cpu" else ""
