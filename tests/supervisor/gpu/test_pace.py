"""How often the GPU probe looks: as often as 2 % of a core allow, between once and twenty times a second."""

from __future__ import annotations

import pytest

from mission_tui.supervisor.gpu.probe import SampleInterval


@pytest.mark.parametrize(("cost_s", "period_s"), [(0.0001, 0.05), (0.002, 0.1), (0.5, 1.0)])
def test_looks_become_rarer_where_they_are_dear(cost_s: float, period_s: float) -> None:
    """A tenth of a millisecond a look: 20 Hz; two: 10 Hz; half a second: once a second."""
    pace = SampleInterval(now=100.0, spent_s=3.0)
    for look in range(1, 25):
        pace.sampled(100.0 + look * 0.05, 3.0 + look * cost_s)
    assert pace.period_s == pytest.approx(period_s)
