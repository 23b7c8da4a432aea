"""docs/clusters.md: its commands, as they stand there, lead from nothing to a run on Slurm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.supervisor.conftest import opened_lab

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"
COMMANDS = 5

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(120)]


def test_the_commands_of_the_page_train_a_run_on_slurm(tmp_path: Path, cluster: Cluster) -> None:
    """At most five, in a home of their own: the run ends as finished, and was a job."""
    section = PAGE.read_text(encoding="utf-8").partition("## From nothing to a run on Slurm")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = block.strip().splitlines()
    assert 0 < len(lines) <= COMMANDS
    # A training of minutes would prove no more.
    script = block.replace("launch cartpole", "launch cartpole --set run.total_timesteps=4096")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MISSION_TUI")}
    environ |= {"PATH": path, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), **cluster.environ}
    with opened_lab(tmp_path / "runs"):
        done = subprocess.run(
            ["bash", "-ec", script], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finished" in done.stdout
    assert "slurm" in next((tmp_path / "runs").glob("2*/attempts/1/handle.json")).read_text(encoding="ascii")
