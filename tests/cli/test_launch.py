"""`launch`: what it prints, what it waits for, and what Ctrl-C does not do."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.shell import Shell
from tests.waiting import until

pytestmark = pytest.mark.timeout(60)


@pytest.mark.slow
def test_a_set_becomes_one_group_of_runs(quick: Shell) -> None:
    """`launch pair` makes both of the set's presets, in one group, and prints a line for each."""
    done = quick.typed("launch", "pair", "--name", "both")
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["both-1", "both-2"]
    views = quick.json("status")["runs"]
    assert {view["preset"] for view in views} == {"tiny", "small"}
    assert len({view["group"] for view in views}) == 1
    assert views[0]["group"] is not None
    assert quick.json("status", views[0]["group"])["runs"][0]["group"] == views[0]["group"]
    assert len(quick.json("status", views[0]["group"])["runs"]) == 2


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_waiting_shows_settings_and_progress_and_ends_with_the_run(shell: Shell) -> None:
    """With `--wait --json`, settings and progress go to stderr, the ended run to stdout, and finished is 0."""
    done = shell("launch", "tiny", "--set", "run.total_timesteps=1024", "--wait", "--json", timeout_s=60)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["state"], run["outcome"], run["timesteps"]) == ("ended", "finished", 1024)
    settings = {line.split()[0]: line.split()[1] for line in done.stderr.splitlines() if line.startswith("ppo.")}
    assert (settings["ppo.n_steps"], settings["ppo.batch_size"], settings["ppo.n_epochs"]) == ("64", "64", "2")
    assert "100%  1,024/1,024 steps" in done.stderr


def test_waiting_for_a_run_that_fails_exits_1(quick: Shell) -> None:
    """A training that crashes is a failure of the waiting command, with its cause in the table."""
    process = quick.start("launch", "tiny", "--wait")
    until(lambda: quick.root.exists() and list(quick.root.glob("*-tiny-*")), 20)
    (folder,) = quick.root.glob("*-tiny-*")
    quick.advancing(folder.name)
    trainer = quick.view(folder.name)["pids"]["trainer"]
    os.kill(trainer, signal.SIGSEGV)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1, err
    assert "failed" in out
    assert "SIGSEGV" in out


def test_ctrl_c_ends_the_waiting_and_not_the_run(quick: Shell) -> None:
    """SIGINT detaches: exit 130, one line that says the run goes on, and the run does."""
    process = quick.start("launch", "tiny", "--wait", start_new_session=True)
    until(lambda: quick.root.exists() and list(quick.root.glob("*-tiny-*")), 20)
    (folder,) = quick.root.glob("*-tiny-*")
    quick.advancing(folder.name)
    before = quick.view(folder.name)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "the run goes on" in err.splitlines()[-1]
    until(lambda: quick.view(folder.name)["update"] > before["update"], 10, "the run trains on")
    assert quick.view(folder.name)["pids"]["trainer"] == before["pids"]["trainer"]


def test_a_sweep_is_said_before_it_starts(quick: Shell) -> None:
    """`--dry-run` starts nothing, not even a supervisor; as a document it names every run and what differs."""
    sweep = ("launch", "tiny", "--set", "ppo.learning_rate=1e-4,3e-4", "--seeds", "2")
    done = quick.typed(*sweep, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "4 runs, group tiny-" in done.stderr
    assert "ppo.learning_rate" in done.stderr
    assert "4 at once" in done.stderr
    assert "no similar run has run here" in done.stderr
    assert not quick.root.exists()
    planned = quick.json(*sweep, "--dry-run")
    assert [run["settings"]["ppo.learning_rate"] for run in planned["runs"]] == [1e-4, 3e-4, 1e-4, 3e-4]
    assert [run["seed"] for run in planned["runs"]] == [1, 1, 2, 2]
    assert [run["name"][:9] for run in planned["runs"]] == ["lr1e-4-s1", "lr3e-4-s1", "lr1e-4-s2", "lr3e-4-s2"]
    assert planned["asked"] == "files"
    assert all(run["cost"]["ram_bytes"] > 0 and run["cost"]["begins"] is None for run in planned["runs"])


def test_a_dry_run_is_refused_where_the_launch_would_be(quick: Shell) -> None:
    """A file in place of the runs root has no price that means anything."""
    quick.root.write_text("", encoding="utf-8")
    done = quick.typed("launch", "tiny", "--dry-run")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


_SBATCH = """#!/bin/sh
for word in "$@"; do
  case "$word" in
    --partition=nowhere) echo 'sbatch: error: Invalid partition name specified' >&2; exit 1;;
    --job-name=*) name="${word#*=}";;
    --chdir=*) folder="${word#*=}";;
  esac
done
job='{"job_id": 7, "job_state": "PENDING", "name": "%s", "current_working_directory": "%s"}'
printf "$job" "$name" "$folder" > JOB
echo 7
"""


@pytest.mark.slow
def test_what_slurm_refuses_is_said_at_once_and_exits_1(quick: Shell) -> None:
    """Without --wait too, with its own words in one line, and in a resume; the run that it takes beside it is there."""
    programs, job = quick.cwd / "slurm", quick.cwd / "job.json"
    programs.mkdir()
    scripts = {
        "sbatch": _SBATCH.replace("JOB", str(job)),
        "scancel": f"#!/bin/sh\nsed -i s/PENDING/CANCELLED/ {job}\n",
        "scontrol": "#!/bin/sh\n",
        "squeue": f'#!/bin/sh\necho "{{\\"jobs\\": [$(cat {job} 2>/dev/null)]}}"\n',
    }
    for name, script in scripts.items():
        (programs / name).write_text(script)
        (programs / name).chmod(0o700)
    quick.environ["PATH"] = f"{programs}:{quick.environ['PATH']}"
    words = ("launch", "tiny", "--launcher", "slurm", "--name", "b", "--set", "slurm.partition=nowhere,there")
    done = quick.typed(*words)
    assert done.returncode == 1
    assert "b-1 failed: Slurm did not start it: Invalid partition name specified" in done.stderr
    assert [line.split()[1:] for line in done.stdout.splitlines()] == [["b-1", "failed"], ["b-2", "starting"]]
    again = quick.typed("resume", "b-1")
    assert (again.returncode, again.stdout.count("\n")) == (1, 1)
    assert "b-1 failed: Slurm did not start it: " in again.stderr
