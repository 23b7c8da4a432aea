"""What dead runs left behind: stale processes (trainers, env workers) that carry a run's marker, judged by the rules of
identity; shared memory that attempts wrote down, half-written files, sockets.

A process without a living keeper is `ours` only when all of these hold: same user, the right nonce, started no earlier
than the run on this boot, and in the run's session or below a process that is. Anything else that carries the marker is
shown as `unverifiable` and never signalled. Who holds the lease of another directory, or lives below somebody who does,
belongs to that one, whatever its variables say: a copy may lie where the original was. Of a directory that was removed
under its run no file is left to ask: there `ours` is who still holds the lease that was removed with it, and who lives
in the session or below a process that does. Snapshots show them by run.

Shared memory is ours if the attempt recorded its name and inode on this boot; a living process that still holds it
makes that unverifiable. Files are ours by their temporary names and because no process of the run lives to finish them.
A folder of sockets says which runs root it belongs to; one that does not say is left alone. That of a root that still
exists goes when no process has listened there for an hour: its next supervisor makes it again.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from mission_tui.errors import DamagedError
from mission_tui.fleet.views.snapshot import StaleRun
from mission_tui.ipc.start import named_root, socket_folders
from mission_tui.paths import socket_dir
from mission_tui.plain_files import names_in, read_plain, remove_tree
from mission_tui.procfs import Stat, boot_id, marker_of, own_processes, process_ids, read_stat, short_name
from mission_tui.records.runs.attempt import Identity, read_identity, read_launch
from mission_tui.records.runs.layout import RunDir, run_dirs
from mission_tui.supervisor.host.identity import (
    Process,
    command_of,
    holds_another,
    holds_lease,
    is_marked_for,
    open_process,
    was_ordered_here,
)
from mission_tui.supervisor.host.process_files import rss_bytes, vram_of
from mission_tui.supervisor.runs.core import Core

_TICKS = os.sysconf("SC_CLK_TCK")


class Leftover(Struct, frozen=True):
    """A marked process of an attempt of a run; `start_time` in clock ticks tells it from a later one of its number."""

    pid: int
    start_time: int
    run: str
    attempt: int
    verdict: Literal["ours", "unverifiable"]
    command: str
    age_s: float
    memory_bytes: int | None

    @property
    def key(self) -> str:
        return f"process:{self.pid}:{self.start_time}"


def find_leftovers(root: Path, must_be_kept: Callable[[str, int], bool]) -> list[Leftover]:
    """Marked processes of runs below `root` for whose run and attempt `must_be_kept` is false, by pid."""
    stats = {stat.pid: stat for stat in own_processes() if stat.state != "Z"}
    found = []
    for pid, told in sorted(stats.items()):
        marker = marker_of(pid)
        if marker is None or pid == os.getpid():
            continue
        run = RunDir(root / marker["MISSION_TUI_RUN"])
        attempt = int(marker["MISSION_TUI_ATTEMPT"]) if marker["MISSION_TUI_ATTEMPT"].isdigit() else 0
        if not is_marked_for(marker, run) or must_be_kept(run.id, attempt):
            continue
        gone = not os.path.lexists(run.path)
        if (not gone and _nonce(run, attempt) != marker["MISSION_TUI_NONCE"]) or _is_of_another(told, stats, run):
            continue
        ours = _held_what_is_gone(run, told, stats) if gone else _is_of_attempt(run, attempt, told, stats)
        found.append(_leftover(run, attempt, told, ours=ours))
    return found


def remove_leftover(leftover: Leftover) -> bool:
    """SIGKILL the process, once more checked through its own pidfd; False when it is gone or is another one now."""
    process = open_process(leftover.pid)
    if process is None:
        return False
    try:
        return _is(process, leftover) and process.send(signal.SIGKILL)
    finally:
        process.close()


def _is(process: Process, leftover: Leftover) -> bool:
    stat = read_stat(process.pid)
    marker = marker_of(process.pid)
    same = stat is not None and stat.start_time == leftover.start_time
    marked = marker is not None and marker["MISSION_TUI_RUN"] == leftover.run
    return same and marked and process.alive()


def _nonce(run: RunDir, attempt: int) -> str | None:
    try:
        order = read_launch(run.attempt(attempt).launch)
    except (DamagedError, OSError):
        return None
    return None if order is None else order.nonce


def _is_of_attempt(run: RunDir, attempt: int, stat: Stat, stats: dict[int, Stat]) -> bool:
    try:
        identity = read_identity(run.attempt(attempt).identity)
    except (DamagedError, OSError):
        return False
    return identity is not None and identity.boot_id == boot_id() and _belongs(stat, stats, identity)


def _held_what_is_gone(run: RunDir, stat: Stat, stats: dict[int, Stat]) -> bool:
    """Whether the process, a living ancestor or somebody of its session holds the lease of the removed `run`."""
    seen: Stat | None = stat
    while seen is not None:
        if holds_lease(seen.pid, run):
            return True
        seen = stats.get(seen.parent)
    return any(it.session == stat.session and holds_lease(it.pid, run) for it in stats.values())


def _leftover(run: RunDir, attempt: int, stat: Stat, *, ours: bool) -> Leftover:
    uptime_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return Leftover(
        pid=stat.pid,
        start_time=stat.start_time,
        run=run.id,
        attempt=attempt,
        verdict="ours" if ours else "unverifiable",
        command=command_of(stat.pid),
        age_s=max(0.0, uptime_s - stat.start_time / _TICKS),
        memory_bytes=rss_bytes(stat.pid),
    )


def _is_of_another(stat: Stat, stats: dict[int, Stat], run: RunDir) -> bool:
    """Whether the process, or a living ancestor, holds the lease of another directory of the run's name."""
    seen: Stat | None = stat
    while seen is not None:
        if holds_another(seen.pid, run):
            return True
        seen = stats.get(seen.parent)
    return False


