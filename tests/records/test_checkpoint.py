"""Checkpoints: whole or absent, verified before they are trusted, never the last one removed."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import CheckpointError
from mission_tui.fleet.events.metrics import Episodes, TrainingStarted, UpdateDone
from mission_tui.records import jsonl
from mission_tui.records.atomic import StorageError
from mission_tui.records.jsonl import AppendLog, encode_line
from mission_tui.records.runs import checkpoint as checkpoint_module
from mission_tui.records.runs.checkpoint import (
    Manifest,
    best_checkpoint,
    list_checkpoints,
    newest_verified,
    prune,
    save_checkpoint,
    verify_checkpoint,
)
from mission_tui.records.runs.layout import RunDir
from tests.fleet.recorded import update
from tests.records.limits import file_size_limit
from tests.records.saving import facts, fill_with, save


def newest(checkpoints: Path) -> str | None:
    manifest = newest_verified(checkpoints)
    return manifest.name if manifest else None


def test_a_saved_checkpoint_verifies_and_is_latest(tmp_path: Path) -> None:
    """The manifest read back is the one that was returned, and the pointer names it."""
    saved = save_checkpoint(tmp_path / "checkpoints", "000000100", fill_with(b"weights"), facts(100))
    assert verify_checkpoint(tmp_path / "checkpoints" / "000000100") == saved
    assert (saved.timesteps, saved.extra, saved.size_bytes) == (100, {"exact": True}, len(b"weights{}"))
    assert (tmp_path / "checkpoints" / "latest").read_text(encoding="ascii") == "000000100\n"
    assert newest_verified(tmp_path / "checkpoints") == saved


def test_no_checkpoints_is_an_answer(tmp_path: Path) -> None:
    """A run that saved nothing yet has no newest one, with and without the folder."""
    assert newest_verified(tmp_path / "absent") is None
    assert list_checkpoints(tmp_path) == []
    assert prune(tmp_path, 1, ()) == []


def test_truncation_at_every_length_is_detected(tmp_path: Path) -> None:
    """Whatever member or manifest lost any number of bytes, the checkpoint fails and the one before is taken."""
    save(tmp_path, 100)
    path = tmp_path / save(tmp_path, 200)
    for member in path.iterdir():
        whole = member.read_bytes()
        for length in range(len(whole)):
            member.write_bytes(whole[:length])
            with pytest.raises(CheckpointError, match="000000200"):
                verify_checkpoint(path)
        assert newest(tmp_path) == "000000100"
        member.write_bytes(whole)
    assert newest(tmp_path) == "000000200"


def test_a_flip_of_every_byte_is_detected(tmp_path: Path) -> None:
    """No byte of member or manifest can change unnoticed, the case of a hex digit included."""
    save(tmp_path, 100)
    path = tmp_path / save(tmp_path, 200)
    for member in path.iterdir():
        whole = member.read_bytes()
        for index in range(len(whole)):
            for mask in (0x01, 0x20, 0x80):
                flipped = bytearray(whole)
                flipped[index] ^= mask
                member.write_bytes(flipped)
                with pytest.raises(CheckpointError, match="000000200"):
                    verify_checkpoint(path)
        assert newest(tmp_path) == "000000100"
        member.write_bytes(whole)
    assert newest(tmp_path) == "000000200"


def test_missing_and_unlisted_members_are_detected(tmp_path: Path) -> None:
    """A directory holds exactly what its manifest lists."""
    path = tmp_path / save(tmp_path, 100)
    (path / "extra.pth").write_bytes(b"payload")
    with pytest.raises(CheckpointError, match=r"extra\.pth is not in its manifest"):
        verify_checkpoint(path)
    (path / "extra.pth").unlink()
    (path / "counters.json").unlink()
    with pytest.raises(CheckpointError, match=r"counters\.json is missing"):
        verify_checkpoint(path)


def test_links_pipes_and_folders_are_no_members(tmp_path: Path) -> None:
    """Right bytes behind a symbolic link do not count, and a named pipe does not hang the reader."""
    path = tmp_path / save(tmp_path, 100)
    member = path / "counters.json"
    member.rename(tmp_path / "elsewhere.json")
    member.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(CheckpointError):
        verify_checkpoint(path)
    member.unlink()
    os.mkfifo(member)
    with pytest.raises(CheckpointError, match="not a regular file"):
        verify_checkpoint(path)
    member.unlink()
    member.mkdir()
    with pytest.raises(CheckpointError):
        verify_checkpoint(path)


def test_members_of_another_checkpoint_do_not_mix(tmp_path: Path) -> None:
    """Statistics of another step under the right name are refused, and so is a whole directory under a wrong name."""
    first, second = tmp_path / save(tmp_path, 100), tmp_path / save(tmp_path, 200)
    shutil.copytree(first, tmp_path / "000000300")
    with pytest.raises(CheckpointError, match="belongs to 000000100"):
        verify_checkpoint(tmp_path / "000000300")
    shutil.copy(first / "policy.safetensors", second / "policy.safetensors")
    with pytest.raises(CheckpointError, match=r"policy\.safetensors changed"):
        verify_checkpoint(second)


def test_the_newest_is_the_last_one_taken(tmp_path: Path) -> None:
    """After a rewind the younger attempt's checkpoint at fewer steps is newer than the older attempt's at more."""
    save(tmp_path, 500, attempt=1)
    save(tmp_path, 200, attempt=2)
    assert [manifest.timesteps for manifest in list_checkpoints(tmp_path)] == [500, 200]
    assert newest(tmp_path) == "000000200"


def test_a_fill_that_raises_leaves_nothing(tmp_path: Path) -> None:
    """The trainer's error comes through, and the folder is as before."""
    save(tmp_path, 100)
    before = sorted(tmp_path.iterdir())

    def fill(folder: Path) -> None:
        (folder / "policy.safetensors").write_bytes(b"half")
        raise RuntimeError("the device is gone")

    with pytest.raises(RuntimeError, match="the device is gone"):
        save_checkpoint(tmp_path, "000000200", fill, facts(200))
    assert (sorted(tmp_path.iterdir()), newest(tmp_path)) == (before, "000000100")


