"""What dead runs left behind is shown by itself, and what is no process is removed only if the run wrote it down."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path

import pytest

from mission_tui.cli.verbs.doctor import without_directory
from mission_tui.ipc.replies import CleanReply, LeftoverRow
from mission_tui.ipc.requests import Clean
from mission_tui.records.runs.attempt import read_launch
from mission_tui.supervisor.ending.leftovers import Leftover, find_leftovers, stale_runs
from mission_tui.supervisor.host.process_files import vram_of
from tests.supervisor.conftest import Lab, living
from tests.supervisor.verbs.test_clean import orphaned
from tests.waiting import until

SLEEP = "import time; time.sleep(60)"
HOLD = """
import mmap, os, sys
mapped = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
print(flush=True)
sys.stdin.read()
"""


def processes(lab: Lab) -> list[LeftoverRow]:
    """The processes that `clean` lists."""
    reply = lab.ask(lambda id_: Clean(id=id_))
    assert isinstance(reply, CleanReply)
    return [stale for stale in reply.stale if stale.kind == "process"]


def remains(lab: Lab, *keys: str) -> dict[str, LeftoverRow]:
    """What `clean` says of things that are no processes, by name, after removing `keys`."""
    reply = lab.ask(lambda id_: Clean(id=id_, remove=keys))
    assert isinstance(reply, CleanReply)
    return {stale.name or "": stale for stale in reply.stale if stale.kind in ("shm", "file")}


@pytest.fixture
def memory() -> Iterator[Callable[[], Path]]:
    """Makes named shared memory that nobody of this process removes before the test ends."""
    made: list[Path] = []

    def make() -> Path:
        piece = shared_memory.SharedMemory(create=True, size=4096)
        resource_tracker.unregister(f"/{piece.name}", "shared_memory")
        piece.close()
        made.append(Path("/dev/shm") / piece.name)
        return made[-1]

    yield make
    for path in made:
        path.unlink(missing_ok=True)


def dead_run(lab: Lab) -> str:
    """A run of which nothing lives, because its keeper and trainer were killed."""
    (run,) = lab.launch()
    orphaned(lab, run)
    return run


def write_down(lab: Lab, run: str, *lines: tuple[int, str]) -> None:
    """Record shared memory for attempt 1 of the run."""
    record = lab.dir(run).attempt(1).shared_memory
    record.write_text("".join(f"{inode} {name}\n" for inode, name in lines) + "x /etc\n\n7 ../../etc/passwd\n")


@pytest.mark.slow
def test_stale_processes_are_shown_after_a_restart_and_gone_after_clean(lab: Lab) -> None:
    """A fresh supervisor finds them by itself and removes nothing; `clean` clears the note at once."""
    (run,) = lab.launch(STUB_WORKERS="3")
    workers = orphaned(lab, run)
    until(lambda: lab.snapshot().stale, 5, "they are shown without anybody asking")
    lab.kill_supervisor()
    lab.start()
    (stale,) = until(lambda: lab.snapshot().stale)
    assert (stale.run, stale.name, stale.processes, stale.unsure) == (run, lab.view(run).name, 3, 0)
    assert (stale.memory_bytes or 0) > 1 << 20
    assert len(living(workers)) == 3
    reply = lab.ask(lambda id_: Clean(id=id_))
    assert isinstance(reply, CleanReply)
    keys = tuple(found.key for found in reply.stale)
    lab.ask(lambda id_: Clean(id=id_, remove=keys))
    assert lab.snapshot().stale == ()


@pytest.mark.slow
def test_who_trains_though_the_runs_root_was_removed_is_named_and_can_be_ended(lab: Lab) -> None:
    """`rm -rf runs`, and started again: trainer and workers are a run's that nobody knows, told by `doctor` and ours by
    the lease that was removed with it; a marked process that holds none is named and left alone. A root that was moved
    leaves nobody behind: its runs train on where it is now.
    """
    (run,) = lab.launch(STUB_WORKERS="2")
    lab.running(run)
    family = {process.pid for process in lab.family(run)}
    order = read_launch(lab.dir(run).attempt(1).launch)
    assert order is not None
    marker = order.env | {"MISSION_TUI_RUN_DIR": str(lab.dir(run).path)}
    lab.kill_supervisor()
    moved = lab.root.rename(lab.root.with_name("moved"))
    assert find_leftovers(lab.root, lambda _run, _attempt: False) == []
    assert not [check for check in without_directory() if run in check.detail]
    moved.rename(lab.root)
    shutil.rmtree(lab.root)
    lab.root.mkdir(mode=0o700)
    with subprocess.Popen([sys.executable, "-S", "-c", SLEEP], env=marker, start_new_session=True) as stranger:
        try:
            (told,) = [check for check in without_directory() if str(lab.dir(run).path) in check.detail]
            assert (told.name, told.level) == ("leftovers", "warn")
            assert f"--runs-dir {lab.root} clean" in told.advice
            lab.start()
            found = {it.pid: it for it in processes(lab)}
            assert found.pop(stranger.pid).verdict == "unverifiable"
            assert len(found) >= 3
            assert {(pid in family, it.verdict) for pid, it in found.items()} == {(True, "ours")}
            assert {pid for pid in found if str(pid) not in told.advice.split("kill -9 ")[1]} == set()
            lab.ask(lambda id_: Clean(id=id_, remove=tuple(it.key for it in found.values())))
            until(lambda: {it.pid for it in processes(lab)} == {stranger.pid})
        finally:
            stranger.kill()


def test_recorded_shared_memory_of_a_dead_run_is_removed_and_nobody_elses(lab: Lab, memory: Callable[[], Path]) -> None:
    """Removed: name and inode as recorded. Left alone: not recorded, another inode, recorded by a live run."""
    ours, reused, stranger, busy = (memory() for _ in range(4))
    run = dead_run(lab)
    write_down(lab, run, (ours.stat().st_ino, ours.name), (reused.stat().st_ino + 1, reused.name))
    (live,) = lab.launch()
    lab.running(live)
    write_down(lab, live, (busy.stat().st_ino, busy.name))
    found = {name: stale for name, stale in remains(lab).items() if stale.kind == "shm"}
    assert [(stale.kind, stale.run, stale.verdict, stale.name) for stale in found.values()] == [
        ("shm", run, "ours", str(ours))
    ]
    everything = [found[str(ours)].key, *(f"shm:{path}:{path.stat().st_ino}" for path in (reused, stranger, busy))]
    assert remains(lab, *everything)[str(ours)].removed
    assert [path.exists() for path in (ours, reused, stranger, busy)] == [False, True, True, True]
    assert f"shm {ours}" in (lab.root / ".supervisor" / "events.jsonl").read_text()


def test_shared_memory_that_somebody_alive_holds_is_unverifiable(lab: Lab, memory: Callable[[], Path]) -> None:
    """Recorded by the dead run, but mapped by a process that is none of its own: shown, not touched, until it goes."""
    path = memory()
    run = dead_run(lab)
    write_down(lab, run, (path.stat().st_ino, path.name))
    command = [sys.executable, "-S", "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        held = remains(lab)[str(path)]
        assert held.verdict == "unverifiable"
        assert not remains(lab, held.key)[str(path)].removed
        holder.kill()
    assert path.exists()
    assert remains(lab)[str(path)].verdict == "ours"


def test_half_written_files_of_a_dead_run_are_removed_and_those_of_a_live_one_are_not(lab: Lab) -> None:
    """A half checkpoint and a temporary sibling of a dead writer; a torn tail is evidence and stays."""
    dead = dead_run(lab)
    (live,) = lab.launch()
    lab.running(live)
    for run in (dead, live):
        half = lab.dir(run).checkpoints / ".tmp-000000064"
        half.mkdir(parents=True)
        (half / "weights").write_bytes(b"x" * 100)
    sibling = lab.dir(dead).attempt(1).path / ".exit.json.999999999.tmp"
    writing = lab.dir(dead).attempt(1).path / f".exit.json.{os.getpid()}.tmp"
    torn = lab.dir(dead).path / "metrics.jsonl.torn-1"
    for path in (sibling, writing, torn):
        path.write_bytes(b"half")
    found = remains(lab)
    half = lab.dir(dead).checkpoints / ".tmp-000000064"
    room = lab.dir(dead).attempt(1).path / ".exit.json.room"
    sizes = {str(half): 100, str(sibling): 4, str(room): room.stat().st_size}
    assert {name: stale.memory_bytes for name, stale in found.items()} == sizes
    assert all(stale.removed for stale in remains(lab, *(stale.key for stale in found.values())).values())
    assert [path.exists() for path in (half, sibling, writing, torn)] == [False, False, True, True]
    assert (lab.dir(live).checkpoints / ".tmp-000000064").exists()


def test_a_hostile_command_line_of_a_leftover_is_one_harmless_line(lab: Lab) -> None:
    """Escapes, line breaks and overrides in a process's own words do not come out of `clean`."""
    run = dead_run(lab)
    order = read_launch(lab.dir(run).attempt(1).launch)
    assert order is not None
    marker = order.env | {"MISSION_TUI_RUN_DIR": str(lab.dir(run).path)}
    hostile = "\x1b]0;owned\x07\x1b[2Jone\ntwo\u202e"
    with subprocess.Popen([sys.executable, "-S", "-c", SLEEP, hostile], env=marker) as process:
        try:
            found = until(lambda: [s for s in processes(lab) if s.pid == process.pid and "one two" in s.command])
            assert found[0].command.isprintable()
        finally:
            process.kill()


