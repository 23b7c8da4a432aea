"""Terminals of every size, every locale and without colour."""

from __future__ import annotations

import pytest

from mission_tui.tui.screens.questions import ConfirmScreen
from mission_tui.tui.screens.snapshot_screen import Arrangement, arrange
from mission_tui.tui.widgets.panes import columns_for
from tests.tui.fleets import a_fleet
from tests.tui.stage import staged


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (39, 24), (80, 9), (40, 10), (300, 5), (10_000, 12), (120, 200)])
async def test_no_size_crashes(size: tuple[int, int]) -> None:
    """From one cell to ten thousand columns, with keys pressed and a run opened."""
    async with staged(size=size) as stage:
        await stage.press("down", "]", "v", "z", "enter")
        await stage.press("]", "escape", "question_mark", "escape")
        assert stage.app.is_running


@pytest.mark.slow
async def test_a_storm_of_sizes_ends_in_the_right_picture() -> None:
    """Many changes in a row leave the last one's layout."""
    async with staged() as stage:
        for width in range(10, 200, 7):
            await stage.pilot.resize_terminal(width, 5 + width // 5)
        await stage.pilot.resize_terminal(80, 24)
        await stage.shows(" 1 demo 2 fast 3 heavy 4 beast P trio  n new  p pause s stop K kill x more")
        assert all(len(line) == 80 for line in stage.lines())


@pytest.mark.slow
@pytest.mark.parametrize("key", ["n", "R", "semicolon"])
async def test_a_sheet_outlives_a_terminal_that_shrinks_to_nothing(key: str) -> None:
    """At some width each of its fields has no room at all; with room again it is still there."""
    async with staged() as stage:
        await stage.press(key)
        sheet = stage.screen
        for width in range(40, 0, -5):
            await stage.pilot.resize_terminal(width, 24)
        await stage.pilot.resize_terminal(80, 24)
        await stage.until(lambda: "Esc back" in stage.text())
        assert stage.screen is sheet


async def test_too_small_says_so_and_recovers() -> None:
    """Below 40x10 there is a notice instead of a broken picture."""
    async with staged(size=(30, 8)) as stage:
        await stage.shows("too small: 40x10 at least")
        await stage.pilot.resize_terminal(80, 24)
        await stage.shows("heavy-3f9a")


async def test_forty_columns_show_what_matters() -> None:
    """Name, state, share and health survive."""
    async with staged(size=(40, 12)) as stage:
        (line,) = [line for line in stage.lines() if "wide-11c0" in line]
        assert "update" in line
        assert "22%" in line
        assert "▲ KL" in line


async def test_panes_of_no_live_run_are_refused_in_words() -> None:
    """The key changed unseen what the next run would be shown as."""
    from tests.tui.fleets import ENDED

    async with staged(a_fleet(ENDED)) as stage:
        before = stage.app.view_state.panes
        await stage.press("v")
        await stage.shows("no run is live")
        assert stage.app.view_state.panes == before


@pytest.mark.parametrize("columns", [40, 50, 58])
async def test_a_narrow_run_shares_its_columns_between_chart_and_metrics(columns: int) -> None:
    """The list does not leave so few to the chart that even its words are cut after two letters."""
    async with staged(size=(columns, 20)) as stage:
        await stage.press("enter")
        await stage.shows("return over")
        await stage.shows(">return")
        assert any("┤" in line for line in stage.lines())


@pytest.mark.parametrize("environ", [{"LC_ALL": "C"}, {"LANG": "de_DE.ISO-8859-1"}, {}], ids=["C", "latin", "unset"])
async def test_without_utf8_everything_is_ascii(environ: dict[str, str]) -> None:
    """Shapes, sparklines, frames and the chart have stand-ins of the same width."""
    async with staged(size=(120, 40), environ=environ) as stage:
        for keys in ([], ["enter"], ["escape", "question_mark"]):
            await stage.press(*keys)
            assert stage.text().isascii()
        await stage.press("escape")
        assert "+> heavy-3f9a * rollout" in stage.text()


async def test_no_color_leaves_words_shapes_and_a_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR no cell has a colour; what the colour said is still there."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with staged() as stage:
        for strip in stage.screen._compositor.render_strips():
            for segment in strip:
                assert segment.style is None or segment.style.color is None or segment.style.color.is_default
                assert segment.style is None or segment.style.bgcolor is None or segment.style.bgcolor.is_default
        assert any(line.startswith(">● heavy-3f9a") for line in stage.lines())


def test_rows_are_shared_between_panes_list_and_detail() -> None:
    """The list always keeps room; panes come with width or on demand; a wide screen puts the detail beside a long list,
    and below a short one, which would leave half of its column empty.
    """
    assert arrange(80, 21, 3, 6, panes=None, maximised=None) == Arrangement(0, 11, listed=True)
    assert arrange(120, 37, 3, 6, panes=None, maximised=None).panes == 14
    assert arrange(80, 37, 3, 6, panes=True, maximised=None).panes == 21
    assert arrange(120, 37, 3, 6, panes=False, maximised=None).panes == 0
    assert arrange(160, 47, 3, 20, panes=None, maximised=None) == Arrangement(
        7, 40, listed=True, beside=True, others=11
    )
    assert arrange(160, 47, 3, 6, panes=None, maximised=None) == Arrangement(7, 33, listed=True, others=11)


def test_panes_take_all_the_width_in_rows_of_as_many() -> None:
    """One pane is as wide as the screen, five are three and two, and none is narrower than it can be read."""
    assert [columns_for(200, many) for many in range(1, 10)] == [1, 2, 3, 4, 3, 3, 4, 4, 3]
    assert columns_for(80, 3) == 1
    assert arrange(80, 21, 3, 6, panes=None, maximised="detail") == Arrangement(0, 21, listed=False)
    assert arrange(80, 21, 3, 6, panes=None, maximised="list") == Arrangement(0, 0, listed=True)


@pytest.mark.parametrize("rows", range(1, 60))
def test_no_part_gets_more_than_there_is(rows: int) -> None:
    """For any height and number of runs something is left for the list."""
    for live in (0, 1, 5, 40):
        for rest in (0, 3, 200):
            for width in (80, 120, 200):
                shared = arrange(width, rows, live, rest, panes=None, maximised=None)
                used = shared.panes + (0 if shared.beside else shared.detail)
                assert 0 <= used < rows or rows == 1
                assert shared.detail <= rows - shared.panes


async def test_sixteen_live_runs_scroll_as_panes() -> None:
    """Panes that do not fit are announced, and the chosen one is always in sight."""
    from tests.tui.fleets import a_run

    async with staged(a_fleet(tuple(a_run(f"run-{n:04d}") for n in range(16))), size=(130, 40)) as stage:
        await stage.shows("more live runs: move on to see them")
        await stage.press("end")
        await stage.shows("> run-0015")


async def test_one_pane_that_does_not_fit_is_announced_as_one() -> None:
    """As it is in English."""
    from tests.tui.fleets import ENDED, a_run

    async with staged(a_fleet((a_run("run-a"), a_run("run-b"), *ENDED[:3])), size=(80, 24)) as stage:
        await stage.press("v")
        await stage.shows("1 more live run: move on to see it")


@pytest.mark.parametrize("size", [(36, 8), (20, 5), (30, 3)])
async def test_no_screen_is_blank_without_a_word(size: tuple[int, int]) -> None:
    """Where a chart has no room, that is said; so is it of the list."""
    async with staged(size=size) as stage:
        assert "too small:" in stage.text()
        assert "10" in stage.text()
        await stage.pilot.resize_terminal(80, 24)
        await stage.shows("heavy-3f9a")
        await stage.press("enter")
        await stage.pilot.resize_terminal(*size)
        await stage.still()
        assert "no room" in stage.text() or "enough" in stage.text() or size[1] < 6


async def test_a_title_that_does_not_fit_says_so() -> None:
    """A question that ends in the middle of a name asks something else."""
    async with staged(size=(40, 12)) as stage:
        stage.app.push_screen(ConfirmScreen("Start a new run from heavy-with-a-long-name-s2?", (), "start"))
        await stage.shows("Start a new run from heavy-with-a-l…")
