"""What a trainer's process does to itself, how it takes orders, and how it counts its time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch as th

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.spec import RunSpec
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.trainer.building.device_speeds import NetShape
from mission_tui.trainer.building.model import choose_device, use_tf32
from mission_tui.trainer.orders import Orders
from mission_tui.trainer.process import keep_lease_private
from mission_tui.trainer.running_time import Budget, Stopwatch
from mission_tui.trainer.vec_env import build_vec_env
from tests.trainer.harness import spec_with


def test_the_lease_does_not_reach_programs_that_the_trainer_starts(tmp_path: Path) -> None:
    """A helper that an environment leaves behind must not keep the run locked."""
    descriptor = os.open(tmp_path / "lease", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(descriptor, True)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    keep_lease_private({"MISSION_TUI_LEASE_FD": str(descriptor)})
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


@pytest.mark.parametrize("value", ["", "x", "99999"])
def test_a_lease_that_is_not_there_is_no_problem(value: str) -> None:
    """Without a keeper there is none."""
    keep_lease_private({"MISSION_TUI_LEASE_FD": value})
    keep_lease_private({})


def test_orders_come_at_most_five_times_a_second() -> None:
    """Asking at every environment step does not ask the socket every time."""
    asked = 0

    def receive() -> list[Order]:
        nonlocal asked
        asked += 1
        return []

    orders = Orders(receive)
    assert not any(orders.stop_asked() for _ in range(1000))
    assert asked == 1


def test_a_stop_is_final_and_a_checkpoint_is_taken_once() -> None:
    """Unpausing does not take a stop back; a checkpoint order is done with when it was taken."""
    orders = Orders(list)
    for what in ("checkpoint", "pause", "stop", "unpause"):
        orders.obey(Order(what))
    assert orders.stop_asked()
    assert not orders.paused
    assert (orders.take_checkpoint(), orders.take_checkpoint()) == ("asked", None)


TERMINATED = """
import os, time
from mission_tui.trainer.orders import Orders
orders = Orders()
orders.obey_signals()
for _ in range(40):
    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(7)
    os.kill(child, 15)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -15
assert not orders.stop_asked()
os.kill(os.getpid(), 15)
assert orders.stop_asked()
"""


def test_a_forked_child_that_is_terminated_at_once_ends() -> None:
    """`Process.terminate` may come before the child's first line; our own handler must not swallow it there."""
    subprocess.run([sys.executable, "-c", TERMINATED], check=True, timeout=15)


def test_a_pause_is_not_counted() -> None:
    """Time stands still on the stopwatch while paused, and starts from what earlier attempts spent."""
    watch = Stopwatch(100.0)
    watch.pause()
    stood = watch.seconds
    assert 100.0 <= stood == watch.seconds
    watch.go_on()
    assert watch.seconds > stood


def test_budgets_by_steps_and_by_seconds() -> None:
    """Spent at the total, not before; progress falls from one to zero."""
    steps, seconds = Budget.of(RunSpec(total_timesteps=100)), Budget.of(RunSpec(duration_s=10.0))
    assert [steps.spent(n, 1e9) for n in (99, 100, 101)] == [False, True, True]
    assert [seconds.spent(10**9, s) for s in (9.9, 10.0)] == [False, True]
    assert [steps.progress_remaining(n, 0.0) for n in (0, 25, 100)] == [1.0, 0.75, 0.0]
    assert [seconds.progress_remaining(0, s) for s in (0.0, 2.5, 20.0)] == [1.0, 0.75, 0.0]


def test_a_limit_ends_an_attempt_and_leaves_its_schedules_alone() -> None:
    """A branch of a trial ends where its terms say; progress is that of the run's whole budget."""
    budget = Budget.of(RunSpec(total_timesteps=100), 40)
    assert [budget.spent(n, 0.0) for n in (39, 40)] == [False, True]
    assert [budget.at_limit(n) for n in (39, 40)] == [False, True]
    assert budget.progress_remaining(25, 0.0) == 0.75
    assert Budget.of(RunSpec(duration_s=10.0), 40).spent(40, 0.0)
    assert not Budget.of(RunSpec(total_timesteps=100)).at_limit(100)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """SB3 would train on the CPU without a word."""
    spec = spec_with()
    run = spec, NetShape.of(build_vec_env(spec, None).vec)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(PresetError, match="torch sees no CUDA device"):
        choose_device("cuda", None, *run)
    assert choose_device("auto", "cuda", *run) == ("cpu", "there is no CUDA device")
    assert choose_device("cpu", None, *run)[0] == "cpu"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(PresetError, match="the last CUDA device is 'cuda:1'"):
        choose_device("cuda:7", None, *run)


@pytest.mark.parametrize("value", ["", "7", "MIG-GPU-0/1/0"])
def test_a_device_that_is_hidden_is_said_to_be(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable of the shell is the cause, so it is named, with its value."""
    spec = spec_with()
    run = spec, NetShape.of(build_vec_env(spec, None).vec)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(
        PresetError, match=f"no CUDA device here with CUDA_VISIBLE_DEVICES='{value}'; set that otherwise"
    ):
        choose_device("cuda", None, *run)
    assert choose_device("auto", None, *run) == ("cpu", f"there is no CUDA device with CUDA_VISIBLE_DEVICES='{value}'")


@pytest.mark.parametrize(
    ("device", "capability", "wanted", "used", "why"),
    [
        ("cuda:1", (9, 0), True, True, "as the run's spec says"),
        ("cuda", (8, 0), False, False, "as the run's spec says"),
        ("cuda", (7, 5), True, False, "this GPU has no TF32"),
        ("cpu", (9, 0), True, False, "not used: TF32 exists on CUDA only"),
    ],
)
def test_tf32_is_used_on_gpus_that_have_it_where_it_is_wanted(
    device: str, capability: tuple[int, int], wanted: bool, used: bool, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products and convolutions follow the same switch, and torch's defaults are overruled both ways."""
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _device: capability)
    try:
        assert use_tf32(device, wanted=wanted) == why
        assert th.backends.cuda.matmul.allow_tf32 is used
        assert th.backends.cudnn.allow_tf32 is used
        assert th.get_float32_matmul_precision() == ("high" if used else "highest")
    finally:
        use_tf32("cpu", wanted=False)


def test_workers_may_import_the_main_module_without_torch() -> None:
    """A worker process imports the trainer's main module again; that alone must not cost it torch."""
    code = "import mission_tui.trainer.__main__, sys; sys.exit('torch' in sys.modules or 'gymnasium' in sys.modules)"
    environ = os.environ | {"PYTHONPATH": str(Path.cwd())}
    subprocess.run([sys.executable, "-c", code], check=True, env=environ, timeout=20)
