"""docs/clusters.md: its commands, as they stand there, lead from nothing to a run on Slurm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.supervisor.conftest import opened_lab

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"
COMMANDS = 5

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(120)]


def test_the_commands_of_the_page_train_a_run_on_slurm(tmp_path: Path, cluster: Cluster) -> None:
    """At most five, in a home of their own: the run ends as finished, and was a job."""
    assert "slurm" in trained_by_the_page("Slurm", tmp_path, environ=cluster.environ)


def trained_by_the_page(
    engine: str, home: Path, *, environ: Mapping[str, str], where: tuple[str, str] = ("", "")
) -> str:
    """The handle of the run that the commands for `engine` train, with the second of `where` in place of the first."""
    section = (
        PAGE.read_text(encoding="utf-8").partition(f"## From nothing to a run on {engine}")[2].partition("\n## ")[0]
    )
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = block.strip().splitlines()
    assert 0 < len(lines) <= COMMANDS
    # A training of minutes would prove no more.
    short = "launch cartpole --set run.total_timesteps=4096 --set evaluate.every=2048"
    script = block.replace("launch cartpole", short).replace(*where)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MISSION_TUI")}
    kept |= {"PATH": path, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), **environ}
    with opened_lab(home / "runs"):
        done = subprocess.run(
            ["bash", "-ec", script], env=kept, cwd=home, capture_output=True, text=True, check=False, timeout=100
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finished" in done.stdout
    assert list((home / "runs").glob("2*/evaluations/*.json"))
    return next((home / "runs").glob("2*/attempts/1/handle.json")).read_text(encoding="ascii")
