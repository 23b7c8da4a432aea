"""`python -m mission_tui.supervisor --runs-dir ROOT`: take the lock, rebuild from disk, serve, leave runs alone.

A second one for the same runs root exits 0 at once: the first is the one that was wanted. The lock dies with its
holder: its descriptor is close-on-exec and this process never forks without exec, so no child can keep it.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    # Until the fleet is read (`_read_all`): what is loaded is no garbage, and looking for some is a tenth of the start.
    gc.disable()

import argparse
import ctypes
import fcntl
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from mission_tui.errors import MissionError
from mission_tui.ipc.listener import Listener
from mission_tui.ipc.local_asyncio import asyncio
from mission_tui.ipc.server import serve_operator
from mission_tui.ipc.sockets import OPERATOR_SOCKET, TELEMETRY_SOCKET, prepare_socket_dir
from mission_tui.ipc.start import name_root, unname_root
from mission_tui.ipc.telemetry_server import serve_telemetry
from mission_tui.paths import STOPPED, socket_dir
from mission_tui.plain_files import make_folder, open_fresh, open_to_lock
from mission_tui.records.atomic import storing
from mission_tui.records.runs.layout import supervisor_dir
from mission_tui.records.runs_roots import check_locks, check_private
from mission_tui.supervisor.clock import Clock, TimeLimits, read_time_limits
from mission_tui.supervisor.ending.leftovers import sweep_socket_folders
from mission_tui.supervisor.ending.removal import left_behind, remove_runs
from mission_tui.supervisor.host import children
from mission_tui.supervisor.host.children import take_fixed_limits
from mission_tui.supervisor.launchers import Launcher
from mission_tui.supervisor.launchers.local import Keepers, LocalLauncher
from mission_tui.supervisor.launchers.order import drop_run_markers
from mission_tui.supervisor.launchers.preloaded import preloading
from mission_tui.supervisor.lifecycle.adoption import taking_in, view_of_waiting
from mission_tui.supervisor.request_dispatcher import RequestDispatcher
from mission_tui.supervisor.runs.core import ON_REQUEST, Core
from mission_tui.supervisor.runs.run_directory import half_made, sweep_up
from mission_tui.supervisor.telemetry_handler import TelemetryHandler
from mission_tui.supervisor.watching.meter_history import Instruments


def _local(root: Path) -> LocalLauncher:
    """This machine, with preloaders off which short processes are forked too."""
    children.forking = preloaders = preloading(str(root))
    return LocalLauncher(Keepers(preloaders))


def _slurm(_root: Path) -> Launcher:
    from mission_tui.supervisor.launchers.slurm import SlurmLauncher

    return SlurmLauncher()


def _ray(_root: Path) -> Launcher:
    from mission_tui.supervisor.launchers.ray import RayLauncher

    return RayLauncher()


LAUNCHERS: Mapping[str, Callable[[Path], Launcher]] = {"local": _local, "slurm": _slurm, "ray": _ray}
"""By the word that `run.launcher` has for each; nobody else makes one."""

SLICE_S = 0.015
"""How long the first reading keeps the loop before others have their turn."""

REST = 2.0
"""So many times as long as one older run took, the loop is left to others: there may be twenty thousand."""

GC_THRESHOLD = 10_000
"""Objects until garbage is looked for. A row that is judged makes hundreds, which are gone before any search: with
Python's 700 a fiftieth of the work under load was looking at them."""

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""As <malloc.h> has them."""
LARGE_BYTES = 1 << 18

GITIGNORE = "*\n!.gitignore\n"
log = logging.getLogger("mission_tui.supervisor")


def main() -> int:
    """Be the supervisor of a runs root until asked to leave or idle; 0 also when there is one already."""
    parser = argparse.ArgumentParser(prog="mission_tui.supervisor", description="Watch the runs of one runs root.")
    parser.add_argument("--runs-dir", type=Path, required=True)
    root = parser.parse_args().runs_dir.absolute()
    # What we make is for this user alone, whoever started us; a run's own umask comes with its order.
    os.umask(0o077)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    _return_large_blocks()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # A script that starts us in its background has us ignore it, and a keeper would not hear a kill while it starts.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    try:
        take_fixed_limits()
        with storing(root, "use"):
            check_private(root)
            make_folder(supervisor_dir(root))
            check_locks(supervisor_dir(root))
            with storing(_lock_path(root), "lock"):
                lock = take_lock(_lock_path(root))
            if lock is None:
                return 0
            _ignore_in_git(root / ".gitignore")
        limits = read_time_limits(os.environ)
        drop_run_markers(os.environ)
        asyncio.run(_supervise(root, lock, limits))
    except MissionError as error:
        log.error("%s", error)  # noqa: TRY400 - the sentence is for the person whose client reads the log's last line
        return error.exit_code
    return 0


def _return_large_blocks() -> None:
    """Have memory of large answers (lists of jobs, snapshots) go back to the system: the C library keeps it in a heap
    of each thread otherwise, once the first was freed. Without glibc nothing is changed.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_ARENA_MAX, 2)


def _ignore_in_git(path: Path) -> None:
    """Write the file unless something bears its name, be it a link to nowhere."""
    if not os.path.lexists(path):
        descriptor = open_fresh(path)
        try:
            os.write(descriptor, GITIGNORE.encode("ascii"))
        finally:
            os.close(descriptor)


def _mark_stopped(path: Path) -> None:
    """Have open screens leave it at that; a disk that takes nothing costs only this."""
    with suppress(OSError):
        os.close(open_fresh(path))


