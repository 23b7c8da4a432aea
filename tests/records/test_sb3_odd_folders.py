"""Odd and hostile run folders of SB3: what they claim is refused or left out in a sentence, and the rest is taken."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mission_tui.errors import CheckpointError, PresetError, UsageError
from mission_tui.fleet.events.metrics import UpdateDone, number
from mission_tui.records.given_files import read_toml
from mission_tui.records.jsonl import decode_line, encode_line
from mission_tui.records.logs.log import LogError
from mission_tui.records.logs.monitors import read_monitors
from mission_tui.records.logs.read import read_any
from mission_tui.records.sb3_run.folder import find_folder, find_settings, rows_of, updates_in_table
from mission_tui.records.sb3_run.normalizer_file import read_statistics
from mission_tui.records.sb3_run.zip_file import opened_zip, settings_of_zip, tables_of_zip
from mission_tui.records.sb3_run.zoo_settings import read_yaml
from tests.records.test_sb3_run import MONITOR, PROGRESS

NORMALIZE = ("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
MOMENTS = ("stable_baselines3.common.running_mean_std", "RunningMeanStd")
TWO, HUGE = b"F2.0\n", b"I1" + 400 * b"0" + b"\n"


def made(cls: tuple[str, str], **state: bytes) -> bytes:
    """The codes of a pickle that make a `cls` with this `state`, without its class being known here."""
    pairs = b"".join(b"V" + name.encode() + b"\n" + value for name, value in state.items())
    return b"c" + "\n".join(cls).encode() + b"\n)\x81}(" + pairs + b"ub"


def statistics(moments: bytes, **state: bytes) -> bytes:
    """A whole `vecnormalize.pkl`."""
    return b"\x80\x02" + made(NORMALIZE, obs_rms=moments, ret_rms=moments, **state) + b"."


def nested(depth: int) -> bytes:
    """A tuple of the same tuple twice, `depth` times: 2 ** `depth` elements to whoever says it as text."""
    return b")" + b"".join(b"\x94h%c\x86" % at for at in range(depth))


PLAIN = made(MOMENTS, mean=TWO, var=TWO, count=TWO)
SCALAR = b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(]tRC\x08" + bytes(8) + b"tR"
HOSTILE = {
    "a count beyond floats": statistics(made(MOMENTS, mean=TWO, var=TWO, count=HUGE)),
    "a mean beyond floats": statistics(made(MOMENTS, mean=HUGE, var=TWO, count=TWO)),
    "a limit beyond floats": statistics(PLAIN, clip_obs=HUGE),
    "tuples in tuples": b"N" + b"\x85" * 300_000 + b".",
    "a list for a dtype": statistics(made(MOMENTS, mean=SCALAR, var=TWO, count=TWO)),
    "a tuple for a name": b"\x80\x04" + nested(16) + b"\x94h\x10\x93.",
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_statistics_are_refused_in_a_sentence(raw: bytes, tmp_path: Path) -> None:
    """Numbers no float holds, names that are none, endless codes: each by the sentence that says how to convert it."""
    file = tmp_path / "vecnormalize.pkl"
    file.write_bytes(statistics(PLAIN, norm_obs=b"\x88", clip_obs=b"I5\n"))
    read = read_statistics(file)
    assert (read.ret.count, dict(read.normalize)) == (2.0, {"obs": True, "clip_obs": 5.0})
    file.write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"cannot be read without unpickling.*(number|name|floating|far more)"):
        read_statistics(file)


def test_a_line_of_blanks_is_read_in_linear_time() -> None:
    """A settings file of a hundred thousand blanks costs a moment, and not half a minute."""
    assert read_yaml("a" + " " * 100_000 + "b") == "a" + " " * 100_000 + "b"


def test_monitors_with_damaged_clocks_and_returns_stay_records(tmp_path: Path) -> None:
    """No start time that is a number, infinite returns of both signs, an absurd length: every row can be written."""
    lines = "inf,50,1.0\n-inf,50,2.0\n1.0,1e300,3.0\n5.0,nan,4.0\n"
    (tmp_path / "monitor.csv").write_text('#{"t_start": NaN, "env_id": "CartPole-v1"}\nr,l,t\n' + lines)
    (row,) = rows_of(find_folder(tmp_path), (), rollout=100)
    again = decode_line(encode_line(row), UpdateDone)
    assert (again.timesteps, again.t, again.episodes.n) == (100, 2.0, 2)
    assert again.metrics["rollout/ep_rew_mean"] == "nan"


def test_where_the_table_is_broken_the_other_logs_count(tmp_path: Path) -> None:
    """A `progress.csv` without a row is named and the monitors taken; alone it is refused."""
    (tmp_path / "progress.csv").write_text(PROGRESS.splitlines()[0] + "\n")
    with pytest.raises(LogError, match="has no update yet"):
        updates_in_table(find_folder(tmp_path))
    (tmp_path / "monitor.csv").write_text(MONITOR + "10.0,50,1.0\n20.0,50,2.0\n")
    folder = find_folder(tmp_path)
    table, damage = updates_in_table(folder)
    assert (table, len(damage)) == ((), 1)
    assert "progress.csv: has no update yet; the folder's other logs count" in damage[0]
    assert [number(row.metrics["rollout/ep_rew_mean"]) for row in rows_of(folder, table, 100)] == [15.0]


def test_a_second_learn_is_counted_on_and_a_resume_takes_rows_back(tmp_path: Path) -> None:
    """Steps from the start again go on behind the last; steps from a model in between replace what followed it."""
    head = "time/iterations,time/total_timesteps,train/approx_kl\n"
    first = "1,100,0.01\n2,200,0.01\n3,300,0.01\n4,400,0.01\n"
    (tmp_path / "progress.csv").write_text(
        head + first + "1,300,0.02\n2,400,0.02\n" + head + "1,100,0.03\n2,200,0.03\n"
    )
    rows, _ = updates_in_table(find_folder(tmp_path))
    assert [row.timesteps for row in rows] == [100, 200, 300, 400, 500, 600]
    assert [row.update for row in rows] == [row.seq for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [number(row.metrics["train/approx_kl"]) for row in rows] == [0.01, 0.01, 0.02, 0.02, 0.03, 0.03]


@pytest.mark.parametrize(
    ("tag", "algo"),
    [
        ("train/ent_coef", "sac"),
        ("train/policy_loss", "a2c"),
        ("rollout/exploration_rate", "dqn"),
        ("train/step_size", "ars"),
    ],
)
def test_logs_of_other_algorithms_are_runs_of_those(tag: str, algo: str, tmp_path: Path) -> None:
    """SAC, A2C, DQN and ARS are known by what only they write; without a model their settings are SB3's defaults."""
    (tmp_path / "progress.csv").write_text(f"time/total_timesteps,rollout/ep_rew_mean,{tag}\n100,1.0,0.5\n")
    folder = find_folder(tmp_path)
    said = find_settings(folder, updates_in_table(folder)[0], zips=False, env=False)
    assert said.tables["run"] == {"algo": algo, "total_timesteps": 100}
    assert any("SB3's defaults stand for them" in note for note in said.notes)


