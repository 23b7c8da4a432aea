"""Preset files on disk: search order, paths, sets, keys, the shipped presets, and files that are no presets at all."""

from __future__ import annotations

import os
import socket
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.preset import resolve
from mission_tui.fleet.specs.sizes import plan_batch, update_pressure
from mission_tui.fleet.specs.spec import Schedule, Spec
from mission_tui.paths import shipped_presets
from mission_tui.records.given_files import LARGEST_BYTES, read_toml
from mission_tui.records.preset_files import base_of, find_presets, launched_by, load_preset, preset_on_key

TINY = '[env]\nid = "CartPole-v1"\n[run]\ntotal_timesteps = 1000\n'
SHIPPED = (shipped_presets(),)


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    """A user's folder and a shipped one."""
    made = (tmp_path / "mine", tmp_path / "shipped")
    for folder in made:
        folder.mkdir()
    return made


def shipped(name: str) -> Spec:
    """The resolved spec of a shipped preset."""
    return resolve(load_preset(name, SHIPPED), lambda base: load_preset(base, SHIPPED))


def test_the_first_folder_wins(dirs: tuple[Path, Path]) -> None:
    """A user's preset hides the shipped one of its name; folders that are not there are passed over."""
    (dirs[0] / "a.toml").write_text(f'description = "mine"\n{TINY}')
    (dirs[1] / "a.toml").write_text(TINY)
    (dirs[1] / "b.toml").write_text(TINY)
    found, broken = find_presets((dirs[0] / "nowhere", *dirs))
    assert (list(found), broken) == (["a", "b"], {})
    assert found["a"].description == "mine"
    assert load_preset("a", dirs).path == dirs[0] / "a.toml"


def test_presets_are_sorted_by_their_names(dirs: tuple[Path, Path]) -> None:
    """`cart` stands before `cart-dqn`, though `cart-dqn.toml` sorts before `cart.toml`."""
    for name in ("cart-dqn", "cart"):
        (dirs[0] / f"{name}.toml").write_text(TINY)
    assert list(find_presets(dirs)[0]) == ["cart", "cart-dqn"]


