"""A run's own net measured on the CPU and on a card that is not there, whose tensors take the longer road."""

from __future__ import annotations

from typing import Any

import pytest

from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer.building import device_speeds
from mission_tui.trainer.building.arguments import ppo_arguments
from mission_tui.trainer.building.device_speeds import NetShape
from mission_tui.trainer.building.model import choose_device, compare_devices
from mission_tui.trainer.vec_env import build_vec_env
from tests.stand_in_cuda import stand_in_cuda
from tests.trainer.contrib_cases import MASKABLE, RECURRENT, needs_contrib
from tests.trainer.harness import PROBES, spec_with

IMAGES = {"env": {"id": "ImageWalk-v0", **PROBES}, "ppo": {"policy": "CnnPolicy", "n_steps": 16, "batch_size": 16}}


def run_of(**tables: Any) -> tuple[Spec, NetShape, dict[str, Any]]:
    """What a net is measured by."""
    spec = spec_with(**tables)
    vec = build_vec_env(spec, None).vec
    try:
        return spec, NetShape.of(vec), ppo_arguments(spec)
    finally:
        vec.close()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"run": {"engine": "stock"}, "env": {"normalize": True}}, id="SB3's engine"),
        pytest.param(IMAGES, id="images"),
        pytest.param(RECURRENT, id="recurrent", marks=(needs_contrib, pytest.mark.slow)),
        pytest.param(MASKABLE, id="maskable", marks=(needs_contrib, pytest.mark.slow)),
    ],
)
def test_every_kind_of_net_is_measured_by_its_own_engine(case: dict[str, Any]) -> None:
    """As many times on the card as on the CPU, with nothing mixed."""
    with stand_in_cuda():
        speeds = compare_devices(*run_of(**case), within_s=0.1)
    assert len(speeds.cpu_s) == len(speeds.gpu_s) >= 2
    assert min(*speeds.cpu_s, *speeds.gpu_s) > 0


def test_auto_takes_the_device_on_which_a_small_net_is_faster() -> None:
    """By the kernels in C, which are some ten times as fast as tensors on the longer road."""
    with stand_in_cuda():
        device, why = choose_device("auto", None, *run_of())
    assert device == "cpu"
    assert why.startswith("this net is faster on the CPU: ")


@pytest.fixture
def timings(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """Seconds of an update by device, first ones first; each takes that long on the clock too."""
    given: dict[str, list[float]] = {"cpu": [], "cuda": []}
    clock = [0.0]

    class Side:
        def __init__(self, _build: Any, _shape: Any, _arguments: Any, device: str) -> None:
            self.device = device

        def update_seconds(self) -> float:
            clock[0] += given[self.device][0]
            return given[self.device].pop(0) if len(given[self.device]) > 1 else given[self.device][0]

    monkeypatch.setattr(device_speeds, "_Side", Side)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    return given


def test_it_ends_once_it_is_certain_and_after_its_time_otherwise(timings: dict[str, list[float]]) -> None:
    """Three clear pairs are enough; unclear ones go on until their seconds are over; slow ones are two."""
    run = run_of()
    with stand_in_cuda():
        timings.update(cpu=[1.0], cuda=[0.2])
        clear = compare_devices(*run, within_s=100.0)
        timings.update(cpu=[0.1, 0.3, 0.05], cuda=[0.2])
        unclear = compare_devices(*run, within_s=1.5)
        timings.update(cpu=[90.0], cuda=[30.0])
        slow = compare_devices(*run, within_s=4.0)
    assert (len(clear.cpu_s), clear.faster) == (3, "cuda")
    assert 3 < len(unclear.cpu_s) < 12
    assert (len(slow.gpu_s), slow.faster) == (2, "cuda")


def test_a_card_that_cannot_compute_leaves_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory, or of a kind that this torch has no kernels for: the run trains, and says why where."""

    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr("mission_tui.trainer.building.model.measured_speeds", full)
    with stand_in_cuda():
        assert choose_device("auto", None, *run_of()) == ("cpu", "the GPU cannot compute: CUDA out of memory")
