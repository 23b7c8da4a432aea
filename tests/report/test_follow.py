"""Following the logs of a script that reports nothing: each update once, whoever follows, and nothing that is older."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mission_tui.fleet.events.metrics import TrainingStarted, UpdateDone
from mission_tui.procfs import boot_id, read_stat
from mission_tui.records.runs.attempt import Identity, ProcessIdentity
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.follow import Follower
from mission_tui.trainer.followed_logs import made_at
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
    RunDir(desk.folder).attempt(desk.attempt).path.mkdir(parents=True, exist_ok=True)
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


def identified(desk: Desk, process: subprocess.Popen[str]) -> None:
    """Have the attempt's identity say that `process` is its trainer."""
    stat = read_stat(process.pid)
    assert stat is not None
    who = ProcessIdentity(process.pid, stat.start_time)
    identity = Identity(
        boot_id=boot_id(),
        uid=os.getuid(),
        session=stat.session,
        nonce="secret",
        attempt=1,
        keeper=who,
        trainer=who,
        started_t=time.time(),
    )
    path = RunDir(desk.folder).attempt(1).identity
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(identity))


WRITER = """
import sys
log = open(sys.argv[1], "w")
for line in sys.stdin:
    log.write(line)
    log.flush()
    print("written", flush=True)
"""


