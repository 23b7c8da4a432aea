"""Several charts at once: the wall of a wide screen, and small multiples of metrics that have no axis in common."""

from __future__ import annotations

import pytest
from msgspec import structs
from textual.strip import Strip

from mission_tui.errors import MissionError
from mission_tui.fleet.events.metrics import Metric
from mission_tui.ipc.replies import HistoryReply
from mission_tui.ipc.requests import GetHistory
from mission_tui.tui.plot.canvas import Canvas
from mission_tui.tui.plot.legend import Grid, Stacking, grid_for
from mission_tui.tui.plot.picture import Frame, Scene, picture
from mission_tui.tui.widgets.charts import Chart
from tests.tui.fleets import LIVE, NOW, a_fleet
from tests.tui.stage import Stage, staged

KL, RETURN, LENGTH, CLIP = "train/approx_kl", "rollout/ep_rew_mean", "rollout/ep_len_mean", "train/clip_fraction"
SIZES = {RETURN: 1.0, LENGTH: 1000.0, KL: 0.001, CLIP: 30.0, "train/grad_norm": 5.0}
FLEET = a_fleet((structs.replace(LIVE[0], metrics=SIZES, series={}),))
TITLES = ("return  last 1.00", "episode length  last 1,000", "approx KL  last 1e-3")


def sized(request: GetHistory) -> HistoryReply:
    """Each metric is its own size times the update, from update 1 to 40; bare tags are of size 1."""
    first, last = request.from_update or 1, request.to_update or 40
    updates = tuple(range(first, last + 1))
    values: dict[str, tuple[Metric | None, ...]] = {
        tag: tuple(SIZES.get(tag, 1.0) * update for update in updates) for tag in request.series
    }
    times = tuple(NOW - 400 + update for update in updates)
    steps = tuple(100 * update for update in updates)
    return HistoryReply(
        re=request.id, run=request.run, updates=updates, timesteps=steps, t=times, low=values, high=values
    )


async def opened(stage: Stage, *keys: str) -> list[str]:
    """The learn tab of the first run after `keys`, line by line of the charts."""
    stage.client.answers[GetHistory] = sized
    await stage.press("enter", *keys)
    await stage.until(lambda: "asking" not in stage.text() and len(charts(stage)) > 5)
    return charts(stage)


def charts(stage: Stage) -> list[str]:
    """What stands on the chart alone."""
    return [strip.text for strip in stage.screen.query_one(Chart)._strips]


def test_places_for_panels_fill_the_room_and_never_exceed_it() -> None:
    """Below each other while all fit, in two columns where more fit so; each as high as its share."""
    how = Stacking(least=10, columns=2)
    assert grid_for(150, 54, 4, how) == Grid(1, 4, 12)
    assert grid_for(150, 54, 20, how) == Grid(2, 5, 10)
    assert grid_for(110, 44, 20, how) == Grid(1, 4, 10)
    assert grid_for(110, 12, 20, how).panels == 0
    for height in range(60):
        grid = grid_for(150, height, 20, how)
        assert grid.rows * grid.height + 4 <= max(height, 4)


async def test_a_wide_screen_shows_many_metrics_each_on_its_own_axis() -> None:
    """From 160 columns on, asked for in one question; z shows the chosen one alone, and the wall again."""
    async with staged(FLEET, (160, 50)) as stage:
        text = "\n".join(await opened(stage))
        for title in (
            "return  last 1.00",
            "episode length  last 1,000",
            "approx KL  last 1e-3",
            "clip fraction  last 30",
        ):
            assert title in text
        assert "4 metrics over timesteps" in text
        together = [it for it in stage.client.asked_for(GetHistory) if {RETURN, KL, CLIP} <= set(it.series)]
        assert {it.points for it in together} == {24, 250}
        await stage.press("z")
        await stage.shows("return over timesteps")
        assert "approx KL" not in stage.text()
        await stage.press("z")
        await stage.shows("approx KL  last 1e-3")


