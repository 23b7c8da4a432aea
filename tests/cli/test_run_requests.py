"""`stop`, `kill`, `pause`, `resume`, `checkpoint` and `wait` on live runs."""

from __future__ import annotations

import os
import signal

import pytest
from msgspec import structs

from mission_tui.cli.follow_runs import of_each_saved
from mission_tui.errors import EX_FAILED, MissionError
from mission_tui.fleet.views.snapshot import RunView
from tests.fleet.test_compare import side
from tests.shell import Shell
from tests.waiting import until

pytestmark = pytest.mark.timeout(60)


@pytest.mark.slow
def test_pause_holds_a_run_and_resume_lets_it_go_on(quick: Shell) -> None:
    """A paused run stays at its update until it is resumed, in the same process."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    assert quick.typed("pause", run).stdout == f"{run}\n"
    until(lambda: quick.view(run)["state"] == "paused", 20)
    held = quick.view(run)
    assert quick.typed("resume", run).stdout == f"{run}\n"
    until(lambda: quick.view(run)["update"] > held["update"], 20, "the run goes on")
    assert quick.view(run)["pids"]["trainer"] == held["pids"]["trainer"]


def test_checkpoint_saves_while_the_run_goes_on(quick: Shell) -> None:
    """A checkpoint on request appears on disk, and the run trains on."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    assert quick.typed("checkpoint", "@last").returncode == 0
    until((quick.root / run / "checkpoints" / "latest").exists, 20)
    assert quick.view(run)["state"] == "running"


@pytest.mark.slow
def test_stop_and_kill_all_end_every_live_run_with_its_outcome(quick: Shell) -> None:
    """`stop --all` saves and ends, `kill --all` ends; waiting for either exits 75, because both can be resumed."""
    runs = quick.launch("tiny", "-n", "2")
    for run in runs:
        quick.advancing(run)
    assert quick.typed("stop", "--all").stdout.split() == runs
    assert quick.typed("wait", *runs).returncode == 75
    assert {quick.view(run)["outcome"] for run in runs} == {"stopped"}
    (third,) = quick.launch("tiny")
    quick.advancing(third)
    assert quick.typed("kill", "--all").stdout.split() == [third]
    assert quick.typed("wait", third).returncode == 75
    assert quick.view(third)["outcome"] == "killed"
    assert quick.typed("wait", "--all").returncode == 0


def test_a_run_that_is_not_there_is_a_usage_error(quick: Shell) -> None:
    """Every verb that takes a run answers an unknown one with one line and exit code 2."""
    for words in (("stop", "x"), ("status", "x"), ("wait", "x"), ("logs", "x"), ("metrics", "x"), ("resume", "x")):
        done = quick.typed(*words)
        assert done.returncode == 2, words
        (line,) = done.stderr.splitlines()
        assert "'x'" in line


@pytest.mark.slow
def test_a_wait_outlives_the_supervisor(quick: Shell) -> None:
    """SIGKILL of the supervisor does not end a wait: it goes on with the next one and sees the run end."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    waiting = quick.start("wait", run)
    os.kill(quick.json("supervisor", "status")["pid"], signal.SIGKILL)
    quick.advancing(run)
    assert waiting.poll() is None
    quick.typed("stop", run)
    out, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 75, err
    assert "stopped" in out


@pytest.mark.slow
def test_a_resume_with_a_warning_says_it_and_starts_nothing(quick: Shell) -> None:
    """A graver change is explained on stderr, exits 2, and `--accept` resumes with it."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    quick.typed("stop", run)
    quick.typed("wait", run)
    done = quick.typed("resume", run, "--set", "env.n_envs=32")
    assert done.returncode == 2
    assert "env.n_envs" in done.stderr
    assert "--accept" in done.stderr.splitlines()[-1]
    assert "--remedy hold-steps" in done.stderr
    assert quick.view(run)["attempt"] == 1
    assert "run.total_timesteps: 5000000 -> 10" in quick.typed("resume", run, "--timesteps", "10").stderr
    assert quick.typed("resume", run, "--set", "env.n_envs=32", "--accept").returncode == 0
    until(lambda: quick.view(run)["attempt"] == 2, 10)


