"""Following the logs of a script that reports nothing: each update once, whoever follows, and nothing that is older."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mission_tui.fleet.events.metrics import TrainingStarted, UpdateDone
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.following.follow import Follower
from tests.report.conftest import Desk
from tests.waiting import until

HEADER = "time/iterations,time/total_timesteps,rollout/ep_rew_mean,train/approx_kl,eval/mean_reward\n"


@pytest.fixture
def followers() -> Iterator[list[Follower]]:
    """Those that a test started; their files are closed after it."""
    started: list[Follower] = []
    yield started
    for each in started:
        each.close()


def follower(desk: Desk, logs: Path, followers: list[Follower], since: float = 0.0) -> Follower:
    """A follower of everything in `logs`."""
    followers.append(Follower(RunDir(desk.folder), desk.attempt, f"{logs}/*", since))
    return followers[-1]


def steps(desk: Desk) -> list[int]:
    """Where the rows of the run stand."""
    return [row.timesteps for row in desk.of(UpdateDone)]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Where the script writes."""
    path = tmp_path / "logs"
    path.mkdir()
    return path


def test_rows_of_a_growing_csv_come_once(desk: Desk, logs: Path, followers: list[Follower]) -> None:
    """Whole lines become updates as they come; half a line waits, and an evaluation waits for its update."""
    path = logs / "progress.csv"
    path.write_text(HEADER + "1,64,10.0,,\n2,128,11.0,0.01,\n3,19")
    ours = follower(desk, logs, followers)
    ours.poll()
    ours.poll()
    assert steps(desk) == [64, 128]
    with path.open("a") as file:
        file.write("2,12.0,0.02,\n,200,,0.03,99.0\n")
    ours.poll()
    assert steps(desk) == [64, 128, 192]
    with path.open("a") as file:
        file.write("4,256,13.0,,\n")
    ours.poll()
    last = desk.of(UpdateDone)[-1]
    assert last.timesteps == 256
    assert last.metrics == {"rollout/ep_rew_mean": 13.0, "train/approx_kl": 0.03, "eval/mean_reward": 99.0}


def test_another_follower_goes_on(desk: Desk, logs: Path, followers: list[Follower]) -> None:
    """One that takes over, in the same attempt, writes only what is new."""
    (logs / "progress.csv").write_text(HEADER + "1,64,10.0,,\n2,128,11.0,0.01,\n")
    first = follower(desk, logs, followers)
    first.poll()
    first.close()
    with (logs / "progress.csv").open("a") as file:
        file.write("3,192,12.0,0.02,\n")
    follower(desk, logs, followers).poll()
    assert steps(desk) == [64, 128, 192]
    assert len(desk.of(TrainingStarted)) == 1


def test_older_logs_are_not_its_own(desk: Desk, logs: Path, followers: list[Follower]) -> None:
    """What was written before the attempt was launched belongs to somebody else."""
    (logs / "progress.csv").write_text(HEADER + "1,64,10.0,,\n")
    os.utime(logs / "progress.csv", (1000.0, 1000.0))
    follower(desk, logs, followers, since=time.time() - 60).poll()
    assert not (desk.folder / "metrics.jsonl").exists()


def test_monitors_alone_give_returns_and_steps(desk: Desk, logs: Path, followers: list[Follower]) -> None:
    """Episodes of all monitors, in the order of their ends, with the steps that they took together."""
    for number, lines in ((0, "10.0,5,1.0\n30.0,7,3.0\n"), (1, "20.0,6,2.0\n99,9")):
        (logs / f"{number}.monitor.csv").write_text(f'#{{"t_start": 100.0, "env_id": "x"}}\nr,l,t\n{lines}')
    ours = follower(desk, logs, followers)
    ours.poll()
    ours.poll()
    (row,) = desk.of(UpdateDone)
    assert (row.timesteps, row.episodes.n, row.episodes.r, row.episodes.l) == (18, 3, (10.0, 20.0, 30.0), (5, 6, 7))
    assert row.metrics == {"rollout/ep_rew_mean": 20.0, "rollout/ep_len_mean": 6.0}
    with (logs / "1.monitor.csv").open("a") as file:
        file.write(",4.0\n")
    ours.poll()
    assert [it.episodes.r for it in desk.of(UpdateDone)] == [(10.0, 20.0, 30.0), (99.0,)]


@pytest.mark.timeout(120)
def test_event_files_in_folders_are_found(desk: Desk, logs: Path, followers: list[Follower]) -> None:
    """`logs/*` finds SB3's `logs/PPO_1/events.out.tfevents...`; each step is one update, in the time it was written."""
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(str(logs / "PPO_1")) as writer:
        for number in (1, 2, 3):
            writer.add_scalar("rollout/ep_rew_mean", 10.0 * number, 64 * number)
            writer.add_scalar("train/approx_kl", 0.01, 64 * number)
    follower(desk, logs, followers).poll()
    assert steps(desk) == [64, 128, 192]
    assert abs(desk.of(UpdateDone)[-1].t - time.time()) < 60


def test_what_cannot_be_read_is_said_once(
    desk: Desk, logs: Path, followers: list[Follower], capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that is none is named once, not every second, and ends nothing."""
    (logs / "progress.csv").write_text("a,b\n1,2\n")
    ours = follower(desk, logs, followers)
    ours.poll()
    ours.poll()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"mission-tui: following: {logs}/progress.csv: its first line names no column")


def test_what_the_script_reports_counts(desk: Desk, logs: Path, followers: list[Follower]) -> None:
    """A script that reports by itself is not followed through its logs."""
    (logs / "progress.csv").write_text(HEADER + "1,64,10.0,,\n")
    desk.run("from mission_tui import report; report.update(timesteps=500, kl=0.5)")
    follower(desk, logs, followers).poll()
    assert steps(desk) == [500]


def test_one_follows_and_the_next_reads_the_rest(desk: Desk, logs: Path) -> None:
    """A second follower leaves while the attempt lives; once that is over it waits for the first and reads the rest."""
    files = RunDir(desk.folder).attempt(1)
    desk.order()
    (logs / "progress.csv").write_text(HEADER + "1,64,10.0,,\n")
    words = ["-m", "mission_tui.trainer.following.follow", str(desk.folder), "1", f"{logs}/*"]
    first = os.open(files.path, os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX)
    desk.run("", *words, code=75)
    files.exit.write_text("{}")
    second = desk.start("", *words)
    until(lambda: any(it.resolve() == files.path for it in Path(f"/proc/{second.pid}/fd").iterdir()))
    os.close(first)
    assert second.communicate(timeout=20)[0] == ""
    assert steps(desk) == [64]


def test_following_imports_nothing_heavy(desk: Desk) -> None:
    """A follower lives beside every such run: no torch, no SB3, no numpy."""
    said = desk.run(
        "import sys, mission_tui.trainer.following.follow; print({'torch', 'numpy', 'tensorboard'} & set(sys.modules))"
    )
    assert said == "set()\n"
