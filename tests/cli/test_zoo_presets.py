"""Presets of the RL zoo at the command line: listed apart, found by name, and trained for an update."""

from __future__ import annotations

import importlib.util

import pytest

from tests.shell import Shell


def test_they_are_listed_when_asked_for(shell: Shell) -> None:
    """`presets` says in one line how many there are; `--zoo` lists them with what each needs; the name of one without
    `show` says how it is shown.
    """
    plain, zoo = shell.typed("presets").stdout, shell.typed("presets", "--zoo").stdout
    assert "of the RL zoo's table, such as zoo-halfcheetah: mission-tui presets --zoo" in plain
    assert not [line for line in plain.splitlines() if line.split()[:1] == ["zoo-halfcheetah"]]
    assert "HalfCheetah-v4 as tuned in the RL zoo (extra `envs`)" in zoo
    assert "MiniGrid-Unlock-v0 as tuned in the RL zoo (pip install minigrid)" in zoo
    listed = shell.json("presets", "--zoo")["presets"]
    assert {each["origin"] for each in listed} == {"shipped"}
    assert len(listed) == 50
    unshown = shell.typed("presets", "zoo-halfcheetah")
    assert (unshown.returncode, "`mission-tui presets show zoo-halfcheetah` prints" in unshown.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_sample_of_them_trains(shell: Shell) -> None:
    """One rollout, one update and one checkpoint of a discrete task, of one with gSDE and normalisation, and of
    MuJoCo's where it is installed; one whose package is missing says which.
    """
    sample = ["zoo-cartpole", "zoo-mountaincar-continuous"]
    sample += ["zoo-reacher"] if importlib.util.find_spec("mujoco") else []
    found = shell.json("check", *sample, timeout_s=170)
    assert found["ok"], found
    if importlib.util.find_spec("minigrid") is None:
        missing = shell.typed("check", "zoo-minigrid-unlock")
        assert missing.returncode == 78
        assert "module 'minigrid' is not installed; pip install minigrid" in missing.stdout
