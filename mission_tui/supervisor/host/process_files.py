"""What /proc says of one process, each question one small file; None where it is gone or the kernel refuses. And a
process with all its descendants: stopped together, continued together, and counted.

Prices on a usual machine: 0.02 ms for all but `pss_bytes`, for which the kernel walks every page: 20 ms a gigabyte. Who
lives below a process is asked here too, and who holds GPU memory: /proc says who has a device open, the GPU probe says
the bytes.

Each of a tree is held by a pidfd before it is looked at, and signalled through that pidfd while its parent is held too.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from mission_tui import procfs
from mission_tui.supervisor.host.identity import Process, open_process

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
TICK_S = 1.0 / _TICKS_A_SECOND
"""What times of processes are counted in."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_KIB = 1024
_LARGEST, _DIGITS = 4096, 32
_MOST_DESCENDANTS = 1024
_MOST_THREADS = 512


class ProcessStat(Struct, frozen=True):
    """A process at one moment: processor seconds so far, resident bytes, threads; `started` tells a reused number.

    `parent` is the process above it. `children_s` are the processor seconds of all below it that have ended and were
    waited for.
    """

    cpu_s: float
    rss_bytes: int
    threads: int
    started: int
    parent: int = 0
    children_s: float = 0.0

    @property
    def started_s(self) -> float:
        """When it began, on the clock `CLOCK_BOOTTIME`."""
        return self.started / _TICKS_A_SECOND


def read_stat(pid: int) -> ProcessStat | None:
    """The process now; None when it is gone."""
    try:
        stat = procfs.read_stat(pid)
    except OSError:
        return None
    if stat is None:
        return None
    cpu_s, rss_bytes = stat.cpu_ticks / _TICKS_A_SECOND, stat.resident_pages * _PAGE
    children_s = stat.children_ticks / _TICKS_A_SECOND
    return ProcessStat(cpu_s, rss_bytes, stat.threads, stat.start_time, stat.parent, children_s)


def read_state(pid: int) -> str | None:
    """The kernel's letter for what the process does: R computes, S sleeps, D waits for a device, T is stopped."""
    try:
        stat = procfs.read_stat(pid)
    except OSError:
        return None
    return None if stat is None else stat.state


def pss_bytes(pid: int) -> int | None:
    """Resident bytes, of pages that several processes share its part: what a sum over processes may be made of."""
    kib = _counted(f"/proc/{pid}/smaps_rollup", b"\nPss:")
    return None if kib is None else kib * _KIB


def rss_bytes(pid: int) -> int | None:
    """Resident bytes, shared pages in full."""
    stat = read_stat(pid)
    return None if stat is None else stat.rss_bytes


def written_bytes(pid: int) -> int | None:
    """Bytes that it caused to be sent to disks since it began; what lies in memory only (tmpfs) is none."""
    return _counted(f"/proc/{pid}/io", b"\nwrite_bytes:")


def thread_times(pid: int) -> dict[int, tuple[int, int]]:
    """By thread the nanoseconds that it ran, and that it waited for a core; empty where the kernel does not count them.

    A tenth of a millisecond for eight threads.
    """
    try:
        names = os.listdir(f"/proc/{pid}/task")[:_MOST_THREADS]  # noqa: PTH208 - half the price
    except OSError:
        return {}
    times: dict[int, tuple[int, int]] = {}
    for name in names:
        with suppress(OSError):
            ran, waited, *_ = _read(f"/proc/{pid}/task/{name}/schedstat").split() or (b"0", b"0")
            times[int(name)] = (int(ran), int(waited))
    return times


def open_files(pid: int) -> int | None:
    """How many descriptors it has open."""
    folder = f"/proc/{pid}/fd"
    try:
        # Linux 6.2 and later say the number itself; before, the size of every such folder was 0.
        return os.stat(folder).st_size or len(os.listdir(folder))  # noqa: PTH116, PTH208 - half the price
    except OSError:
        return None


def _counted(file: str, word: bytes) -> int | None:
    """The number behind `word`, which begins with the end of the line before."""
    try:
        text = _read(file)
    except OSError:
        return None
    begun = text.find(word)
    return None if begun < 0 else int(text[begun + len(word) : begun + len(word) + _DIGITS].split()[0])


