"""Which tests are slow: those marked so, and all of the rooms whose tests start real processes."""

from __future__ import annotations

import compileall
import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "mission_tui"
PROCESS_ROOMS = {"supervisor", "keeper", "trainer", "e2e", "faults"}

# Everywhere new examples are tried; CI repeats the same ones, so that it fails for a change and not for a draw of luck.
settings.register_profile("explore", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "explore")


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
    """Mark every test of a room that lives with real processes."""
    for item in items:
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).parts[0] in PROCESS_ROOMS:
            item.add_marker(pytest.mark.slow)
