"""Nothing is cut off, run together or hinted at in vain, at the sizes that people have."""

from __future__ import annotations

import pytest

from mission_tui.fleet.views.seed_group import SeedGroup
from mission_tui.tui.launching.preset_choice import PresetChoice
from mission_tui.tui.listing.group_cells import GROUP_CELLS
from tests.tui.fleets import a_fleet
from tests.tui.stage import PRESETS, staged
from tests.tui.test_seed_groups import seed

SIZES = [(80, 24), (120, 40), (160, 50), (200, 60)]


@pytest.mark.parametrize(
    ("ends", "width", "said"),
    [
        ((0.2821, 1.2437), 10, "0.28..1.24"),
        ((0.2821, 1.2437), 11, "0.282..1.24"),
        ((-1.442, -0.0712), 10, "-1.4..-0.1"),
        ((-1234.0, -1100.0), 12, "-1.2k..-1.1k"),
        ((5.18, 6.37), 10, "5.18..6.37"),
        ((-12.31, -9.84), 10, "-12..-10"),
    ],
)
def test_a_band_of_seeds_keeps_its_end(ends: tuple[float, float], width: int, said: str) -> None:
    """Fewer digits rather than a cut figure."""
    group = SeedGroup(tuple(seed(at, value) for at, value in enumerate(ends)))
    assert GROUP_CELLS[""](group, 0.0, width)[0] == said


async def test_an_empty_fleet_folds_long_descriptions_and_hints_at_nothing_that_needs_a_run() -> None:
    """Every word of what a digit starts; no key that would only say that no run is chosen."""
    about = "everything a big machine has: 64 x 512 transitions, 1024-512-512-256 and then some more of it"
    presets = (*PRESETS[:3], PresetChoice("beast", about, "4"))
    async with staged(a_fleet(()), presets=presets) as stage:
        said = " ".join(stage.text().split())
        assert f"4 starts beast: {about}" in said
        footer = stage.lines()[-1]
        assert "n new" in footer
        assert "? help" in footer
        assert not any(word in footer for word in ("pause", "stop", "kill", "resume", "more", "open"))


@pytest.mark.parametrize("size", SIZES[2:])
async def test_list_and_detail_beside_each_other_are_apart(size: tuple[int, int]) -> None:
    """The last column's words do not run into the tabs or the headline."""
    async with staged(size=size) as stage:
        titles = next(line for line in stage.lines() if " ETA" in line)
        assert "ETA ─ " in titles
