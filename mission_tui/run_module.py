"""``python -P .../run_module.py MODULE ARGS``: be a module of this very package, whatever lies in the working folder.

`python -m` would look into the working folder first: a `random.py` or a `mission_tui/` there would take the place of
what a trainer is made of. Here the package is this file's own, and the working folder is on no path until a preset
names a module that is found nowhere else. Standard library only, and little: it is compiled each time.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


def module_words(module: str, python: str | None = None) -> tuple[str, ...]:
    """The words that start `module` of this package with `python`, which is 3.11 or newer."""
    return (python or sys.executable, "-P", os.path.abspath(__file__), module)  # noqa: PTH100 - pathlib is not loaded here


def import_named(module: str, *, own: bool = True) -> ModuleType:
    """The module that a preset names. For one that is found nowhere else the working folder joins the end of the path,
    unless it is nobody's `own`, but a package that only has to be installed.

    Not before: what is installed asks for much that is not, from `msvcrt` to `tensorflow`, and in somebody's folder
    would get it. Nor where the person wants it nowhere there (`PYTHONSAFEPATH`). Raises what the import raises.
    """
    try:
        with looking_elsewhere():
            return importlib.import_module(module)
    except ModuleNotFoundError:
        here = _working_folder()
        if not (own and here) or os.environ.get("PYTHONSAFEPATH") or here in sys.path:
            raise
    sys.path.append(here)
    return importlib.import_module(module)


@contextmanager
def looking_elsewhere() -> Iterator[None]:
    """Have no Python that is started meanwhile look into the working folder, which is not on the path either.

    What is installed starts some as it is loaded, by `python -c`: glfw, which MuJoCo's environments load, to ask for a
    version, and torch's compiler to try a library. Such a one takes a `ctypes.py` of that folder for the real one.
    """
    if os.environ.get("PYTHONSAFEPATH") or _working_folder() in sys.path:
        yield
        return
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        os.environ.pop("PYTHONSAFEPATH", None)


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return ""  # somebody removed it


def main() -> None:
    """Load the package, then be the module."""
    package = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    entry = os.path.join(package, "__init__.py")  # noqa: PTH118
    spec = importlib.util.spec_from_file_location("mission_tui", entry, submodule_search_locations=[package])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["mission_tui"] = ours = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ours)
    parent = os.path.dirname(package)  # noqa: PTH120
    if parent not in sys.path:
        # For processes that the task's own code starts in its way: they look the package up by its name.
        sys.path.append(parent)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
