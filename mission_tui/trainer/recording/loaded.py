"""Which files of the person's own a trainer has really loaded: `attempts/N/loaded.json`, beside what a probe found.

A probe looks for the modules that a preset names; what they import in turn, and from where, only the process knows
that imported them.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import mission_tui
from mission_tui.fleet.events.provenance import LoadedModule, LoadedModules, sources_of
from mission_tui.fleet.specs.spec import Spec

__all__ = ["loaded_modules"]

MOST_MODULES, MOST_BYTES = 500, 64 << 20
"""More than this is no longer the person's own code; the first ones count, and no more is read."""

_LENT = frozenset({"mission_tui", "msgspec", "tomli_w", "safetensors", "psutil"})


def loaded_modules(spec: Spec) -> LoadedModules:
    """The modules that lie neither in the standard library nor in site-packages, and those that the task names."""
    found: dict[str, LoadedModule] = {}
    left = MOST_BYTES
    for name, file in sorted(_own(spec)):
        with suppress(OSError):
            left -= file.stat().st_size
            if left < 0 or len(found) == MOST_MODULES:
                break
            found[name] = LoadedModule(file=str(file), sha256=hashlib.sha256(file.read_bytes()).hexdigest())
    return LoadedModules(package=str(Path(mission_tui.__file__).parent), modules=found)


def _own(spec: Spec) -> Iterator[tuple[str, Path]]:
    paths = sysconfig.get_paths()
    installed = tuple(f"{paths[name]}/" for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    ours = f"{Path(mission_tui.__file__).parent}/"
    named = {word.partition(":")[2] for word in sources_of(spec)}
    for name, module in list(sys.modules.items()):
        top, file = name.partition(".")[0], getattr(module, "__file__", None)
        # The trainer's own main module has a second name where a process is started by `multiprocessing`.
        if not isinstance(file, str) or top in _LENT or name == "__main__" or file.startswith(ours):
            continue
        if top in named or not file.startswith(installed):
            yield name, Path(file)
