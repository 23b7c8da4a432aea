"""`spec.toml`: what is written is what is read, and what is damaged is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mission_tui.errors import DamagedError, PresetError
from mission_tui.fleet.specs.spec import CheckpointKeep, EnvSpec, KeepSpec, Normalize, PpoSpec, RunSpec, Schedule, Spec
from mission_tui.records.runs.spec_file import read_spec, write_spec

FULL = Spec(
    preset="full",
    description='with "quotes" and ünïcode',
    env=EnvSpec(
        id="MissionGym-v0",
        n_envs=16,
        vec="workers",
        n_workers=4,
        kwargs={"flag": True, "nested": {"list": [1, 2.5, "x"], "empty": {}}},
        config="standard",
        wrappers=("a:B",),
        normalize=Normalize(reward=False),
        imports=("a.b",),
    ),
    ppo=PpoSpec(
        n_steps=128,
        batch_size="auto",
        learning_rate=Schedule(start=1e-3, end=1e-5),
        target_kl=0.02,
        net_arch={"pi": (64, 64), "vf": ()},
        policy_kwargs={"log_std_init": -2.0},
    ),
    run=RunSpec(duration_s=60.0, seed=0, device="cuda:1", threads=1),
    keep=KeepSpec(checkpoint=CheckpointKeep(every_s=1.5, every_steps=10**9, last=2)),
)
BARE = Spec(preset="bare", env=EnvSpec(id="CartPole-v1"), run=RunSpec(total_timesteps=1))


@pytest.mark.parametrize("spec", [FULL, BARE], ids=["full", "bare"])
def test_a_spec_comes_back_as_it_was(tmp_path: Path, spec: Spec) -> None:
    """Every field survives the file, and the file leaves no sibling behind."""
    path = tmp_path / "spec.toml"
    write_spec(path, spec)
    assert read_spec(path) == spec
    assert list(tmp_path.iterdir()) == [path]


def test_what_nobody_wrote_is_not_in_the_file(tmp_path: Path) -> None:
    """None is absence: batch size and epochs that were left open stay open."""
    path = tmp_path / "spec.toml"
    write_spec(path, BARE)
    text = path.read_text()
    assert "batch_size" not in text
    assert "seed" not in text
    assert read_spec(path).ppo.batch_size is None


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.dictionaries(TEXT, PLAIN, max_size=3), TEXT)
def test_any_kwargs_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, kwargs: dict[str, object], description: str
) -> None:
    """Whatever text, numbers and tables the keyword arguments hold."""
    path = tmp_path_factory.mktemp("spec") / "spec.toml"
    env = EnvSpec(id="x", kwargs=kwargs)
    spec = Spec(preset="kwargs", description=description, env=env, run=RunSpec(total_timesteps=1))
    write_spec(path, spec)
    assert read_spec(path) == spec


def test_a_missing_or_torn_file_is_damage(tmp_path: Path) -> None:
    """No file, half a file and bytes that are no text are `DamagedError`s that name the file."""
    path = tmp_path / "spec.toml"
    with pytest.raises(DamagedError, match=r"spec\.toml: cannot be read: No such file"):
        read_spec(path)
    write_spec(path, FULL)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"[ppo") - 3])
    with pytest.raises(DamagedError, match=r"spec\.toml: line \d+: not valid TOML"):
        read_spec(path)
    path.write_bytes(whole.replace(b"standard", b"stand\xff\xfe"))
    with pytest.raises(DamagedError, match=r"spec\.toml: line \d+: is not UTF-8"):
        read_spec(path)


def test_an_unknown_field_is_refused_by_name(tmp_path: Path) -> None:
    """A spec that was edited, or comes from another version, names file and key."""
    path = tmp_path / "spec.toml"
    write_spec(path, BARE)
    path.write_text(path.read_text().replace("n_steps", "n_stpes"))
    with pytest.raises(PresetError, match=r"spec\.toml: unknown key ppo\.n_stpes; did you mean 'n_steps'"):
        read_spec(path)
    path.write_text('preset = "x"\n')
    with pytest.raises(PresetError, match=r"spec\.toml: env is missing"):
        read_spec(path)
