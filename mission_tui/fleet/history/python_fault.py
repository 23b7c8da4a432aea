"""Which line of whose code a Python process died in, as its fault handler wrote it to stderr."""

from __future__ import annotations

import re

__all__ = ["faulting_line"]

_HEAD = re.compile(r"^Fatal Python error: ", re.MULTILINE)
_FRAME = re.compile(r'^\s+File "([^"<]+)", line (\d+) in ', re.MULTILINE)
_STANDARD_LIBRARY = re.compile(r"/lib/python3\.\d+/(?!site-packages/|dist-packages/)")


def faulting_line(said: str) -> str | None:
    """``/home/ada/lab/my_env.py:3``: the innermost line of the last fatal error in `said`, if there is one.

    Python's own library is blamed only where nobody else is there: `ctypes` crashes for others.
    """
    heads = list(_HEAD.finditer(said))
    frames = list(_FRAME.finditer(said, heads[-1].end())) if heads else []
    blamed = next((frame for frame in frames if not _STANDARD_LIBRARY.search(frame[1])), next(iter(frames), None))
    return None if blamed is None else f"{blamed[1]}:{blamed[2]}"
