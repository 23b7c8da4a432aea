"""The best checkpoints of finished runs: which are played, once each, and what is kept of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.campaign import RUNS, Done, put
from benchmarks.zoo.best import best_of, play, play_best, unplayed
from tests.benchmarks.test_campaign import JOBS, ScriptedLab
from tests.records.saving import save


class Evaluating(ScriptedLab):
    """A lab that evaluates a checkpoint."""

    def cli(self, *words: str) -> object:
        return super().cli(*words) | {"checkpoint": "000000001"}


def test_only_what_kept_more_than_its_last_is_played(tmp_path: Path) -> None:
    """One job is not done, one kept its last alone; the third is played once, and found when asked again."""
    for job, steps in ((JOBS[0], (1,)), (JOBS[1], (1, 2))):
        done = Done(name=job.name, run=job.name, attempts=1, trained_s=1.0, evaluation={})
        put(tmp_path / f"{job.name}.json", done)
        for at in steps:
            save(tmp_path / RUNS / job.name / "checkpoints", at)
    ((job, done),) = unplayed(tmp_path, JOBS)
    assert job == JOBS[1]
    lab = Evaluating(tmp_path / RUNS)
    lab.refused = {"evaluate"}
    with pytest.raises(subprocess.CalledProcessError):
        play(lab, tmp_path, job, done)
    assert best_of(tmp_path, job) is None
    lab.refused = set()
    play(lab, tmp_path, job, done)
    assert lab.asked[-1] == ("evaluate", job.name, "--checkpoint", "best", "--episodes", "100")
    found = best_of(tmp_path, job)
    assert found is not None
    assert (found.name, found.evaluation["checkpoint"]) == (job.name, "000000001")
    assert play_best(tmp_path, JOBS, 10.0) == {}
    assert not list(tmp_path.glob("*.half"))