def test_a_preset_that_extends_its_own_name_means_the_one_that_it_hides(
    dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`extends = "a"` in one's own `a` adds to the shipped one, by name and by path; if none is hidden, it is said."""
    (dirs[0] / "a.toml").write_text('extends = "a"\n[env]\nn_envs = 3\n')
    (dirs[0] / "alone.toml").write_text('extends = "alone"\n')
    (dirs[1] / "a.toml").write_text(TINY)
    monkeypatch.chdir(dirs[0])
    for name in ("a", "./a.toml"):
        spec = resolve(preset := load_preset(name, dirs), partial(base_of, preset, dirs=dirs))
        assert (spec.env.id, spec.env.n_envs) == ("CartPole-v1", 3)
    alone = load_preset("alone", dirs)
    with pytest.raises(PresetError, match=r"alone\.toml: extends: 'alone' is this preset itself, and it hides"):
        resolve(alone, partial(base_of, alone, dirs=dirs))


def test_a_broken_preset_is_reported_and_not_passed_over(dirs: tuple[Path, Path]) -> None:
    """The user's broken `a` does not silently become the shipped `a`, neither in the list nor by name."""
    (dirs[0] / "a.toml").write_text("[ppo]\nn_stpes = 1\n")
    (dirs[1] / "a.toml").write_text(TINY)
    (dirs[1] / "b.toml").write_text(TINY)
    found, broken = find_presets(dirs)
    assert list(found) == ["b"]
    assert "did you mean 'n_steps'" in str(broken["a"])
    with pytest.raises(PresetError, match=r"mine/a\.toml: unknown key ppo\.n_stpes"):
        load_preset("a", dirs)


def test_a_name_in_the_file_counts_before_its_stem(dirs: tuple[Path, Path]) -> None:
    """`name` at the top level is what the preset is called."""
    (dirs[0] / "file.toml").write_text(f'name = "called"\n{TINY}')
    assert load_preset("called", dirs).path.stem == "file"
    with pytest.raises(UsageError, match=r"no preset 'file': .*/mine/file\.toml has name = 'called'"):
        load_preset("file", dirs)


def test_a_path_is_taken_as_it_is(dirs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separator or `.toml` makes it a path; a missing one names the file."""
    (tmp_path / "own.toml").write_text(TINY)
    assert load_preset(str(tmp_path / "own.toml"), dirs).name == "own"
    monkeypatch.chdir(tmp_path)
    assert load_preset("own.toml", dirs).name == "own"
    with pytest.raises(PresetError, match=r"none/x\.toml: cannot be read: No such file"):
        load_preset("none/x.toml", dirs)


@pytest.mark.parametrize("name", ["hevy", "", "\0", "a\nb", "x" * 5000, "\udcff"])
def test_an_unknown_name_is_a_usage_error(dirs: tuple[Path, Path], name: str) -> None:
    """With the nearest known name, whatever the name holds."""
    (dirs[1] / "heavy.toml").write_text(TINY)
    with pytest.raises(UsageError) as caught:
        load_preset(name, dirs)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
    assert "heavy" in str(caught.value)


def test_a_set_launches_its_members(dirs: tuple[Path, Path]) -> None:
    """A set stands for its presets; an unknown member and a set in a set name the set's file."""
    (dirs[0] / "a.toml").write_text(TINY)
    (dirs[0] / "both.toml").write_text('launch = ["a", "a"]\n')
    (dirs[0] / "typo.toml").write_text('launch = ["both2"]\n')
    (dirs[0] / "nest.toml").write_text('launch = ["both"]\n')
    (dirs[0] / "self.toml").write_text('launch = ["self"]\n')
    assert [preset.name for preset in launched_by(load_preset("both", dirs), dirs)] == ["a", "a"]
    assert [preset.name for preset in launched_by(load_preset("a", dirs), dirs)] == ["a"]
    with pytest.raises(PresetError, match=r"typo\.toml: launch: no preset 'both2'; did you mean 'both'"):
        launched_by(load_preset("typo", dirs), dirs)
    with pytest.raises(PresetError, match=r"nest\.toml: launch: 'both' is a set itself"):
        launched_by(load_preset("nest", dirs), dirs)
    with pytest.raises(PresetError, match=r"self\.toml: launch: 'self' is this preset itself"):
        launched_by(load_preset("self", dirs), dirs)


def test_an_unknown_base_names_the_file_that_extends_it(dirs: tuple[Path, Path]) -> None:
    """`extends` with a typo says which preset has it and which name is near; a right one is found in any folder."""
    (dirs[1] / "base.toml").write_text(TINY)
    (dirs[0] / "mine.toml").write_text('extends = "base"\n[env]\nn_envs = 3\n')
    (dirs[0] / "typo.toml").write_text('extends = "bsae"\n')
    mine = resolve(load_preset("mine", dirs), lambda name: load_preset(name, dirs))
    assert (mine.env.id, mine.env.n_envs) == ("CartPole-v1", 3)
    with pytest.raises(PresetError, match=r"typo\.toml: extends: no preset 'bsae'; did you mean 'base'"):
        resolve(load_preset("typo", dirs), lambda name: load_preset(name, dirs))


def test_a_users_preset_may_take_a_key_over(dirs: tuple[Path, Path]) -> None:
    """Of two presets on one key the first in search order is launched by it."""
    (dirs[0] / "z.toml").write_text(f'key = "3"\n{TINY}')
    (dirs[1] / "heavy.toml").write_text(f'key = "3"\n{TINY}')
    (dirs[1] / "trio.toml").write_text('key = "P"\nlaunch = ["z"]\n')
    found, _ = find_presets(dirs)
    by_key = {key: preset_on_key(key, found) for key in ("3", "P", "9")}
    assert {key: preset and preset.name for key, preset in by_key.items()} == {"3": "z", "P": "trio", "9": None}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[env\nid = 3\n", "line 1: not valid TOML"),
        (b'[env]\nid = "x"\n\nid = "y"\n', "line 4: not valid TOML: Cannot overwrite a value"),
        (b'[env]\r\nid = "x\r\n', "line 2: not valid TOML"),
        (b'a = """\nnever closed\n', "line 3: not valid TOML"),
        (b"\xef\xbb\xbf[env]\n", "line 1: starts with a byte-order mark"),
        (b"[\x00e\x00n\x00v\x00]\x00", "line 1: not valid TOML"),
        (b"\xff\xfe[\x00e\x00", "line 1: starts with a byte-order mark"),
        (b"[env]\nid = '\x80'\n", "line 2: is not UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00\x00\xf3", "line 1: is not UTF-8"),
        (b"a = " + b"9" * 5000, "line 1: not valid TOML: Exceeds the limit"),
        (b"a = " + b"[" * 5000, "nested too deeply"),
        (b'a = "' + b'\\"' * 40_000 + b"." * 70 + b"\n", "line 1: "),
        (b'a = """\n"""' + b'"' + b".a" * 70 + b"\n", "line 2: a key has more than 64 parts"),
        (b"a = 1\n" * (LARGEST_BYTES // 6 + 1), "bytes, and at most 1,048,576 are read"),
    ],
)
def test_files_that_are_no_toml_are_refused_in_one_line(dirs: tuple[Path, Path], data: bytes, said: str) -> None:
    """Torn, binary, marked, deep, huge and unclosed files name file and line, at once, and nothing else happens."""
    path = dirs[0] / "x.toml"
    path.write_bytes(data)
    with pytest.raises(PresetError) as caught:
        load_preset("x", dirs)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_line_ends_of_other_systems_are_fine(dirs: tuple[Path, Path]) -> None:
    """CRLF is TOML."""
    (dirs[0] / "x.toml").write_bytes(TINY.replace("\n", "\r\n").encode())
    assert load_preset("x", dirs).table["run"] == {"total_timesteps": 1000}


def test_what_is_no_file_is_refused_without_waiting(dirs: tuple[Path, Path]) -> None:
    """A folder, a pipe without a writer, a socket and a device do not hang the reader."""
    (dirs[0] / "folder.toml").mkdir()
    os.mkfifo(dirs[0] / "pipe.toml")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(dirs[0] / "s.toml"))
        for path in (dirs[0] / "folder.toml", dirs[0] / "pipe.toml", dirs[0] / "s.toml", Path("/dev/zero")):
            with pytest.raises(PresetError, match=f"{path}: "):
                read_toml(path)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=6), st.integers(0, 400))
