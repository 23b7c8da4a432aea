"""A run folder of stock SB3 or its zoo, read as text: settings, statistics, episodes; nothing in it can act."""

from __future__ import annotations

import csv
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mission_tui.errors import CheckpointError, MissionError, UsageError
from mission_tui.fleet.events.metrics import number
from mission_tui.fleet.health.replay import replay
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.records.sb3_run.folder import (
    find_folder,
    find_settings,
    models_above,
    rows_of,
    run_folders,
    trained_to,
    updates_in_table,
    without_strangers,
)
from mission_tui.records.sb3_run.normalizer_file import read_statistics
from mission_tui.records.sb3_run.zip_file import tables_of_zip
from mission_tui.records.sb3_run.zoo_settings import YamlError, read_yaml
from mission_tui.trainer.import_run import evaluations_of, rows_of_evaluations
from tests.cli.test_judge import write_events

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CONFIG = """!!python/object/apply:collections.OrderedDict
- - - batch_size
    - 256
  - - clip_range
    - lin_0.2
  - - env_wrapper
    - - sb3_contrib.common.wrappers.TimeFeatureWrapper
  - - n_envs
    - 8
  - - n_steps
    - 32
  - - n_timesteps
    - 100000.0
  - - normalize
    - true
  - - policy
    - MlpPolicy
  - - policy_kwargs
    - dict( log_std_init=-2, activation_fn=nn.ReLU, net_arch=[dict(pi=[64,
      64], vf=[64])] )
  - - vec_env_wrapper
    - some.where.Wrapper
"""
ARGS = """!!python/object/apply:collections.OrderedDict
- - - algo
    - ppo
  - - env
    - CartPole-v1
  - - env_kwargs
    - null
  - - n_timesteps
    - -1
  - - seed
    - 1234
"""
PROGRESS = "time/iterations,time/total_timesteps,rollout/ep_rew_mean,train/approx_kl,train/learning_rate\n"
PROGRESS += "1,256,20.5,,\n2,512,22.5,0.01,0.001\n3,768,30.0,0.02,0.001\n"
MONITOR = '#{"t_start": 1000.0, "env_id": "CartPole-v1"}\nr,l,t\n'


def zoo_folder(path: Path, config: str = CONFIG, args: str = ARGS) -> Path:
    """A folder as the zoo lays it out: logs in it, settings one deeper."""
    (path / "CartPole-v1").mkdir(parents=True)
    (path / "progress.csv").write_text(PROGRESS)
    (path / "CartPole-v1" / "config.yml").write_text(config)
    (path / "CartPole-v1" / "args.yml").write_text(args)
    return path


def test_the_zoos_settings_become_those_of_a_preset(tmp_path: Path) -> None:
    """Schedules, old networks, wrappers and the seed are read; what has no counterpart is named."""
    folder = find_folder(zoo_folder(tmp_path / "CartPole-v1_1"))
    said = find_settings(folder, updates_in_table(folder)[0], zips=False)
    assert said.tables["env"] == {
        "id": "CartPole-v1",
        "n_envs": 8,
        "normalize": True,
        "wrappers": ["sb3_contrib.common.wrappers:TimeFeatureWrapper"],
    }
    assert said.tables["run"] == {"total_timesteps": 100_000, "seed": 1234}
    ppo = said.tables["ppo"]
    assert (ppo["batch_size"], ppo["n_steps"], ppo["clip_range"]) == (256, 32, {"start": 0.2, "end": 0.0})
    assert ppo["net_arch"] == {"pi": [64, 64], "vf": [64]}
    assert ppo["policy_kwargs"] == {"log_std_init": -2, "activation_fn": "ReLU"}
    assert ppo["learning_rate"] == 0.001
    assert [note for note in said.notes if "vec_env_wrapper is not taken over" in note]


@pytest.mark.parametrize(
    ("config", "args", "named"),
    [
        (CONFIG, ARGS.replace("ppo", "her"), "args.yml: algo = 'her'"),
        ("- &a 1\n- *a\n", ARGS, "config.yml: cannot be read as the settings of a run"),
        ("just words\n", ARGS, "config.yml: holds no table of settings"),
        (CONFIG.replace("lin_0.2", "cos_0.2"), ARGS, "clip_range = 'cos_0.2' is neither a number nor lin_"),
    ],
    ids=["another algorithm", "an alias", "no table", "another schedule"],
)
def test_what_cannot_be_taken_over_is_refused_by_its_file(config: str, args: str, named: str, tmp_path: Path) -> None:
    """Each refusal names the file and what in it."""
    folder = find_folder(zoo_folder(tmp_path / "run", config, args))
    with pytest.raises(MissionError, match=named):
        find_settings(folder, (), zips=False)


