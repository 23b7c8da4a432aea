"""`python -m mission_tui.hook train.py ARGS`: runs a script unedited, with every SB3 `learn()` in it reported.

Where mission-tui is not installed, name this file instead: `python .../mission_tui/hook.py train.py ARGS`. The script
is `__main__` as ever, so that children of multiprocessing find it; callbacks of its own come before ours.
"""

from __future__ import annotations

import builtins
import functools
import importlib.abc
import importlib.util
import os
import runpy
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPORT = "MISSION_TUI_REPORT"
ALGORITHMS = "stable_baselines3.common.base_class"
USAGE = "usage: python -m mission_tui.hook SCRIPT [ARGS]..., or python -m mission_tui.hook -m MODULE [ARGS]..."


def main(words: Sequence[str]) -> None:
    """Be `python WORDS`. Ends as the script does; with 2 when there is none."""
    named = words[:1] == ["-m"]
    if len(words) <= named or (words[0].startswith("-") and not named):
        print(USAGE, file=sys.stderr)  # noqa: T201 - a program of its own
        raise SystemExit(2)
    _make_package_importable()
    sys.meta_path.insert(0, _Finder())
    sys.argv = list(words[named:])
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(Path.cwd() if named else Path(words[0]).resolve().parent)
    if named:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        _run_script(words[0])


def attach(algorithm: Any) -> None:
    """Have every `learn()` of the class `algorithm` and its heirs reported, after the callbacks it was given."""
    original = algorithm._init_callback

    @functools.wraps(original)
    def with_report(model: Any, *args: Any, **kwargs: Any) -> Any:
        theirs = original(model, *args, **kwargs)
        if REPORT not in os.environ:
            return theirs  # nobody launched this script
        try:
            from stable_baselines3.common.callbacks import ConvertCallback

            from mission_tui.report_sb3 import ReportCallback, WithReport

            ours = ReportCallback()
            ours.init_callback(model)
            if isinstance(theirs, ConvertCallback) and theirs.callback is None:
                return ours  # nobody asked for one
            both = WithReport(theirs, ours)
        except Exception as error:  # noqa: BLE001 - a version of SB3 that we do not know must not cost a training
            print(f"mission-tui: this learn() cannot be reported: {error!r}", file=sys.stderr)  # noqa: T201
            return theirs
        # Not by `init_callback`, which would begin theirs a second time.
        both.model = model
        return both

    algorithm._init_callback = with_report


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the script to import SB3, because a script that does not must not pay for torch."""

    def find_spec(self, name: str, path: Any, target: types.ModuleType | None = None) -> Any:
        if name != ALGORITHMS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        attach(module.BaseAlgorithm)


def _make_package_importable() -> None:
    """Make `mission_tui.report` importable where this file was named and the package is not installed."""
    if "mission_tui" in sys.modules:
        return
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        "mission_tui", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["mission_tui"] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


def _run_script(path: str) -> None:
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        print(f"{sys.executable}: can't open file '{path}': {error.strerror}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None
    # Left in place, unlike by runpy: threads and exit handlers of the script outlive its last line.
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"] = module
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - what `python` does


if __name__ == "__main__":
    main(sys.argv[1:])