@pytest.mark.slow
def test_remedies_and_branches_are_named_on_the_command_line(quick: Shell) -> None:
    """A remedy that answers the warning resumes at once; `--branch` prints the id of another run, with its origin."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    quick.typed("stop", run)
    quick.typed("wait", run)
    assert quick.typed("resume", run, "--name", "x").returncode == 2
    branched = quick.typed("resume", run, "--branch", "--name", "again", "--set", "ppo.net_arch=[64,4]")
    assert branched.returncode == 0, branched.stderr
    new = branched.stdout.strip()
    assert new != run
    assert [(it["kind"], it["run"]) for it in quick.view(new)["from"]] == [("branch", run)]
    quick.typed("stop", new)
    resumed = quick.typed("resume", run, "--set", "ppo.n_epochs=50", "--remedy", "warm-up")
    assert (resumed.returncode, resumed.stdout) == (0, f"{run}\n"), resumed.stderr
    assert "answered by warm-up" in resumed.stderr


@pytest.mark.slow
def test_a_group_takes_turns_and_is_set_as_one(quick: Shell) -> None:
    """`-j 1` holds back all but one; what they wait for is set for those that wait, other settings for all or none."""
    runs = quick.launch("tiny", "--seeds", "3", "-j", "1", "--group", "turns")
    quick.advancing(runs[0])
    assert [quick.view(run)["state"] == "queued" for run in runs] == [False, True, True]
    refused = quick.typed("set", "turns", "ppo.n_steps=32")
    assert (refused.returncode, "'ppo.n_steps' cannot be changed while a run trains" in refused.stderr) == (2, True)
    assert quick.typed("set", "turns", "ppo.ent_coef=0.02").stdout.split() == runs
    assert quick.typed("set", "turns", "keep.limits.group_runs=2").stdout.split() == runs[1:]
    until(lambda: quick.view(runs[1])["state"] == "running", 20, "two train at once")
    assert quick.view(runs[2])["state"] == "queued"
    assert quick.typed("kill", "turns").stdout.split() == runs


def _saved(name: str, checkpoint: str | None) -> RunView:
    return structs.replace(side(name, [1.0]).view, last_checkpoint=checkpoint)


def test_each_run_of_a_group_has_its_own_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """One without a checkpoint is passed over, one that fails is named, and the others are done; where none is, that is
    said. The code is 0 only where nothing failed and something was done; a run alone fails as ever.
    """
    done: list[str] = []

    def act(it: RunView) -> None:
        if it.name == "sick":
            raise MissionError("its checkpoint is damaged")
        done.append(it.name)

    group = [_saved("one", "000000128"), _saved("new", None), _saved("sick", "000000128"), _saved("two", "000000128")]
    assert of_each_saved(group, act, "evaluated") == EX_FAILED
    assert done == ["one", "two"]
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("mission-tui: ")[2] or line for line in said] == [
        "new was passed over: it has no checkpoint",
        "sick could not be evaluated: its checkpoint is damaged",
    ]
    assert of_each_saved(group[:2], act, "evaluated") == 0
    assert of_each_saved([group[1]] * 2, act, "exported") == EX_FAILED
    assert "nothing was exported: none of these 2 runs has a checkpoint" in capsys.readouterr().err
    with pytest.raises(MissionError, match="damaged"):
        of_each_saved(group[2:3], act, "evaluated")


@pytest.mark.slow
def test_the_name_of_a_group_stands_for_its_runs_in_every_verb(quick: Shell) -> None:
    """What one run takes, all of a group take: notes, labels, stop, resume, export, clone, prune, rm and back."""
    runs = quick.launch("tiny", "--seeds", "2", "-j", "2", "--group", "both")
    for run in runs:
        quick.advancing(run)
    assert quick.typed("label", "both", runs[0], "+paper").stdout.split() == runs
    assert quick.typed("note", "both", "tried", "twice").stdout.split() == runs
    assert quick.typed("stop", "both").stdout.split() == runs
    quick.typed("wait", "both")
    assert quick.typed("resume", "both").stdout.split() == runs
    quick.typed("stop", "both")
    quick.typed("wait", "both")
    made = quick.typed("clone", "both", "--name", "again")
    clones = made.stdout.split()
    assert [quick.view(run)["name"] for run in clones] == ["again-1", "again-2"]
    assert len({quick.view(run)["group"] for run in clones} - {None, "both"}) == 1
    group = quick.view(clones[0])["group"]
    assert set(quick.typed("kill", group).stdout.split()) == set(clones)
    quick.typed("wait", group)
    assert {item["run"] for item in quick.json("prune", group, "--yes")["items"]} == set(clones)
    refused = quick.typed("export", "both", "both.zip")
    assert (refused.returncode, "both is 2 runs: name a folder" in refused.stderr) == (2, True)
    assert quick.typed("rm", "both").stdout.split() == runs
    assert set(quick.typed("rm", "--undo", "both").stdout.split()) == set(runs)
