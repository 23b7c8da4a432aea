"""Which tests are slow: those marked so, and all of the rooms whose tests start real processes; and their order."""

from __future__ import annotations

import compileall
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "mission_tui"
PROCESS_ROOMS = {"supervisor", "keeper", "trainer", "e2e", "faults"}
QUICK_ROOMS = {"envs", "fleet", "ipc", "records", "tui"}

# The same examples everywhere, so that a test fails for a change and not for a draw of luck. `make explore` asks for the
# other profile: new ones, and what fails is kept in the checkout. A slow machine is no reason to fail in either.
settings.register_profile("repeat", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "explore",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=DirectoryBasedExampleDatabase(TESTS.parent / ".hypothesis" / "examples"),
)
settings.load_profile("repeat")


def pytest_configure(config: pytest.Config) -> None:
    """A background run of the tests ignores SIGINT, as would all that it starts; and no test shares a ledger."""
    # Where PYTHONDONTWRITEBYTECODE is set, each of a thousand interpreters would compile what it imports.
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(PACKAGE, quiet=2)
    # What tests reserve is nobody else's business, nor the other way round; who tests the ledger names a folder.
    os.environ["MISSION_TUI_LEDGER"] = "off"
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let workers share what pytest makes of a test module, and never look for garbage in what stays to the end."""
    if settings.get_current_profile_name() == "repeat":
        # Hypothesis also draws what stands as a constant in the modules loaded so far: those depend on the tests before.
        providers._get_local_constants = lambda: providers._local_constants
    # Each worker collects all tests: half of that was assertions written anew, a quarter the collector.
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = kept
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of rooms that live with real processes, and let those that wait run beside those that compute."""
    for item in items:
        if room(item) in PROCESS_ROOMS:
            item.add_marker(pytest.mark.slow)
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.property)
    items[:] = in_turn(items)


def room(item: pytest.Item) -> str:
    """The folder of tests that the item is from."""
    return item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""


def in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """Whole modules, of all rooms by turns: each room begins at the beginning and ends at the end.

    One room after another, the cores are idle through the tests that wait and too few for those that compute.
    """
    sizes, passed = Counter(map(room, items)), Counter[str]()
    begins: dict[Path, float] = {}
    for item in items:
        # What is slow ends before what is quick: no worker is left alone with it.
        span = 1.0 if room(item) in QUICK_ROOMS else 0.9
        begins.setdefault(item.path, span * passed[room(item)] / sizes[room(item)])
        passed[room(item)] += 1
    return sorted(items, key=lambda item: begins[item.path])
