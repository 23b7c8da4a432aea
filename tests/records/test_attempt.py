"""The files of one attempt, as the other side finds them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from mission_tui.errors import DamagedError, PresetError
from mission_tui.fleet.events.provenance import Provenance
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.fleet.specs.spec import CheckpointKeep, EnvSpec, KeepSpec, Normalize, PpoSpec, RunSpec, Schedule, Spec
from mission_tui.records.atomic import write_json
from mission_tui.records.runs.attempt import (
    Handle,
    LaunchOrder,
    read_exit,
    read_handle,
    read_identity,
    read_launch,
    read_spec,
    read_terms,
    write_spec,
    write_terms,
)
from mission_tui.records.runs.code_files import read_provenance
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals

ORDER = LaunchOrder(
    run="20261121-104207-demo-3f9a", attempt=2, argv=("/usr/bin/env", "x y"), cwd="/", env={"A": "Ω=1"}, nonce="00ff"
)


def test_absent_files_are_none(tmp_path: Path) -> None:
    """Not there yet is an answer, not an error."""
    path = tmp_path / "absent.json"
    assert (read_identity(path), read_exit(path), read_launch(path)) == (None, None, None)


def test_an_order_comes_back_and_is_private(tmp_path: Path) -> None:
    """`launch.json` holds an environment, so only its owner can read it."""
    run = RunDir(tmp_path / ORDER.run)
    run.attempt(2).path.mkdir(parents=True)
    Seals(b"k" * 32).write_order(run, ORDER)
    written = read_launch(run.attempt(2).launch)
    assert written is not None
    assert structs.replace(written, seal=None) == ORDER
    assert stat.S_IMODE(run.attempt(2).launch.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\0" * 40, b'{"attempt": "one"}', b'{"start_error": "\xff"}', b"[" * 99_999]
)
def test_damage_names_the_file(tmp_path: Path, raw: bytes) -> None:
    """Whatever else is in the file, the sentence says which file it is."""
    path = tmp_path / "exit.json"
    path.write_bytes(raw)
    with pytest.raises(DamagedError, match=r"exit\.json does not hold"):
        read_exit(path)


@pytest.mark.parametrize("pack", ["..", ".", "../..", "/home", "a/b"])
def test_no_shared_job_is_found_outside_its_folder(tmp_path: Path, pack: str) -> None:
    """Its folder is removed once its runs are over: an adopted run's could have been any."""
    write_json(tmp_path / "handle.json", Handle(launcher="slurm", id="7", submitted_t=1.0, pack=pack))
    with pytest.raises(DamagedError, match=r"handle\.json does not hold"):
        read_handle(tmp_path / "handle.json")
    write_json(tmp_path / "handle.json", Handle(launcher="slurm", id="7", submitted_t=1.0, pack="20261121-a-3f9a.1"))
    assert read_handle(tmp_path / "handle.json") is not None


def test_terms_are_absent_whole_or_an_error_at_once(tmp_path: Path) -> None:
    """Absent means as it was; other contents, or a pipe that nobody writes, are an error and not waited for. So are
    weights of another folder, as an adopted run could name them.
    """
    path = tmp_path / "terms.json"
    assert read_terms(path) == AS_IT_WAS
    write_terms(path, Terms(fresh_optimizer=True))
    assert read_terms(path) == Terms(fresh_optimizer=True)
    for other in ("[]", '{"weights_from": "../../theirs/checkpoints/1024"}', '{"weights_from": ".."}'):
        path.write_text(other)
        with pytest.raises(DamagedError, match=r"terms\.json does not hold what was written there"):
            read_terms(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        read_terms(path)


@pytest.mark.parametrize(
    "effective", ["host = 5\n", f"{'.'.join('a' * 3000)} = 1\n[host]\nname = 'node'\n"], ids=["5", "deep"]
)
def test_what_somebody_wrote_of_a_node_is_no_fact_of_it(tmp_path: Path, effective: str) -> None:
    """A table that is none, or a key of so many parts that reading it takes hours, leaves the machine unknown."""
    run = RunDir(tmp_path / "20261121-104207-demo-3f9a")
    files = run.attempt(1)
    files.path.mkdir(parents=True)
    write_json(
        files.provenance,
        Provenance(t=1.0, cwd="/lab", python="python3", python_version="3.11", machine={"host": "login"}),
    )
    write_json(files.handle, Handle(launcher="slurm", id="7", submitted_t=1.0))
    files.effective.write_text(effective, encoding="ascii")
    known = read_provenance(run, 1)
    assert known is not None
    assert (known.machine, known.launched_on) == ({}, "login")


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
