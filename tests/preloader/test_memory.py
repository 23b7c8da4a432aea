"""What a preloader gives back once everything is loaded, and that nothing is missing afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform != "linux", reason="asks /proc and the kernel")]

SETTLED = """
import numpy, pathlib, sys
from mission_tui.preloader.__main__ import settle_memory

def kib(name):
    lines = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))

product = numpy.random.default_rng(1).normal(size=(64, 64)) @ numpy.eye(64)
held, own = kib("Rss") - kib("Anonymous"), kib("Anonymous")
settle_memory()
left, still_own = kib("Rss") - kib("Anonymous"), kib("Anonymous")
again = numpy.random.default_rng(1).normal(size=(64, 64)) @ numpy.eye(64)
print(held, left, own, still_own, bool((product == again).all()))
"""


def test_pages_of_libraries_are_let_go_of_and_come_back_when_they_are_needed() -> None:
    """Most of what libraries had in memory is gone, nothing of the process's own, and what they compute is the same."""
    done = subprocess.run([sys.executable, "-c", SETTLED], capture_output=True, text=True, timeout=60, check=True)
    held, left, own, still_own, same = done.stdout.split()
    assert same == "True"
    assert int(left) < int(held) / 2
    assert int(still_own) >= int(own)
