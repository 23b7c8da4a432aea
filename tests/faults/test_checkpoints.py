"""Faults of checkpoints and resuming (rows C)."""

from __future__ import annotations

from tests.faults.campaign.part import violations_in
from tests.faults.parts import corruption


def test_c2_no_damaged_checkpoint_is_taken_for_whole() -> None:
    """Cut, flipped, zeroed or overwritten: it is detected, and the one before it is the newest verified."""
    found, figures = violations_in(corruption.PART, range(600))
    assert found == []
    assert figures["damaged checkpoints"] + figures["damaged recorded checkpoints"] == 400
