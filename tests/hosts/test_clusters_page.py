"""docs/clusters.md: its commands, as they stand there, lead from nothing to two machines on one screen."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal
from tests.hosts.conftest import config_file
from tests.shell import REPOSITORY, Shell

PAGE = REPOSITORY / "docs" / "clusters.md"
COMMANDS = 5

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(120)]


def test_the_commands_of_the_page_lead_to_two_boxes(quick: Shell, far: dict[str, Shell], tmp_path: Path) -> None:
    """At most five, of which the last is the screen: it has the run of the other box, below that box's line."""
    section = PAGE.read_text(encoding="utf-8").partition("## From nothing to two boxes")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    *lines, screen = block.strip().splitlines()
    assert 0 < len(lines) < COMMANDS
    assert screen == "mission-tui --host all"
    there = re.findall(r'gpu1 = \{command = "(.*?)"', config_file(quick).read_text())[0]
    # How it is called there, and what a training of minutes would not prove either.
    script = "\n".join(lines).replace('command = "mission-tui"', f'command = "{there}"')
    script = script.replace("launch cartpole", "launch cartpole --set run.total_timesteps=4096")
    config_file(quick).unlink()
    done = subprocess.run(
        ["bash", "-ec", f'mission-tui() {{ {sys.executable} -m mission_tui "$@"; }}\n{script}'],
        env=quick.environ,
        cwd=quick.cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finished" in done.stdout
    assert "gpu1:\n" in done.stdout
    assert list((far["gpu1"].root).glob("*cartpole*"))
    terminal = Terminal(
        [sys.executable, "-m", *screen.replace("-", "_", 1).split()], cwd=quick.cwd, environ=quick.environ
    )
    try:
        terminal.shows("gpu1:cartpole", 60.0)
    finally:
        terminal.end()
