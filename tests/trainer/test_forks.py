"""An environment forks: whatever its child does, there is one stream of rows, one end, one set of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mission_tui.fleet.events.metrics import MetricRecord, TrainingEnded, UpdateDone
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.checkpoint import list_checkpoints, newest_verified
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.__main__ import main
from tests.trainer.forked import forked
from tests.trainer.harness import new_run, spec_with

pytestmark = pytest.mark.slow


def trained(path: Path, vec: str, keep: dict[str, Any] | None = None, **kwargs: Any) -> tuple[RunDir, str]:
    """A whole run of the real trainer, itself a fork, on environments that fork, and what it said on stderr."""
    env: dict[str, Any] = {"id": "Forking-v0", "imports": ["tests.trainer.forking_envs"], "kwargs": kwargs, "vec": vec}
    env |= {"n_workers": 2} if vec == "workers" else {}
    run_dir = new_run(path / "run", spec_with(env=env, keep=keep or {}))
    code, _, said = forked(main, (str(run_dir.path), "1"))
    assert code == 0, said
    return run_dir, said


def check_one_stream(run_dir: RunDir) -> None:
    """Six updates, each once and in order, one end, and checkpoints that verify."""
    records, damage = read_all(run_dir.metrics, MetricRecord)
    assert not damage
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert [record.update for record in records if isinstance(record, UpdateDone)] == [1, 2, 3, 4, 5, 6]
    (end,) = [record for record in records if isinstance(record, TrainingEnded)]
    assert records[-1] is end
    assert (end.how, end.checkpoint) == ("finished", "000000384")
    manifest = newest_verified(run_dir.checkpoints)
    assert manifest is not None
    assert manifest.name == end.checkpoint
    assert len(list_checkpoints(run_dir.checkpoints)) <= 3


@pytest.mark.timeout(240)
@pytest.mark.parametrize("vec", ["inline", "workers"])
@pytest.mark.parametrize("does", ["raise", "return", "exit"])
def test_a_child_that_comes_back_into_the_training_ends_there(tmp_path: Path, vec: str, does: str) -> None:
    """It raises, exits, or returns where the parent does: it ends as a failed child, and writes nothing of the run."""
    run_dir, said = trained(tmp_path, vec, keep={"checkpoint": {"every_steps": 128, "last": 3}}, does=does)
    check_one_stream(run_dir)
    assert ("the child lost its way" in said) == (does == "raise")
    assert ("forked in the training, ends here" in said) == (does != "exit")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("vec", ["inline", "workers"])
def test_a_pool_of_forks_in_an_environment_works_and_ends(tmp_path: Path, vec: str) -> None:
    """Processes of `multiprocessing` never come back: they do their work, and SIGTERM ends them as it does anywhere."""
    run_dir, said = trained(tmp_path, vec, does="pool")
    check_one_stream(run_dir)
    assert "Traceback" not in said


@pytest.mark.timeout(240)
def test_children_that_nobody_waits_for_change_nothing(tmp_path: Path) -> None:
    """Parent and child go on side by side: the child is stopped before it writes, however they race."""
    run_dir, _ = trained(tmp_path, "inline", does="return", parent_waits=False)
    check_one_stream(run_dir)
