"""A run passed on while it goes on, as a person sees it: what is killed beside it costs it nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.missing import search_path_without
from tests.shell import Shell
from tests.waiting import until

KEY = "0123456789abcdef0123456789abcdef01234567"
SCRIPT = """
import pathlib, time
from mission_tui import report

for number in range(1, 41):
    report.update(timesteps=100 * number, total_timesteps=4000, loss=1.0 / number)
    while number == 20 and not pathlib.Path("go").exists():
        time.sleep(0.05)
"""


@pytest.mark.slow
@pytest.mark.timeout(180)
# What protobuf's own extension does is nobody's fault here.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_killed_tracker_costs_a_command_nothing_and_the_rest_follows(shell: Shell) -> None:
    """It is one failed duty; the command goes on, `track` passes on what is left, and no file has the key."""
    pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")
    from tensorboard.backend.event_processing import event_accumulator

    (shell.cwd / "train.py").write_text(SCRIPT, encoding="utf-8")
    shell.environ["WANDB_API_KEY"] = KEY
    command = ("--name", "mine", "--set", "run.track=tensorboard", "--", sys.executable, "train.py")
    (run,) = (it["id"] for it in json.loads(shell.typed("launch", "--json", *command).stdout)["runs"])
    folder = shell.root / run
    state = folder / "track-tensorboard.json"
    until(lambda: state.exists() and json.loads(state.read_bytes()).get("seq", 0) >= 5, 60, "some of it is passed on")
    os.kill(tracker_of(folder), signal.SIGKILL)
    until(lambda: [it["duty"] for it in shell.view(run)["failed_duties"]] == ["tracking"], 30, "that is said")
    (shell.cwd / "go").touch()
    until(lambda: shell.view(run)["outcome"] == "finished", 60, "the command has ended")
    assert shell("track", "mine", timeout_s=60).returncode == 0
    read: Any = event_accumulator.EventAccumulator(str(folder))
    read.Reload()
    reported = [row["timesteps"] for row in shell.rows(run) if row["kind"] == "update"]
    assert [point.step for point in read.Scalars("train/loss")] == reported
    assert reported[-1] == 4000
    assert not [path for path in shell.root.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_an_evaluation_after_the_end_is_passed_on_without_being_asked(shell: Shell) -> None:
    """What passed the run on had ended with it; the supervisor starts it again."""
    pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")
    settings = ("--set", "run.track=tensorboard", "--set", "run.total_timesteps=2048")
    assert shell("launch", "tiny", *settings, "--wait", timeout_s=90).returncode == 0
    (folder,) = shell.root.glob("2*")
    state = folder / "track-tensorboard.json"
    until(lambda: state.exists() and json.loads(state.read_bytes()).get("complete"), 60, "all of it is passed on")
    assert not json.loads(state.read_bytes()).get("played")
    assert shell("evaluate", "@last", "--episodes", "2", timeout_s=60).returncode == 0
    (played,) = (path.name for path in (folder / "evaluations").glob("*.json"))
    until(lambda: json.loads(state.read_bytes()).get("played") == [played], 60, "the evaluation is passed on")


def tracker_of(folder: Path) -> int:
    """The process that passes on the run in `folder`."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().split(b"\0")
        if b"mission_tui.trainer.tracking" in words and os.fsencode(folder) in words:
            return int(path.parent.name)
    raise AssertionError("nobody passes it on")


@pytest.mark.slow
def test_a_tracker_that_is_not_installed_is_refused_before_anything_starts(shell: Shell, tmp_path: Path) -> None:
    """One sentence names the package and how it is installed; no run is made."""
    shell.environ["PYTHONPATH"] = search_path_without(("wandb",), tmp_path / "without")
    refused = shell.typed("launch", "cartpole", "--set", "run.track=wandb")
    assert refused.returncode == 78
    assert "run.track = 'wandb': wandb is not installed; in the folder of mission-tui: pip install" in refused.stderr
    assert not list(shell.root.glob("2*"))


def test_the_working_folder_says_nothing_about_where_a_key_is_sent(shell: Shell, tmp_path: Path) -> None:
    """`wandb/settings` of somebody's folder names an address: wandb is not asked from there."""
    assert shell.typed("launch", "--name", "mine", "--wait", "--", "true").returncode == 0
    (tmp_path / "lib").mkdir()
    script = f"import os, pathlib\npathlib.Path({str(tmp_path / 'asked-from')!r}).write_text(os.getcwd())\n"
    (tmp_path / "lib" / "wandb.py").write_text(script, encoding="utf-8")
    shell.environ["PYTHONPATH"] = str(tmp_path / "lib")
    assert shell("track", "mine", "--to", "wandb").returncode == 1
    assert (tmp_path / "asked-from").read_text(encoding="utf-8") == "/"


def test_checkpoints_need_a_tracker_that_takes_files(shell: Shell) -> None:
    """The refusal names those that do."""
    refused = shell.typed("launch", "cartpole", "--set", "run.track_checkpoints=true")
    assert refused.returncode in (2, 78)
    assert "run.track = 'wandb', 'mlflow' or 'trackio'" in refused.stderr