def test_a_full_disk_leaves_the_previous_one(tmp_path: Path) -> None:
    """The error names the checkpoint, the temporary directory is gone, and pruning then takes nothing away."""
    save(tmp_path, 100)
    with file_size_limit(1000), pytest.raises(StorageError, match=r"cannot save checkpoint .*000000200"):
        save(tmp_path, 200, content=b"x" * 5000)
    assert not list(tmp_path.glob(".tmp-*"))
    assert prune(tmp_path, 1, ()) == []
    assert newest(tmp_path) == "000000100"


def test_a_checkpoint_is_replaced_only_by_one_of_the_same_step(tmp_path: Path) -> None:
    """A second attempt may take the name again at the same timesteps; at others, a verified one stays."""
    save(tmp_path, 100, content=b"first")
    save(tmp_path, 100, content=b"second", attempt=2)
    assert (tmp_path / "000000100" / "policy.safetensors").read_bytes() == b"second"
    assert verify_checkpoint(tmp_path / "000000100").attempt == 2
    with pytest.raises(CheckpointError, match="holds step 100 and stays"):
        save_checkpoint(tmp_path, "000000100", fill_with(b"third"), facts(150))
    (tmp_path / "000000100" / "counters.json").unlink()
    save_checkpoint(tmp_path, "000000100", fill_with(b"third"), facts(150))
    assert verify_checkpoint(tmp_path / "000000100").timesteps == 150
    assert not list(tmp_path.glob(".tmp-*"))


@pytest.mark.parametrize("name", ["", ".", "..", ".tmp-1", "a/b", "../x", "a\n"])
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    """A name is one visible path component."""
    with pytest.raises(CheckpointError, match="cannot name a checkpoint"):
        save_checkpoint(tmp_path, name, fill_with(b""), facts(1))


def test_prune_keeps_the_newest_and_the_protected(tmp_path: Path) -> None:
    """Older ones go, newest first in the answer; the best and an attempt's start stay."""
    for timesteps in (100, 200, 300, 400, 500):
        save(tmp_path, timesteps)
    assert prune(tmp_path, 2, {"000000200"}) == ["000000300", "000000100"]
    assert [manifest.timesteps for manifest in list_checkpoints(tmp_path)] == [200, 400, 500]


def _with_episodes(row: UpdateDone, seq: int) -> UpdateDone:
    return structs.replace(row, seq=seq, episodes=Episodes(n=60))


def _manifest(row: UpdateDone) -> Manifest:
    return Manifest(
        run="r",
        attempt=row.attempt,
        update=row.update,
        timesteps=row.timesteps,
        t=0.0,
        reason="time",
        spec_sha256="",
        name=f"{row.attempt}-{row.update}",
        files={},
    )


def test_the_luck_of_the_first_few_episodes_is_not_the_best(tmp_path: Path) -> None:
    """The best checkpoint is of whole windows of episodes, once there was one: `prune --keep best` removes the others.

    A resumed attempt has the window of its checkpoint.
    """
    run = RunDir(tmp_path)
    rows = [
        update(number, attempt=attempt, ret=mean)
        for attempt, number, mean in ((1, 1, 90.0), (1, 2, 10.0), (1, 3, 30.0), (2, 2, 50.0), (2, 3, 20.0))
    ]
    log = AppendLog(run.metrics)
    for row in rows:
        if (row.attempt, row.update) == (2, 2):
            log.append(lambda seq: TrainingStarted(seq, 2, 0.0, from_update=1))
        log.append(partial(_with_episodes, row))
    log.close()
    saved = [_manifest(row) for row in rows]
    assert best_checkpoint(run, saved) == "2-2"
    assert best_checkpoint(run, saved[:2]) == "1-2"
    assert best_checkpoint(run, saved[:1]) == "1-1"
    assert best_checkpoint(run, []) is None


