"""How a module of the trainer's room is started in the Python of a run.

The calling client's own Python is given this very package, whatever its path or its folder have under that name. One
that `run.python` names need not have mission-tui: it is lent what it lacks, each package from a folder that holds
nothing else, so that nothing of its own is hidden.
"""

from __future__ import annotations

import importlib.util
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import mission_tui
from mission_tui.errors import PresetError
from mission_tui.fleet.specs.spec import Spec
from mission_tui.paths import lent_dir
from mission_tui.run_module import module_words
from mission_tui.supervisor.starting.caller import Caller

__all__ = ["LENT", "as_module", "lend"]

LENT = "MISSION_TUI_LENT"
LENDABLE = ("mission_tui", "msgspec", "tomli_w", "safetensors", "psutil")
_STARTER = Path(mission_tui.__file__).parent / "trainer" / "foreign_python.py"


def as_module(spec: Spec, home: Caller, module: str) -> tuple[tuple[str, ...], Caller]:
    """The words that start `module` in the Python of `home`, a run's of `spec`, and `home` with what that takes.

    Raises `PresetError` where nothing can be lent.
    """
    if spec.run.python is None:
        return module_words(module, home.python), home
    said = json.dumps({"version": mission_tui.__version__, **lend(os.environ)})
    return (home.python, str(_STARTER), module), replace(home, environ={**home.environ, LENT: said})


def lend(environ: Mapping[str, str]) -> dict[str, str]:
    """Folders by package, made if they are not there: each holds a link to that package and nothing else."""
    found = dict(_packages())
    root = lent_dir(environ, repr(sorted(found.items())))
    try:
        for name, package in found.items():
            _link(root / name / name, package)
    except OSError as error:
        raise PresetError(
            f"run.python needs a folder in which packages are lent to it: {root}: {error.strerror}"
        ) from error
    return {name: str(root / name) for name in found}


def _packages() -> Iterator[tuple[str, Path]]:
    for name in LENDABLE:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            yield name, Path(spec.origin).parent


def _link(link: Path, package: Path) -> None:
    if link.is_symlink() and link.readlink() == package:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    # Another supervisor may make the same at this moment.
    fresh = link.with_name(f".{uuid.uuid4().hex}")
    fresh.symlink_to(package)
    fresh.replace(link)
