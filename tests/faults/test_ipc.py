"""Faults of sockets, messages and what is shown of them (rows I)."""

from __future__ import annotations

import pytest

from tests.faults.campaign.part import violations_in
from tests.faults.hostile.reach import called, drawing_functions
from tests.faults.parts import hostile_frames, hostile_strings

pytestmark = pytest.mark.slow


@pytest.mark.timeout(60)
def test_i4_a_hostile_frame_costs_its_own_connection_and_nothing_else() -> None:
    """Bombs, mutations and noise: one error each, a neighbour served all the while, memory and descriptors level."""
    found, figures = violations_in(hostile_frames.PART, range(3000))
    assert found == []
    assert figures["frames"] == 3000


@pytest.mark.timeout(60)
def test_i8_markup_and_escapes_are_shown_and_change_no_terminal() -> None:
    """On a small screen, whatever keys open: no control or hidden character is painted, none reaches the emulator."""
    found, figures = violations_in(hostile_strings.PART, range(49, 50))
    assert found == []
    assert figures["strings"] > 100


@pytest.mark.timeout(120)
def test_i9_foreign_names_of_every_kind_are_harmless_in_every_part_of_the_screen() -> None:
    """A tour of all widgets, sections and sheets, each drawn with foreign text; a new one is missed by name."""
    with called() as drew:
        found, figures = violations_in(hostile_strings.PART, range(6, 7), seed=2)
    assert found == []
    assert drawing_functions() - drew == set()
    assert figures["strings"] > 1000
