"""What the order of an attempt says about threads, whoever else runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers.caller import Caller
from mission_tui.supervisor.launchers.order import attempt_order

LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@pytest.mark.parametrize(("run", "threads"), [({}, "1"), ({"threads": 2}, "2")])
def test_a_run_has_one_thread_unless_its_spec_says_otherwise(run: dict[str, int], threads: str, tmp_path: Path) -> None:
    """Also where the launching shell allows more: runs with a thread per core each stand in each other's way."""
    tables = {"env": {"id": "CartPole-v1", "n_envs": 4}, "ppo": {"n_steps": 64}, "run": {"total_timesteps": 1} | run}
    spec = msgspec.convert({"preset": "order", **tables}, Spec)
    shell = {"OMP_NUM_THREADS": "16", "OMP_WAIT_POLICY": "ACTIVE"}
    caller = Caller(python="python", cwd="/", environ=shell)
    order = attempt_order(tmp_path, RunDir(tmp_path / "20261121-000000-order-0000"), 1, spec, caller, None)
    assert [order.env[name] for name in LIBRARIES] == [threads] * 3
    assert order.env["OMP_WAIT_POLICY"] == "PASSIVE"
