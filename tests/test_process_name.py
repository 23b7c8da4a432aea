"""What processes of a run are called in `ps` and `top`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mission_tui.process_name import abbreviated, short_name

ROOT = Path(__file__).parents[1]
NAMED = """
import sys
from mission_tui.process_name import call_process
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