def test_any_mutation_of_a_preset_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    """Bytes written over a good preset end in a preset or one typed sentence."""
    good = (shipped_presets() / "cartpole.toml").read_bytes()
    at %= len(good)
    path = tmp_path_factory.mktemp("fuzz") / "x.toml"
    path.write_bytes(good[:at] + noise + good[at + len(noise) :])
    said = str(path)
    try:
        resolve(load_preset(str(path), ()), lambda name: load_preset(name, ()))
    except MissionError as error:
        said = str(error)
    assert said.isprintable()
    assert said.startswith(str(path))


def test_every_shipped_preset_resolves_without_a_caution() -> None:
    """All presets that come with the package train as they stand; keys are the five digits and P.

    CoinRun's two are there to compare the ways that step one environment by one, which a pool does not need.
    """
    found, broken = find_presets(SHIPPED)
    assert broken == {}
    assert {preset.key: preset.name for preset in found.values() if preset.key} == {
        "1": "demo",
        "2": "fast",
        "3": "heavy",
        "4": "beast",
        "5": "standard",
        "P": "trio",
    }
    for preset in found.values():
        assert preset.description
        for member in launched_by(preset, SHIPPED):
            said = cautions(shipped(member.name))
            assert said == () or (member.name.startswith("coinrun-") and "steps the pool's tasks one by one" in said[0])


