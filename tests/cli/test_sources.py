"""The page of the sources' commands: each launch that it shows is one that this program understands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mission_tui.cli.plan import LaunchArguments, planned
from mission_tui.cli.verbs.launch import launch_command
from mission_tui.paths import preset_dirs

PAGE = Path(__file__).parents[2] / "docs" / "sources.md"
LAUNCHES = re.findall(r"`mission-tui launch ([^`]+)`", PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("words", LAUNCHES)
def test_each_launch_of_the_page_is_planned(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its options, of shipped presets, as many runs as it says."""
    monkeypatch.chdir(tmp_path)
    options, dashes, command = words.partition(" -- ")
    context = launch_command.make_context("launch", shlex.split(words))
    given = context.params
    assignments = tuple(given["assignments"])
    for option, key in (("timesteps", "run.total_timesteps"), ("duration", "run.duration_s")):
        if given[option] is not None:
            other = {"timesteps": "run.duration_s", "duration": "run.total_timesteps"}[option]
            assignments = (*assignments, f"{key}={given[option]}", f"{other}=none")
    seeds = tuple(range(1, 1 + (given["seeds"] or 0)))
    own = tuple(shlex.split(command)) if dashes else None
    wish = LaunchArguments(given["presets"], given["copies"], given["name"], assignments, seeds, own)
    items = planned(wish, preset_dirs(tmp_path, {})).items
    assert len(items) == {"trio": 3, "-n 4": 4, "--seeds 3": 6}.get(
        next((it for it in ("trio", "-n 4", "--seeds 3") if it in options), ""), 1
    )
