"""Faults of sockets and messages (rows I), both planes in a server of their own process."""

from __future__ import annotations

import pytest

from tests.faults.campaign.part import violations_in
from tests.faults.parts import hostile_frames


@pytest.mark.timeout(60)
def test_i4_a_hostile_frame_costs_its_own_connection_and_nothing_else() -> None:
    """Bombs, mutations and noise: one error each, a neighbour served all the while, memory and descriptors level."""
    found, figures = violations_in(hostile_frames.PART, range(3000))
    assert found == []
    assert figures["frames"] == 3000
