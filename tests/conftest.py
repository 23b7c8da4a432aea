"""Which tests are slow: those marked so, and all of the rooms whose tests start real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PROCESS_ROOMS = {"supervisor", "keeper", "trainer", "e2e"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of a room that lives with real processes."""
    for item in items:
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).parts[0] in PROCESS_ROOMS:
            item.add_marker(pytest.mark.slow)