def _lock_path(root: Path) -> Path:
    return supervisor_dir(root) / "lock"


async def _supervise(root: Path, lock: int, limits: TimeLimits) -> None:
    core = Core(root, {name: make(root) for name, make in LAUNCHERS.items()})
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, core.request_exit, f"{number.name}")
    core.seals.seal_root(root)
    core.fleet.started()
    halves = half_made(root)
    for swept in sweep_socket_folders(root):
        log.info("the dead sockets of %s were removed", swept)
    core.reading.whole.clear()
    dispatcher = RequestDispatcher(core)
    folder = socket_dir(root)
    with storing(folder, "make the sockets in"):
        prepare_socket_dir(folder)
        name_root(root)
        # Before anything is read: whoever asks waits a moment for the fleet, and never for a directory that has no end.
        listeners = [await serve_operator(folder / OPERATOR_SOCKET, root, dispatcher.answer, dispatcher.client_left)]
    duties = _Duties(core)
    duties.begin("push", dispatcher.push())
    duties.begin("sweep", asyncio.to_thread(sweep_up, halves))
    duties.begin(
        "reading", _read_all(core, dispatcher, listeners, duties, partial(still_ours, _lock_path(root), lock), limits)
    )
    with suppress(OSError):
        (supervisor_dir(root) / STOPPED).unlink()
    why = await core.leaving
    if why == ON_REQUEST:
        _mark_stopped(supervisor_dir(root) / STOPPED)
    log.info("supervisor %d leaves: %s", os.getpid(), why)
    duties.end()
    for listener in listeners:
        await listener.close()
    unname_root(root)
    core.machine.close()
    for run in core.live.values():
        run.release()
    core.fleet.left(why)


class _Duties:
    """What goes on until this process leaves."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._tasks: list[asyncio.Task[None]] = []
        self.closing: list[Callable[[], None]] = []

    def begin(self, name: str, duty: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(duty, name=name)
        task.add_done_callback(partial(_report, self._core))
        self._tasks.append(task)

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        for close in self.closing:
            close()


async def _read_all(
    core: Core,
    dispatcher: RequestDispatcher,
    listeners: list[Listener],
    duties: _Duties,
    owns_root: Callable[[], bool],
    limits: TimeLimits,
) -> None:
    """Know the fleet, in slices that leave the loop free; then trainers are listened to, and time passes."""
    # Collections while very many runs are taken in find nothing, and later ones need not look at them again.
    gc.disable()
    try:
        rested_at = time.monotonic()
        for _ in taking_in(core):
            if time.monotonic() - rested_at > SLICE_S:
                await asyncio.sleep(0)
                rested_at = time.monotonic()
    finally:
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        gc.enable()
    handler = TelemetryHandler(core)
    # Before anything can be asked of the runs: no trainer is turned away by a supervisor that clients can use.
    telemetry = await serve_telemetry(
        socket_dir(core.root) / TELEMETRY_SOCKET, handler.admit, handler.receive, handler.disconnected
    )
    listeners.append(telemetry)
    core.reading.expect(0)
    core.reading.whole.set()
    core.changed.set()
    log.info(
        "supervisor %d watches %s: %d live runs, %d ended ones not read yet",
        os.getpid(),
        core.root,
        len(core.live),
        len(core.waiting),
    )
    instruments = Instruments(core, core.machine)
    duties.closing.append(instruments.close)
    duties.begin("clock", Clock(core, dispatcher, listeners, owns_root, limits).run())
    duties.begin("load", _load_rest(core))
    duties.begin("probes", _remove_probes(core, left_behind(core)))
    duties.begin("instruments", instruments.run())


async def _remove_probes(core: Core, run_ids: Sequence[str]) -> None:
    """Leave nothing of what was measured by a supervisor that is gone; what cannot be removed costs nothing else."""
    for run_id in run_ids:
        try:
            await remove_runs(core, [run_id])
            log.info("%s was measured by a supervisor that is gone, and was removed", run_id)
        except MissionError as error:
            log.warning("%s was measured by a supervisor that is gone, and stays: %s", run_id, error)


async def _load_rest(core: Core) -> None:
    """Do what is due for the older ended runs too, one at a time between everything else, in a third of the time."""
    older = list(core.waiting)
    for run_id in older:
        begun = time.monotonic()
        if run_id in core.waiting:
            view_of_waiting(core, run_id, asked=False)
        await asyncio.sleep(REST * (time.monotonic() - begun))
    if older:
        log.info("all %d older runs are known", len(older))


def _report(core: Core, duty: asyncio.Task[None]) -> None:
    """A duty that ends by an error ends the supervisor: the next client starts a fresh one, and runs go on."""
    if not duty.cancelled() and (error := duty.exception()) is not None:
        log.error("%s failed", duty.get_name(), exc_info=error)
        core.request_exit(f"{duty.get_name()} failed")


def take_lock(path: Path) -> int | None:
    """Take the lock at `path` for as long as the returned descriptor is open; None when another process has it.

    Raises `OSError` for what is no file of ours with one name: what is written there would arrive elsewhere.
    """
    descriptor = open_to_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))
    return descriptor


def still_ours(path: Path, descriptor: int) -> bool:
    """Whether the locked file is still the one at `path`: where it is not, another process can have taken that one."""
    try:
        return path.lstat().st_ino == os.fstat(descriptor).st_ino
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
