"""The product's own meters of a card, watched while something is measured."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from benchmarks.fleet.lab import ROOT
from mission_tui.supervisor.gpu.line import ProbeLine


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

    def watts(self, last_s: float = math.inf) -> list[tuple[float, float]]:
        """When, and what all cards drew, over the lines of the `last_s` seconds."""
        since = self.lines[-1][0] - last_s if self.lines else 0.0
        said = [(t, line) for t, line in self.lines if line.gpus and t >= since]
        return [(t, sum(gpu.power_w for gpu in line.gpus if gpu.power_w is not None)) for t, line in said]

    def of_processes(self, pids: set[int]) -> tuple[int, list[float]]:
        """The most bytes that they held at once, and the percent of a card at each line."""
        held, shares = 0, []
        for _, line in self.lines:
            mine = [process for gpu in line.gpus for process in gpu.processes if process.pid in pids]
            held = max(held, sum(process.memory or 0 for process in mine))
            told = [process.busy for process in mine if process.busy is not None]
            shares += [sum(told)] if told else []
        return held, shares

    def mean_busy(self, last_s: float = math.inf) -> float | None:
        """Percent of all cards, over the lines of the `last_s` seconds; None where no line tells it."""
        since = self.lines[-1][0] - last_s if self.lines else 0.0
        told = [gpu.busy.mean for t, line in self.lines if t >= since for gpu in line.gpus if gpu.busy is not None]
        return statistics.fmean(told) if told else None


@contextmanager
def probing() -> Iterator[Probe]:
    """A probe at work."""
    probe = Probe()
    try:
        yield probe
    finally:
        probe.end()
