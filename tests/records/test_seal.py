"""Seals: what a launch order is proof of, and what breaks it."""

from __future__ import annotations

import json
import os
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import DamagedError, UsageError
from mission_tui.fleet.specs.spec import EnvSpec, Spec
from mission_tui.paths import seal_keys
from mission_tui.records.runs import seal
from mission_tui.records.runs.attempt import SPECS, LaunchOrder, read_launch, read_sealed_spec, write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals

RUN = "20260101-000000-cart-0001"


@pytest.fixture
def seals() -> Seals:
    """Those of one user on this machine."""
    return Seals(b"k" * 32)


@pytest.fixture
def run(tmp_path: Path, seals: Seals) -> RunDir:
    """A run with a spec and a sealed order."""
    made = RunDir(tmp_path / RUN)
    made.attempt(1).path.mkdir(parents=True)
    write_spec(made.spec, Spec(preset="cart", env=EnvSpec(id="CartPole-v1")))
    order = LaunchOrder(run=RUN, attempt=1, argv=("python", "-m", "x"), cwd="/", env={"A": "0" * 64}, nonce="n")
    seals.write_order(made, order)
    return made


def test_what_was_sealed_is_ours(seals: Seals, run: RunDir) -> None:
    """The order comes back as it was written, also one whose own words look like an empty seal."""
    sealed = seals.check(run, 1)
    assert (sealed.foreign, sealed.changed) == ("", ())
    assert sealed.order == read_launch(run.attempt(1).launch)
    assert (run.attempt(1).launch.stat().st_mode & 0o777) == 0o600


def test_a_seal_fits_one_directory_one_order_and_one_secret(seals: Seals, run: RunDir, tmp_path: Path) -> None:
    """A copy, another name, another attempt, another secret or none: each is foreign, with its reason."""
    copy = RunDir(tmp_path / "copied" / RUN)
    shutil.copytree(run.path, copy.path)
    assert "it is a copy" in seals.check(copy, 1).foreign
    renamed = RunDir(run.path.rename(tmp_path / "20260101-000000-cart-0002"))
    assert "is that of 20260101-000000-cart-0001" in seals.check(renamed, 1).foreign
    assert seals.check(renamed, 1, name=RUN).foreign == ""
    back = RunDir(renamed.path.rename(run.path))
    assert seals.check(back, 1).foreign == ""
    shutil.copytree(back.attempt(1).path, back.attempt(2).path)
    assert "attempt 1" in seals.check(back, 2).foreign
    for others in (Seals(b"x" * 32), Seals(None)):
        assert "not yours" in others.check(back, 1).foreign


def test_whatever_is_changed_in_an_order_breaks_its_seal(seals: Seals, run: RunDir) -> None:
    """Each byte of it counts; a flipped one makes the run foreign or the file unreadable."""
    path = run.attempt(1).launch
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert seals.check(run, 1).foreign, place
    path.write_bytes(whole)
    assert seals.check(run, 1).foreign == ""
    order = read_launch(path)
    assert order is not None
    assert order.seal is not None


def test_changed_specs_are_named(seals: Seals, run: RunDir) -> None:
    """The run stays ours; which of its specs is another one now is said, and so is one that was added."""
    run.spec.write_text(run.spec.read_text() + "\n")
    assert seals.check(run, 1).changed == ("spec.toml",)
    shutil.copy(run.spec, run.attempt(1).spec)
    assert seals.check(run, 1).changed == ("spec.toml", "attempts/1/spec.toml")


def test_a_folder_that_others_may_write_is_foreign(seals: Seals, run: RunDir) -> None:
    """Whoever may write there may have written it."""
    run.path.chmod(0o777)
    assert seals.check(run, 1).foreign == "others may write in it"


def test_adopting_seals_what_lies_there_for_this_directory(seals: Seals, run: RunDir, tmp_path: Path) -> None:
    """An order of an earlier version names its directory by words: they name the adopted one afterwards."""
    copy = RunDir(tmp_path / "copied" / RUN)
    shutil.copytree(run.path, copy.path)
    order = read_launch(copy.attempt(1).launch)
    assert order is not None
    argv, env = ("python", str(run.path), "1"), {"MISSION_TUI_RUN_DIR": str(run.path), "REPORT": f"{run.path}/r.jsonl"}
    seals.write_order(copy, structs.replace(order, argv=argv, env=env))
    seals.adopt(copy, Path("/somewhere/telemetry.sock"))
    sealed = seals.check(copy, 1)
    assert sealed.order is not None
    assert sealed.order.argv == ("python", str(copy.path), "1")
    assert sealed.order.env == {"MISSION_TUI_RUN_DIR": str(copy.path), "REPORT": f"{copy.path}/r.jsonl"}