@pytest.mark.parametrize("n_envs", ["0", "-4", "many", "1.5"])
def test_no_number_of_environments_is_left_to_be_refused_as_a_setting(n_envs: str, tmp_path: Path) -> None:
    """The rollout was divided by it: none at all was a traceback."""
    (tmp_path / "progress.csv").write_text(PROGRESS)
    (tmp_path / "config.yml").write_text(f"n_envs: {n_envs}\n")
    folder = find_folder(tmp_path)
    said = find_settings(folder, updates_in_table(folder)[0], zips=False, env=False)
    assert str(said.tables["env"]["n_envs"]) == n_envs
    assert "n_steps" not in said.tables["ppo"]


def data_of(cls: str, **more: Any) -> dict[str, Any]:
    """The JSON in a zip whose policy is a `cls`."""
    made_by = {"__init__": f"<function {cls}.__init__ at 0x7f>"}
    return {"n_steps": 8, "n_epochs": 4, "clip_range": 0.2, "policy_class": made_by, "num_timesteps": 64} | more


def test_zips_of_sb3_contrib_keep_their_algorithm() -> None:
    """A masked and a recurrent policy are known by their class, so that an export of ours comes back as what it was.

    The total of 0 that a model has which never learned where it was saved is no budget.
    """
    for cls, algo, policy in (
        ("ActorCriticPolicy", "ppo", "MlpPolicy"),
        ("MaskableActorCriticCnnPolicy", "maskable_ppo", "CnnPolicy"),
        ("RecurrentActorCriticPolicy", "recurrent_ppo", "MlpLstmPolicy"),
    ):
        tables = tables_of_zip(data_of(cls, _total_timesteps=0, seed=0), "model.zip", [])
        assert (tables["ppo"]["algo"], tables["ppo"]["policy"], tables["run"]) == (algo, policy, {"seed": 0})


