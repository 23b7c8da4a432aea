"""The strip on the screen: where it stands, what its shapes say, how it is zoomed, and how seldom it is asked for."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.strip import GpuTrack, Lane, Span, StateInterval, Strip
from mission_tui.ipc.replies import Refused, StripReply
from mission_tui.ipc.requests import GetStrip
from mission_tui.tui.drawing.glyphs import to_ascii
from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.state.timeline import LaneState, TimelineQuery
from mission_tui.tui.widgets.lines import differences
from mission_tui.tui.widgets.timeline import LABEL, TAIL, phase_cell, timeline
from tests.tui.fake_client import FakeClient
from tests.tui.fleets import NOW, a_fleet
from tests.tui.stage import Clock, staged
from tests.tui.strips import a_strip, cells, phases

LARGE = (160, 50)
OWN: tuple[LaneState, ...] = ("rollout", "saving", "paused", "starting", "ending", "queued", "frozen", "parked")


def answered(strip: Strip, request: GetStrip) -> StripReply:
    return StripReply(re=request.id, strip=strip)


def shown(widget: Any, strip: Strip) -> bool:
    return widget._timeline_query.strip is strip


def drawn(strip: Strip, rows: int = 12, width: int = 160) -> list[str]:
    return [row.text for row in timeline(strip, 60.0, "1m", width, rows)]


def test_peak_and_mean_have_a_line_each_over_the_lanes() -> None:
    """A square wave is 100 % at its peak and 15 % on average; its run spends as much in updates, below the bursts."""
    ruler, peak, mean, heavy, *_ = drawn(a_strip(61.0))
    assert ruler.startswith(" last 1m ")
    assert "│-30s" in ruler
    assert ruler.rstrip().endswith("now│")
    assert peak.startswith(" GPU0 peak ")
    assert peak.rstrip().endswith(" 100%")
    assert mean.rstrip().endswith(" 15%")
    assert heavy.startswith(" heavy-3f9a")
    assert heavy.rstrip().endswith("15% update")
    columns = range(LABEL, 160 - TAIL)
    assert all((peak[at] == "█") >= (heavy[at] != "─") for at in columns)


@pytest.mark.parametrize("width", [20, 30, 80, 160, 400])
def test_every_line_is_as_wide_as_the_screen(width: int) -> None:
    """Narrow or wide, no line is cut and none is longer."""
    assert all(len(row) == width for row in drawn(a_strip(61.0), 12, width))


def test_without_a_gpu_the_processors_take_its_place() -> None:
    """Calmly: no error, no empty rows."""
    _, peak, mean, *_ = drawn(a_strip(61.0, gpu=False))
    assert peak.startswith(" CPU peak")
    assert peak.rstrip().endswith(" 80%")
    assert mean.rstrip().endswith(" 70%")
    assert drawn(Strip(since=NOW - 60, until=NOW))[0].strip() == "nothing was measured in the last 1m"


def test_a_run_that_stood_shows_how_where_it_has_no_phase() -> None:
    """Queued, then learning, then frozen: what a trainer said counts, and only what was there is in the legend."""
    spans = (Span("rollout", NOW - 40, NOW - 20),)
    stands = (
        StateInterval("queued", NOW - 60, NOW - 40),
        StateInterval("paused", NOW - 30, NOW - 20),
        StateInterval("frozen", NOW - 20, NOW),
    )
    rows = drawn(Strip(since=NOW - 60, until=NOW, lanes=(Lane(run="r", name="heavy", spans=spans, stands=stands),)))
    lane = next(row for row in rows if row.startswith(" heavy"))[LABEL : 160 - TAIL]
    columns = len(lane)
    assert set(lane[: columns // 3 - 1]) == {":"}
    assert set(lane[columns // 3 + 1 : 2 * columns // 3 - 1]) == {"─"}
    assert set(lane[2 * columns // 3 + 1 :]) == {"◇"}
    assert "◇ frozen" in rows[-1]
    assert ": queued" in rows[-1]
    assert "parked" not in rows[-1]
    barely = (StateInterval("queued", NOW - 30.1, NOW - 30), StateInterval("frozen", NOW - 20, NOW))
    rows = drawn(Strip(since=NOW - 60, until=NOW, lanes=(Lane(run="r", name="heavy", spans=spans, stands=barely),)))
    assert "queued" not in rows[-1]
    strip = Strip(since=NOW - 60, until=NOW, lanes=(Lane(run="r", name="heavy", spans=spans, stands=stands),) * 3)
    legend = timeline(strip, 60.0, "1m", 60, 4)[-1].text.split()
    assert legend[2:] == ["─", "rollout", "█", "update", "↓", "saving", "‖", "paused"], "none of them is cut"


def test_phases_differ_in_shape_also_without_utf8() -> None:
    """No two phases, nor any mixture of the two that train, share a shape or its stand-in with another phase."""
    for ascii_only in (False, True):
        own = {phase: phase_cell({phase: 1.0})[0] for phase in OWN}
        mixed = {phase_cell({"rollout": 10.0 - share, "update": share})[0] for share in range(1, 11)}
        shapes = {to_ascii(shape) if ascii_only else shape for shape in own.values()}
        assert len(shapes) == len(own)
        assert not shapes & {to_ascii(shape) if ascii_only else shape for shape in mixed}
    assert phase_cell({"rollout": 0.99, "update": 0.01})[0] == "▁"
    assert phase_cell({})[0] == " "


def test_more_gpus_than_rows_show_their_peaks_and_more_runs_are_counted() -> None:
    """Eight GPUs have a line each; of nine lanes those that live come first, and the others are counted."""
    strip = a_strip(61.0)
    eight = tuple(structs.replace(strip.gpus[0], uuid=f"GPU-{n}") for n in range(8))
    lanes = tuple(Lane(run=f"r{n}", name=f"run-{n}", spans=phases(NOW - 60, NOW)) for n in range(9))
    rows = [row.text for row in timeline(structs.replace(strip, gpus=eight, lanes=lanes), 60.0, "1m", 160, 13, {"r8"})]
    assert len(rows) == 13
    assert sum("peak" in row for row in rows) == 8
    assert "mean 15%" in rows[1]
    assert rows[9].startswith(" run-8 ")
    assert rows[-1].startswith(" 6 more ")


async def test_a_large_screen_shows_the_strip_and_zooms_it() -> None:
    """At 160x50 it stands under the meters; `.` and `,` turn it through its stretches and stop at the ends."""
    async with staged(size=LARGE) as stage:
        await stage.shows("last 5m")
        await stage.shows(" heavy-3f9a     ")
        await stage.press("right_curly_bracket")
        await stage.shows("last 1m")
        await stage.until(lambda: stage.client.asked_for(GetStrip)[-1].seconds < 70)
        await stage.press(*["left_curly_bracket"] * 6)
        await stage.shows("last 24h")
        await stage.press(*["right_curly_bracket"] * 7)
        await stage.shows("last 15s")
        await stage.until(lambda: stage.client.asked_for(GetStrip)[-1].seconds < 16)


async def test_smaller_screens_neither_show_it_nor_ask_for_it() -> None:
    """The meters' line is what they have; the key says where the strip is."""
    async with staged(size=(120, 36)) as stage:
        await stage.press("left_curly_bracket")
        assert stage.client.asked_for(GetStrip) == []
        assert "the strip is not shown here: m opens the machine" in stage.toasts()


