"""The supervisor's side of the GPU probe: starts it, reads its lines, and gives up on it when it falls silent.

A probe stuck in the driver cannot be reaped; at most two such are left behind, then no other is started. However one
ends, the reason is shown, and another is tried: soon after the first end, once a minute after some.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from mission_tui.fleet.strip import METER_LEVELS, SLOW_LEVELS, WINDOW_S, Cell, CellHistory, merged
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import GpuMeters, Utilisation
from mission_tui.gpu_driver import may_be_here
from mission_tui.supervisor.gpu.line import NO_INSTANCES, GpuSample, ProbeLine
from mission_tui.supervisor.host.children import Child, start_child

SILENT_S = 2.0
START_S = 10.0
"""Until its first word: a busy machine loads Python slowly."""
BACK_OFF_S = (1.0, 5.0, 15.0, 60.0)
ABSENT_RETRY_S = 600.0
MOST_ABANDONED = 2
STEADY_S = 60.0
"""A probe that worked for so long did not fail at its start: the next is tried soon."""
UNTOLD_REST = "its memory, CPU, RAM and phases are shown"
GOES_ON = "runs, CPU and memory meters go on"
_LONGEST_LINE = 1 << 20
_SHOWN_UNKNOWN = 3
_HISTORY_S = 60.0
_HISTORY_CELLS = 120
_DRAW_S = 1.0
"""How often the last minute is put together anew; `now` is of each line."""
_CHUNK = 65536
MOST_POWER_S = 1.0
"""For no longer does a look at the power stand."""


class GpuWatch:
    """Keeps a probe alive while wanted. `gpus`, `held` (bytes by process), `used` (percent of a GPU by process, where
    the driver tells) and `note` are what it said last.

    `heard` is set once the probe at work has said something, or ended. `busy` (percent) and `power` (watts) are a day
    of each GPU by its UUID, on the monotonic clock, over all probes; `names` are what those GPUs are called.
    `deaths` counts the probes that failed. `meters` are a day of each one's `vram` in
    use (bytes) and `temperature` (degrees Celsius), by that word and its UUID.
    """

    def __init__(self, tell: Callable[[str], None] = lambda _why: None) -> None:
        """`tell` hears why the meters stopped, once for each reason, and an empty sentence when they are back."""
        self._tell = tell
        self._told: str | None = None
        self.deaths = 0
        self.gpus: tuple[GpuMeters, ...] = ()
        self.held: dict[int, int | None] = {}
        self.used: dict[int, float] = {}
        self.note = ""
        self.heard = asyncio.Event()
        self._awaited = 0
        """How many wait for the first word of a probe."""
        self._shown: dict[str, tuple[float, tuple[Cell, ...]]] = {}
        """By UUID when the last minute was put together, and what it was."""
        self._probe: Child | None = None
        self._pipe: int | None = None
        self._rest = b""
        self._heard_at = 0.0
        self._started_at = 0.0
        self._failed_with = ""
        """What the probe at work said of its own end."""
        self._unreadable = 0
        self._absent = False
        """The probe at work said that there is no GPU, or no driver."""
        self._not_before = 0.0
        self._failures = 0
        self._abandoned: set[int] = set()
        self.busy: dict[str, CellHistory] = {}
        self.power: dict[str, CellHistory] = {}
        self.meters: dict[tuple[str, str], CellHistory] = {}
        self.names: dict[str, str] = {}

    def present(self) -> bool:
        """Whether there is a GPU, as far as is known: before a probe's first word, whether it is worth waiting for."""
        return bool(self.gpus) or (not self.note and (bool(self.names) or may_be_here()))

    def tick(self, wanted: bool) -> None:
        """Once a second: start, stop or give up the probe."""
        now = time.monotonic()
        if self._probe is None:
            if wanted and now >= self._not_before and len(self._abandoned) < MOST_ABANDONED:
                self._start(now)
        elif not wanted:
            if self._awaited:
                return
            if self.gpus:
                # What was said of them is no reason to doubt that they are there.
                self.note = ""
            self._drop()
        elif now - self._heard_at > (limit_s := SILENT_S if self.gpus else START_S):
            why = f"the driver has not answered for {limit_s:.0f} s: its last values are stale"
            if self._unreadable:
                why = f"the probe has sent nothing readable for {limit_s:.0f} s"
            self._drop()
            self._stopped(why, now)

    async def first_word(self, within_s: float) -> None:
        """Have asked the driver: start a probe if none is at work, and wait for its first word, `within_s` at most.

        It is not ended meanwhile, though nobody else looks. Where no GPU is to be expected nothing is waited for.
        """
        self._awaited += 1
        try:
            self.tick(wanted=True)
            if self.present() and not self.gpus:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.heard.wait(), within_s)
        finally:
            self._awaited -= 1

    def close(self) -> None:
        """End the probe."""
        if self._probe is not None:
            self._drop()

    def _start(self, now: float) -> None:
        argv = [sys.executable, "-P", "-m", "mission_tui.supervisor.gpu.probe"]
        child: Child | None = None
        child = start_child(argv, lambda code: self._ended(child, code), stdout=subprocess.PIPE)
        assert child.process.stdout is not None
        self._probe, self._heard_at, self._started_at, self._rest = child, now, now, b""
        self._failed_with, self._unreadable, self._absent = "", 0, False
        self.heard.clear()
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
        self._probe, self._pipe, self.gpus, self.held, self.used = None, None, (), {}, {}

    def _ended(self, child: Child | None, code: int) -> None:
        assert child is not None
        self._abandoned.discard(child.pid)
        if self._probe is not child:
            return
        self._read_rest()
        self._release()
        now = time.monotonic()
        if self._failed_with or not self._absent:
            self._stopped(self._failed_with or _end(code), now)
        else:
            self._not_before = now + ABSENT_RETRY_S

    def _stopped(self, why: str, now: float) -> None:
        """The meters are gone for this reason: say so, and when another probe is tried."""
        self.deaths += 1
        self.heard.set()
        if now - self._started_at > STEADY_S:
            self._failures = 0
        delay_s = BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
        self._failures += 1
        self._not_before = now + delay_s
        again = f"tried again in {delay_s:.0f} s"
        if len(self._abandoned) >= MOST_ABANDONED:
            again = f"tried again when one of {MOST_ABANDONED} probes that are stuck in the driver has ended"
        times = f" ({self.deaths} times so far)" if self.deaths > 1 else ""
        self.note = f"GPU meters stopped: {why}{times}; {GOES_ON}; {again}"
        self._say(f"GPU meters stopped: {why}; {GOES_ON}")

    def _say(self, sentence: str) -> None:
        if sentence != (self._told or ""):
            self._told = sentence
            self._tell(sentence)

    def _read_rest(self) -> None:
        """All that the probe said before it ended."""
        while self._pipe is not None and self._read():
            pass

    def _read(self) -> bool:
        """Take in what was said; false where there is nothing more."""
        if self._pipe is None:
            return False
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return False
        if not data:  # its end was closed; who closed it is reaped soon
            asyncio.get_running_loop().remove_reader(self._pipe)
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest, self._unreadable = b"", self._unreadable + 1
        said = [line for line in map(_decoded, lines) if line is not None]
        self._unreadable = 0 if said else self._unreadable + len(lines)
        for line in said[:-1]:  # old news by now, but for its cells
            self._keep(line)
        if said:
            self._apply(said[-1])
        return True

    def _apply(self, said: ProbeLine) -> None:
        now = time.monotonic()
        since_s = min(now - self._heard_at, MOST_POWER_S)
        self._heard_at = now
        self.heard.set()
        if said.failed:
            self._failed_with = clean(said.note)
            return
        unknown = _unknown(said.gpus)
        self.note = said.note if not said.gpus else unknown or _unreported_load(said.gpus)
        self._absent = not said.gpus
        if said.gpus:
            self._say(unknown)
        self._keep(said)
        for sample in said.gpus:
            if (watts := sample.power_w) is not None:
                self.power[sample.uuid].add_constant(watts, now - since_s, since_s)
            for what, value in (("vram", sample.memory_used), ("temperature", sample.temperature_c)):
                if value is not None:
                    meter = self.meters.setdefault((what, sample.uuid), CellHistory(METER_LEVELS))
                    meter.add_constant(value, now - since_s, since_s)
                    meter.total = sample.memory_total if what == "vram" else None
        self.gpus = tuple(self._meters(sample, now) for sample in said.gpus)
        self.held, self.used = _held(said.gpus), _used(said.gpus)

    def _keep(self, said: ProbeLine) -> None:
        for sample in said.gpus:
            self.names[sample.uuid] = sample.name
            busy = self.busy.setdefault(sample.uuid, CellHistory())
            self.power.setdefault(sample.uuid, CellHistory(SLOW_LEVELS))
            if sample.busy is not None:
                busy.add(sample.busy)

    def _meters(self, sample: GpuSample, now: float) -> GpuMeters:
        drawn_at, shown = self._shown.get(sample.uuid, (-_DRAW_S, ()))
        if now - drawn_at >= _DRAW_S:
            shown = self.busy[sample.uuid].between(now - _HISTORY_S, now, _HISTORY_CELLS)
            self._shown[sample.uuid] = now, shown
        recent = merged(now, (cell for cell in shown if cell.t >= now - WINDOW_S))
        return GpuMeters(
            uuid=sample.uuid,
            name=sample.name,
            util=_utilisation(sample.busy, recent),
            memory_used=sample.memory_used,
            memory_total=sample.memory_total,
            power_w=sample.power_w,
            temperature_c=sample.temperature_c,
            clock_mhz=sample.clock_mhz,
            slowed=sample.slowed,
            parent=sample.parent,
            compute_mode=sample.compute_mode,
            unknown=sample.unknown,
            history=tuple(cell.most for cell in shown),
        )


