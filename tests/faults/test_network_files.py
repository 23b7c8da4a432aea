"""A runs root on a network file system (row D8), by what such a one lacks: hard links, files without a name, sockets in
it, and times finer than a second. What it must have is locks; without them nothing starts (`test_ground.py`).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mission_tui.ipc.requests import Resume
from tests.supervisor.conftest import Lab

SOURCE = Path(__file__).with_name("network_files.c")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")]

_LACKS = """
import os, socket, sys
root = sys.argv[1]
open(f"{root}/one", "w").close()
def asked():
    yield lambda: os.link(f"{root}/one", f"{root}/two")
    yield lambda: os.open(root, os.O_TMPFILE | os.O_WRONLY)
    yield lambda: socket.socket(socket.AF_UNIX).bind(f"{root}/socket")
for call in asked():
    try:
        call()
    except OSError as refused:
        print(refused.errno)
print(os.stat(f"{root}/one").st_mtime_ns % 10**9)
os.unlink(f"{root}/one")
"""


def test_d8_runs_live_on_a_file_system_without_links_sockets_and_fine_times(idle_lab: Lab, tmp_path: Path) -> None:
    """Launched, saved, adopted by the next supervisor, stopped and gone on: as on a local disk."""
    library = tmp_path / "network_files.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    lacking: dict[str, Any] = {"LD_PRELOAD": str(library), "NETWORK_FILES": str(idle_lab.root)}
    lab = idle_lab
    words = [sys.executable, "-c", _LACKS, str(lab.root)]
    said = subprocess.run(words, env=lab.environ | lacking, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["95", "95", "95", "0"]
    lab.environ |= lacking
    lab.start()
    (run,) = lab.launch(**lacking)
    lab.running(run, 3)
    lab.act("checkpoint", run)
    lab.kill_supervisor()
    lab.start()
    lab.running(run, 6)
    lab.act("stop", run)
    assert lab.ended(run).outcome == "stopped"
    before = lab.view(run).update or 0
    lab.ask(lambda id_: Resume(id=id_, run=run))
    lab.running(run, before + 2)
    lab.act("kill", run)
    assert lab.ended(run).outcome == "killed"
