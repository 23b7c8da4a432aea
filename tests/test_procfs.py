"""What `/proc` says of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mission_tui.procfs import boot_id, process_ids, read_stat, wait_channel
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