def test_a_class_without_an_end_is_read_at_once() -> None:
    """The text of a zip may be megabytes long, and looking for the name of a class in it takes no hours."""
    notes: list[str] = []
    named = {"a": "<class 'torch.nn.modules.activation.ReLU'>", "b": "<class '" + "a" * 300_000}
    data = {"n_steps": 1, "clip_range": 0.2, "n_epochs": 1, "policy_kwargs": named}
    assert tables_of_zip(data, "x.zip", notes)["ppo"]["policy_kwargs"] == {"a": "ReLU"}
    assert [note for note in notes if "policy_kwargs.b is more than data" in note]


def test_words_that_would_call_something_stay_words(tmp_path: Path) -> None:
    """A policy's arguments that are more than data are left out and named, and nothing of them runs."""
    config = CONFIG.replace("log_std_init=-2", "log_std_init=__import__('os').mkdir('canary')")
    folder = find_folder(zoo_folder(tmp_path / "run", config))
    said = find_settings(folder, (), zips=False)
    assert "policy_kwargs" not in said.tables["ppo"]
    assert any("is more than data" in note for note in said.notes)
    assert not Path("canary").exists()
    assert read_yaml("!!python/object/apply:os.mkdir [canary]\n") == ["canary"]
    with pytest.raises(YamlError):
        read_yaml("- " * 5000)


class _Payload:
    def __init__(self, canary: str) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self._canary,)


@pytest.mark.parametrize("content", ["a payload", "no pickle", "another object"])
def test_statistics_that_are_none_are_refused_unopened(content: str, tmp_path: Path) -> None:
    """Whatever the pickle would do is not done; the sentence says how to convert it."""
    file, canary = tmp_path / "vecnormalize.pkl", tmp_path / "canary"
    said = {
        "a payload": pickle.dumps(_Payload(str(canary))),
        "no pickle": b"no pickle at all",
        "another object": pickle.dumps({"obs_rms": 1}),
    }
    file.write_bytes(said[content])
    with pytest.raises(CheckpointError, match=r"vecnormalize.pkl: its statistics cannot be read .*VecNormalize.load"):
        read_statistics(file)
    assert not canary.exists()


def test_monitors_alone_make_updates(tmp_path: Path) -> None:
    """Episodes of all environments by their time, one update for each rollout, means over the last hundred."""
    for lane in range(2):
        lines = "".join(f"{10.0 * (step + 1)},50,{step + 1 + lane / 10}\n" for step in range(8))
        (tmp_path / f"{lane}.monitor.csv").write_text(MONITOR + lines)
    folder = find_folder(tmp_path)
    rows = rows_of(folder, (), rollout=100)
    assert [row.timesteps for row in rows] == [100 * it for it in range(1, 9)]
    assert [row.episodes.n for row in rows] == [2] * 8
    assert number(rows[-1].metrics["rollout/ep_rew_mean"]) == 45.0
    assert (rows[0].t, rows[-1].t) == (1001.1, 1008.1)
    assert [row.steps_per_s for row in rows] == [pytest.approx(800 / 8.1)] * 8
    assert find_settings(folder, (), zips=False).tables["env"] == {"id": "CartPole-v1", "n_envs": 2}


def test_monitors_go_on_to_the_steps_of_their_model(tmp_path: Path) -> None:
    """Steps after the last episode that ended are in no monitor; the model counted them, so the run has finished."""
    (tmp_path / "monitor.csv").write_text(MONITOR + "".join(f"1.0,90,{90.0 * (k + 1)}\n" for k in range(3)))
    rows = rows_of(find_folder(tmp_path), (), 100)
    assert [row.timesteps for row in rows] == [100, 200, 270]
    longer = trained_to(rows, 450, 100)
    assert [(row.update, row.timesteps, row.episodes.n) for row in longer] == [
        (1, 100, 1),
        (2, 200, 1),
        (3, 300, 1),
        (4, 400, 0),
        (5, 450, 0),
    ]
    assert [row.seq for row in longer] == [1, 2, 3, 4, 5]
    assert longer[-1].metrics == rows[-1].metrics
    assert trained_to(rows, 270, 100) == trained_to(rows, 0, 100) == trained_to(rows, 10**12, 100) == rows


