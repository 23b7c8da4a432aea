"""Trainers that do not come to training, and what they say that is no number (rows N5, W10, D11)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mission_tui.fleet.events.metrics import Episodes, MetricRecord, UpdateDone
from mission_tui.records.jsonl import encode_line, read_all
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer import record
from mission_tui.trainer.record import EventFile, Record
from tests.full_disk import fill, small_disk
from tests.supervisor.conftest import Lab
from tests.waiting import until

HANGS = "import os, time\nwhile not os.path.exists(os.environ['MISSION_TUI_RUN_DIR'] + '/go'): time.sleep(0.05)\n"
REAL = "import sys; sys.path.insert(0, {stub!r}); import runpy; runpy.run_path({file!r}, run_name='__main__')\n"
ABSURD: dict[str, Any] = {
    "a list": [1.0],
    "a truth": True,
    "numpy's truth": np.bool_(True),
    "a huge integer": 10**400,
    "text": "7",
    "nothing": None,
    "an array": np.zeros(3),
}


@pytest.mark.slow
def test_n5_an_import_that_hangs_is_flagged_after_its_own_deadline_and_never_killed(
    idle_lab: Lab, tmp_path: Path
) -> None:
    """It says nothing, so no heartbeat can be late; it is flagged, and when the import ends the flag goes."""
    stub = Path(__file__).parents[1] / "supervisor" / "stub_trainer.py"
    slow = tmp_path / "slow_trainer.py"
    slow.write_text(HANGS + REAL.format(stub=str(stub.parents[2]), file=str(stub)), encoding="utf-8")
    idle_lab.start(MISSION_TUI_TRAINER=str(slow), MISSION_TUI_START_S="1")
    (run,) = idle_lab.launch()
    view = idle_lab.wait(run, lambda view: "slow-start" in view.flags)
    assert (view.state, view.outcome, view.pids.trainer is not None) == ("starting", None, True)
    log = (idle_lab.root / ".supervisor" / "supervisor.log").read_text(encoding="utf-8")
    assert log.count("has been starting for more than 1 s: its trainer imports") == 1
    (idle_lab.dir(run).path / "go").touch()
    idle_lab.running(run)
    idle_lab.wait(run, lambda view: "slow-start" not in view.flags)


def test_n5_an_interpreter_whose_imports_fail_ends_with_a_cause(idle_lab: Lab, tmp_path: Path) -> None:
    """A broken environment is a named failure at once, long before any deadline."""
    broken = tmp_path / "broken_trainer.py"
    broken.write_text("import no_such_module_anywhere\n", encoding="utf-8")
    idle_lab.start(MISSION_TUI_TRAINER=str(broken))
    (run,) = idle_lab.launch()
    view = idle_lab.ended(run)
    assert view.outcome == "failed"
    assert "no_such_module_anywhere" in (view.cause or "")


def test_w10_a_metric_that_is_no_number_is_dropped_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The row keeps its other metrics; each name is complained of once, and at the end with its count."""
    run_dir = RunDir(tmp_path)
    with Record(run_dir, 1, lambda _: None) as record:
        for update in (1, 2):
            metrics = ABSURD | {"good": 1.5, "of numpy": np.float32(2.0), "endless": float("inf")}
            record.updated(update, update * 10, 1.0, 1.0, metrics, Episodes())
    rows, damage = read_all(run_dir.metrics, MetricRecord)
    assert damage == []
    assert [row.metrics for row in rows if isinstance(row, UpdateDone)] == [
        {"good": 1.5, "of numpy": 2.0, "endless": "inf"}
    ] * 2
    said = capsys.readouterr().err
    for tag in ABSURD:
        assert said.count(f"metric {tag} is a ") == 1
        assert f"metric {tag} was dropped 2 times" in said


def test_w10_an_absurd_row_of_a_foreign_trainer_costs_only_itself(tmp_path: Path) -> None:
    """Rows whose metrics are lists or truths are skipped and counted, each alone; those around them stay."""

    def row(seq: int, metrics: dict[str, Any]) -> bytes:
        # A struct checks nothing of what it is made with: so a foreign trainer's row may be.
        return encode_line(UpdateDone(seq, 1, seq, seq, 1.0, 1.0, 1.0, 1.0, metrics=metrics))

    odd = [[1.0], True, {"a": 1}, "many", None]
    lines = [row(2 * index + 1, {"x": float(index)}) + row(2 * index + 2, {"x": bad}) for index, bad in enumerate(odd)]
    (tmp_path / "metrics.jsonl").write_bytes(b"".join(lines))
    rows, damage = read_all(tmp_path / "metrics.jsonl", MetricRecord)
    assert [record.seq for record in rows] == [1, 3, 5, 7, 9]
    assert len(damage) == 1
    assert damage[0].endswith(f"it was skipped ({len(odd) - 1} more after it)")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning", "ignore::DeprecationWarning")
def test_d11_events_go_on_once_a_full_disk_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard's reader finds what came after the writer had died, and what waited for room."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing import event_accumulator

    monkeypatch.setattr(record, "_LOOK_S", 0.0)
    before, failures = set(threading.enumerate()), list[str]()
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        events = EventFile(disk, 1, failed=failures.append)
        ballast, step = fill(disk), 0
        while not failures:
            step += 1
            events.write({"train/loss": float(step)}, step)
        for late in range(step + 1, step + 5):
            if late == step + 3:
                ballast.unlink()
            events.write({"train/loss": float(late)}, late)
        events.close()
        assert len(failures) == 1
        read: Any = event_accumulator.EventAccumulator(str(disk))
        read.Reload()
        assert [point.step for point in read.Scalars("train/loss")][-5:] == list(range(step, step + 5))
    until(lambda: set(threading.enumerate()) <= before, 10.0, "the writer's thread ends")


# Its thread lets its own error out; that is what is tested.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_d11_a_writer_of_events_that_dies_costs_a_warning_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a full disk the writer's thread dies: that is said once, later points are let go, and closing comes back."""
    pytest.importorskip("tensorboard")
    before = set(threading.enumerate())
    with small_disk(tmp_path / "disk", 256 << 10) as disk:
        events = EventFile(disk, 1)
        fill(disk)
        for step in range(20_000):
            events.write({"train/loss": float(step)}, step)
        events.close()
        assert capsys.readouterr().err.count("TensorBoard events") == 1
        nowhere = EventFile(disk / "ballast", 1)
        nowhere.write({"train/loss": 1.0}, 1)
        nowhere.close()
        assert "there are no TensorBoard events" in capsys.readouterr().err
    # Its error is to come out here, and not in the next test.
    until(lambda: set(threading.enumerate()) <= before, 10.0, "the writer's thread ends")
