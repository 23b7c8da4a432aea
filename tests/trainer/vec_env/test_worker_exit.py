"""How the end of an env worker is told from its exit status and from the kernel's counters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mission_tui.trainer.vec_env import worker_process
from mission_tui.trainer.vec_env.worker_process import OomKills, WorkerStderr, exit_reason, quote
from tests.waiting import until

ROOT = Path(__file__).parents[3]
MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
LIMIT_BYTES = 192 << 20
NONE = OomKills(0, 0)

STARVED = """
import os, sys
from pathlib import Path
from tests.trainer.vec_env.test_workers_failing import act, obedient
from tests.trainer.worker_envs import EAT
from mission_tui.trainer.failures import EnvError
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
with obedient() as vec:
    Path(f"/proc/{vec.pids[1]}/oom_score_adj").write_text("1000")
    try:
        vec.step(act(EAT))
    except EnvError as error:
        print(error, flush=True)
"""


@pytest.mark.parametrize(
    ("code", "meanwhile", "sentence"),
    [
        (7, NONE, "ended with exit code 7 (os._exit)"),
        (0, NONE, "ended with exit code 0 without being asked to"),
        (-11, NONE, "died (SIGSEGV, signal 11)"),
        (-11, OomKills(1, 1), "died (SIGSEGV, signal 11)"),
        (-9, NONE, "was killed (SIGKILL, signal 9)"),
        (-9, OomKills(None, None), "was killed (SIGKILL, signal 9)"),
        (-9, OomKills(1, 1), "was killed by the kernel for lack of memory (SIGKILL, signal 9)"),
        (
            -9,
            OomKills(0, 2),
            "was killed (SIGKILL, signal 9), and the kernel killed for lack of memory on this machine meanwhile",
        ),
        (-60, NONE, "died (signal 60)"),
    ],
)
def test_exit_crash_kill_and_lack_of_memory_are_told_apart(code: int, meanwhile: OomKills, sentence: str) -> None:
    """Only a SIGKILL beside a count of the kernel is called lack of memory."""
    assert exit_reason(code, meanwhile) == sentence


@pytest.mark.parametrize(
    ("own", "file", "text"),
    [
        ("4:memory:/jobs/1\n0::/\n", "sys/fs/cgroup/memory/jobs/1/memory.oom_control", "under_oom 0\noom_kill 3\n"),
        ("4:memory:/jobs/1\n0::/\n", "sys/fs/cgroup/memory/memory.oom_control", "under_oom 0\noom_kill 3\n"),
        ("0::/user.slice/x\n", "sys/fs/cgroup/user.slice/x/memory.events", "low 0\noom 9\noom_kill 3\n"),
    ],
)
def test_the_kernels_counts_are_read_where_they_are(own: str, file: str, text: str, tmp_path: Path) -> None:
    """Control groups of both versions, a group mounted as the root, and the machine's own count."""
    for name, content in (("proc/self/cgroup", own), ("proc/vmstat", "pgfault 1\noom_kill 5\n"), (file, text)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert OomKills.read(tmp_path) == OomKills(3, 5)
    assert OomKills(3, 5).since(OomKills(1, None)) == OomKills(2, None)


def test_a_kernel_that_counts_nothing_is_no_evidence(tmp_path: Path) -> None:
    """Unknown is None, never 0."""
    assert OomKills.read(tmp_path) == OomKills(None, None)


@pytest.fixture
def starving(tmp_path: Path) -> Iterator[Path]:
    """A memory control group with little memory."""
    group = MEMORY_GROUPS / f"mission-tui-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
    except OSError:
        pytest.skip("needs root and a memory control group of version 1")
    try:
        yield group
    finally:
        with suppress(OSError):
            for pid in (group / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
        until(lambda: not (group / "cgroup.procs").read_text(), 5)
        group.rmdir()


@pytest.mark.slow
def test_a_worker_that_the_kernel_kills_for_memory_is_told_so(starving: Path) -> None:
    """(root) One environment eats a small control group: the cause says lack of memory, not only SIGKILL."""
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", STARVED, str(starving)], env=environ, capture_output=True, text=True, check=False
    )
    assert "env worker 1 of 2 (environments 2-3) was killed by the kernel for lack of memory" in done.stdout, done


def test_a_fatal_error_is_quoted_with_its_place() -> None:
    """Of a fault handler's many lines the two that tell; of anything else the last line that says something."""
    dump = (
        "noise\nFatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
        '  File "env.py", line 3 in step\n  File "worker.py", line 9 in main\n\nExtension modules: numpy (total: 13)\n'
    )
    assert quote(dump) == 'Fatal Python error: Segmentation fault File "env.py", line 3 in step'
    assert quote("one\ntwo\n \n") == "two"
    assert quote("") == ""


def test_somebody_who_talks_without_end_is_heard_and_not_kept(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten megabytes without a newline pass through; a few kilobytes stay; closing gives every descriptor back."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    words = WorkerStderr()
    heard, said = words.open()
    for _ in range(160):
        os.write(said, b"\xff" * (1 << 16))
    os.write(said, b"the end")
    os.close(said)
    # The end is seen, not waited out: that would take longer than a test may.
    monkeypatch.setattr(worker_process, "_SETTLE_S", 1000.0)
    assert words.of(heard).endswith("the end")
    assert len(words.of(heard)) <= 8192
    words.close()
    words.close()
    # Fewer where something of an earlier test was collected meanwhile.
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    assert len(capfd.readouterr().err) == 160 * (1 << 16) + 7