def _belongs(stat: Stat, stats: dict[int, Stat], identity: Identity) -> bool:
    """Whether the process, or a living ancestor, is in the run's session and none of them is older than the run.

    A session's number is not given away while one of its members lives.
    """
    seen: Stat | None = stat
    while seen is not None and seen.start_time >= identity.keeper.start_time:
        if seen.session == identity.session:
            return True
        seen = stats.get(seen.parent)
    return False


async def find_stale(core: Core) -> None:
    """Find them, off the event loop, and have the snapshot say so."""
    core.orphaned = False
    found = await asyncio.to_thread(find_leftovers, core.root, core.must_be_kept)
    core.store.observe_surroundings(stale=stale_runs(found, core.machine.gpu.held, core.name_of))
    core.changed.set()


def stale_runs(
    found: Sequence[Leftover], held: Mapping[int, int | None], name_of: Callable[[str], str]
) -> tuple[StaleRun, ...]:
    """The leftovers by run. `held` are bytes of GPU memory by process."""
    by_run = groupby(sorted(found, key=lambda item: item.run), key=lambda item: item.run)
    return tuple(_of_run(run, name_of(run), list(items), held) for run, items in by_run)


def _of_run(run: str, name: str, items: Sequence[Leftover], held: Mapping[int, int | None]) -> StaleRun:
    memory = [item.memory_bytes for item in items if item.memory_bytes is not None]
    vram = [size for item in items if (size := vram_of(item.pid, held)) is not None]
    return StaleRun(
        run=run,
        name=name or short_name(run),
        processes=len(items),
        unsure=sum(item.verdict != "ours" for item in items),
        memory_bytes=sum(memory) if memory else None,
        vram_bytes=sum(vram) if vram else None,
    )


SHARED = Path("/dev/shm")  # noqa: S108 - where the kernel keeps named shared memory
_HALF_CHECKPOINTS = (".tmp-", ".reserve")
_ROOM = ".exit.json.room"
_HALF_FILE = re.compile(r"\..+\.(\d+)\.tmp")
_MOST_BYTES = 1 << 20
FORGOTTEN_S = 3600.0


class LeftoverFile(Struct, frozen=True):
    """A piece of shared memory or a half-written file of a dead run; `size_bytes` of a folder is that of its files."""

    kind: Literal["shm", "file"]
    path: Path
    inode: int
    run: str
    verdict: Literal["ours", "unverifiable"]
    age_s: float
    size_bytes: int

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.path}:{self.inode}"


def find_leftover_files(
    root: Path, must_be_kept: Callable[[str, int], bool], doomed: Collection[int]
) -> list[LeftoverFile]:
    """Remains of runs below `root` by path. `must_be_kept` is asked of each attempt; `doomed` processes keep none."""
    found: list[LeftoverFile] = []
    boot = boot_id()
    for run in run_dirs(root):
        attempts = run.attempts()
        # What nobody launched has no attempt, and is as foreign as what somebody else did.
        live = not attempts or any(must_be_kept(run.id, attempt) for attempt in attempts)
        for attempt in attempts:
            if not must_be_kept(run.id, attempt):
                found += _shared(run, attempt, boot)
        if not live:
            found += _half_written(run)
    held = _held([item.path for item in found if item.kind == "shm"], doomed)
    return sorted(
        (replace(item, verdict="unverifiable") if item.path in held else item for item in found),
        key=lambda item: (item.kind, str(item.path)),
    )


