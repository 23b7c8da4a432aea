"""Cores, niceness, `ulimit`s, umask: a run has those of the shell that launches it, whoever started the supervisor."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mission_tui.ipc.client_environment import captured_limits
from mission_tui.records.runs.attempt import read_launch
from mission_tui.records.runs.layout import RunDir
from tests.shell import Shell
from tests.waiting import until

NARROW = "ulimit -S -t 5; ulimit -S -f 100; ulimit -S -n 200; ulimit -S -c 0; umask 0; exec "
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-sys_resource,-sys_nice")


def called(shell: Shell, prefix: tuple[str, ...], script: str, *words: str) -> str:
    """What the command line says when it is called from a shell that was prepared by `prefix` and `script`."""
    line = f'{script}"$@"'
    argv = (*prefix, "sh", "-c", line, "sh", sys.executable, "-m", "mission_tui", *words)
    done = subprocess.run(
        argv, cwd=shell.cwd, env=shell.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def limits_of(pid: int) -> dict[str, tuple[int, int]]:
    """Every limit that the kernel holds against the process."""
    numbers = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    return {name: resource.prlimit(pid, number) for name, number in numbers.items()}


def umask_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("Umask:")), 8)


def pids(shell: Shell, run: str) -> tuple[int, int]:
    """Keeper and trainer of the run."""
    until(lambda: shell.view(run)["pids"]["trainer"], 30, "the trainer lives")
    found = shell.view(run)["pids"]
    return found["keeper"], found["trainer"]


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_run_has_nothing_of_the_shell_that_started_the_supervisor(quick: Shell) -> None:
    """Started with one core, nice, five seconds of processor and small files: a normal launch is a normal process."""
    quick.root.mkdir()
    called(quick, ("nice", "-n", "10", "taskset", "-c", "0"), NARROW, "status")
    (run,) = quick.launch("tiny", "--name", "normal")
    keeper, trainer = pids(quick, run)
    assert limits_of(trainer) == limits_of(os.getpid())
    assert os.sched_getaffinity(trainer) == os.sched_getaffinity(0)
    assert umask_of(trainer) == umask_of(os.getpid())
    (supervisor,) = [it for it in quick.processes() if "mission_tui.supervisor" in it.cmdline()]
    for pid in (keeper, supervisor.pid):
        assert os.sched_getaffinity(pid) >= os.sched_getaffinity(0)
        assert {limits_of(pid)[f"RLIMIT_{name}"][0] for name in ("CPU", "FSIZE")} == {resource.RLIM_INFINITY}
        assert umask_of(pid) == 0o077
    if os.geteuid() == 0:
        # A trainer that was tried in this very process has left it nicer than it was: that is the shell's then.
        assert (psutil.Process(trainer).nice(), psutil.Process(keeper).nice()) == (psutil.Process().nice(), 0)


@pytest.mark.slow
def test_a_run_has_what_the_shell_that_launches_it_has(quick: Shell) -> None:
    """Also at its next attempt and in what it starts: but its keeper and the supervisor have not."""
    quick.json("status")
    narrow = NARROW.replace("-t 5", "-t 500")
    called(quick, ("nice", "-n", "7", "taskset", "-c", "0"), narrow, "launch", "tiny", "--name", "narrow")
    (run,) = [view["id"] for view in quick.views()]
    keeper, trainer = pids(quick, run)
    found = limits_of(trainer)
    assert (found["RLIMIT_CPU"][0], found["RLIMIT_FSIZE"][0], found["RLIMIT_NOFILE"][0]) == (500, 100 * 512, 200)
    assert os.sched_getaffinity(trainer) == {0}
    assert (umask_of(trainer), psutil.Process(trainer).nice()) == (0, psutil.Process().nice() + 7)
    assert psutil.Process(keeper).nice() == 0
    assert limits_of(keeper)["RLIMIT_CPU"][0] == resource.RLIM_INFINITY
    order = read_launch(RunDir(quick.root / run).attempt(1).launch)
    assert order is not None
    assert order.limits is not None
    assert order.limits.rlimits["cpu"][0] == 500


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="needs setpriv")
def test_what_cannot_be_given_back_is_said(quick: Shell) -> None:
    """A hard limit stays lowered: the run has what there is, and launch, journal and details say what is lacking."""
    prefix = WITHOUT_RIGHTS if os.geteuid() == 0 else ()
    called(quick, prefix, "ulimit -n 300; ulimit -f 4000; exec ", "status")
    said = quick("launch", "tiny", "--name", "poor")
    assert said.returncode == 0
    assert "nofile" in said.stderr + said.stdout
    assert "mission-tui supervisor stop" in said.stderr + said.stdout
    (run,) = [view["id"] for view in quick.views()]
    _, trainer = pids(quick, run)
    assert limits_of(trainer)["RLIMIT_NOFILE"][0] == 300
    (starting,) = [event for event in quick.events(run) if event["kind"] == "attempt"]
    assert {"limit nofile", "limit fsize"} <= {change["name"] for change in starting["changes"]}


def test_limits_are_captured_without_setting_any() -> None:
    """Asked of the kernel, and the same before and after."""
    before = (os.sched_getaffinity(0), umask_of(os.getpid()), limits_of(os.getpid()))
    found = captured_limits()
    assert found.umask == before[1]
    assert found.rlimits["nofile"] == before[2]["RLIMIT_NOFILE"]
    assert (os.sched_getaffinity(0), umask_of(os.getpid()), limits_of(os.getpid())) == before


def test_a_supervisor_that_could_answer_nobody_says_so_and_leaves() -> None:
    """With ten open files none is left for whoever asks, and one that stayed would keep every other from starting."""
    script = (
        "import resource\n"
        "from mission_tui.supervisor.host.children import take_fixed_limits\n"
        "resource.setrlimit = lambda *_: None\n"
        "resource.getrlimit = lambda _: (10, 10)\n"
        "take_fixed_limits()\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    assert "only 10 files may be open here (ulimit -Hn), and a supervisor needs 64" in done.stderr