def _decoded(line: bytes) -> ProbeLine | None:
    try:
        said = msgspec.json.decode(line, type=ProbeLine)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return said if said.gpus or said.note else None


def _end(code: int) -> str:
    """How a probe ended that did not say why."""
    if code >= 0:
        return f"the probe ended with exit code {code} and gave no reason"
    try:
        return f"the probe was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"the probe was ended by signal {-code}"


def _unknown(gpus: tuple[GpuSample, ...]) -> str:
    """What single GPUs do not tell, though their driver should; empty where all is well."""
    silent = [(gpu.name, gpu.unknown) for gpu in gpus if gpu.unknown]
    if not silent:
        return ""
    name, unknown = silent[0]
    more = f" and {len(silent) - 1} more GPUs" if len(silent) > 1 else ""
    words = clean("; ".join(unknown[:_SHOWN_UNKNOWN]))
    return f"GPU meters are incomplete: {clean(name)}{more}: {words}; the rest goes on"


def _unreported_load(gpus: tuple[GpuSample, ...]) -> str:
    """Which whole GPU does not offer how busy it is, which is no failure; empty where all do."""
    silent = [gpu.name for gpu in gpus if not gpu.tells_busy and not gpu.name.endswith(NO_INSTANCES)]
    if not silent:
        return ""
    more = f" and {len(silent) - 1} more GPUs" if len(silent) > 1 else ""
    return f"{clean(silent[0])}{more}: the driver does not tell how busy it is, as for many vGPUs; {UNTOLD_REST}"


def _utilisation(now: Cell | None, recent: Cell | None) -> Utilisation:
    return Utilisation(
        now=None if now is None else now.mean,
        mean=None if recent is None else recent.mean,
        max=None if recent is None else recent.most,
    )


def _held(gpus: tuple[GpuSample, ...]) -> dict[int, int | None]:
    """Bytes by process over all GPUs; None while not one of them tells."""
    held: dict[int, int | None] = {}
    for process in (process for gpu in gpus for process in gpu.processes):
        known = held.get(process.pid)
        held[process.pid] = process.memory if known is None else known + (process.memory or 0)
    return held


def _used(gpus: tuple[GpuSample, ...]) -> dict[int, float]:
    """Percent by process, 100 for one GPU, over all GPUs that tell."""
    used: dict[int, float] = {}
    for process in (process for gpu in gpus for process in gpu.processes):
        if process.busy is not None:
            used[process.pid] = used.get(process.pid, 0.0) + process.busy
    return used
