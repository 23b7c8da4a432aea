"""A person's own venv, without mission-tui in it: trains through the built-in trainer, or says why it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.foreign_venv import OURS, make_venv, pretend_version
from tests.shell import Shell

pytestmark = pytest.mark.timeout(120)

OWN = ("--set", "run.python=venv/bin/python", "--set", "run.env.PYTHONPATH=''")
"""The venv, and nothing of this test's own search path."""


def refused(shell: Shell, verb: str, *words: str) -> str:
    """The one line with which nothing is started; exit code 78."""
    done = shell(verb, "tiny", *OWN, *words, timeout_s=90)
    assert done.returncode == 78, done.stderr + done.stdout
    assert not shell.root.exists() or not list(shell.root.glob("2*"))
    return done.stderr + done.stdout


@pytest.mark.slow
def test_a_venv_without_mission_tui_trains(shell: Shell) -> None:
    """In its own Python, with its own packages first; workers, evaluation and export find what was lent, too."""
    make_venv(shell.cwd / "venv")
    (shell.cwd / "mine.py").write_text(
        "import sys, gymnasium, msgspec\n"
        "print('prefix', sys.prefix, 'lent', msgspec.__file__, 'own', gymnasium.__file__)\n"
        "gymnasium.register('Mine-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=500)\n"
    )
    steps = ("--set", "run.total_timesteps=512", "--set", "env.id=mine:Mine-v0", "--set", "env.vec=workers")
    words = (*OWN, *steps, "--set", "env.n_workers=2")
    (run,) = shell.json("launch", "tiny", *words, "--wait", timeout_s=100)["runs"]
    assert run["outcome"] == "finished", shell.typed("logs", run["id"]).stdout
    log = shell.typed("logs", run["id"]).stdout
    assert f"prefix {shell.cwd / 'venv'} lent {shell.cwd}" in log.replace(f"{shell.cwd}/.local", str(shell.cwd))
    assert f"own {shell.cwd / 'venv'}" in log
    assert shell.json("evaluate", run["id"], "--episodes", "2", timeout_s=60)["episodes"] == 2
    assert shell("export", run["id"], "policy.zip", timeout_s=60).returncode == 0
    assert (shell.cwd / "policy.zip").is_file()


def test_what_a_venv_lacks_and_cannot_be_lent_is_said_before_anything_starts(shell: Shell) -> None:
    """By launch and by check alike, with the line that installs it."""
    make_venv(shell.cwd / "venv", without=(*OURS, "torch", "stable_baselines3"))
    for verb in ("launch", "check"):
        said = refused(shell, verb)
        assert f"run.python = '{shell.cwd}/venv/bin/python' cannot train: it has no torch;" in said
        assert "it has no stable-baselines3; pip install 'stable-baselines3>=" in said
        assert verb == "launch" or f"tiny  {shell.cwd}/.config/mission-tui/presets/tiny.toml\n" in said


def test_a_version_that_trainers_were_not_made_for_is_said(shell: Shell) -> None:
    """With the versions that would do; what trains in it anyway is a command."""
    make_venv(shell.cwd / "venv")
    pretend_version(shell.cwd / "venv", "stable_baselines3", "1.8.0")
    said = refused(shell, "launch")
    assert "stable-baselines3 1.8.0 is not among" in said
    assert "or launch your own script after --" in said


@pytest.mark.slow
def test_an_editable_package_in_its_own_venv_trains_and_a_broken_one_is_named(shell: Shell) -> None:
    """A custom environment of a package that its venv knows by a .pth file; then its native part fails."""
    make_venv(shell.cwd / "venv")
    (packages,) = (shell.cwd / "venv").glob("lib/python3*/site-packages")
    package = shell.cwd / "src" / "robots"
    package.mkdir(parents=True)
    (packages / "__editable__.robots.pth").write_text(f"{package.parent}\n")
    (package / "__init__.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Arm-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=500)\n"
    )
    words = ("tiny", *OWN, "--set", "env.id=robots:Arm-v0", "--set", "run.total_timesteps=256")
    checked = shell.json("check", *words, timeout_s=100)
    assert checked["ok"], checked
    (run,) = shell.json("launch", *words, "--wait", timeout_s=100)["runs"]
    assert run["outcome"] == "finished"
    with (package / "__init__.py").open("a") as file:
        file.write("import ctypes\nctypes.string_at(0)\n")
    for verb in ("check", "launch"):
        done = shell(verb, *words, timeout_s=90)
        assert done.returncode != 0
        said = done.stdout + done.stderr
        assert "env.id: importing 'robots'" in said
        assert f"{package / '__init__.py'}:4" in said
    assert len(shell.json("status")["runs"]) == 1


@pytest.mark.slow
def test_check_of_the_clients_own_python_prints_every_step_and_leaves_nothing(shell: Shell, tmp_path: Path) -> None:
    """Steps, memory, speed and hours; no run, no folder, no process; the document is that of the reference."""
    from tests.cli.test_json_documents import check as same_as_reference

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    shell.environ["TMPDIR"] = str(scratch)
    document = shell.json("check", "tiny", timeout_s=100)
    same_as_reference("check", document)
    assert document["ok"]
    (one,) = document["checks"]
    assert [step["name"] for step in one["steps"]][:3] == ["machine", "place", "versions"]
    assert {step["level"] for step in one["steps"]} <= {"ok", "note"}, json.dumps(one)
    assert one["figures"]["hours"] > 0
    assert shell.json("status")["runs"] == []
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_check_of_a_command_looks_without_running_it(shell: Shell) -> None:
    """Program, folder and env_file; exit code 78 for what is not there."""
    assert shell.typed("check", "--", "touch", "ran").returncode == 0
    assert not (shell.cwd / "ran").exists()
    done = shell.typed("check", "--", "no-such-program")
    assert done.returncode == 78
    assert "run.command: there is no program 'no-such-program' on the PATH" in done.stdout
    done = shell.typed("check", "--set", "run.env_file=secrets.env", "--", "true")
    assert done.returncode == 78
    assert "run.env_file: cannot read" in done.stdout
