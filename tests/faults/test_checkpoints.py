"""Faults of checkpoints and resuming (rows C)."""

from __future__ import annotations

import pytest

from tests.faults.campaign.part import violations_in
from tests.faults.parts import corruption, failing_calls, hostile_archives
from tests.faults.tracing import lacks_strace

pytestmark = pytest.mark.slow


def test_c2_no_damaged_checkpoint_is_taken_for_whole() -> None:
    """Cut, flipped, zeroed or overwritten: it is detected, and the one before it is the newest verified."""
    found, figures = violations_in(corruption.PART, range(600))
    assert found == []
    assert figures["damaged checkpoints"] + figures["damaged recorded checkpoints"] == 400


@pytest.mark.timeout(60)
def test_c3_a_hostile_checkpoint_executes_nothing_and_stays_in_its_place() -> None:
    """Pickles, bombs, paths, links, twins under a right manifest: no canary, no file outside, bounded memory."""
    found, figures = violations_in(hostile_archives.PART, range(8 * len(hostile_archives.KINDS)))
    assert found == []
    assert figures["refused"] > 80


@pytest.mark.skipif(bool(lacks_strace()), reason=lacks_strace() or "strace works")
@pytest.mark.timeout(90)
def test_c7_retention_that_fails_anywhere_removes_no_last_verified_checkpoint() -> None:
    """Every call of a pruning fails with EIO: the newest stays, no half bears a name, the next one clears up."""
    rounds = [
        index
        for index, (scene, syscall, error, _) in enumerate(failing_calls.FAILURES)
        if scene == "prune" and error == "EIO" and syscall not in ("write", "close")
    ]
    found, figures = violations_in(failing_calls.PART, rounds)
    assert found == []
    assert figures["failed calls"] > 10
