"""``/venv/bin/python .../foreign_python.py MODULE ARGS``: a module of ours in a Python that need not have mission-tui.

Started by its path, with the standard library alone. The venv's own packages come first, always: of what a trainer
needs, only what the venv lacks is lent to it, from the folders in `MISSION_TUI_LENT`. What cannot work is said, with
exit code 78, before anything of it is imported.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    # Not this file's folder, in which every module would hide one of the venv's.
    del sys.path[0]

import importlib.util
import json
import platform
import re
import runpy
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

LENT = "MISSION_TUI_LENT"
OLDEST_PYTHON = (3, 11)
EX_CONFIG = 78


class Need(NamedTuple):
    """A distribution that trainers import as `module`: from version `low` on, below `high`. `why` is what it is for."""

    module: str
    low: str
    high: str
    lendable: bool = False


NEEDED = {
    "torch": Need("torch", "2.10", "3"),
    # `LinearSchedule` came with 2.7 and `AutoresetMode` with 1.1; the tests of PPO against SB3 pass with both.
    "stable-baselines3": Need("stable_baselines3", "2.7", "3"),
    "gymnasium": Need("gymnasium", "1.1", "2"),
    "numpy": Need("numpy", "2", "3"),
    "msgspec": Need("msgspec", "0.21", "1", lendable=True),
    "tomli-w": Need("tomli_w", "1.2", "2", lendable=True),
    "safetensors": Need("safetensors", "0.6", "1", lendable=True),
    "psutil": Need("psutil", "7", "8", lendable=True),
}
"""No narrower than pyproject.toml, which asks for what this project is tested with every day."""


def main() -> int:
    """Lend what is lacking, then be the module; returns 78 after saying why that cannot be."""
    module = sys.argv[1]
    lent = json.loads(os.environ.pop(LENT, "{}"))
    # An older Python would need other versions of all the rest.
    lacks = list(_too_old()) or [*outside(), *_another_of_ours(lent.pop("version", "")), *_borrow(lent)]
    if lacks:
        _refuse(module, lacks)
        return EX_CONFIG
    del sys.argv[0]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


def outside() -> list[str]:
    """What is installed here in a version that trainers were not made for, a sentence each."""
    found = []
    for name, need in NEEDED.items():
        here = _version(name)
        if here is not None and not _numbers(need.low) <= _numbers(here) < _numbers(need.high):
            near = f"{name}=={need.low}.*" if _numbers(here) < _numbers(need.low) else f"{name}<{need.high}"
            found.append(f"{name} {here} is not among {need.low} <= version < {need.high}; pip install '{near}'")
    return found


def version_line() -> str:
    """Python and what trainers need, with the versions that are here."""
    known = (f"{name} {here}" for name in NEEDED if (here := _version(name)) is not None)
    return ", ".join((f"Python {platform.python_version()}", *known))


def _borrow(lent: dict[str, str]) -> Iterator[str]:
    """Put the folder of each lacking package at the end of the path, for children too; a sentence for what stays out.

    Each folder holds one package, and only what is not here is taken: nothing of the venv's is hidden by it.
    """
    taken = []
    modules = {"mission_tui": "mission_tui", **{need.module: name for name, need in NEEDED.items()}}
    for module, name in modules.items():
        if _origin(module) is not None:
            continue
        folder = lent.get(module)
        if folder is None:
            yield f"it has no {name}; pip install '{_wanted(name)}' there"
        elif not _fits(Path(folder, module)):
            here = platform.python_version()
            yield f"it has no {name}, and ours is not built for Python {here}; pip install '{_wanted(name)}' there"
        else:
            taken.append(folder)
    sys.path += taken
    known = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    os.environ["PYTHONPATH"] = os.pathsep.join([*known, *taken])


def _another_of_ours(version_here: str) -> Iterator[str]:
    """Where mission-tui is installed it is used, and both sides of a run must be of one version."""
    origin = _origin("mission_tui")
    said = re.search(r'^__version__ = "(.+)"', origin.read_text("utf-8"), re.MULTILINE) if origin else None
    if origin is not None and (said is None or said[1] != version_here):
        what = f"mission-tui {said[1]}" if said else f"a mission_tui that is not ours at {origin.parent}"
        yield (
            f"it has {what}, and the one that launches is {version_here}; install that version there, "
            "or none at all: it is lent then"
        )


def _origin(module: str) -> Path | None:
    """Where `module` would be imported from; None if it is not here. A folder without code is nothing."""
    spec = importlib.util.find_spec(module)
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _fits(package: Path) -> bool:
    """Whether this Python can load the compiled parts of `package`, if it has any."""
    # `.so` alone is a valid ending too, so the whole of it counts, not how the name ends.
    parts = [(stem, dot + rest) for stem, dot, rest in (file.name.partition(".") for file in package.rglob("*.so"))]
    loadable = {stem for stem, ending in parts if ending in EXTENSION_SUFFIXES}
    return package.is_dir() and all(stem in loadable for stem, _ in parts)


def _wanted(name: str) -> str:
    need = NEEDED.get(name)
    return name if need is None else f"{name}>={need.low},<{need.high}"


def _too_old() -> Iterator[str]:
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        yield f"it is Python {platform.python_version()}, and a trainer needs {oldest} or newer"


def _refuse(module: str, lacks: list[str]) -> None:
    """One sentence, as the module itself would say it: a trainer in its log, a short process as JSON."""
    sentence = f"run.python = '{sys.executable}' cannot train: {'; '.join(lacks)}; or launch your own script after --"
    if module == "mission_tui.trainer":
        sys.stderr.write(f"mission-tui: {sentence}\n")
    else:
        sys.stdout.write(json.dumps({"error": sentence, "exit_code": EX_CONFIG}) + "\n")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(said: str) -> tuple[int, ...]:
    """Release numbers alone: ``2.13.0+cu130`` and ``2.13.0rc1`` are 2, 13, 0."""
    match = re.match(r"\d+(\.\d+)*", said)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


if __name__ == "__main__":
    sys.exit(main())
