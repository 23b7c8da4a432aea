"""Copies of runs, and processes that cannot be seen: rows L1 to L3."""

from __future__ import annotations

import pytest

from tests.faults.campaign.part import violations_in
from tests.faults.parts import copies

pytestmark = pytest.mark.slow


@pytest.mark.timeout(300)
def test_l1_all_verbs_on_a_copy_leave_its_living_original_unharmed() -> None:
    """A copy of a root in which runs train, stand frozen and wait; part `copies` makes sixty, ten minutes long."""
    violations, figures = violations_in(copies.PART, range(1))
    assert violations == []
    assert figures["verbs"] == copies.VERBS_A_ROUND
