"""A screen that is watched: what it costs while nobody touches it, and how soon it answers a key.

A key moves to the next run's pane; it is answered when the mark is written into that pane's corner. The run's name is
not written again: only what changed is.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import psutil

from benchmarks.terminal import Terminal

__all__ = ["PAGE_DOWN", "Reading", "busy_s", "keys_p95_s", "p95", "press_at_odd_moments", "walk", "watch"]

RIGHT, LEFT, PAGE_DOWN = "\x1b[C", "\x1b[D", "\x1b[6~"
MARK = "┌>"
MOMENTS = random.Random(4)
"""Keys come when they come, and not in step with anything that the screen does."""


@dataclass(slots=True)
class Reading:
    """One number per round: percent of a core, KB written a second, p95 of key to paint in ms, the screen's memory in
    MB (resident; and its share, PSS), and the supervisor's.
    """

    percent: list[float] = field(default_factory=list)
    kbytes: list[float] = field(default_factory=list)
    key_ms: list[float] = field(default_factory=list)
    resident_mb: list[float] = field(default_factory=list)
    share_mb: list[float] = field(default_factory=list)
    supervisor_percent: list[float] = field(default_factory=list)
    supervisor_mib: list[float] = field(default_factory=list)


def watch(terminal: Terminal, seconds: float, reading: Reading, supervisor: psutil.Process | None = None) -> None:
    """One round of looking without touching anything."""
    processes = [psutil.Process(terminal.process.pid), *([supervisor] if supervisor else [])]
    before, written, begun = [busy_s(each) for each in processes], terminal.written_bytes, time.perf_counter()
    terminal.watch(seconds)
    taken = time.perf_counter() - begun
    percents = [100 * (busy_s(each) - was) / taken for each, was in zip(processes, before, strict=True)]
    reading.percent.append(percents[0])
    reading.kbytes.append((terminal.written_bytes - written) / taken / 1000)
    memory = processes[0].memory_full_info()
    reading.resident_mb.append(memory.rss / 1e6)
    reading.share_mb.append(memory.pss / 1e6)
    if supervisor is not None:
        reading.supervisor_percent.append(percents[1])
        reading.supervisor_mib.append(supervisor.memory_info().rss / 2**20)


def walk(runs: int) -> Iterator[tuple[str, str]]:
    """Keys that go from the first of `runs` to the last and back again, each with the mark that it brings."""
    at, by = 0, 1
    while True:
        if not 0 <= at + by < runs:
            by = -by
        at += by
        yield (RIGHT if by > 0 else LEFT), MARK


def keys_p95_s(terminal: Terminal, steps: Iterator[tuple[str, str]], keys: int) -> float:
    """p95 of so many keys at odd moments, in seconds from the key to its paint."""
    return p95([press_at_odd_moments(terminal, *next(steps)) for _ in range(keys)])


def press_at_odd_moments(terminal: Terminal, key: str, words: str) -> float:
    """Seconds from one key to the words it brings, after a short look."""
    terminal.watch(MOMENTS.uniform(0.12, 0.4))
    return terminal.press(key, words)


def p95(values: Sequence[float]) -> float:
    """The value that nineteen of twenty do not pass."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def busy_s(process: psutil.Process) -> float:
    """Processor seconds of the process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)
