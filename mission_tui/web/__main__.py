"""`python -m mission_tui.web WORDS`: take the terminal on stdin for this session, then be `mission-tui WORDS`.

The terminal has to be the session's own, as a window's is: only so does the kernel say when its size has changed or it
is gone, to the screen and to a shell that the screen opens on it.
"""

from __future__ import annotations

import fcntl
import runpy
import termios

if __name__ == "__main__":
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    runpy.run_module("mission_tui", run_name="__main__", alter_sys=True)
