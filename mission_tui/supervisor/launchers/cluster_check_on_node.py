"""`python -m ...launchers.cluster_check_on_node FOLDER`: what the job of `doctor --launcher` says of its node.

It reads the nonce that was written there, and writes it back beside what it found. Loads no package that it reports.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from importlib import metadata
from pathlib import Path

from mission_tui import __version__
from mission_tui.gpu_driver import ask_driver, may_be_here
from mission_tui.plain_files import open_fresh, read_plain

PACKAGES = ("torch", "stable-baselines3", "gymnasium", "numpy", "msgspec")


def main() -> None:
    """Write `answer.json`, whole."""
    folder = Path(sys.argv[1])
    driver = ask_driver() if may_be_here() else None
    answer = {
        "nonce": read_plain(folder / "nonce", 4096).decode("ascii"),
        "host": socket.gethostname(),
        "t": time.time(),
        "python": platform.python_version(),
        "version": __version__,
        "packages": packages(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "gpus": 0 if driver is None else len(driver.gpus),
    }
    part = folder / "answer.part"
    descriptor = open_fresh(part)
    os.write(descriptor, json.dumps(answer).encode("ascii"))
    os.close(descriptor)
    part.replace(folder / "answer.json")


def packages() -> dict[str, str]:
    """Versions of what a trainer is made of; what is missing is left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
