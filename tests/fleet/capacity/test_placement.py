"""Which GPU a run trains on: what somebody chose is respected, of what is left open the calmest with room is taken."""

from __future__ import annotations

import pytest

from mission_tui.fleet.capacity.admission import DUTY, Gpu, choices, choose, gpu_for, promised, scarce

GPUS = ("GPU-a1", "GPU-b2")
GIB = 1 << 30


@pytest.mark.parametrize(
    ("device", "visible", "gpu"),
    [
        ("cpu", None, None),
        ("auto", None, "GPU-a1"),
        ("cuda", None, "GPU-a1"),
        ("cuda:1", None, "GPU-b2"),
        ("cuda:2", None, None),
        ("auto", "1", "GPU-b2"),
        ("cuda:1", "1,0", "GPU-a1"),
        ("cuda", "GPU-b", "GPU-b2"),
        ("cuda", "", None),
        ("cuda", "-1", None),
        ("cuda", "9", None),
        ("cuda", "MIG-7", None),
    ],
)
def test_the_gpu_that_a_device_means(device: str, visible: str | None, gpu: str | None) -> None:
    """In the order of the driver, or as `CUDA_VISIBLE_DEVICES` numbers or names them."""
    assert gpu_for(device, visible, GPUS) == gpu


@pytest.mark.parametrize(
    ("device", "visible", "open_"),
    [
        ("auto", None, GPUS),
        ("cuda", "1,0", ("GPU-b2", "GPU-a1")),
        ("cuda", "1", ("GPU-b2",)),
        ("auto", "GPU-a", ("GPU-a1",)),
        ("cuda:1", None, ("GPU-b2",)),
        ("cuda:1", "1,0", ("GPU-a1",)),
        ("cuda:7", None, ()),
        ("cpu", None, ()),
        ("cuda", "", ()),
        ("cuda", "0,MIG-7", ()),
    ],
)
def test_what_is_left_open_to_choose(device: str, visible: str | None, open_: tuple[str, ...]) -> None:
    """A number means one GPU; words that mean nothing here are left alone, with everything beside them."""
    assert choices(device, visible, GPUS) == open_


def test_the_calmest_gpu_with_room_is_taken() -> None:
    """Small differences of load say nothing, then free memory decides; one without room is never taken."""
    idle, busy = Gpu("a", 8 * GIB, 2 * GIB), Gpu("b", 8 * GIB, 6 * GIB, busy=0.5)
    assert choose([busy, idle], GIB) == idle
    assert choose([idle, busy], 4 * GIB) == busy
    assert choose([idle, busy], 7 * GIB) is None
    roomy = Gpu("c", 8 * GIB, 7 * GIB, busy=0.02)
    assert choose([idle, roomy], GIB) == roomy
    assert choose([idle, Gpu("d", None, None, busy=0.9)], 7 * GIB) == Gpu("d", None, None, busy=0.9)
    assert choose([Gpu("e", None, None, runs=2)], 0, most_runs=2) is None
    assert scarce([idle, busy]) == busy


def test_runs_that_have_just_begun_count_before_they_are_seen() -> None:
    """Two launched at once go to two GPUs."""
    first = choose([Gpu("a", 8 * GIB, 8 * GIB), Gpu("b", 8 * GIB, 8 * GIB)], GIB)
    assert first is not None
    taken = promised(first, GIB)
    assert (taken.free, taken.runs, taken.busy, taken.taken) == (7 * GIB, 1, DUTY, GIB)
    assert choose([taken, Gpu("b", 8 * GIB, 8 * GIB)], GIB) == Gpu("b", 8 * GIB, 8 * GIB)
