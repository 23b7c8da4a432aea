"""What a foreign Python must have is what pyproject.toml asks for; workarounds name the version that they are for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from pkgutil import iter_modules

from mission_tui.supervisor.launchers.order import LENDABLE
from mission_tui.trainer.foreign_python import NEEDED, OLDEST_PYTHON, _numbers
from mission_tui.tui import textual_fixes

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


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


def test_each_workaround_for_textual_is_listed_with_the_pinned_version() -> None:
    """So that a new Textual has somebody try it without them; and none is without the words that say when it may go."""
    listed = textual_fixes.__doc__ or ""
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert f"textual=={(re.search(r'against ([0-9.]+[0-9])', listed) or [''])[1]}" in pins
    modules = {found.name for found in iter_modules(textual_fixes.__path__)}
    assert set(re.findall(r"^- `(\w+)`", listed, re.M)) == modules