def test_the_frames_that_an_agent_skips_are_no_steps(tmp_path: Path) -> None:
    """Atari's monitors count every frame, four a step: ten million steps are no forty, and returns stay as they are."""
    (tmp_path / "monitor.csv").write_text(MONITOR + "".join(f"{k}.0,400,{4.0 * (k + 1)}\n" for k in range(4)))
    rows = rows_of(find_folder(tmp_path), (), 200, frames=4)
    assert [(row.timesteps, row.episodes.l) for row in rows] == [(200, (400, 400)), (400, (400, 400))]


def test_a_minibatch_larger_than_the_rollout_is_taken_over_as_sb3_runs_it(tmp_path: Path) -> None:
    """The published agent for MountainCarContinuous has rollouts of 8 and minibatches of 256: one of 8, and a note."""
    (tmp_path / "config.yml").write_text(
        CONFIG.replace("    - 8\n  - - n_steps\n    - 32\n", "    - 1\n  - - n_steps\n    - 8\n")
    )
    (tmp_path / "args.yml").write_text(ARGS)
    (tmp_path / "progress.csv").write_text(PROGRESS)
    folder = find_folder(tmp_path)
    found = find_settings(folder, updates_in_table(folder)[0], zips=False)
    assert (found.tables["ppo"]["n_steps"], found.tables["ppo"]["batch_size"]) == (8, 8)
    (note,) = [it for it in found.notes if "batch_size" in it]
    assert note.startswith("batch_size = 256 is larger than the rollout of 8")


def test_updates_between_two_ends_of_episodes_are_timed_between_them(tmp_path: Path) -> None:
    """Long episodes are no silence of the trainer: an update's moment lies on the line between two ends."""
    (tmp_path / "monitor.csv").write_text(MONITOR + "".join(f"1.0,300,{150.0 * (k + 1)}\n" for k in range(20)))
    rows = rows_of(find_folder(tmp_path), (), 100)
    assert [row.t for row in rows[:7]] == [1050.0, 1100.0, 1150.0, 1200.0, 1250.0, 1300.0, 1350.0]
    assert rows[-1].t == 1000.0 + 150.0 * 20
    spec = Spec(preset="x", env=EnvSpec(id="x"), ppo=PpoSpec(n_steps=100), run=RunSpec(total_timesteps=6_000))
    assert [it.rule for it in replay({1: spec}, rows, ())] == []


def test_a_folder_that_is_no_run_or_says_no_environment_is_refused(tmp_path: Path) -> None:
    """Each refusal says what was looked for, and what to say instead."""
    with pytest.raises(UsageError, match="holds no log of a training"):
        find_folder(tmp_path)
    (tmp_path / "progress.csv").write_text(PROGRESS)
    folder = find_folder(tmp_path)
    updates, _ = updates_in_table(folder)
    with pytest.raises(MissionError, match=r"nothing in it says on which environment .*--set env.id="):
        find_settings(folder, updates, zips=False)
    assert "id" not in find_settings(folder, updates, zips=False, env=False).tables["env"]


