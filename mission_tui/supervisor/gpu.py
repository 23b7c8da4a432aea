"""The supervisor's side of the GPU probe: starts it, reads its lines, and gives up on it when it falls silent.

A probe stuck in the driver cannot be reaped; at most two such are left behind, then no other is started.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import msgspec

from mission_tui.fleet.snapshot import GpuMeters, Utilisation
from mission_tui.supervisor.children import Child, start_child
from mission_tui.supervisor.gpu_line import GpuSample, ProbeLine

__all__ = ["GpuWatch"]

SILENT_S = 5.0
BACK_OFF_S = (1.0, 5.0, 15.0, 60.0)
ABSENT_RETRY_S = 600.0
MOST_ABANDONED = 2
_WINDOW_S = 20.0
_HISTORY_S = 60.0
_BUCKET_S = 0.5
_CHUNK = 65536


class GpuWatch:
    """Keeps a probe alive while wanted. `gpus`, `held` (bytes by process) and `note` are what it said last.

    `heard` is set at its first word.
    """

    def __init__(self) -> None:
        self.gpus: tuple[GpuMeters, ...] = ()
        self.held: dict[int, int | None] = {}
        self.note = ""
        self.heard = asyncio.Event()
        self._probe: Child | None = None
        self._pipe: int | None = None
        self._rest = b""
        self._heard_at = 0.0
        self._not_before = 0.0
        self._failures = 0
        self._abandoned: set[int] = set()
        self._busy: dict[str, deque[tuple[float, float]]] = {}

    def present(self) -> bool:
        """Whether there is a GPU, as far as is known: before the first word of a probe, whether there is a driver."""
        return bool(self.gpus) or (not self.note and Path("/dev/nvidiactl").exists())

    def tick(self, wanted: bool) -> None:
        """Once a second: start, stop or give up the probe."""
        now = time.monotonic()
        if self._probe is None:
            if wanted and now >= self._not_before and len(self._abandoned) < MOST_ABANDONED:
                self._start(now)
        elif not wanted:
            self._drop()
        elif now - self._heard_at > SILENT_S:
            self.note = f"GPU meters are stale: the driver has not answered for {SILENT_S:.0f} s"
            self._drop()
            self._delay(now)

    def close(self) -> None:
        """End the probe."""
        if self._probe is not None:
            self._drop()

    def _start(self, now: float) -> None:
        argv = [sys.executable, "-m", "mission_tui.supervisor.gpu_probe"]
        child: Child | None = None
        child = start_child(argv, lambda _code: self._ended(child), stdout=subprocess.PIPE)
        assert child.process.stdout is not None
        self._probe, self._heard_at, self._rest = child, now, b""
        self._pipe = child.process.stdout.fileno()
        os.set_blocking(self._pipe, False)
        asyncio.get_running_loop().add_reader(self._pipe, self._read)

    def _drop(self) -> None:
        assert self._probe is not None
        self._abandoned.add(self._probe.pid)
        self._probe.kill()
        self._release()

    def _release(self) -> None:
        assert self._probe is not None
        assert self._probe.process.stdout is not None
        if self._pipe is not None:
            asyncio.get_running_loop().remove_reader(self._pipe)
        self._probe.process.stdout.close()
        self._probe, self._pipe, self.gpus, self.held = None, None, (), {}

    def _ended(self, child: Child | None) -> None:
        assert child is not None
        self._abandoned.discard(child.pid)
        if self._probe is child:
            self._read()
            self._release()
            self._delay(time.monotonic())

    def _delay(self, now: float) -> None:
        if self.note.startswith("no GPU"):
            self._not_before = now + ABSENT_RETRY_S
            return
        self._not_before = now + BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
        self._failures += 1

    def _read(self) -> None:
        if self._pipe is None:
            return
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return
        if not data:  # its end was closed; who closed it is reaped soon
            asyncio.get_running_loop().remove_reader(self._pipe)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines:
            self._apply(lines[-1])

    def _apply(self, line: bytes) -> None:
        try:
            said = msgspec.json.decode(line, type=ProbeLine)
        except msgspec.DecodeError as error:
            said = ProbeLine(note=f"GPU meters: the probe said something unreadable ({error})")
        now = time.monotonic()
        self._heard_at, self.note = now, said.note
        self.heard.set()
        if said.gpus:
            self._failures = 0
        self.gpus = tuple(self._meters(sample, now) for sample in said.gpus)
        self.held = _held(said.gpus)

    def _meters(self, sample: GpuSample, now: float) -> GpuMeters:
        busy = self._busy.setdefault(sample.uuid, deque())
        if sample.busy_percent is not None:
            busy.append((now, sample.busy_percent))
        while busy and busy[0][0] < now - _HISTORY_S:
            busy.popleft()
        recent = [percent for t, percent in busy if t >= now - _WINDOW_S]
        return GpuMeters(
            uuid=sample.uuid,
            name=sample.name,
            util=Utilisation(
                now=sample.busy_percent,
                mean=sum(recent) / len(recent) if recent else None,
                max=max(recent) if recent else None,
            ),
            memory_used=sample.memory_used,
            memory_total=sample.memory_total,
            power_w=sample.power_w,
            temperature_c=sample.temperature_c,
            history=_peaks(busy),
        )


def _held(gpus: tuple[GpuSample, ...]) -> dict[int, int | None]:
    """Bytes by process over all GPUs; None while not one of them tells."""
    held: dict[int, int | None] = {}
    for process in (process for gpu in gpus for process in gpu.processes):
        known = held.get(process.pid)
        held[process.pid] = process.memory if known is None else known + (process.memory or 0)
    return held


def _peaks(busy: deque[tuple[float, float]]) -> tuple[float, ...]:
    """The highest busy percent of each half second, oldest first: an update burst is shorter than a second."""
    peaks: dict[int, float] = {}
    for t, percent in busy:
        bucket = int(t / _BUCKET_S)
        peaks[bucket] = max(percent, peaks.get(bucket, 0.0))
    return tuple(peaks.values())
