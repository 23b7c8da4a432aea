"""A command whose threads wait for each other is found from what the kernel says of them, and is over with that."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.health.thread_contention import ID
from mission_tui.fleet.specs.spec import KeepSpec, RunSpec, Spec
from mission_tui.fleet.specs.thresholds import HealthKeep, ThreadContentionLimits
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.supervisor.host.process_files import thread_times
from mission_tui.supervisor.watching.machine_findings import is_watched
from tests.supervisor.conftest import Lab

CORES = len(os.sched_getaffinity(0))
# The hash leaves the interpreter to others while it computes, as torch's operations do. All take only the time that no
# other test wants, and share that among themselves as they would share a machine.
BUSY = """
import hashlib, os, sys, threading
os.nice(10)
def spin(number):
    while number == 0 or not os.path.exists("one-is-enough"):
        hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 20_000)
threads = [threading.Thread(target=spin, args=(at,), daemon=True) for at in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
QUICK = KeepSpec(health=HealthKeep(thread_contention=ThreadContentionLimits(needed=1, window=1)))


@pytest.fixture
def neighbour() -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else's program that keeps every core busy, for as long as the test wants it."""
    with subprocess.Popen([sys.executable, "-c", BUSY, str(CORES)]) as process:
        yield process
        process.kill()


def contention(view: RunView) -> list[Finding]:
    return [finding for finding in view.findings if finding.rule == ID]


def script(threads: int) -> Spec:
    return Spec(preset="command", run=RunSpec(command=(sys.executable, "-c", BUSY, str(threads))), keep=QUICK)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_threads_that_wait_for_cores_are_a_finding_while_they_do(lab: Lab, neighbour: subprocess.Popen[bytes]) -> None:
    """Named with the setting that helps, once, and over with the run; one of a single thread is not blamed."""
    assert neighbour.poll() is None
    (many,) = lab.launch(spec=script(2 * CORES), name="many")
    (again,) = lab.launch(spec=script(2 * CORES), name="again")
    (single,) = lab.launch(spec=script(1), name="single")
    (found,) = contention(lab.wait(many, contention, 90))
    assert (found.severity, found.state, found.advice_set) == ("warning", "open", ("run.threads=1",))
    assert f" of {CORES} cores with others at work" in found.sentence
    assert contention(lab.view(single)) == []
    lab.wait(again, contention, 90)
    lab.act("kill", again)
    (lab.root / "one-is-enough").touch()
    lab.wait(again, lambda view: view.state == "ended" and contention(view)[-1].state == "cleared", 60)
    over = lab.wait(many, lambda view: contention(view)[-1].state == "cleared", 90)
    assert len(contention(over)) == 1


def test_only_python_is_told_of_threads_that_a_variable_would_limit() -> None:
    """Another program may want its threads; nor is anybody told who switched the rule off, or who trains with us."""
    assert is_watched(script(2))
    assert not is_watched(Spec(preset="command", run=RunSpec(command=("ffmpeg", "-threads", "8"))))
    silent = KeepSpec(health=HealthKeep(thread_contention=ThreadContentionLimits(act="off")))
    assert not is_watched(structs.replace(script(2), keep=silent))
    assert not is_watched(Spec(preset="p"))


def test_the_kernel_tells_of_each_thread_how_long_it_waited() -> None:
    """This process has one at least; one that is gone has none."""
    times = thread_times(os.getpid())
    assert os.getpid() in times
    ran_ns, waited_ns = times[os.getpid()]
    assert ran_ns > 0
    assert waited_ns >= 0
    assert thread_times(2**22 + 1) == {}
