"""An episode on a terminal: pictures on a screen of its own, a key that leaves, and the terminal as it was before."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import termios
from contextlib import suppress

import pytest

from mission_tui.cli.verbs.playing import canvas_of, show
from mission_tui.ipc.replies import Evaluated, Progress
from tests.waiting import until

RESULT = {"run": "r", "checkpoint": "000000128", "seed": 7, "return": 3.5, "steps": 2, "outcome": "captured"}
PROGRAM = """
import itertools, sys, time
from mission_tui.cli.verbs.playing import show
from mission_tui.ipc.replies import Progress
def endless():
    for step in itertools.count():
        yield Progress(re=1, done=step, total=0, note=f"picture {step}")
        time.sleep(0.02)
show(endless(), sys.stdout)
print("over")
"""


def test_into_a_pipe_pictures_go_one_below_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    """No control character is written, and how it ended is said."""
    out = io.StringIO()
    frames = [Progress(re=1, done=step, total=0, note=f"picture {step}") for step in range(2)]
    show([*frames, Evaluated(re=1, result=RESULT)], out)
    assert out.getvalue() == "picture 0\nstep 0\n\npicture 1\nstep 1\n\n"
    assert "return 3.5 in 2 steps, outcome captured" in capsys.readouterr().out
    assert canvas_of({"COLORTERM": "truecolor", "TERM": "xterm"}, None, out).colours == "none"


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
def test_a_key_leaves_and_the_terminal_is_as_it_was(key: bytes) -> None:
    """The screen of its own is left, the cursor is back, and typing is echoed again."""
    outer, inner = pty.openpty()
    os.set_blocking(outer, False)
    try:
        before = termios.tcgetattr(inner)
        # A session of its own, whose terminal this becomes: only then does Ctrl-C mean it.
        process = subprocess.Popen(
            ["setsid", "-c", sys.executable, "-c", PROGRAM], stdin=inner, stdout=inner, stderr=inner
        )
        said = bytearray()

        def heard(words: bytes) -> bool:
            with suppress(BlockingIOError):
                said.extend(os.read(outer, 4096))
            return words in said

        until(lambda: heard(b"picture 3"), 30)
        assert b"\x1b[?1049h" in said
        os.write(outer, key)
        until(lambda: heard(b"\x1b[?25h\x1b[?1049l"), 30)
        until(lambda: heard(b"") and process.poll() is not None, 30)
        assert termios.tcgetattr(inner) == before
    finally:
        process.kill()
        process.wait()
        os.close(outer)
        os.close(inner)
