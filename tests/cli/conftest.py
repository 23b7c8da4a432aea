"""Shells for the tests of the command line: with the real trainer, and with the scripted one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell import Shell, opened


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell whose launches train for real."""
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def quick(shell: Shell) -> Shell:
    """The same shell with the scripted trainer, which needs no torch, for tests about verbs and not about training."""
    return shell.scripted()