def test_gpu_memory_counts_only_for_a_process_that_has_the_device(tmp_path: Path) -> None:
    """In a container the driver's numbers may be others': without the device mapped, unknown."""
    assert vram_of(os.getpid(), {os.getpid(): 1 << 30}) is None
    assert vram_of(os.getpid(), {}) is None
    device = tmp_path / "dev" / "nvidia0"
    device.parent.mkdir()
    device.write_bytes(b"\0" * 4096)
    program = HOLD.replace("sys.argv[1]", repr(str(device)))
    with subprocess.Popen([sys.executable, "-S", "-c", program], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert vram_of(holder.pid, {holder.pid: 3 << 30}) == 3 << 30
        assert vram_of(holder.pid, {holder.pid: None}) is None
        holder.kill()
    with suppress(FileNotFoundError):
        device.unlink()


def test_leftovers_are_summed_by_run() -> None:
    """Processes, those in doubt, memory; a run that is not known any more is called by its id."""

    def leftover(pid: int, run: str, **more: object) -> Leftover:
        facts = {"verdict": "ours", "command": "", "age_s": 1.0, "memory_bytes": 10} | more
        return Leftover(pid=pid, start_time=1, run=run, attempt=1, **facts)  # type: ignore[arg-type]

    old = "20261121-104207-heavy-3f9a"
    found = [leftover(1, "b"), leftover(2, old, verdict="unverifiable"), leftover(3, "b", memory_bytes=None)]
    first, second = stale_runs(found, {}, lambda run: "wide" if run == "b" else "")
    assert (first.name, first.processes, first.unsure, first.memory_bytes) == ("heavy-3f9a", 1, 1, 10)
    assert (second.name, second.processes, second.unsure, second.memory_bytes) == ("wide", 2, 0, 10)
    assert second.vram_bytes is None