async def test_one_crosshair_goes_through_all_charts_and_reads_each_of_them() -> None:
    """In the same column of each panel, at the same update, with the value of each metric there."""
    async with staged(FLEET, (160, 50)) as stage:
        await opened(stage, "tab", "home", "right", "right")
        await stage.shows("update 3 ")
        await stage.until(lambda: "│ 90 " in stage.text())
        rows = charts(stage)
        text = "\n".join(rows)
        for reading in ("return  │ 3 ", "episode length  │ 3000 ", "approx KL  │ 0.003 ", "clip fraction  │ 90 "):
            assert reading in text
        columns = {row.index("●") for row in rows if "●" in row}
        assert len(columns) == 1
        assert sum("●" in row for row in rows) == 4


async def test_the_wall_stays_while_the_cursor_moves_over_it() -> None:
    """The chosen metric is marked; one that is not on the wall takes the last place."""
    async with staged(FLEET, (160, 50)) as stage:
        await opened(stage)
        asked = len(stage.client.asked_for(GetHistory))
        await stage.press("down", "down")
        await stage.shows(">approx KL  last")
        assert len(stage.client.asked_for(GetHistory)) == asked
        await stage.press("end")
        await stage.until(lambda: "clip fraction  last" not in stage.text() and "asking" not in stage.text())
        assert "return  last 1.00" in stage.text()


async def test_more_curves_than_axes_are_drawn_below_each_other() -> None:
    """Three metrics of three sizes: none is squeezed, each axis has its metric for a title."""
    async with staged(FLEET, (100, 36)) as stage:
        text = "\n".join(await opened(stage, "space", "down", "space", "down"))
        assert "3 metrics over timesteps" in text
        for title in TITLES:
            assert title in text


async def test_three_metrics_are_read_on_the_smallest_screen() -> None:
    """Below each other too, and wider than beside a whole list; of four the chosen one is there, and one is not."""
    async with staged(FLEET, (60, 20)) as stage:
        await opened(stage, "space", "down", "space", "down")
        await stage.shows("approx KL  last 1e-3")
        await stage.still()
        drawn = charts(stage)
        assert [title for title in TITLES if any(title in row for row in drawn)] == list(TITLES)
        assert len(drawn[0]) == 36
        await stage.press("tab")
        await stage.shows("│  update 40      4,000 steps")
        await stage.press("escape", "space", "down")
        await stage.shows(">clip fraction  last 30")
        await stage.shows("3 of 4 metrics over timesteps")


async def test_two_metrics_share_a_chart_with_an_axis_each() -> None:
    """Their axes are at the left and at the right, and the legend says which is whose."""
    async with staged(FLEET, (100, 36)) as stage:
        text = "\n".join(await opened(stage, "space", "down"))
        assert "A return 1.00    left" in text
        assert "B episode length 1,000   right" in text


def asked(stage: Stage) -> list[tuple[str, ...]]:
    """The series of each question."""
    return [it.series for it in stage.client.asked_for(GetHistory)]


async def test_the_metrics_that_a_key_may_want_are_known_before_it() -> None:
    """Those beside the cursor, once the chart is there: the next key draws without asking anybody."""
    async with staged(FLEET, (120, 40)) as stage:
        await opened(stage)
        await stage.until(lambda: (LENGTH,) in asked(stage), "the one below is asked for")
        await stage.press("down")
        await stage.until(lambda: (KL,) in asked(stage), "the next one below")
        stage.client.answers[GetHistory] = refusing
        await stage.press("down")
        await stage.shows(" approx KL over ")
        assert "asking" not in stage.text()


def refusing(_request: GetHistory) -> HistoryReply:
    """Answers nothing more."""
    raise MissionError("the history is asked for again")


async def test_a_panel_is_drawn_again_only_when_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor moves over a wall whose curves stay as they are; the crosshair has their lines made again."""
    drawn: list[object] = []

    def counted(scene: Scene, frame: Frame, canvas: Canvas, at: float | None = None) -> list[Strip]:
        drawn.append(at)
        return picture(scene, frame, canvas, at)

    monkeypatch.setattr("mission_tui.tui.plot.legend.picture", counted)
    async with staged(FLEET, (160, 50)) as stage:
        await opened(stage)
        await stage.still()
        panels, before = len(drawn), charts(stage)
        await stage.press("down")
        await stage.until(lambda: any(it.startswith(">episode length") for it in charts(stage)))
        assert (len(drawn), charts(stage)[2:10]) == (panels, before[2:10])
        await stage.press("tab")
        await stage.until(lambda: any("●" in it for it in charts(stage)))
        assert len(drawn) > panels