def _read(file: str) -> bytes:
    """A file of /proc, each of which fits. Half the price of `Path.read_bytes`, and they are asked for all the time."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LARGEST)
    finally:
        os.close(descriptor)


def descendants(pid: int) -> tuple[int, ...]:
    """Process ids below `pid`, ascending; empty when it is gone. Of more than 1,024 only so many."""
    found: set[int] = set()
    unseen = [pid]
    while unseen and len(found) < _MOST_DESCENDANTS:
        for child in children_of(unseen.pop()):
            if child not in found:
                found.add(child)
                unseen.append(child)
    return tuple(sorted(found))


def hanging(pid: int) -> str:
    """A living process as a person would look for it: number, state letter, and what it waits for in the kernel."""
    with suppress(OSError, ValueError):
        stat = procfs.read_stat(pid)
        wchan = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii")
        if stat is not None:
            return process_in_words(pid, stat.state, wchan)
    return f"pid {pid}"


def process_in_words(pid: int, state: str, wchan: str) -> str:
    """``pid 4711 (state D, in nfs_wait)``; without the last where the kernel does not tell it."""
    return f"pid {pid} (state {state}{f', in {wchan}' if wchan else ''})"


def children_of(pid: int) -> list[int]:
    """Children of `pid`, by every thread: the kernel lists a child under the thread that started it."""
    children: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (thread / "children").read_text(encoding="ascii").split())
    except OSError:
        return children
    return children


_GPU_DEVICES = ("/dev/nvidia", "/dev/dxg")
_YES, _ASK_AGAIN, _REMEMBERED = -1, 15, 4096
"""Who had no GPU open is asked anew after so many questions."""


def vram_of(pid: int, held: Mapping[int, int | None]) -> int | None:
    """Bytes of GPU memory that the process holds, None where the driver does not tell.

    In a container the driver may name processes by their numbers outside of it: one without the device is another.
    """
    return held[pid] if pid in held and _maps_gpu(pid) else None


class GpuHolders:
    """Which processes have a GPU open; the kernel is asked rarely, since their maps are long.

    One that has it open keeps it. One that has not, though the driver names its number, is most likely another's.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[int, int], int] = {}
        """By pid and start how many more times "no" is believed; -1 is "yes"."""

    def hold(self, pid: int, started: int) -> bool:
        """Whether the process `pid` that began at `started` (ticks) has one open; ask only of whom the driver names."""
        who = pid, started
        times = self._told.get(who, 0)
        if times == 0:
            if len(self._told) >= _REMEMBERED:
                self._told.clear()
            times = self._told[who] = _YES if _maps_gpu(pid) else _ASK_AGAIN
        elif times > 0:
            self._told[who] = times - 1
        return times == _YES

    def bytes_of(self, pid: int, held: Mapping[int, int | None]) -> int | None:
        """As `vram_of`, of a process that is asked about again and again."""
        stat = read_stat(pid) if pid in held else None
        return held[pid] if stat is not None and self.hold(pid, stat.started) else None


def _maps_gpu(pid: int) -> bool:
    with suppress(OSError):
        maps = Path(f"/proc/{pid}/maps").read_bytes()
        return any(device.encode() in maps for device in _GPU_DEVICES)
    return False


def holds_gpu(pid: int) -> bool:
    """Whether the process has a GPU open, whatever the probe says."""
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()).startswith(_GPU_DEVICES):
                    return True
    return False


_STOPPED, _GONE = "T", "ZX"
Members = Iterable[tuple[Process, procfs.Stat]]


class StopStatus(Struct, frozen=True):
    """How a run's processes stand: how many are stopped, which run, what all hold; `gpu`: one of them holds a GPU.

    Bytes are None where they are not known.
    """

    stopped: int
    running: tuple[int, ...]
    memory_bytes: int | None
    vram_bytes: int | None
    gpu: bool


def with_descendants(process: Process) -> Iterator[tuple[Process, procfs.Stat]]:
    """The living process and those below it, parents before their children, each held while it is looked at."""
    if process.alive() and (stat := procfs.read_stat(process.pid)) is not None:
        yield process, stat
        yield from descendants_of(process)


def descendants_of(parent: Process) -> Iterator[tuple[Process, procfs.Stat]]:
    """The processes below `parent`, parents before their children, each held while it is looked at."""
    for pid in children_of(parent.pid):
        try:
            process = open_process(pid)
            stat = None if process is None else procfs.read_stat(pid)
        except (OSError, ValueError):
            continue
        if process is None:
            continue
        try:
            # The number may have changed hands since the list was made: only who names a held parent is ours.
            if stat is not None and stat.parent == parent.pid and stat.state not in _GONE and process.alive():
                yield process, stat
                yield from descendants_of(process)
        finally:
            process.close()


def is_stopped(process: Process) -> bool | None:
    """Whether the held process is stopped by a signal; None when that cannot be read."""
    with suppress(OSError, ValueError):
        stat = procfs.read_stat(process.pid)
        if stat is not None and process.alive():
            return stat.state == _STOPPED
    return None


def stop_running(members: Members) -> int:
    """SIGSTOP to every one of them that is not stopped; how many there were."""
    return _signal(members, signal.SIGSTOP, lambda stat: stat.state != _STOPPED)


def continue_stopped(members: Members) -> int:
    """SIGCONT to every one of them that is stopped; how many there were."""
    return _signal(members, signal.SIGCONT, lambda stat: stat.state == _STOPPED)


def read_stop_status(members: Members, held: Mapping[int, int | None]) -> StopStatus:
    """How they stand now; `held` are bytes of GPU memory by process, as the probe said them.

    Reads all their memory maps, which takes a moment.
    """
    stopped, gpu = 0, False
    running: list[int] = []
    memory: list[int | None] = []
    vram: list[int | None] = []
    for process, stat in members:
        if stat.state == _STOPPED:
            stopped += 1
        else:
            running.append(process.pid)
        memory.append(pss_bytes(process.pid))
        vram.append(vram_of(process.pid, held))
        gpu = gpu or vram[-1] is not None or holds_gpu(process.pid)
    return StopStatus(stopped, tuple(running), _known(memory), _known(vram), gpu)


def _known(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _signal(members: Members, number: signal.Signals, meant: Callable[[procfs.Stat], bool]) -> int:
    return sum(meant(stat) and process.send(number) for process, stat in members)