@pytest.fixture
def scripts(logs: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two scripts in sessions of their own that hold `logs/N/progress.csv` open and write there what they are sent."""
    started = []
    for number in (0, 1):
        (logs / str(number)).mkdir()
        words = [sys.executable, "-c", WRITER, str(logs / str(number) / "progress.csv")]
        started.append(
            subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=logs
            )
        )
    yield started
    for each in started:
        each.communicate(timeout=20)


def send(script: subprocess.Popen[str], lines: str) -> None:
    """Have the script write `lines`, and wait until it has."""
    assert script.stdin is not None
    assert script.stdout is not None
    script.stdin.write(lines)
    script.stdin.flush()
    for _ in lines.splitlines():
        assert script.stdout.readline() == "written\n"


def test_two_scripts_under_one_pattern_are_not_mixed(
    desk: Desk, logs: Path, followers: list[Follower], scripts: list[subprocess.Popen[str]]
) -> None:
    """Only what the run's own processes write is read, whichever of the two wrote last, and the run says which."""
    identified(desk, scripts[0])
    ours = follower(desk, logs, followers, since=time.time() - 60)
    for script in scripts:
        send(script, HEADER)
    for number in range(1, 5):
        for script, each in zip(scripts, (64, 500), strict=True):
            send(script, f"{number},{each * number},10.0,,\n")
            ours.poll()
    scripts[0].communicate(timeout=20)
    send(scripts[1], "5,2500,10.0,,\n")
    ours.poll()
    assert steps(desk) == [64, 128, 192, 256]
    effective = RunDir(desk.folder).attempt(1).effective.read_text()
    assert f'follow = [\n    "{logs}/0/progress.csv",\n]' in effective


def test_a_log_that_others_write_is_not_the_runs_after_they_closed_it(
    desk: Desk, logs: Path, followers: list[Follower], scripts: list[subprocess.Popen[str]]
) -> None:
    """It was seen whose it is; one that nobody holds is the run's where it was made since the launch."""
    identified(desk, scripts[0])
    ours = follower(desk, logs, followers, since=time.time() - 60)
    send(scripts[1], HEADER + "1,500,10.0,,\n")
    ours.poll()
    scripts[1].communicate(timeout=20)
    ours.poll()
    assert steps(desk) == []
    (logs / "2").mkdir()
    (logs / "2" / "progress.csv").write_text(HEADER + "1,64,10.0,,\n")
    ours.poll()
    assert steps(desk) == [64]


def test_an_event_file_is_of_the_process_that_its_name_says(
    desk: Desk, logs: Path, followers: list[Follower], scripts: list[subprocess.Popen[str]]
) -> None:
    """TensorBoard holds no event file open: of two scripts that log into one folder only the run's own file is read."""
    tensorboard = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    proto = pytest.importorskip("tensorboard.compat.proto.summary_pb2")
    event = pytest.importorskip("tensorboard.compat.proto.event_pb2")
    identified(desk, scripts[0])
    for script, first in zip(scripts, (64, 500), strict=True):
        writer = tensorboard.EventFileWriter(str(logs / "PPO_1"))
        for number in (1, 2):
            value = proto.Summary.Value(tag="rollout/ep_rew_mean", simple_value=10.0)
            writer.add_event(event.Event(step=first * number, summary=proto.Summary(value=[value])))
        writer.close()
        (made,) = (logs / "PPO_1").glob(f"*.{os.getpid()}.*")
        made.rename(made.with_name(made.name.replace(f".{os.getpid()}.", f".{script.pid}.")))
    ours = follower(desk, logs / "PPO_1", followers, since=time.time() - 60)
    ours.poll()
    for script in scripts:
        script.communicate(timeout=20)
    ours.poll()
    assert steps(desk) == [64, 128]


def test_a_log_of_before_the_launch_that_somebody_goes_on_writing_is_not_its_own(
    desk: Desk, logs: Path, followers: list[Follower]
) -> None:
    """What nobody holds open has to have been made since the launch, not only written."""
    path = logs / "progress.csv"
    path.write_text(HEADER + "1,64,10.0,,\n")
    if made_at(path) is None:
        pytest.skip("this file system does not keep when files were made")
    since = time.time() + 0.05
    until(lambda: time.time() > since)
    with path.open("a") as file:
        file.write("2,128,10.0,,\n")
    follower(desk, logs, followers, since=since).poll()
    assert not (desk.folder / "metrics.jsonl").exists()


def test_of_several_trainings_of_one_script_one_is_read_at_a_time(
    desk: Desk, logs: Path, followers: list[Follower]
) -> None:
    """The second is read once it began behind the first one's last line, and the first is not gone back to."""
    first, second = logs / "a-progress.csv", logs / "b-progress.csv"
    first.write_text(HEADER + "1,64,10.0,,\n")
    ours = follower(desk, logs, followers)
    ours.poll()
    until(lambda: time.time() > first.stat().st_mtime + 0.05)
    second.write_text(HEADER + "1,32,10.0,,\n")
    ours.poll()
    with first.open("a") as file:
        file.write("2,128,10.0,,\n")
    ours.poll()
    with second.open("a") as file:
        file.write("2,64,10.0,,\n")
    ours.poll()
    assert steps(desk) == [64, 96, 128]


def test_trainings_that_came_between_two_looks_are_all_read(desk: Desk, logs: Path, followers: list[Follower]) -> None:
    """The first one's last rows, then those of each later one: reading a long log leaves seconds between two looks."""
    first, *later = (logs / f"{name}-progress.csv" for name in "abc")
    first.write_text("")
    ours = follower(desk, logs, followers)
    ours.poll()
    first.write_text(HEADER + "1,64,10.0,,\n")
    ours.poll()
    with first.open("a") as file:
        file.write("2,128,10.0,,\n")
    until(lambda: time.time() > first.stat().st_mtime + 0.05)
    later[0].write_text(HEADER + "1,32,10.0,,\n")
    until(lambda: time.time() > later[0].stat().st_mtime + 0.05)
    later[1].write_text(HEADER + "1,16,10.0,,\n")
    ours.poll()
    assert steps(desk) == [64, 128, 160, 176]


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


def test_a_row_of_an_event_file_is_taken_whole(desk: Desk, logs: Path, followers: list[Follower]) -> None:
    """Its tags are written one after the other, and a look may come in between; what the script meant to reach and its
    clip range stand in its own table of arguments.
    """
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    ours = follower(desk, logs, followers)
    with tensorboard.SummaryWriter(str(logs / "PPO_1")) as writer:
        writer.add_text("hyperparameters", "|param|value|\n|-|-|\n|total_timesteps|300|\n|clip_coef|0.1|")
        for steps_then in (64, 128, 192):
            writer.add_scalar("losses/value_loss", 0.5, steps_then)
            writer.flush()
            ours.poll()
            writer.add_scalar("losses/approx_kl", 0.01, steps_then)
        writer.add_scalar("losses/value_loss", 0.5, 256)
    ours.poll()
    expected = {"train/value_loss": 0.5, "train/approx_kl": 0.01, "train/clip_range": 0.1}
    assert [(row.timesteps, row.metrics, row.total_timesteps) for row in desk.of(UpdateDone)] == [
        (at, expected, 300) for at in (64, 128, 192)
    ]
    ours.poll(over=True)
    assert steps(desk) == [64, 128, 192, 256]


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
    words = ["-m", "mission_tui.trainer.follow", str(desk.folder), "1", f"{logs}/*"]
    first = os.open(files.path, os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX)
    desk.run("", *words, code=75)
    files.exit.write_text("{}")
    second = desk.start("", *words)
    until(lambda: any(it.resolve() == files.path for it in Path(f"/proc/{second.pid}/fd").iterdir()))
    os.close(first)
    assert second.communicate(timeout=20)[0] == f"mission-tui: following: reading {logs}/progress.csv\n"
    assert steps(desk) == [64]


def test_following_imports_nothing_heavy(desk: Desk) -> None:
    """A follower lives beside every such run: no torch, no SB3, no numpy."""
    said = desk.run(
        "import sys, mission_tui.trainer.follow; print({'torch', 'numpy', 'tensorboard'} & set(sys.modules))"
    )
    assert said == "set()\n"