def test_the_best_checkpoint_of_a_long_run_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor looks for it: the rows of a run of days would take a gigabyte at once."""
    monkeypatch.setattr(jsonl, "SLICE_BYTES", 1 << 16)
    run = RunDir(tmp_path)
    rows = [update(number, ret=float(number)) for number in range(1, 1501)]
    wide = {f"train/metric_{number}": number * 1.5 for number in range(40)}
    with run.metrics.open("wb") as file:
        for row in rows:
            file.write(encode_line(structs.replace(row, seq=row.update, metrics=dict(row.metrics) | wide)))
    saved = [_manifest(rows[at]) for at in (6, 1498, 8)]
    tracemalloc.start()
    try:
        assert best_checkpoint(run, saved) == "1-1499"
        assert tracemalloc.get_traced_memory()[1] < run.metrics.stat().st_size
    finally:
        tracemalloc.stop()


def test_prune_leaves_some_of_the_older_ones_over_the_whole_run(tmp_path: Path) -> None:
    """As the run grows they thin out: the first stays, and no gap is more than about twice another."""
    for number in range(1, 61):
        save(tmp_path, 100 * number)
        prune(tmp_path, 2, (), spread=4)
        kept = [manifest.timesteps for manifest in list_checkpoints(tmp_path)]
        assert len(kept) == min(number, 6)
        assert (kept[0], kept[-1]) == (100, 100 * number)
        gaps = [later - earlier for earlier, later in itertools.pairwise(kept[:-1])]
        assert not gaps or max(gaps[:-1], default=0) <= 2 * min(gaps[:-1], default=0) + 100
    assert prune(tmp_path, 2, ()) == [f"{steps:09d}" for steps in reversed(kept[:-2])]


def test_a_large_checkpoint_is_none_of_those_that_show_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays only among the newest, as without a spread."""
    for timesteps in (100, 200, 300, 400):
        save(tmp_path, timesteps)
    assert prune(tmp_path, 2, (), spread=4) == []
    monkeypatch.setattr("mission_tui.records.runs.checkpoint.SPREAD_BYTES", 1)
    assert prune(tmp_path, 2, (), spread=4) == ["000000200", "000000100"]


def test_what_shows_the_run_is_not_read_again_at_each_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest are: eight older ones of 32 MiB would be a quarter of a gigabyte beside each save."""
    for timesteps in (100, 200, 300, 400):
        save(tmp_path, timesteps)
    read = list[str]()
    verify = checkpoint_module.verify_checkpoint

    def noted(path: Path) -> Manifest:
        read.append(path.name)
        return verify(path)

    monkeypatch.setattr(checkpoint_module, "verify_checkpoint", noted)
    assert prune(tmp_path, 2, (), spread=4) == []
    assert read == ["000000400", "000000300"]


def test_prune_counts_only_what_verifies(tmp_path: Path) -> None:
    """Damaged ones do not stand in for a good one, so the last verified one stays whatever is newer."""
    for timesteps in (100, 200, 300, 400):
        save(tmp_path, timesteps)
    for timesteps in (300, 400):
        (tmp_path / f"{timesteps:09d}" / "policy.safetensors").write_bytes(b"rot")
    assert prune(tmp_path, 0, ()) == ["000000100"]
    assert newest(tmp_path) == "000000200"


@pytest.mark.slow
@pytest.mark.parametrize("timesteps", [200, 100])
def test_killed_at_every_file_operation_of_a_save(tmp_path: Path, timesteps: int) -> None:
    """Wherever SIGKILL hits a save, under a new name or a taken one, the old or the new checkpoint verifies, and the
    next save clears up.
    """
    script = [sys.executable, "-m", "tests.records.saving", str(tmp_path), str(timesteps)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=15)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    old, new = "000000100 of attempt 1", f"{timesteps:09d} of attempt 2"
    assert len(lines) > 10
    assert {line.partition(",")[0] for line in lines} == {old, new}
    assert (lines[0], lines[-1]) == (f"{old}, killed", f"{new}, survived")


def test_a_folder_that_cannot_be_listed_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training whose retention cannot read its folder hears of storage, which it survives, not of a bare OSError."""
    save(tmp_path, 100)

    def refuse(_: Path) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr("mission_tui.records.runs.checkpoint.names_in", refuse)
        for ask in (lambda: prune(tmp_path, 1, ()), lambda: list_checkpoints(tmp_path), lambda: newest(tmp_path)):
            with pytest.raises(StorageError, match=r"cannot list .*Too many open files"):
                ask()
    assert newest(tmp_path) == "000000100"
