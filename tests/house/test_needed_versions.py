"""What a foreign Python must have is what pyproject.toml asks for, or older versions that were tried."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from mission_tui.supervisor.launchers.interpreter import LENDABLE
from mission_tui.trainer.foreign_python import NEEDED, OLDEST_PYTHON, _numbers

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]


def test_ranges_hold_those_of_the_project() -> None:
    """What an install of mission-tui brings is never refused, and the next major version always is."""
    asked = dict(re.findall(r"^([a-z0-9-]+)>=(.+)$", "\n".join(PROJECT["dependencies"]), re.MULTILINE))
    for name, need in NEEDED.items():
        low, _, high = asked[name].partition(",<")
        assert _numbers(need.low) <= _numbers(low), name
        assert need.high == high, name
    assert PROJECT["requires-python"] == ">=" + ".".join(map(str, OLDEST_PYTHON))


def test_all_that_may_be_lent_is_lent() -> None:
    """The side that lends and the side that borrows know the same packages."""
    assert set(LENDABLE) == {"mission_tui", *(need.module for need in NEEDED.values() if need.lendable)}