def test_schedules_that_are_no_numbers_are_notes() -> None:
    """What only looks like a schedule is named, and nothing of it is taken."""
    notes: list[str] = []
    odd = {"value_schedule": "ConstantSchedule(val=1.2.3)"}
    ppo = tables_of_zip(data_of("ActorCriticPolicy", learning_rate=odd), "model.zip", notes)["ppo"]
    assert "learning_rate" not in ppo
    (note,) = notes
    assert note.startswith(
        "model.zip: learning_rate was a function, which is not opened: SB3's default is taken, and --set"
    )


def test_a_function_that_the_settings_write_out_is_no_note(tmp_path: Path) -> None:
    """Zips of 2021 hold every schedule as a function; what `config.yml` says of it is taken, the rest is named."""
    (tmp_path / "progress.csv").write_text(PROGRESS)
    (tmp_path / "config.yml").write_text("learning_rate: lin_0.001\n")
    odd = {":serialized:": "gAS"}
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps(data_of("ActorCriticPolicy", learning_rate=odd, clip_range=odd)))
        for name in ("policy.pth", "policy.optimizer.pth"):
            archive.writestr(name, b"")
    found = find_settings(find_folder(tmp_path), (), zips=True, env=False)
    assert found.tables["ppo"]["learning_rate"] == {"start": 0.001, "end": 0.0}
    (note,) = [it for it in found.notes if "was a function" in it]
    assert note.endswith("SB3's default is taken, and --set ppo.clip_range=... says another")


def test_settings_come_from_the_zips_that_can_be_read(tmp_path: Path) -> None:
    """A zip that was cut short is passed over beside a whole one, and refused by name alone."""
    (tmp_path / "progress.csv").write_text(PROGRESS)
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps(data_of("ActorCriticPolicy", gamma=0.9)))
        for name in ("policy.pth", "policy.optimizer.pth"):
            archive.writestr(name, b"tensors")
    raw = (tmp_path / "model.zip").read_bytes()
    (tmp_path / "a_last.zip").write_bytes(raw[: len(raw) // 2])
    folder = find_folder(tmp_path)
    assert find_settings(folder, (), zips=True, env=False).tables["ppo"]["gamma"] == 0.9
    (tmp_path / "model.zip").unlink()
    with pytest.raises(CheckpointError, match=r"a_last\.zip is not a zip that Stable-Baselines3 writes"):
        find_settings(find_folder(tmp_path), (), zips=True, env=False)


def test_a_zip_that_was_half_copied_is_called_so(tmp_path: Path) -> None:
    """Its tensors are zips themselves: without its own list of members the last whole one's was taken for it."""
    with zipfile.ZipFile(tmp_path / "policy.pth", "w") as tensors:
        tensors.writestr("archive/data.pkl", b"tensors")
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps(data_of("ActorCriticPolicy")))
        archive.write(tmp_path / "policy.pth", "policy.pth")
        archive.writestr("policy.optimizer.pth", b"moments")
    raw = (tmp_path / "model.zip").read_bytes()
    (tmp_path / "model.zip").write_bytes(raw[: raw.index(b"moments")])
    with pytest.raises(CheckpointError, match=r"model\.zip is cut short"), opened_zip(tmp_path / "model.zip"):
        pass


def test_no_link_to_a_file_of_the_kernel_is_read(tmp_path: Path) -> None:
    """`/proc/kmsg` and its like look like empty files, and keep whoever reads them waiting for ever."""
    names = ("progress.csv", "monitor.csv", "config.yml", "model.zip", "vecnormalize.pkl", "events.out.tfevents.1.x")
    link = {name: tmp_path / name for name in names}
    for path in link.values():
        path.symlink_to("/proc/self/mountinfo")
    folder = find_folder(tmp_path)
    for path in (link["progress.csv"], link["events.out.tfevents.1.x"], tmp_path):
        with pytest.raises(LogError, match="a file of the kernel"):
            read_any(path)
    with pytest.raises(OSError, match="a file of the kernel"):
        read_monitors([link["monitor.csv"]])
    with pytest.raises(UsageError, match=r"config\.yml: cannot be read: a file of the kernel"):
        find_settings(folder, (), zips=False, env=False)
    with pytest.raises(CheckpointError, match="a file of the kernel"):
        settings_of_zip(link["model.zip"])
    with pytest.raises(CheckpointError, match="a file of the kernel"):
        read_statistics(link["vecnormalize.pkl"])
    with pytest.raises(PresetError, match="a file of the kernel"):
        read_toml(link["config.yml"])
