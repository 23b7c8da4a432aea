"""Changes of state that are cut off at any system call (rows S2 and C1)."""

from __future__ import annotations

import pytest

from tests.faults.campaign.part import violations_in
from tests.faults.parts import crash_points
from tests.faults.tracing import lacks_strace

pytestmark = pytest.mark.slow


traced = pytest.mark.skipif(bool(lacks_strace()), reason=lacks_strace() or "strace works")


def places(*scenes: str) -> list[int]:
    """The rounds of these scenes, for the calls that change names and bytes."""
    return [
        index
        for index, (scene, syscall) in enumerate(crash_points.PLACES)
        if scene in scenes
        and syscall
        in ("write", "fsync", "fdatasync", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "unlinkat")
    ]


@traced
@pytest.mark.timeout(90)
def test_s2_a_change_killed_at_any_call_leaves_the_old_state_or_the_new() -> None:
    """Appends, whole files, runs made, removed and adopted: nothing acknowledged is lost, no half bears a name."""
    found, figures = violations_in(crash_points.PART, places("journal", "whole", "create", "remove", "adopt"))
    assert found == []
    assert figures["crash points"] > 30


@traced
@pytest.mark.timeout(90)
def test_s2_a_removal_killed_at_any_call_leaves_the_run_whole_in_one_place() -> None:
    """In its place or in the trash, from where it comes back; what is purged is in neither by half."""
    found, figures = violations_in(crash_points.PART, places("trash", "purge"))
    assert found == []
    assert figures["crash points"] > 8


@traced
@pytest.mark.timeout(90)
def test_c1_a_save_killed_at_any_call_leaves_a_verified_checkpoint() -> None:
    """Under a new name, under a taken one, and while old ones are pruned; and the next save clears up."""
    found, figures = violations_in(crash_points.PART, places("save", "replace", "prune"))
    assert found == []
    assert figures["crash points"] > 30
