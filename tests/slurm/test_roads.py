"""`doctor --launcher slurm` on a real Slurm: the road is tried before the first run takes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.supervisor.conftest import opened_lab

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(400)]
PROGRAM = Path(sys.executable).with_name("mission-tui")
Found = dict[str, tuple[str, str]]


class Caller:
    """Somebody at a runs root, with a home of their own."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.root = folder / "runs"
        self.root.mkdir(mode=0o700, parents=True)
        self._environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("MISSION_TUI", "RAY_"))
        }
        self._environ |= {"HOME": str(folder), "MISSION_TUI_RUNS": str(self.root), **environ}

    def call(self, *words: str, unshared: bool = False) -> subprocess.CompletedProcess[str]:
        """One call of the command line; `unshared`, with a runs root that it alone sees under that name."""
        argv = [str(PROGRAM), *words]
        if unshared:
            mount = f"mount -t tmpfs -o mode=700 none {self.root}"
            shell = f'{mount} && "$@"; code=$?; {PROGRAM} supervisor stop >/dev/null 2>&1; exit $code'
            argv = ["unshare", "-m", "sh", "-c", shell, "sh", *argv]
        return subprocess.run(argv, env=self._environ, cwd="/", capture_output=True, text=True, timeout=200)

    def doctor(self, launcher: str, *words: str, unshared: bool = False) -> tuple[int, Found]:
        """Exit code and checks by name."""
        done = self.call("doctor", "--launcher", launcher, "--json", *words, unshared=unshared)
        assert done.stderr == ""
        checks = json.loads(done.stdout)["checks"]
        return done.returncode, {check["name"]: (check["level"], check["detail"]) for check in checks}


def may_unshare() -> bool:
    """Whether this user may have a mount of their own."""
    return (
        subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0
    )


def nothing_is_left(root: Path) -> bool:
    """Whether no trace of a job is below the runs root."""
    return list((root / ".supervisor").glob("mission-tui-doctor*")) == []


def test_the_road_to_slurm_is_proven_both_ways(tmp_path: Path, cluster: Cluster) -> None:
    """Commands, grace, runs root, interpreter, packages and GPU are each said; what is wrong is one sentence."""
    somebody = Caller(tmp_path, cluster.environ)
    code, found = somebody.doctor("slurm")
    assert (code, {level for level, _ in found.values()}) == (0, {"ok"})
    assert [*found] == ["Slurm", "stop", "time limit", "runs root", "interpreter", "packages", "GPU"]
    assert "25 s (KillWait)" in found["stop"][1]
    assert "what it writes is seen here after" in found["runs root"][1]
    assert nothing_is_left(somebody.root)
    code, found = somebody.doctor("slurm", "--set", "slurm.partition=nowhere")
    assert code == 1
    assert "nvalid partition" in found["job"][1]
    code, found = Caller(tmp_path / "elsewhere", {"PATH": "/nowhere"}).doctor("slurm")
    assert (code, found["Slurm"]) == (1, ("bad", "no sbatch, squeue, scancel, scontrol on the PATH"))


@pytest.mark.skipif(not may_unshare(), reason="nobody here may mount a file system of their own")
def test_a_runs_root_that_nodes_do_not_share_is_refused_with_that_sentence(tmp_path: Path, cluster: Cluster) -> None:
    """By doctor before the first run, and by the run that was launched all the same."""
    refuses_what_is_not_shared(Caller(tmp_path, cluster.environ), "slurm")


def refuses_what_is_not_shared(somebody: Caller, launcher: str) -> None:
    """A runs root that only the caller has under its name is refused with that sentence, by doctor and by the run."""
    code, found = somebody.doctor(launcher, unshared=True)
    said = f"does not see the runs root {somebody.root}: put it on storage that all nodes share"
    assert (code, found["runs root"][0]) == (1, "bad")
    assert said in found["runs root"][1]
    with opened_lab(somebody.root):
        done = somebody.call("launch", "cartpole", "--launcher", launcher, "--wait", "--json", unshared=True)
    assert done.returncode == 1
    (run,) = json.loads(done.stdout)["runs"]
    assert said in run["cause"]