def remove_leftover_file(item: LeftoverFile) -> bool:
    """Remove it if it still is what was found."""
    if item.verdict != "ours":
        return False
    try:
        if item.path.lstat().st_ino != item.inode:
            return False
        if item.path.is_dir():
            remove_tree(item.path)
        else:
            item.path.unlink()
    except OSError:
        return False
    return True


def _shared(run: RunDir, attempt: int, boot: str) -> Iterator[LeftoverFile]:
    folder = run.attempt(attempt)
    if not was_ordered_here(run, attempt):
        return  # in a copy the record is the original's, and so is what it names
    try:
        lines = read_plain(folder.shared_memory, _MOST_BYTES).splitlines()
        identity = read_identity(folder.identity)
    except (OSError, DamagedError):
        return
    if identity is None or identity.boot_id != boot:  # a restart has emptied it; what has the name now is another's
        return
    for line in lines:
        number, _, name = line.partition(b" ")
        if not number.isdigit() or not name or b"/" in name or b"\0" in name:
            continue
        path = SHARED / os.fsdecode(name)
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_ino == int(number) and status.st_uid == os.getuid():
                yield _remains("shm", path, status, run)


def _half_written(run: RunDir) -> Iterator[LeftoverFile]:
    folders = [run.path, run.checkpoints, run.evaluations, *(run.attempt(number).path for number in run.attempts())]
    for folder in folders:
        with suppress(OSError):
            for path in map(folder.joinpath, names_in(folder)):
                writer = _HALF_FILE.fullmatch(path.name)
                half = folder == run.checkpoints and path.name.startswith(_HALF_CHECKPOINTS)
                # An evaluation or an export of an ended run may be writing just now.
                half = half or path.name == _ROOM
                if half or (writer is not None and not Path(f"/proc/{writer[1]}").exists()):
                    yield _remains("file", path, path.lstat(), run)


def _remains(kind: Literal["shm", "file"], path: Path, status: os.stat_result, run: RunDir) -> LeftoverFile:
    size = status.st_size
    if stat.S_ISDIR(status.st_mode):
        size = sum(member.lstat().st_size for member in path.iterdir())
    return LeftoverFile(kind, path, status.st_ino, run.id, "ours", max(0.0, time.time() - status.st_mtime), size)


def _held(paths: list[Path], doomed: Collection[int]) -> set[Path]:
    """Those that a living process has mapped. A process that cannot be looked into is not this user's."""
    held: set[Path] = set()
    if not paths:
        return held
    for pid in process_ids():
        if pid not in doomed:
            with suppress(OSError):
                maps = Path(f"/proc/{pid}/maps").read_bytes()
                held.update(path for path in paths if os.fsencode(path) in maps)
    return held


class DeadSocket(Struct, frozen=True):
    """A socket in the folder of a runs root at which nobody listens."""

    path: Path
    age_s: float

    @property
    def key(self) -> str:
        return f"socket:{self.path}"


def find_dead_sockets(root: Path) -> list[DeadSocket]:
    """Dead sockets in the folder of `root`, by path; those of its own supervisor are alive."""
    found = []
    for path in sorted(socket_dir(root).glob("*")):
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISSOCK(status.st_mode) and not _listens(path):
                found.append(DeadSocket(path, max(0.0, time.time() - status.st_mtime)))
    return found


def remove_dead_socket(dead: DeadSocket) -> bool:
    """Remove the socket if it is still dead."""
    if _listens(dead.path):
        return False
    try:
        dead.path.unlink()
    except OSError:
        return False
    return True


def sweep_socket_folders(own: Path) -> list[str]:
    """Remove the socket folders of runs roots that are gone or forgotten, never that of `own`. Their roots, by name."""
    swept = []
    for folder in socket_folders():
        root = named_root(folder)
        if root is None or folder == socket_dir(own):
            continue
        with suppress(OSError):
            # A supervisor that begins to listen there, or has just left, has changed the folder.
            forgotten = time.time() - folder.lstat().st_mtime > FORGOTTEN_S
            if (forgotten or not root.exists()) and not any(map(_listens, folder.glob("*.sock"))):
                shutil.rmtree(folder)
                swept.append(str(root))
    return swept


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return False
    return True