@pytest.mark.usefixtures("no_spare_secret")
def test_the_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    """Two that start at once agree on it; one that others may read is refused with what to do."""
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    path = seal_keys(environ)[0]
    root = tmp_path / "runs"
    (root / ".supervisor").mkdir(parents=True)
    Seals.of(environ).seal_root(root)
    assert (path.stat().st_mode & 0o777, path.stat().st_size) == (0o600, 32)
    assert Seals.of(environ, make=False).owns_root(root)
    moved = root.rename(tmp_path / "moved")
    assert Seals.of(environ).owns_root(moved)
    shutil.copytree(moved, root)
    assert not Seals.of(environ).owns_root(root)
    path.chmod(0o644)
    with pytest.raises(UsageError, match=r"nobody else may read.*remove it"):
        Seals.of(environ)


def test_a_planted_secret_is_refused(tmp_path: Path) -> None:
    """A link, or a file of another length, in the place of the secret is an error and nothing is made of it."""
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    path = seal_keys(environ)[0]
    path.parent.mkdir(parents=True)
    known = tmp_path / "known"
    known.write_bytes(b"k" * 32)
    known.chmod(0o600)
    path.symlink_to(known)
    with pytest.raises(UsageError, match="cannot be read"):
        Seals.of(environ)
    path.unlink()
    path.write_bytes(b"short")
    path.chmod(0o600)
    with pytest.raises(UsageError, match="32 bytes"):
        Seals.of(environ)


def test_without_a_state_folder_there_is_the_spare_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where it belongs is as one that cannot be written. Once it can be, the same secret outlives the boot."""
    (tmp_path / "state").write_text("no folder")
    monkeypatch.setattr(seal, "seal_keys", lambda _environ: (tmp_path / "state" / "x" / "key", tmp_path / "b" / "key"))
    assert not Seals.of({}).owns_root(tmp_path)
    assert (tmp_path / "b" / "key").stat().st_size == 32
    (tmp_path / "state").unlink()
    Seals.of({}, make=False)
    assert not (tmp_path / "state").exists()
    Seals.of({})
    assert (tmp_path / "state" / "x" / "key").read_bytes() == (tmp_path / "b" / "key").read_bytes()


@pytest.mark.usefixtures("no_spare_secret")
def test_folders_for_the_secret_are_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    """Who may write in a folder above could put another secret there."""
    before = os.umask(0)
    try:
        Seals.of({"XDG_STATE_HOME": str(tmp_path / "a" / "state"), "HOME": str(tmp_path)})
    finally:
        os.umask(before)
    for folder in (tmp_path / "a", tmp_path / "a" / "state", tmp_path / "a" / "state" / "mission-tui"):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "a" / "state" / "mission-tui").iterdir()] == ["seal.key"]


def test_a_process_trains_by_the_spec_that_was_sealed(seals: Seals, run: RunDir) -> None:
    """Who is told the digests of its specs reads no other one, nor one that was put beside it; untold it reads any."""
    environ = {SPECS: json.dumps(seals.sealed_specs(run))}
    assert read_sealed_spec(run, 1, environ).preset == "cart"
    for path in (run.attempt(1).spec, run.spec):
        write_spec(path, Spec(preset="theirs", env=EnvSpec(id="CartPole-v1")))
        with pytest.raises(DamagedError, match="is not the spec that was sealed"):
            read_sealed_spec(run, 1, environ)
        assert read_sealed_spec(run, 1, {}).preset == "theirs"
        run.attempt(1).spec.unlink(missing_ok=True)


def test_a_checked_seal_says_which_document_it_was(seals: Seals, run: RunDir) -> None:
    """Its digest is that of the file, and none where the run is foreign."""
    assert seals.check(run, 1).digest == sha256(run.attempt(1).launch.read_bytes()).hexdigest()
    assert Seals(None).check(run, 1).digest == ""
