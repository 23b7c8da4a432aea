"""The sentence about a net on the CPU and on the GPU: said only as far as the measurements are certain."""

from __future__ import annotations

import pytest

from mission_tui.fleet.tuning.record import DeviceSpeeds

FASTER_ON_CPU = DeviceSpeeds(cpu_s=(0.0101, 0.0100, 0.0099), gpu_s=(0.0310, 0.0312, 0.0309), gpu="H200")
FASTER_ON_GPU = DeviceSpeeds(cpu_s=(4.0, 4.1, 4.0), gpu_s=(0.5, 0.51, 0.5), gpu="H200")
NOISY = DeviceSpeeds(cpu_s=(1.0, 3.0, 0.5), gpu_s=(1.1, 0.9, 1.8), gpu="H200")
ALIKE = DeviceSpeeds(cpu_s=(1.00, 1.01, 1.00), gpu_s=(1.02, 1.03, 1.02), gpu="H200")


def test_the_faster_device_is_said_with_ratio_interval_and_seconds() -> None:
    """The sentence that a user needs."""
    assert FASTER_ON_CPU.sentence == (
        "this net is faster on the CPU: 3.1 x (95 % interval 3.0 to 3.2; about 10 ms per update on the CPU, "
        "31 ms on the GPU)"
    )
    assert FASTER_ON_GPU.sentence.startswith("this net is faster on the GPU: 8.0 x (95 % interval ")
    assert FASTER_ON_GPU.sentence.endswith("about 4 s per update on the CPU, 500 ms on the GPU)")


@pytest.mark.parametrize("speeds", [NOISY, ALIKE, DeviceSpeeds(cpu_s=(1.0,), gpu_s=(9.0,))])
def test_without_certainty_neither_is_called_faster(speeds: DeviceSpeeds) -> None:
    """An interval across 1, a difference of two percent, a single pair: no verdict and no caution."""
    assert speeds.faster is None
    assert speeds.sentence.startswith("this net is not clearly faster on the CPU or on the GPU: ")
    assert not speeds.caution("cuda") + speeds.caution("cpu")


def test_a_launch_is_cautioned_only_where_it_names_the_slower_device() -> None:
    """`auto` takes the faster one itself."""
    assert FASTER_ON_CPU.caution("cuda:1") == (
        f"{FASTER_ON_CPU.sentence}; run.device = 'cuda:1' takes the slower one, 'auto' and 'cpu' the faster"
    )
    assert "run.device = 'cpu' takes the slower one" in FASTER_ON_GPU.caution("cpu")
    said = [FASTER_ON_CPU.caution("auto"), FASTER_ON_CPU.caution("cpu"), FASTER_ON_GPU.caution("cuda:0")]
    assert said == ["", "", ""]
