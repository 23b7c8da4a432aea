"""Returns that only chance moves: rules that look at every update of every run must hardly ever warn of one."""

from __future__ import annotations

import pytest

from benchmarks.health.cases import judged
from benchmarks.health.chance import LAWS, PER_UPDATE, chance_run
from mission_tui.fleet.specs.thresholds import Limits


@pytest.mark.parametrize("law", ["normal", "rare disaster"])
def test_chance_alone_is_not_warned_of(law: str) -> None:
    """Eight runs that learn nothing, with 1 to 100 episodes an update; rare disasters move their mean by leaps."""
    runs = [chance_run(LAWS[law], 0.0, episodes, seed) for episodes in PER_UPDATE for seed in range(2)]
    assert [[it for it in judged(run, Limits()) if it.level != "info"] for run in runs] == [[]] * len(runs)
