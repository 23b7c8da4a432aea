"""Child processes in which a package cannot be imported, whether this machine has it or not."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["search_path_without"]

REPOSITORY = Path(__file__).resolve().parents[1]


def search_path_without(packages: tuple[str, ...], folder: Path) -> str:
    """A `PYTHONPATH` under which importing any of `packages` raises `ModuleNotFoundError`; `folder` holds what does."""
    folder.mkdir()
    # None in `sys.modules` is Python's own way to say that a module is not there; `find_spec` believes it as well.
    blocker = f"import sys\nsys.modules.update(dict.fromkeys({packages!r}))\n"
    (folder / "sitecustomize.py").write_text(blocker, encoding="utf-8")
    return f"{folder}{os.pathsep}{REPOSITORY}"
