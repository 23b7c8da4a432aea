"""Pictures of the field: what they show, and that looking changes nothing."""

from __future__ import annotations

import numpy as np

from mission_tui.envs import MissionGym, MissionGymVector


def test_ansi_shows_units_guards_walls_and_the_legend() -> None:
    """The text has every kind of thing on the field and a legend, and fits into 80 x 24 with a line left."""
    env = MissionGym("demo", render_mode="ansi")
    env.reset(seed=0)
    env.core.fields.alive[0, 0] = False
    page = env.render()
    assert all(mark in page.split("└")[0] for mark in "GAxD█·")
    assert "t 0.0/90 s  capture   0%  units 2/3" in page
    assert {len(line) for line in page.splitlines()[:21]} == {40}
    assert len(page.splitlines()) == 23


def test_rgb_frame_changes_with_the_game_and_not_the_game_with_the_frame() -> None:
    """Frames are uint8 images that follow the units; a rendered episode equals one without rendering."""
    seen, blind = MissionGym("standard", render_mode="rgb_array"), MissionGym("standard")
    seen.reset(seed=3)
    blind.reset(seed=3)
    first = seen.render()
    assert first.dtype == np.uint8
    assert first.shape == (428, 400, 3)
    action = np.array([3, 3, 3, 3])
    for _ in range(10):
        assert np.array_equal(seen.step(action)[0], blind.step(action)[0])
        assert not np.array_equal(seen.render(), first)


def test_vector_renders_each_lane_and_nothing_without_a_mode() -> None:
    """One frame per lane; without a render mode there is nothing to draw."""
    env = MissionGymVector(2, "demo", render_mode="ansi")
    env.reset(seed=0)
    first, second = env.render()
    assert first != second
    assert MissionGym("demo").render() is None
