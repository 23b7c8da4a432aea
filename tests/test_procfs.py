"""What `/proc` says of processes, and what processes of a run are called in `ps` and `top`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mission_tui.procfs import abbreviated, boot_id, process_ids, read_stat, short_name, wait_channel
from tests.waiting import until

ODD_NAME = b"a) S 1 (\n"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that sleeps under a name which reads like the fields behind it."""
    program = (
        "import ctypes, time;"
        f"ctypes.CDLL(None).prctl(15, {ODD_NAME!r}, 0, 0, 0);"
        "print('named', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-I", "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"named\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_process_is_read_whatever_its_name_is(child: subprocess.Popen[bytes]) -> None:
    """Spaces, brackets and line ends in a name move no field."""
    assert Path(f"/proc/{child.pid}/comm").read_bytes() == ODD_NAME + b"\n"
    until(lambda: (stat := read_stat(child.pid)) is not None and stat.state == "S")
    stat = read_stat(child.pid)
    assert stat is not None
    assert (stat.pid, stat.parent, stat.group, stat.session) == (child.pid, os.getpid(), child.pid, child.pid)
    assert stat.threads == 1
    assert stat.tty == 0
    assert stat.resident_pages > 100


def test_processor_time_and_start_are_in_clock_ticks() -> None:
    """What this process has used agrees with its own clock, and it started after the machine did."""
    stat = read_stat(os.getpid())
    assert stat is not None
    ticks = os.sysconf("SC_CLK_TCK")
    assert stat.cpu_ticks / ticks == pytest.approx(sum(os.times()[:2]), abs=0.5)
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    assert 0 < stat.start_time / ticks <= uptime_s


def test_a_zombie_is_there_and_who_was_reaped_is_not(child: subprocess.Popen[bytes]) -> None:
    """A process that has ended stays readable until its parent has asked for its end."""
    child.kill()
    until(lambda: (stat := read_stat(child.pid)) is not None and stat.state == "Z")
    child.wait()
    assert read_stat(child.pid) is None
    assert wait_channel(child.pid) == ""


def test_the_processes_of_the_machine_are_listed(child: subprocess.Popen[bytes]) -> None:
    """By number, each once, this one and its child among them."""
    pids = process_ids()
    assert pids == sorted(set(pids))
    assert {os.getpid(), child.pid} <= set(pids)


def test_the_boot_is_named_as_the_kernel_names_it() -> None:
    """One line, without its end."""
    assert boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_the_boot_is_known_without_a_descriptor_left() -> None:
    """Once asked for, so that whoever ran out of descriptors can still tell processes of this boot from others."""
    program = (
        "import resource; from mission_tui.procfs import boot_id; boot = boot_id();"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); assert boot_id() == boot"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


ROOT = Path(__file__).parents[1]
NAMED = """
import sys
from mission_tui.procfs import call_process
role, run, word, brief, times = sys.argv[1:]
call_process(role, run, word * int(times), brief=brief)
print(flush=True)
sys.stdin.read()
"""


def called(*words: str, times: int = 1) -> tuple[str, list[str], str]:
    """Name, command line and `ps` line of a process that was named with `words`."""
    command = [sys.executable, "-c", NAMED, *words, str(times)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env={"CANARY": "1"}, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        seen = psutil.Process(process.pid)
        ps = subprocess.run(["ps", "-o", "args=", "-p", str(process.pid)], capture_output=True, text=True, check=False)
        assert seen.environ()["CANARY"] == "1"
        return seen.name(), [word for word in seen.cmdline() if word], ps.stdout.strip()


def test_a_process_is_called_by_its_role_and_run() -> None:
    """Role and run's name in both places, further words stay arguments, and the environment is as it was."""
    run = "20261121-104207-heavy-3f9a"
    name, words, ps = called("worker 3/8", run, "/lab/runs/x", "env3/8")
    assert name == "env3/8 hea~3f9a"
    assert words == ["mission-tui worker 3/8 of heavy-3f9a", "/lab/runs/x"]
    assert ps in ("", "mission-tui worker 3/8 of heavy-3f9a /lab/runs/x")


def test_what_does_not_fit_is_cut() -> None:
    """A new command line that is longer than the old one ends where that ended; the environment behind it is whole."""
    _, words, _ = called("keeper", "heavy", "y", "keep", times=5000)
    assert words[0] == "mission-tui keeper of heavy"
    assert 100 < len(words[1]) < 5000
    assert set(words[1]) == {"y"}


@pytest.mark.parametrize(
    ("role", "name", "seen"),
    [
        ("keep", "heavy-3f9a", b"keep heavy-3f9a"),
        ("train", "heavy-3f9a", b"train heav~3f9a"),
        ("env12/64", "large-batch-3f9a", b"env12/64 l~3f9a"),
        ("train", "ü" * 20, b"train " + "ü".encode() * 2 + b"~" + "ü".encode() * 2),
    ],
)
def test_the_end_of_a_name_stays(role: str, name: str, seen: bytes) -> None:
    """Fifteen bytes at most; the end of a run's name tells it from its namesakes."""
    assert abbreviated(role, name) == seen
    assert len(seen) <= 15


def test_the_moment_a_run_was_made_at_is_left_out() -> None:
    """Only a stamp at the front goes."""
    assert short_name("20261121-104207-heavy-3f9a") == "heavy-3f9a"
    assert short_name("run") == "run"