def model_zip(path: Path, written_t: float, **said: Any) -> Path:
    """A zip as `PPO.save` writes it, as far as it is looked at without torch, written at unix time `written_t`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("data", json.dumps(said))
        for name in ("policy.pth", "policy.optimizer.pth"):
            archive.writestr(name, b"")
    os.utime(path, (written_t, written_t))
    return path


def training(folder: Path, began_t: int, ended_t: int, steps: Sequence[int], rate: float) -> None:
    """Events of PPO in `folder`, with a row at each of `steps`."""
    tags = ("rollout/ep_rew_mean", 20.0), ("train/approx_kl", 0.01), ("train/learning_rate", rate)
    write_events(folder, [(tag, value, step) for step in steps for tag, value in tags])
    (file,) = folder.iterdir()
    file = file.rename(folder / f"events.out.tfevents.{began_t}.host.1.0")
    os.utime(file, (ended_t, ended_t))


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="the tensorboard extra is not installed")
def test_two_trainings_in_one_folder_are_told_apart(tmp_path: Path) -> None:
    """The newest is the run; what of the zips is the other's is left out with its reason; `-r` takes each by itself."""
    folder = tmp_path / "out"
    first, second = folder / "tb" / "PPO_1", folder / "tb" / "PPO_2"
    for it in (first, second):
        it.mkdir(parents=True)
    training(first, 1_700_000_000, 1_700_000_100, range(256, 4097, 256), 1e-3)
    training(second, 1_700_000_500, 1_700_000_550, range(256, 2049, 256), 3e-4)
    model_zip(folder / "far.zip", 1_700_000_101, num_timesteps=4096, learning_rate=3e-4)
    model_zip(folder / "other_rate.zip", 1_700_000_551, num_timesteps=2048, learning_rate=1e-3)
    model_zip(folder / "earlier.zip", 1_700_000_050, num_timesteps=2048, learning_rate=3e-4)
    own = model_zip(folder / "own.zip", 1_700_000_552, num_timesteps=2048, learning_rate=3e-4)
    found = find_folder(folder)
    assert (found.events[0].parent, found.others) == (second, [first])
    kept, notes = without_strangers(found, updates_in_table(found)[0])
    assert list(kept.zips) == [own]
    assert notes == (
        "tb/PPO_1 is another training and left out: PPO_2 is the newest; -r takes each as its own run",
        "earlier.zip was left out: it was written when PPO_1 was",
        "far.zip was left out: it stands at 4,096 steps, and PPO_2 ends at 2,048",
        "other_rate.zip was left out: it was trained with learning_rate = 0.001, and PPO_2 with 0.0003",
    )
    assert list(run_folders(tmp_path)) == [first, second]
    assert [models_above(it, tmp_path) for it in (first, second)] == [folder, folder]
    shutil.rmtree(first)
    assert list(run_folders(tmp_path)) == [folder]
    assert without_strangers(find_folder(folder), ())[1] == ()


def test_a_folder_with_evaluations_and_no_log_is_a_run(tmp_path: Path) -> None:
    """What `EvalCallback` leaves beside `PPO.save`; those of a run below count for that one alone."""
    folder = tmp_path / "out"
    folder.mkdir()
    np.savez(folder / "evaluations.npz", timesteps=[1000, 2000, 3000], results=[[1.0, 3.0], [4.0, 4.0], [9.0, 9.0]])
    model_zip(folder / "final.zip", 1_700_000_000, num_timesteps=4096)
    found = find_folder(folder)
    assert (found.played, len(found.zips), list(run_folders(tmp_path))) == (folder / "evaluations.npz", 1, [folder])
    with pytest.raises(UsageError, match="holds no log of a training"):
        find_folder(tmp_path)
    notes: list[str] = []
    rows = rows_of_evaluations(found, 512, notes)
    assert [(row.update, row.timesteps) for row in rows] == [(2, 1000), (4, 2000), (6, 3000), (8, 4096)]
    assert "there is no log" in notes[0]
    played = evaluations_of(found.played, rows, notes)
    assert [(it.update, it.mean) for it in played] == [(2, 2.0), (4, 4.0), (6, 9.0)]


def test_what_the_zoo_imports_by_itself_is_imported(tmp_path: Path) -> None:
    """Its settings name no package for Atari's games and PyBullet's tasks; without one, no id of theirs is known."""
    folder = tmp_path / "PongNoFrameskip-v4_1"
    folder.mkdir()
    (folder / "progress.csv").write_text(PROGRESS)
    (folder / "config.yml").write_text("env_wrapper:\n- stable_baselines3.common.atari_wrappers.AtariWrapper\n")
    assert find_settings(find_folder(folder), (), zips=False).tables["env"]["imports"] == ["ale_py", "cv2"]
    folder = folder.rename(tmp_path / "AntBulletEnv-v0_1")
    (folder / "config.yml").write_text("normalize: true\n")
    assert find_settings(find_folder(folder), (), zips=False).tables["env"]["imports"] == ["pybullet_envs_gymnasium"]
    folder = folder.rename(tmp_path / "CartPole-v1_1")
    assert "imports" not in find_settings(find_folder(folder), (), zips=False).tables["env"]


