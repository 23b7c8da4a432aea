"""The fence: an attempt that was overtaken ends itself before its next write, however long it was out of sight."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from mission_tui import fence
from mission_tui.fence import Fence, fence_document
from mission_tui.fleet.events.metrics import TrainingEnded, UpdateDone
from mission_tui.records.runs.checkpoint import list_checkpoints
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.__main__ import main
from tests.trainer.harness import new_run, spec_with
from tests.trainer.test_main import ENDLESS, advanced, rows, trainer
from tests.waiting import until

QUICK_S = 0.2


def quick(words: list[str]) -> int:
    """A trainer that asks five times a second, so that a test need not wait for ten seconds."""
    fence.FENCE_S = QUICK_S
    return main(words)


def test_only_a_newer_attempt_or_a_second_start_is_in_the_way(tmp_path: Path) -> None:
    """No file, an older attempt, its own token and what cannot be read let it go on."""
    fence, path = Fence(tmp_path, 2, "mine"), tmp_path / "fence"
    assert fence.overtaken_by() is None
    said = [fence_document(1, "x"), fence_document(2, "mine"), fence_document(2, ""), b"", b"[2]", b"\xff", b"[" * 4000]
    for document in said:
        path.write_bytes(document)
        assert fence.overtaken_by() is None
    for document, newer in ((fence_document(3, "x"), 3), (fence_document(2, "theirs"), 2)):
        path.write_bytes(document)
        assert fence.overtaken_by() == newer
    path.unlink()
    (tmp_path / "elsewhere").write_bytes(fence_document(3, "x"))
    path.symlink_to("elsewhere")
    assert fence.overtaken_by() is None


def test_it_is_asked_once_in_ten_seconds(tmp_path: Path) -> None:
    """Between two looks nothing is read."""
    fence = Fence(tmp_path, 1, "mine")
    assert fence.due
    fence.check_if_due()
    assert not fence.due


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.process
def test_an_attempt_that_is_started_too_late_writes_nothing(tmp_path: Path) -> None:
    """A node comes back and starts attempt 1 after attempt 2 has begun: exit code 75, and no file has changed."""
    run_dir = new_run(tmp_path / "run", spec_with(run=ENDLESS))
    run_dir.fence.write_bytes(fence_document(2, "x"))
    run_dir.metrics.write_bytes(b'{"half a row')
    before = contents(run_dir.path)
    with trainer(run_dir, "1", MISSION_TUI_NONCE="mine") as process:
        assert process.wait(30) == 75
        assert "the run goes on as attempt 2" in process.stderr.read()
    assert contents(run_dir.path) == before


@pytest.mark.slow
@pytest.mark.process
def test_an_orphan_of_attempt_1_writes_nothing_beside_attempt_2(tmp_path: Path) -> None:
    """Its node was cut off while attempt 2 went on from its checkpoint; when it comes back it ends, and every row and
    checkpoint since is attempt 2's.
    """
    run_dir = new_run(tmp_path / "run", spec_with(run=ENDLESS, keep={"checkpoint": {"every_steps": 64, "last": 1000}}))
    with trainer(run_dir, "1", program=quick, MISSION_TUI_NONCE="first") as orphan:
        until(lambda: len(list_checkpoints(run_dir.checkpoints)) > 2, 30)
        orphan.send_signal(signal.SIGSTOP)
        stopped_s = time.monotonic()
        # Stopped in the middle of a row or of a checkpoint, as it happens.
        begun, saved = len(rows(run_dir)), list_checkpoints(run_dir.checkpoints)[-1].name
        run_dir.fence.write_bytes(fence_document(2, "second"))
        words = ("2", "--checkpoint", saved)
        with trainer(run_dir, *words, program=quick, MISSION_TUI_NONCE="second") as second:
            until(lambda: updates_of(run_dir, 2) >= 5 and time.monotonic() > stopped_s + 2 * QUICK_S, 30)
            orphan.send_signal(signal.SIGCONT)
            assert orphan.wait(10) == 75
            until(lambda: updates_of(run_dir, 2) >= 20, 30)
            second.terminate()
            assert second.wait(20) == 0
    news = rows(run_dir)[begun:]
    assert {row.attempt for row in news} == {2}
    assert isinstance(news[-1], TrainingEnded)
    assert [row.seq for row in news] == list(range(news[0].seq, news[0].seq + len(news)))
    later = [manifest for manifest in list_checkpoints(run_dir.checkpoints) if manifest.name > saved]
    assert later
    assert {manifest.attempt for manifest in later} == {2}


def updates_of(run_dir: RunDir, attempt: int) -> int:
    """How many updates the attempt has done."""
    return sum(isinstance(row, UpdateDone) and row.attempt == attempt for row in rows(run_dir))


@pytest.mark.slow
@pytest.mark.process
def test_an_overtaken_trainer_that_only_waits_ends_too(tmp_path: Path) -> None:
    """It writes nothing for hours, while paused or in a long update, and is not to keep a node busy meanwhile."""
    run_dir = new_run(tmp_path / "run", spec_with(run=ENDLESS, ppo={"n_epochs": 1_000_000}))
    with trainer(run_dir, "1", program=quick, MISSION_TUI_NONCE="first") as process:
        until(lambda: rows(run_dir) and (run_dir.checkpoints / ".reserve").exists(), 30)
        assert not advanced(run_dir, 1)
        run_dir.fence.write_text(json.dumps({"attempt": 2, "token": "second"}), encoding="ascii")
        before = contents(run_dir.path)
        assert process.wait(10) == 75
    assert contents(run_dir.path) == before
