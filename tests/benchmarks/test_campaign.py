"""Campaigns of supervised trainings: what is one job, what a step does with runs as they stand, and being cut off."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from benchmarks.campaign import Campaign, Done, Job, _digest, carry_out, findings_of, read_done, updates_of
from benchmarks.fleet.lab import Lab
from mission_tui.envs import mission_files
from mission_tui.errors import UsageError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import FindingChanged
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.sockets import MalformedError
from mission_tui.paths import socket_dir
from mission_tui.records.jsonl import AppendLog

JOBS = tuple(Job("cartpole", seed) for seed in (1, 2, 3))


class ScriptedLab(Lab):
    """A lab whose runs stand as the test says; it notes what it is asked for."""

    def __init__(self, root: Path, *views: RunView) -> None:
        super().__init__(root, {})
        self.stand = {view.id: view for view in views}
        self.asked: list[tuple[str, ...]] = []
        self.refused: set[str] = set()

    def views(self) -> dict[str, RunView]:
        return dict(self.stand)

    def cli(self, *words: str) -> Any:
        self.asked.append(words)
        if words[0] in self.refused:
            raise subprocess.CalledProcessError(2, ("python", "-m", "mission_tui", *words))
        if words[0] == "launch":
            run = f"run-{len(self.asked)}"
            self.stand[run] = view_of(words[words.index("--name") + 1], run, state="running")
            return {"runs": [{"id": run}]}
        return {"mean": 7.5, "std": 1.0}

    @property
    def verbs(self) -> list[tuple[str, str]]:
        """What was asked for, and of whom."""
        return [(words[0], words[-1] if words[0] == "launch" else words[1]) for words in self.asked]


def view_of(name: str, run: str, **facts: Any) -> RunView:
    """A run as a snapshot shows it."""
    return RunView(**{"id": run, "name": name, "preset": "cartpole", "run_dir": "", "created_t": 0.0, **facts})


def test_a_job_is_named_after_all_that_it_is() -> None:
    """Another seed, setting or number of episodes is another job; another way to say the same settings is not."""
    job = Job("cartpole", 1)
    others = [replace_job(job, seed=2), replace_job(job, assignments=("ppo.gamma=0.9",)), replace_job(job, episodes=5)]
    assert len({it.name for it in (job, *others)}) == 4
    assert replace_job(job, assignments=("ppo.n_epochs=20",)).name == job.name
    assert job.launch_words == ("cartpole", "--seed", "1", "--name", job.name)


def test_a_job_is_of_its_missions_rules(tmp_path: Path) -> None:
    """What was trained under other rules is no result of this one, though every setting is the same."""
    for file in mission_files("demo"):
        shutil.copy(file, tmp_path)
    job = Job("demo", 1, (f"env.config={tmp_path}",))
    before = job.name
    rewards = tmp_path / "rewards.toml"
    rewards.write_text(rewards.read_text().replace("step_cost = 0.01", "step_cost = 0.02"))
    _digest.cache_clear()
    assert job.name != before


def replace_job(job: Job, **changes: Any) -> Job:
    """`job` with these changes."""
    return Job(**{"preset": job.preset, "seed": job.seed, **changes})


def test_no_more_runs_train_at_once_than_were_allowed(tmp_path: Path) -> None:
    """Two of three begin; the third when the first has finished, which is evaluated and never done again."""
    lab = ScriptedLab(tmp_path)
    campaign = Campaign(lab, tmp_path, JOBS, 2)
    campaign.step()
    campaign.step()
    assert lab.verbs == [("launch", JOBS[0].name), ("launch", JOBS[1].name)]
    lab.stand["run-1"] = replace(lab.stand["run-1"], state="ended", outcome="finished", attempt=1, trained_s=3.0)
    campaign.step()
    assert lab.verbs[2:] == [("evaluate", "run-1"), ("launch", JOBS[2].name)]
    done = read_done(tmp_path, JOBS[0])
    assert done is not None
    assert (done.run, done.attempts, done.trained_s, done.evaluation["mean"]) == ("run-1", 1, 3.0, 7.5)
    assert Campaign(lab, tmp_path, JOBS, 2).left == list(JOBS[1:])


def test_a_supervisor_that_is_late_ends_no_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again, and the campaign goes on."""
    monkeypatch.setattr("benchmarks.campaign.LOOK_EVERY_S", 0.0)
    lab, late = ScriptedLab(tmp_path), [True, True]
    answered = lab.views

    def views() -> dict[str, RunView]:
        if late:
            late.pop()
            raise MalformedError("no complete line within 5 s")
        return answered()

    monkeypatch.setattr(lab, "views", views)
    Campaign(lab, tmp_path, JOBS[:1], at_once=1).step()
    assert lab.verbs == [("launch", JOBS[0].name)]