def test_whoever_names_a_neighbour_of_a_run_is_told_its_folder(tmp_path: Path) -> None:
    """The published repository, its folder `ppo`, the inner folder of settings, the zip: each names the run."""
    run = tmp_path / "agents" / "ppo" / "CartPole-v1_1"
    (run / "CartPole-v1").mkdir(parents=True)
    (run.parent / "Pendulum-v1_1").mkdir()
    for folder in (run, run.parent / "Pendulum-v1_1"):
        (folder / "0.monitor.csv").write_text(MONITOR)
    (run / "CartPole-v1.zip").write_bytes(b"")
    for path, named in (
        (tmp_path / "agents", f"name one of its runs: {run} (2 are there)"),
        (run.parent, f"name one of its runs: {run} (2 are there)"),
        (run / "CartPole-v1", f"its parent does: {run}"),
        (run / "CartPole-v1.zip", f"name the one with progress.csv or monitor.csv of a run: {run}"),
    ):
        with pytest.raises(UsageError) as refused:
            find_folder(path)
        assert str(refused.value).endswith(named)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the outside logs are not at {DATA}")
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "BipedalWalker-v3", "HalfCheetah-v3"])
def test_the_zoos_own_logs_are_read(env_id: str, tmp_path: Path) -> None:
    """Its monitors with its settings: every episode counts once, and the last steps are nearly its budget."""
    with (DATA / "zoo_monitor" / f"ppo_{env_id}.csv").open(encoding="utf-8") as file:
        episodes = list(csv.DictReader(file))
    head = "#" + json.dumps({"t_start": 0.0, "env_id": env_id}) + "\nr,l,t\n"
    lines = "".join(f"{row['r']},{row['l']},{row['t']}\n" for row in episodes)
    (tmp_path / "0.monitor.csv").write_text(head + lines)
    with (DATA / "zoo_ppo_hyperparams.csv").open(encoding="utf-8") as file:
        written = next(row for row in csv.DictReader(file) if row["env"] == env_id)
    config = "".join(f"{name}: {value}\n" for name, value in written.items() if value and name != "env")
    (tmp_path / "config.yml").write_text(config)
    folder = find_folder(tmp_path)
    said = find_settings(folder, (), zips=False)
    rollout = said.tables["env"]["n_envs"] * said.tables["ppo"].get("n_steps", 2048)
    rows = rows_of(folder, (), rollout)
    assert sum(row.episodes.n for row in rows) == len(episodes)
    assert 0.8 <= rows[-1].timesteps / said.tables["run"]["total_timesteps"] <= 1.1


def test_cleanrls_table_of_arguments_says_its_settings(tmp_path: Path) -> None:
    """They were SB3's defaults, and the environment was asked for; what is no number is left out."""
    pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
    words = {
        "env_id": "CartPole-v1",
        "num_envs": 4,
        "num_steps": 128,
        "minibatch_size": 32,
        "update_epochs": 3,
        "clip_coef": 0.1,
        "clip_vloss": True,
        "ent_coef": 0.01,
        "vf_coef": 0.5,
        "target_kl": None,
        "gamma": "nan",
        "total_timesteps": 0,
        "seed": 7,
    }
    table = "\n".join(f"|{name}|{value}|" for name, value in words.items())
    points = [("losses/approx_kl", 0.01, 512), ("charts/learning_rate", 2.5e-4, 512)]
    write_events(tmp_path, points, f"|param|value|\n|-|-|\n{table}")
    folder = find_folder(tmp_path)
    tables = find_settings(folder, updates_in_table(folder)[0], zips=False).tables
    assert tables["env"] == {"id": "CartPole-v1", "n_envs": 4}
    assert tables["run"] == {"seed": 7, "total_timesteps": 512}
    assert tables["ppo"] == {
        "learning_rate": 2.5e-4,
        "n_steps": 128,
        "batch_size": 32,
        "n_epochs": 3,
        "clip_range": 0.1,
        "clip_range_vf": 0.1,
        "ent_coef": 0.01,
        "vf_coef": 0.25,  # of the mean of the squares, where CleanRL's is of half of it
    }
