"""What the order of an attempt says about threads, whoever else runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mission_tui.fleet.specs.consistency import default_threads
from mission_tui.fleet.specs.spec import RunSpec, Spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers.order import Caller, attempt_order

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


@pytest.mark.parametrize(
    ("run", "environ", "busy", "warned"),
    [
        ({"command": ("python3", "train.py")}, {}, 1, True),
        ({"command": ("./train.py",)}, {"PATH": "/bin"}, 7, True),
        ({"command": ("python3", "train.py")}, {}, 0, False),
        ({"command": ("python3", "train.py")}, {"OMP_NUM_THREADS": "2"}, 1, False),
        ({"command": ("python3", "train.py"), "env": {"MKL_NUM_THREADS": "2"}}, {}, 1, False),
        ({"command": ("python3", "train.py"), "threads": 2}, {}, 1, False),
        ({"command": ("sleep", "9")}, {}, 1, False),
        ({}, {}, 1, False),
    ],
)
def test_a_script_with_threads_for_every_core_is_warned_of_where_cores_are_busy(
    run: dict[str, Any], environ: dict[str, str], busy: int, warned: bool
) -> None:
    """With torch's own default it and the others wait for each other, and it says nothing of that itself."""
    said = list(default_threads([Spec(preset="command", run=RunSpec(**run))], environ, 8, busy))
    assert bool(said) == warned
    assert all("--set run.threads=1" in sentence for sentence in said)


def test_two_scripts_of_one_launch_are_busy_cores_to_each_other() -> None:
    """Both are warned of, though nothing runs yet."""
    spec = Spec(preset="command", run=RunSpec(command=("python", "train.py")))
    assert len(list(default_threads([spec, spec], {}, 8, 0))) == 2
