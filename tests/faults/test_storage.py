"""Faults of the disk (rows D): what it refuses, loses or turns round."""

from __future__ import annotations

from tests.faults.campaign.part import violations_in
from tests.faults.parts import corruption


def test_d5_a_torn_or_zeroed_tail_is_set_aside_and_all_earlier_records_stay() -> None:
    """A journal cut at every length or with zeros at its end gives back every whole line and goes on after it."""
    found, figures = violations_in(corruption.PART, range(2, 1500, 3))
    assert found == []
    assert figures["damaged journals"] == 500


def test_d6_a_damaged_record_is_rejected_alone_and_reported() -> None:
    """A flip in any byte, and worse, costs the lines it touches and no other; the reader says so."""
    found, figures = violations_in(corruption.PART, range(1502, 4500, 3))
    assert found == []
    assert figures["damaged journals"] == 1000
