"""What the tests may not see of the outside, which of them live with real processes, and their order."""

from __future__ import annotations

import compileall
import fcntl
import functools
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers

from mission_tui.paths import seal_keys
from mission_tui.records.runs import seal
from tests import retrying

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "mission_tui"
PROCESS_ROOMS = {"supervisor", "keeper", "trainer", "e2e", "faults", "web"}
QUICK_ROOMS = {"envs", "fleet", "ipc", "records", "tui"}
SLOW_WEIGHT = 20
COLLECTS = 10_000, 10, 5
"""Python's own 700 objects are for programs that end with a collection; half a million are 50 MB of a test process."""

# What may be set where the tests are started, and changes what the program does.
FAMILIES = ("MISSION_TUI", "XDG_", "LC_", "GIT_", "TEXTUAL", "STUB_")
STRAY = {
    "LANGUAGE", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "COLUMNS", "LINES", "TMUX",
    "TMUX_PANE", "SSH_CONNECTION", "RANK", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONWARNINGS", "PYTHONOPTIMIZE",
}  # fmt: skip
ASKED = {"MISSION_TUI_NIGHT", "MISSION_TUI_PRELOAD", "MISSION_TUI_ROAD", "TEXTUAL_SNAPSHOT_TEMPDIR"}
AT_HOME = pytest.StashKey[str]()

# The same examples everywhere, so that a test fails for a change and not for a draw of luck. `make explore` asks for
# the other profile: new ones, and what fails is kept in the checkout. A slow machine is no reason to fail in either.
settings.register_profile("repeat", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "explore",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=DirectoryBasedExampleDatabase(TESTS.parent / ".hypothesis" / "examples"),
)
settings.load_profile("repeat")


def pytest_configure(config: pytest.Config) -> None:
    """A background run of the tests ignores SIGINT, as would all that it starts; none knows who started it."""
    # Where PYTHONDONTWRITEBYTECODE is set, each of a thousand interpreters would compile what it imports.
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(PACKAGE, quiet=2)
    if not config.pluginmanager.is_registered(retrying):
        config.pluginmanager.register(retrying)
    forget_the_outside(config)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def forget_the_outside(config: pytest.Config) -> None:
    """Drop or replace the variables by which whoever starts the tests would change what they see.

    What they start inherits it. A test about one of these variables sets it for itself.
    """
    for name in list(os.environ):
        if (name.startswith(FAMILIES) or name in STRAY) and name not in ASKED:
            del os.environ[name]
    os.environ |= {"LANG": "C.UTF-8", "TERM": "xterm-256color"}
    # What tests reserve is nobody else's business, nor the other way round; who tests the ledger names a folder.
    os.environ["MISSION_TUI_LEDGER"] = "off"
    # A preloader for each of a thousand supervisors would cost more than it saves; MISSION_TUI_PRELOAD=always has every
    # launch of these tests wait for one, so that both roads are tested by the same tests.
    os.environ.setdefault("MISSION_TUI_PRELOAD", "0")
    # One for all workers: what one process keeps of this user, another one finds.
    at_home = getattr(config, "workerinput", {}).get("at_home")
    if at_home is None:
        at_home = tempfile.mkdtemp(prefix="mission-tui-tests-")
        config.add_cleanup(functools.partial(shutil.rmtree, at_home, ignore_errors=True))
    config.stash[AT_HOME] = at_home
    for kind in ("config", "state", "cache", "data"):
        os.environ[f"XDG_{kind.upper()}_HOME"] = str(Path(at_home, kind))
    # Else each `learn` without a logger leaves a folder in the system's own for temporary files.
    os.environ["SB3_LOGDIR"] = str(Path(at_home, "sb3"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers use the folders of the process that started them."""
    node.workerinput["at_home"] = node.config.stash[AT_HOME]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Let workers share what pytest makes of a test module, and never look for garbage in what stays to the end."""
    if settings.get_current_profile_name() == "repeat":
        # Hypothesis also draws the constants of all modules loaded so far: those depend on the tests before.
        providers._get_local_constants = lambda: providers._local_constants
    # Each worker collects all tests: half of that was assertions written anew, a quarter the collector.
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        waits = hasattr(session.config, "workerinput") and not are_compiled([*TESTS.rglob("test_*.py")])
        with first_alone(Path(session.config.stash[AT_HOME])) if waits else nullcontext():
            return (yield)
    finally:
        sys.dont_write_bytecode = kept
        gc.freeze()
        gc.set_threshold(*COLLECTS)
        gc.enable()


@contextmanager
def first_alone(folder: Path) -> Iterator[None]:
    """One worker at first, then all others at once.

    In a new checkout all would begin together, and none would find the bytecode of another.
    """
    with (folder / "collecting").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        collected = folder / "collected"
        if collected.exists():
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield
        collected.touch()


def are_compiled(modules: Sequence[Path]) -> bool:
    """Whether what pytest makes of nearly all of them is newer than they are: then nobody has to wait for it."""
    made = [rewrite.get_cache_dir(module) / f"{module.stem}{rewrite.PYC_TAIL}" for module in modules]
    newer = (
        it.exists() and it.stat().st_mtime >= module.stat().st_mtime for it, module in zip(made, modules, strict=True)
    )
    return sum(newer) > 0.9 * len(modules)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of rooms that live with real processes, and let those that wait run beside those that compute."""
    for item in items:
        if not {"sim", "idle_sim"}.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.simulated)
        elif room(item) in PROCESS_ROOMS:
            item.add_marker(pytest.mark.process)
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.property)
    items[:] = in_turn(items)


@pytest.fixture
def bystanders() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes of this user that belong to nobody's run, each in a session of its own."""
    argv = [sys.executable, "-S", "-c", "input()"]
    processes = [subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True) for _ in range(2)]
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def room(item: pytest.Item) -> str:
    """The folder of tests that the item is from."""
    return room_of(item.path)


@functools.cache
def room_of(path: Path) -> str:
    """Asked six times for each of thousands of tests, which took every worker a second."""
    return path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""


def in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """Whole modules, of all rooms by turns: each room begins at the beginning and ends at the end.

    One room after another, the cores are idle through the tests that wait and too few for those that compute. A worker
    takes one module after another (`--dist loadfile`), so the last ones have to be short: no worker is left alone with
    a slow one.
    """
    sizes, passed = Counter[str](), Counter[str]()
    slow: set[Path] = set()
    for item in items:
        sizes[room(item)] += weight(item)
        if weight(item) > 1:
            slow.add(item.path)
    begins: dict[Path, float] = {}
    for item in items:
        span = 0.85 if item.path in slow else 1.0 if room(item) in QUICK_ROOMS else 0.95
        begins.setdefault(item.path, span * passed[room(item)] / sizes[room(item)])
        passed[room(item)] += weight(item)
    return sorted(items, key=lambda item: begins[item.path])


def weight(item: pytest.Item) -> int:
    """About how many usual tests take as long as this one."""
    return SLOW_WEIGHT if item.get_closest_marker("slow") is not None else 1


@pytest.fixture
def no_spare_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As for a user whose home could always be written: others have a secret beside the sockets, which would count."""
    monkeypatch.setattr(seal, "seal_keys", lambda environ: (seal_keys(environ)[0], tmp_path / "no" / "spare.key"))