@pytest.mark.parametrize(
    ("name", "rollout", "batch", "epochs", "net"),
    [
        ("fast", (16, 256), 2048, 15, (512, 512)),
        ("heavy", (32, 256), 4096, 20, (1024, 512, 256)),
        ("beast", (64, 512), 8192, 30, (1024, 512, 512, 256)),
        ("large-batch", (32, 256), 2048, 20, (512, 512, 256)),
        ("wide", (32, 256), 2048, 25, (1536, 768, 384)),
        ("deep", (32, 256), 2048, 30, (512, 512, 512, 512, 512)),
        ("swarm", (2048, 128), 8192, 2, None),
    ],
)
def test_shipped_presets_hold_their_sources_numbers(
    name: str, rollout: tuple[int, int], batch: int, epochs: int, net: tuple[int, ...] | None
) -> None:
    """Rollout, minibatch, epochs and network are those of the sources, after `auto` and scaling are worked out."""
    spec = shipped(name)
    plan = plan_batch(spec)
    assert (spec.env.id, spec.env.config) == ("MissionGym-v0", "standard")
    assert (spec.env.n_envs, spec.ppo.n_steps) == rollout
    assert (plan.batch_size, plan.n_epochs, spec.ppo.net_arch) == (batch, epochs, net)
    assert spec.run.total_timesteps == (100_000_000 if name == "swarm" else 50_000_000)


@pytest.mark.parametrize("name", ["fast", "heavy", "beast", "large-batch", "wide", "deep", "swarm"])
def test_the_sources_presets_are_played_while_they_train(name: str) -> None:
    """So often that a share won is on the curve, and seldom enough for what an evaluation costs at their speeds."""
    spec = shipped(name)
    assert spec.evaluate.every == (10_000_000 if name == "swarm" else 200_000)
    assert spec.evaluate.episodes == 50


def test_swarm_presses_as_hard_as_the_reference() -> None:
    """64 gradient steps at a quarter of the reference's learning rate: pressure 1, nothing left to propose."""
    swarm = shipped("swarm")
    assert update_pressure(swarm) == pytest.approx(1.0)
    assert plan_batch(swarm).proposed_learning_rate is None
    assert (swarm.ppo.ent_coef, swarm.env.vec) == (0.15, "native")


def test_zoo_presets_hold_the_zoos_numbers() -> None:
    """Schedules, normalisation, state-dependent exploration and budgets as published; blanks stay SB3's."""
    cartpole, acrobot, car, pendulum = map(shipped, ("cartpole", "acrobot", "mountaincar", "pendulum"))
    assert cartpole.ppo.learning_rate == Schedule(start=1e-3, end=0.0)
    assert cartpole.ppo.clip_range == Schedule(start=0.2, end=0.0)
    assert (cartpole.ppo.batch_size, cartpole.ppo.n_epochs, cartpole.ppo.n_steps) == (256, 20, 32)
    assert (cartpole.ppo.gae_lambda, cartpole.ppo.gamma, cartpole.env.n_envs) == (0.8, 0.98, 8)
    assert acrobot.env.normalize is True
    assert (acrobot.ppo.batch_size, acrobot.ppo.learning_rate, acrobot.ppo.gae_lambda) == (None, 3e-4, 0.94)
    assert car.env.normalize is True
    assert (car.env.n_envs, car.ppo.n_steps, car.ppo.n_epochs, car.ppo.gae_lambda) == (16, 16, 4, 0.98)
    assert pendulum.ppo.use_sde is True
    assert (pendulum.ppo.sde_sample_freq, pendulum.ppo.gamma, pendulum.ppo.learning_rate) == (4, 0.9, 1e-3)
    lander = shipped("lunarlander")
    assert (lander.env.id, lander.env.n_envs, lander.ppo.n_steps, lander.ppo.batch_size) == (
        "LunarLander-v3",
        16,
        1024,
        64,
    )
    assert (lander.ppo.n_epochs, lander.ppo.gamma, lander.ppo.gae_lambda, lander.ppo.ent_coef) == (4, 0.999, 0.98, 0.01)
    budgets = [spec.run.total_timesteps for spec in (cartpole, acrobot, car, pendulum, lander)]
    assert budgets == [100_000, 1_000_000, 1_000_000, 100_000, 1_000_000]
