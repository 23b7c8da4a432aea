"""docs/clusters.md: its commands, as they stand there, lead from nothing to a run on Slurm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.supervisor.conftest import opened_lab

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"
COMMANDS = 5
SHORT = ("--seed", "3", "--set", "run.total_timesteps=2048", "--set", "evaluate.every=2048")

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(500)]


def test_the_commands_of_the_page_train_a_run_on_slurm(tmp_path: Path, cluster: Cluster) -> None:
    """At most five, in a home of their own: the run ends as finished, and was a job. Whatever looks at runs takes it as
    one of this machine, which with its seed has the same numbers.
    """
    assert "slurm" in trained_by_the_page("Slurm", tmp_path, environ=cluster.environ, then=looks_the_same)


def looks_the_same(call: Callable[..., str]) -> None:
    """Findings, comparison, replay, report, rows and provenance of a run there beside one here."""
    call("launch", "cartpole", *SHORT, "--name", "here", "--wait")
    there, here = json.loads(call("status", "--json"))["runs"][::-1]
    if there["launcher"] == "local":
        there, here = here, there
    assert (there["outcome"], here["outcome"], there["node"] is not None) == ("finished", "finished", True)
    assert json.loads(call("findings", there["id"], "--replay", "--json"))["schema"] == 1
    assert [it["rule"] for it in there["findings"]] == [it["rule"] for it in here["findings"]]
    rows = [rows_of(Path(run["run_dir"])) for run in (there, here)]
    assert rows[0] == rows[1]
    compared = json.loads(call("compare", there["id"], here["id"], "--json"))
    assert len(compared["runs"]) == 2
    call("report", there["id"], "--html", "report.html")
    assert there["id"] in call("replay", "--back", "1s", "--json")
    (known,) = json.loads(call("status", there["id"], "--provenance", "--json"))["runs"]
    machine = known["provenance"]["machine"]
    assert (machine["host"], bool(machine["cpu"])) == (there["node"], True)
    assert known["provenance"]["launched_on"]


def rows_of(run_dir: Path) -> list[tuple[int, dict[str, object]]]:
    """What was learned, without how long it took."""
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        (row["update"], {name: value for name, value in row["metrics"].items() if not name.startswith("time/")})
        for row in rows
        if row["kind"] == "update"
    ]


def trained_by_the_page(
    engine: str,
    home: Path,
    *,
    environ: Mapping[str, str],
    where: tuple[str, str] = ("", ""),
    then: Callable[[Callable[..., str]], None] = lambda _: None,
) -> str:
    """The handle of the run that the commands for `engine` train, with the second of `where` in place of the first;
    `then` looks at it by calling verbs.
    """
    section = (
        PAGE.read_text(encoding="utf-8").partition(f"## From nothing to a run on {engine}")[2].partition("\n## ")[0]
    )
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = block.strip().splitlines()
    assert 0 < len(lines) <= COMMANDS
    # A training of minutes would prove no more.
    script = block.replace("launch cartpole", " ".join(("launch cartpole", *SHORT))).replace(*where)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MISSION_TUI")}
    kept |= {"PATH": path, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), **environ}

    def call(*words: str) -> str:
        argv = ["mission-tui", "--runs-dir", str(home / "runs"), *words]
        done = subprocess.run(argv, env=kept, cwd=home, capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == 0, (words, done.stdout + done.stderr)
        return done.stdout

    with opened_lab(home / "runs"):
        done = subprocess.run(
            ["bash", "-ec", script], env=kept, cwd=home, capture_output=True, text=True, check=False, timeout=250
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "finished" in done.stdout
        # Before another run stands beside it.
        (handle,) = (home / "runs").glob("2*/attempts/1/handle.json")
        said = handle.read_text(encoding="ascii")
        then(call)
    assert list((home / "runs").glob("2*/evaluations/*.json"))
    return said
