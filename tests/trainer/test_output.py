"""What is printed on a full disk is lost, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, traceback
from mission_tui.trainer.process import outlive_full_disk
if len(sys.argv) > 1:
    outlive_full_disk()
print("from an environment")
try:
    raise ValueError("from a callback")
except ValueError as error:
    traceback.print_exception(error)
sys.stdout.buffer.write(b"bytes")
sys.stdout.flush()
"""

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("words", "code"), [(["outlive"], 0), ([], 1)])
def test_printing_on_a_full_disk_ends_nothing(words: list[str], code: int) -> None:
    """Prints, tracebacks and bytes; without this an environment that prints would end with an `OSError`."""
    with FULL.open("wb") as full:
        done = subprocess.run([sys.executable, "-u", "-c", PROGRAM, *words], stdout=full, stderr=full)
    assert done.returncode == code


def test_what_is_printed_arrives_at_once_and_in_order() -> None:
    """With room nothing changes."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "outlive"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=20,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("from an environment\nTraceback")
    assert done.stdout.endswith("ValueError: from a callback\nbytes")
