"""What was known at a moment, from the times that lines carry."""

from __future__ import annotations

import pytest

from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.history.metrics_state import phase_before
from mission_tui.records.files.lines import TimeIndex

ROW = UpdateDone(1, 1, 1, 64, t=100.0, rollout_s=6.0, update_s=2.0, steps_per_s=8.0)


@pytest.mark.parametrize(("moment", "lines"), [(0.5, 0), (1.0, 1), (2.5, 2), (3.0, 3), (99.0, 3)])
def test_a_line_is_known_from_its_moment_on(moment: float, lines: int) -> None:
    """Up to and with the moment itself."""
    assert TimeIndex([1.0, 2.0, 3.0]).count_until(moment) == lines


def test_a_line_was_written_no_later_than_the_lines_after_it() -> None:
    """A clock that was ahead for a while hides nothing of what followed."""
    index = TimeIndex([10.0, 4000.0, 4001.0, 30.0, 40.0])
    assert [index.count_until(t) for t in (10.0, 29.0, 30.0, 40.0)] == [1, 1, 4, 5]


@pytest.mark.parametrize(
    ("moment", "phase", "since"),
    [(91.0, None, 91.0), (92.0, "rollout", 92.0), (97.9, "rollout", 92.0), (98.0, "update", 98.0)],
)
def test_a_row_says_what_was_done_before_it(moment: float, phase: str | None, since: float) -> None:
    """Its seconds of rollout and update end at its own time."""
    seen = phase_before(ROW, moment)
    assert (seen.phase, seen.t) == (phase, since)
