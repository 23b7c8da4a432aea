"""What a fresh interpreter really loads: a deferred import that is not deferred shows here and in no import graph."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import pytest

LOADED = "import sys; print('\\n'.join(sorted(name.partition('.')[0] for name in sys.modules)))"
LOAD_ROOM = """
import importlib, pkgutil, sys
package = importlib.import_module("mission_tui.{room}")
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
VERB = "import sys; from mission_tui.cli.root import main; main({words!r}); print('--loaded--')\n"


def modules_after(code: str) -> frozenset[str]:
    """Top-level names in `sys.modules` of a fresh interpreter that ran `code`."""
    done = subprocess.run([sys.executable, "-c", f"{code}\n{LOADED}"], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.rpartition("--loaded--")[2].split())


@cache
def bare() -> frozenset[str]:
    """What any interpreter of this environment loads at its start."""
    return modules_after("import sys")


def foreign(code: str) -> set[str]:
    """Third-party top-level packages that `code` brings in."""
    return {
        name
        for name in modules_after(code) - bare() - sys.stdlib_module_names
        if name != "mission_tui" and not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("room", "allowed"),
    [
        ("fleet", {"msgspec", "typing_extensions"}),
        ("records", {"msgspec", "typing_extensions", "tomli_w"}),
        ("ipc", {"msgspec", "typing_extensions"}),
        ("keeper", set()),
    ],
)
def test_light_rooms_load_nothing_heavy(room: str, allowed: set[str]) -> None:
    """Importing every module of a light room loads only the third-party packages its row names."""
    assert foreign(LOAD_ROOM.format(room=room)) <= allowed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("room", "never"),
    [
        ("envs", {"torch", "stable_baselines3", "textual"}),
        ("supervisor", {"torch", "stable_baselines3", "textual", "numpy", "gymnasium"}),
        ("tui", {"torch", "stable_baselines3", "gymnasium", "pynvml", "psutil"}),
        ("cli", {"torch", "stable_baselines3", "gymnasium", "pynvml"}),
    ],
)
def test_rooms_never_load_what_their_row_forbids(room: str, never: set[str]) -> None:
    """Importing every module of a room leaves its forbidden packages out of the process."""
    assert not modules_after(LOAD_ROOM.format(room=room)) & never


@pytest.mark.slow
def test_only_the_gpu_probe_loads_nvml() -> None:
    """A supervisor process never loads the driver library: a driver that hangs must not hang it."""
    assert "pynvml" not in modules_after("import mission_tui.supervisor.__main__")


@pytest.mark.parametrize("module", ["supervisor.__main__", "supervisor.readonly.server", "supervisor.readonly.replay"])
def test_who_speaks_to_local_sockets_loads_no_openssl(module: str) -> None:
    """Nor what reads the metadata of packages: both are a tenth of a start."""
    loaded = modules_after(f"import mission_tui.{module}")
    assert {"asyncio", "msgspec"} <= loaded
    assert not loaded & {"ssl", "_ssl", "_hashlib", "email", "csv"}


def test_what_a_supervisor_knows_is_structs() -> None:
    """To define a dataclass takes half a millisecond, and supervisors start often; see decision 77."""
    code = """
import sys
import mission_tui.supervisor.__main__
for module in [*sys.modules.values()]:
    for made in vars(module).values():
        if isinstance(made, type) and made.__module__ == module.__name__ and "__dataclass_fields__" in vars(made):
            if module.__name__.startswith("mission_tui."):
                print(made.__qualname__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"MetricsState", "Address", "GroupMemory", "_Version"}


def test_the_trainer_room_exports_nothing() -> None:
    """Importing `mission_tui.trainer` itself is free, so that no env worker pulls torch in through it."""
    assert foreign("import mission_tui.trainer") == set()


@pytest.mark.slow
def test_every_listing_verb_is_free_of_torch_and_textual() -> None:
    """Help, presets, paths and doctor load neither torch (1.1 s) nor textual (0.2 s), nor what only draws figures."""
    for words in (
        ["--help"],
        ["launch", "--help"],
        ["compare", "--help"],
        ["report", "--help"],
        ["presets"],
        ["presets", "--json"],
        ["paths"],
        ["doctor", "--json"],
    ):
        loaded = modules_after(VERB.format(words=words))
        assert not loaded & {"torch", "textual", "stable_baselines3", "gymnasium", "matplotlib", "PIL", "numpy"}, words
        assert "click" in loaded
