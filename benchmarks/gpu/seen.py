"""Whether the meters tell the truth about a load that is known, and what runs cost that share a card."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import torch as th

from benchmarks.fleet.lab import ROOT, opened
from benchmarks.fleet.shapes import spec_of
from benchmarks.gpu.fast import rate, trained
from benchmarks.gpu.items import Bench
from benchmarks.results import Row
from benchmarks.rows import bounded, compared, unmeasured
from mission_tui.supervisor.gpu.line import ProbeLine

DUTY, PERIOD_S = 0.3, 1.0
WATCHED_S = 20.0
MPS = "nvidia-cuda-mps-control"


class Probe:
    """The product's own probe, and the lines that it has said."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, ProbeLine]] = []
        argv = [sys.executable, "-P", "-m", "mission_tui.supervisor.gpu.probe"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT, env=environ)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append((time.monotonic(), msgspec.json.decode(line, type=ProbeLine)))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    @property
    def why_none(self) -> str:
        """Why there are no meters; empty where there are."""
        said = [line for _, line in self.lines if line.gpus]
        return "" if said else next((line.note for _, line in self.lines), "the probe said nothing")

    @property
    def memory_used(self) -> int:
        """Bytes in use on all cards, at the last line."""
        return sum(gpu.memory_used or 0 for gpu in self.lines[-1][1].gpus)

    def watts(self) -> list[tuple[float, float]]:
        """When, and what all cards drew."""
        return [
            (t, sum(gpu.power_w for gpu in line.gpus if gpu.power_w is not None)) for t, line in self.lines if line.gpus
        ]

    def of_processes(self, pids: set[int]) -> tuple[int, list[float]]:
        """The most bytes that they held at once, and the percent of a card at each line."""
        held, shares = 0, []
        for _, line in self.lines:
            mine = [process for gpu in line.gpus for process in gpu.processes if process.pid in pids]
            held = max(held, sum(process.memory or 0 for process in mine))
            told = [process.busy for process in mine if process.busy is not None]
            shares += [sum(told)] if told else []
        return held, shares

    def busy(self) -> list[float]:
        return [gpu.busy.mean for _, line in self.lines for gpu in line.gpus if gpu.busy is not None]


@contextmanager
def probing() -> Iterator[Probe]:
    """A probe at work."""
    probe = Probe()
    try:
        yield probe
    finally:
        probe.end()


def load(bench: Bench) -> list[Row]:
    """Products for 0.3 s of every second: the mean of the gauge, its peak, and the process's share."""
    side = 256 if bench.small else 8192
    matrix = th.randn(side, side, device=bench.device)
    ends = time.monotonic() + (1.0 if bench.small else WATCHED_S)
    with probing() as probe:
        while (begun := time.monotonic()) < ends:
            while time.monotonic() - begun < DUTY * PERIOD_S:
                matrix @ matrix
                if bench.on_cuda:
                    th.cuda.synchronize()
            time.sleep(max(0.0, PERIOD_S - (time.monotonic() - begun)))
    known = 100 * DUTY
    what = "busy gauge, mean under a load of 30 %"
    if why := probe.why_none:
        return [unmeasured(what, "20 to 40 %", why)]
    peak = max((gpu.busy.most for _, line in probe.lines for gpu in line.gpus if gpu.busy), default=0.0)
    held, shares = probe.of_processes({os.getpid()})
    mean = statistics.fmean(probe.busy() or [0.0])
    rows = [bounded(what, "%", [mean], at_least=20, at_most=40, note=f"peak {peak:.0f} %; the load is {known:.0f} %")]
    if shares:
        rows.append(bounded("the process's own share under it", "%", [statistics.fmean(shares)], at_least=10))
    else:
        rows.append(unmeasured("the process's own share under it", "", "the driver tells no process's share"))
    allocated = th.cuda.memory_reserved() if bench.on_cuda else 0
    note = f"torch reserved {allocated / 2**20:.0f} MiB, the rest is the context"
    return [*rows, bounded("memory of the process as the meters show it", "MiB", [held / 2**20], note=note)]


def runs(bench: Bench) -> list[Row]:
    """`heavy` alone and two at once."""
    preset = "heavy"
    spec = spec_of(preset, bench.shape)
    transitions = spec.env.n_envs * spec.ppo.n_steps
    rows = []
    rates: dict[int, list[float]] = {}
    for many in (1, 2):
        with opened() as lab, probing() as probe:
            ids = trained(lab, preset, bench.shape, many, bench.seconds)
            views = list(lab.views().values())
            rates[many] = [rate(each, transitions) for each in ids]
        summed = sum(rates[many])
        name = f"`{preset}`, {many} at once"
        placed = ", ".join(str(view.placed.number) for view in views if view.placed is not None)
        note = f"placed on GPU {placed}" if placed else "nothing to choose between"
        rows.append(bounded(f"{name}: summed steps/s", "steps/s", [summed], note=note))
        if why := probe.why_none:
            rows.append(unmeasured(f"{name}: busy, memory, power", "", why))
            continue
        busy, claim = statistics.fmean(probe.busy() or [0.0]), "busy" if many == 1 else "two"
        rows.append(bounded(f"{name}: busy", "%", [busy], note=f"{claim}: {busy:.0f} % with `heavy`"))
        most = max((gpu.memory_used or 0) for _, line in probe.lines for gpu in line.gpus) / 2**20
        rows.append(bounded(f"{name}: memory of the card in use", "MiB", [most]))
        watts = [drawn for _, drawn in probe.watts()]
        if watts and max(watts) > 0:
            joules = statistics.fmean(watts) / summed * 1e6
            rows.append(bounded(f"{name}: joules per million steps", "J", [joules]))
    share = statistics.fmean(rates[2]) / rates[1][0]
    rows.append(bounded("what each of two keeps of its speed alone", "x", [share]))
    return rows


def mps(bench: Bench) -> list[Row]:
    """Without and with the service, which is started in a folder of its own and ended."""
    what = "four `heavy` at once with MPS against without, summed steps/s"
    if shutil.which(MPS) is None:
        return [unmeasured(what, "", f"{MPS} is not installed")]
    spec = spec_of("heavy", bench.shape)
    transitions = spec.env.n_envs * spec.ppo.n_steps

    def summed(environ: dict[str, str]) -> float:
        with opened(**environ) as lab, probing() as probe:
            found = sum(rate(each, transitions) for each in trained(lab, "heavy", bench.shape, 4, bench.seconds))
        busy.append(statistics.fmean(probe.busy() or [0.0]))
        return found

    busy: list[float] = []
    without = summed({})
    with tempfile.TemporaryDirectory(prefix="mps-") as folder, _service(folder) as environ:
        beside = summed(environ)
    note = f"four: {busy[0]:.0f} % busy without MPS, {busy[1]:.0f} % with"
    return [compared(what, "steps/s", [beside], "without MPS", [without], None, note)]


@contextmanager
def _service(folder: str) -> Iterator[dict[str, str]]:
    environ = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    everything = {**os.environ, **environ}
    subprocess.run([MPS, "-d"], env=everything, check=True, timeout=30)
    try:
        yield environ
    finally:
        with contextlib.suppress(subprocess.SubprocessError):
            subprocess.run([MPS], input=b"quit\n", env=everything, check=False, timeout=30)
