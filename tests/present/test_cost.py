"""What a launch would cost, in words."""

from __future__ import annotations

from mission_tui.fleet.capacity.demand import Cost, ReferenceSpeed
from mission_tui.present.numbers import all_at_once, differing_words

GIB = 1 << 30


def test_several_runs_are_added_up() -> None:
    """GPU memory is named only where one of them takes some."""
    costs = (Cost(ram_bytes=2 * GIB, cores=2), Cost(ram_bytes=3 * GIB, vram_bytes=GIB, cores=1))
    assert all_at_once(costs) == "all 2 at once: 5.0G of memory, 1.0G of GPU memory, 3 cores"
    assert all_at_once(costs[:1]) == "all 1 at once: 2.0G of memory, 2 cores"


def test_the_first_settings_that_differ_are_named_and_the_others_counted() -> None:
    """Three are named; nothing is said where none differs."""
    paces = [
        ReferenceSpeed(name="base", t=0.0, steps_per_s=1000.0, differs=tuple("abcde"[:many])) for many in (0, 3, 5)
    ]
    assert [differing_words(pace) for pace in paces] == ["", "a, b, c", "a, b, c and 2 more"]