def test_what_was_cut_off_goes_on(tmp_path: Path) -> None:
    """From its checkpoint where it has one; until its new attempt is seen it is waited for, not given up."""
    first, second, _ = JOBS
    stopped = view_of(first.name, "a", state="ended", outcome="stopped", last_checkpoint="000000256", attempt=1)
    lab = ScriptedLab(tmp_path, stopped, view_of(second.name, "b", state="ended", outcome="lost", attempt=1))
    campaign = Campaign(lab, tmp_path, JOBS[:2], 2)
    campaign.step()
    assert lab.verbs == [("resume", "a"), ("launch", second.name)]
    lab.stand["b"] = replace(lab.stand["b"], created_t=-1.0)
    campaign.step()
    assert (campaign.failures, len(lab.verbs)) == ({}, 2)
    lab.stand["a"] = replace(stopped, outcome="failed", attempt=2, cause="no memory")
    campaign.step()
    assert campaign.failures == {first.name: "failed: no memory"}
    assert campaign.left == [second]


def test_a_resume_that_is_refused_begins_anew(tmp_path: Path) -> None:
    """What cannot go on here is trained again; what cannot be launched is given up."""
    stopped = view_of(JOBS[0].name, "a", state="ended", outcome="stopped", last_checkpoint="000000256")
    lab = ScriptedLab(tmp_path, stopped)
    lab.refused = {"resume"}
    Campaign(lab, tmp_path, JOBS[:1], 2).step()
    assert lab.verbs == [("resume", "a"), ("launch", JOBS[0].name)]
    lab.refused = {"launch"}
    campaign = Campaign(lab, tmp_path, JOBS[1:2], 2)
    campaign.step()
    assert list(campaign.failures) == [JOBS[1].name]
    assert campaign.left == []


def test_a_finding_is_told_as_it_stood_last(tmp_path: Path) -> None:
    """The newest record of an id counts; a run whose directory is gone has none."""
    done = Done(name="", run="20261122-041207-cartpole-3f9a", attempts=1, trained_s=1.0, evaluation={})
    assert findings_of(tmp_path, done) == []
    folder = tmp_path / "runs" / done.run
    folder.mkdir(parents=True)
    spike, fall = (Finding(f"{rule}-1-9", rule, "info", 9, 9, "it moved", "", "") for rule in ("kl-spike", "drawdown"))
    worse = replace(spike, severity="warning")
    with closing(AppendLog(folder / "events.jsonl")) as log:
        for finding in (spike, fall, worse):
            log.append(partial(FindingChanged, t=1.0, finding=finding))
    assert findings_of(tmp_path, done) == [worse, fall]


def test_two_campaigns_do_not_share_a_folder(tmp_path: Path) -> None:
    """The first to leave would stop the other's runs, so the second is told to wait, and starts nothing."""
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another campaign is at work"):
            carry_out(JOBS, tmp_path, 1)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_campaign_cut_off_at_once_is_done_by_the_next(tmp_path: Path) -> None:
    """Real runs: nothing lives after one whose time was over; the next one finishes, and a third does nothing."""
    small = ("run.total_timesteps=512", "ppo.n_epochs=2", "run.threads=1")
    job = Job("cartpole", 1, small, episodes=3)
    assert carry_out([job], tmp_path, 1, seconds=0.0) == {}
    assert read_done(tmp_path, job) is None
    assert not socket_dir(tmp_path / "runs").exists()
    assert carry_out([job], tmp_path, 1) == {}
    done = read_done(tmp_path, job)
    assert done is not None
    assert done.evaluation["episodes"] == 3
    updates = updates_of(tmp_path, done)
    assert [row.timesteps for row in updates] == [256, 512]
    files = sorted(tmp_path.rglob("*"))
    assert carry_out([job], tmp_path, 1) == {}
    assert sorted(tmp_path.rglob("*")) == files
