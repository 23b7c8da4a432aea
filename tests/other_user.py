"""Being another user for once: a folder that everybody may enter, and the words that start Python as `nobody`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

__all__ = ["NOBODY", "as_nobody", "needs_another_user", "shared_folder"]

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
REPOSITORY = Path(__file__).resolve().parents[1]


PROBE = """
import subprocess, sys
import msgspec, psutil, textual, mission_tui.errors
subprocess.run([sys.executable, "-c", ""], check=True)
"""


def _words(python: str) -> list[str]:
    """How `nobody` starts `python` with the checkout and with what this interpreter has installed."""
    search = os.pathsep.join((str(REPOSITORY), sysconfig.get_path("purelib")))
    return [*AS_NOBODY, "env", f"PYTHONPATH={search}", python]


@cache
def _python() -> str | None:
    """An interpreter that `nobody` may start, and that may start itself; None without."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return None
    here = f"/usr/bin/python3.{sys.version_info.minor}"
    for python in (sys.executable, here):
        probe = [*_words(python), "-c", PROBE]
        if not subprocess.run(probe, cwd="/", capture_output=True, check=False).returncode:
            return python
    return None


def as_nobody(*words: str) -> list[str]:
    """The words that start Python with `words` as another user."""
    return [*_words(_python() or sys.executable), *words]


needs_another_user = pytest.mark.skipif(
    _python() is None, reason="needs root, setpriv, and an interpreter and checkout that other users may enter"
)


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A fresh folder that others may enter and read; pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="mission-tui-shared-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