async def test_nobody_asks_below_another_screen() -> None:
    """A fleet that lies under an open run is drawn with each snapshot, and asks for nothing."""
    async with staged(size=LARGE) as stage:
        await stage.shows("last 5m")
        await stage.press("enter")
        asked = len(stage.client.asked_for(GetStrip))
        await stage.arrive(a_fleet(revision=9))
        assert len(stage.client.asked_for(GetStrip)) == asked
        await stage.press("escape")
        await stage.arrive(a_fleet(revision=19))
        await stage.until(lambda: len(stage.client.asked_for(GetStrip)) > asked)


async def test_a_supervisor_that_has_no_strip_is_one_quiet_line() -> None:
    """An older one, or none: the reason stands there in one line, and the runs have the room."""
    app_asks = FakeClient.stream

    def refusing(self: FakeClient, make: Any) -> Any:
        self.answers[GetStrip] = lambda request: Refused(re=request.id, message="unknown request 'strip'")
        return app_asks(self, make)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FakeClient, "stream", refusing)
        async with staged(size=LARGE) as stage:
            await stage.shows(" unknown request 'strip'")
            await stage.until(lambda: stage.screen.query_one("#timeline").size.height == 1, "one line")


class Quiet:
    """A context whose work waits until it is done by hand."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.client = FakeClient(a_fleet())
        self.work: list[Coroutine[Any, Any, None]] = []

    async def ask(self, make: Any, at: str = "") -> Any:
        return await self.client.ask(make)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(work)

    async def done(self) -> int:
        count = len(self.work)
        while self.work:
            await self.work.pop()
        return count


async def test_it_is_asked_for_once_a_column_and_never_twice_at_once() -> None:
    """As often as a column begins, at most once a second, at least twice a minute; another zoom at once."""
    desk, changed = Quiet(), []
    desk.client.answers[GetStrip] = partial(answered, Strip(since=NOW - 60, until=NOW))
    timeline_query = TimelineQuery(desk, lambda: changed.append(1))
    for seconds, within, expected in ((300.0, 10.0, 4), (86_400.0, 60.0, 2), (15.0, 10.0, 10)):
        asked = 0
        for _ in range(round(within / 0.25)):
            timeline_query.request(seconds, 120)
            timeline_query.request(seconds, 120)
            asked += await desk.done()
            desk.clock.advance(0.25)
        assert asked == expected
    assert timeline_query.strip is not None
    assert len(changed) == len(desk.client.asked)
    assert max(request.most for request in desk.client.asked_for(GetStrip)) <= 1200


async def test_what_is_wanted_while_an_answer_is_awaited_is_asked_for_after_it() -> None:
    """A terminal that was resized meanwhile has its own columns, also when nothing else draws the screen again."""
    desk = Quiet()
    timeline_query = TimelineQuery(desk, lambda: None)

    def resized(request: GetStrip) -> StripReply:
        if request.most == 480:
            for columns in (60, 80):
                timeline_query.request(300.0, columns)
        return answered(Strip(since=NOW - 60, until=NOW), request)

    desk.client.answers[GetStrip] = resized
    timeline_query.request(300.0, 120)
    await desk.done()
    assert [request.most for request in desk.client.asked_for(GetStrip)] == [480, 320]


async def test_an_answer_that_does_not_come_is_asked_for_again() -> None:
    """The reason is known meanwhile, what was known stays, and the next answer takes the reason away."""
    desk = Quiet()
    timeline_query = TimelineQuery(desk, lambda: None)
    timeline_query.request(60.0, 100)
    await desk.done()
    before = timeline_query.strip
    desk.client.vanish()
    desk.clock.advance(5)
    timeline_query.request(60.0, 100)
    await desk.done()
    assert timeline_query.trouble == "no supervisor answers"
    assert timeline_query.strip is before
    desk.client.come_back()
    desk.clock.advance(5)
    timeline_query.request(60.0, 100)
    await desk.done()
    assert timeline_query.trouble is None


async def test_unchanged_cells_are_not_painted_again() -> None:
    """Within a column of time only the newest column is repainted, however often the strip is answered."""
    async with staged(size=LARGE) as stage:
        await stage.shows("last 5m")
        await stage.until(lambda: stage.client.asked_for(GetStrip))
        width = 300 / (160 - LABEL - TAIL)
        begin = NOW // width * width
        spans = phases(NOW - 310, begin + width)

        def until(share: float) -> Strip:
            found = cells(spans, NOW - 310, begin + share * width)
            gpu = GpuTrack(uuid="GPU-1", name="x", busy=found)
            return Strip(since=NOW - 310, until=begin + share * width, gpus=(gpu,), lanes=a_strip(310.0).lanes)

        widget: Any = stage.screen.query_one("#timeline")
        for at, share in enumerate((0.1, 0.3, 0.9), start=2):
            answer = until(share)
            stage.client.answers[GetStrip] = partial(answered, answer)
            painted = [*widget._strips]
            await stage.arrive(a_fleet(revision=at))
            await stage.until(partial(shown, widget, answer))
            if at > 2:
                rows = zip(painted, widget._strips, strict=True)
                spans_changed = [span for before, after in rows for span in differences(before, after)]
                assert spans_changed
                assert all(start >= 160 - TAIL - 1 for start, _ in spans_changed), spans_changed


async def test_a_snapshot_alone_cuts_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots come four times a second, and what the strip says changes with its answers only."""
    async with staged(size=LARGE) as stage:
        await stage.shows("last 5m")
        fleet = stage.screen
        assert isinstance(fleet, FleetScreen)
        # The charts that the cursor's rest asks for may take rows of the strip.
        await stage.until(lambda: fleet._rested)
        await stage.still()
        asked, cut = len(stage.client.asked_for(GetStrip)), []

        def cutting(*_: object) -> list[Any]:
            cut.append(1)
            return []

        monkeypatch.setattr("mission_tui.tui.widgets.timeline.timeline", cutting)
        await stage.arrive(a_fleet(revision=2))
        await stage.until(lambda: cut, "the answer is drawn")
        await stage.still()
        assert len(cut) == len(stage.client.asked_for(GetStrip)) - asked
