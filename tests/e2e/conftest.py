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


@pytest.fixture(scope="module")
def fleet_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """What `shared_fleet` shares."""
    with opened(tmp_path_factory.mktemp("fleet")) as made:
        made.root.mkdir()
        yield made.preloaded()


@pytest.fixture
def shared_fleet(fleet_of_module: Shell) -> Iterator[Shell]:
    """Such a fleet for all tests of a module that ask for it: each looks at its own runs, and changes no variable.

    Its supervisor is started once, and its preloader, which loads torch for two seconds. What a test left training ends
    with the test.
    """
    yield fleet_of_module
    for view in fleet_of_module.views():
        if view["state"] != "ended":
            fleet_of_module.typed("kill", view["id"])
