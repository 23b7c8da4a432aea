"""The parts of the campaign, one a module; `ALL` is the order in which `make faults` runs them."""

from __future__ import annotations

from tests.faults.campaign.part import Part
from tests.faults.parts import (
    adopt,
    configs,
    copies,
    corruption,
    crash_points,
    failing_calls,
    hostile_archives,
    hostile_frames,
    hostile_strings,
    kills,
    lifecycle,
    load,
    names,
    odd_directories,
    pid_reuse,
    power_cuts,
    remote,
    resizes,
    screen_day,
    simulator,
    stalled_terminal,
)

__all__ = ["ALL"]

ALL: tuple[Part, ...] = (
    crash_points.PART,
    failing_calls.PART,
    power_cuts.PART,
    corruption.PART,
    hostile_archives.PART,
    hostile_frames.PART,
    hostile_strings.PART,
    odd_directories.TYPED_PART,
    odd_directories.ODD_PART,
    configs.PART,
    names.PART,
    pid_reuse.PART,
    adopt.PART,
    kills.PART,
    copies.PART,
    lifecycle.PART,
    load.PART,
    simulator.PART,
    remote.PART,
    screen_day.PART,
    resizes.PART,
    stalled_terminal.PART,
)
