"""Scenes under `strace`, which kills them, or fails their system calls, at the place it is told."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.faults.campaign.part import Violation
from tests.faults.power import TRACED, Disk, calls
from tests.faults.scenes import SCENES, SURPRISED

__all__ = ["SYSCALLS", "Strike", "cut_off", "lacks_strace", "striking"]

SYSCALLS = (
    "write", "fsync", "fdatasync", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat",
    "openat", "ftruncate", "close",
)  # fmt: skip
"""What changes a file system, and what a change needs."""

ATTACH_S = 10.0

Strike = Callable[[str, str, str], tuple[bool, list[Violation]]]
"""Act a scene with an injection for one system call: whether that struck, and what is wrong afterwards."""


@cache
def lacks_strace() -> str:
    """Why nothing can be traced here, or nothing."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"strace may not trace here: {tried.stderr.strip()[:80]}"


@contextmanager
def _stage() -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, "-m", "tests.faults.scenes"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stage:
        try:
            yield stage
        finally:
            assert stage.stdin
            stage.stdin.close()


@contextmanager
def striking() -> Iterator[Strike]:
    """The program that acts scenes, warm, for as many strikes as wanted."""
    with tempfile.TemporaryDirectory(prefix="mission-tui-faults-") as name, _stage() as stage:

        def strike(scene: str, syscall: str, inject: str) -> tuple[bool, list[Violation]]:
            folder = Path(name) / "scene"
            folder.mkdir()
            SCENES[scene].prepare(folder)
            options = ["-e", f"trace={syscall}", "-e", f"inject={syscall}:{inject}"]
            status, told, log = _act(stage, scene, folder, options)
            struck = "(INJECTED)" in log or status == -signal.SIGKILL
            wrong = [f"{scene}, {syscall}:{inject}: {it}" for it in _wrong(scene, folder, status, told)]
            shutil.rmtree(folder)
            return struck, wrong

        yield strike


def cut_off(scene: str) -> Iterator[tuple[int, list[Violation]]]:
    """At each call of `scene`, a power cut: how many states that may leave, and what is wrong in them."""
    with tempfile.TemporaryDirectory(prefix="mission-tui-faults-") as name, _stage() as stage:
        folder = Path(name) / "scene"
        folder.mkdir()
        SCENES[scene].prepare(folder)
        disk = Disk.of(folder)
        _, told, log = _act(stage, scene, folder, ["-y", "-xx", "-s", "1000000", "-e", f"trace={','.join(TRACED)}"])
        seen: set[str] = set()
        for number, (call, arguments, count) in enumerate(calls(log)):
            disk.take(call, arguments, count)
            states = 0
            wrong: list[Violation] = []
            for state in disk.states():
                if (key := repr((disk.said, state))) in seen:
                    continue
                seen.add(key)
                states += 1
                disk.lay_out(state)
                wrong += [
                    f"{scene}, after call {number} ({call} {arguments[0]}): {it}"
                    for it in _wrong(scene, folder, 0, told[: disk.said])
                ]
            yield states, wrong


def _act(stage: subprocess.Popen[str], scene: str, folder: Path, options: list[str]) -> tuple[int, list[str], str]:
    """How the act ended, what it told, and what the tracer wrote."""
    assert stage.stdin
    assert stage.stdout
    log = folder.with_name("strace.log")
    print(scene, folder, file=stage.stdin, flush=True)
    pid = int(stage.stdout.readline())
    with subprocess.Popen(["strace", "-qq", "-o", str(log), *options, "-p", str(pid)]) as tracer:
        _wait_for_tracer(pid)
        print("go", file=stage.stdin, flush=True)
        status, told = json.loads(stage.stdout.readline())
        tracer.wait(ATTACH_S)
    return status, told, log.read_text(encoding="utf-8", errors="replace")


def _wait_for_tracer(pid: int) -> None:
    deadline = time.monotonic() + ATTACH_S
    while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text(encoding="utf-8"):
        if time.monotonic() > deadline:
            raise AssertionError("strace did not attach")
        time.sleep(0.001)


def _wrong(scene: str, folder: Path, status: int, told: list[str]) -> Iterator[str]:
    if status == SURPRISED:
        yield f"raised {told.pop()}"
    try:
        yield from SCENES[scene].wrong(folder, told)
    except Exception as error:  # noqa: BLE001 - whatever the next reader or writer raises is the finding
        yield f"the next one raised {type(error).__name__}: {error}"
