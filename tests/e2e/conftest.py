"""The shell of the end-to-end tests: the real command and the real trainer on a runs root of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell import Shell, opened


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Shell]:
    """A fleet in an empty folder with one preset on key 1, whose runs are forks of a preloader, as users have."""
    with opened(tmp_path) as made:
        made.root.mkdir()
        yield made.preloaded()
