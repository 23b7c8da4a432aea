"""The line API base: only what changed on a line is painted again."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from mission_tui.fleet.events.processes import Usage
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.widgets import panes as pane_grid
from mission_tui.tui.widgets.lines import Lines, ScrollLines, differences
from tests.tui.fleets import ENDED, LIVE, a_fleet
from tests.tui.stage import Stage, staged

STYLES = [Style(color="red"), Style(color="blue")]


def strip_of(words: list[tuple[str, int]]) -> Strip:
    return Strip([Segment(word, STYLES[style]) for word, style in words]).adjust_cell_length(40)


@given(*[st.lists(st.tuples(st.text("abc 漢", min_size=1, max_size=4), st.integers(0, 1)), max_size=8)] * 2)
def test_cells_outside_the_spans_are_equal(one: list[tuple[str, int]], other: list[tuple[str, int]]) -> None:
    """Whatever differs lies within the spans that are painted again; they are apart, and in order."""
    before, after = strip_of(one), strip_of(other)
    spans = differences(before, after)
    edges = [0, *(edge for span in spans for edge in span), 40]
    assert edges == sorted(edges)
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        assert before.crop(start, end).simplify() == after.crop(start, end).simplify()
    assert spans or before.simplify() == after.simplify()
    assert not (spans and before == after)


def test_only_changed_cells_are_within_the_spans() -> None:
    """Two numbers far apart are two spans, each as wide as its change; digits close together are one."""
    before = strip_of([("return 12.4  ", 0), ("speed 1,388", 1)])
    after = strip_of([("return 12.5  ", 0), ("speed 1,477", 1)])
    assert differences(before, after) == [(10, 11), (21, 24)]


def spied(stage: Stage) -> list[tuple[str | None, tuple[Region, ...]]]:
    """Every refresh of a widget from now on, with its regions."""
    painted: list[tuple[str | None, tuple[Region, ...]]] = []
    for widget in stage.app.screen.query("*"):

        def refresh(*regions: Region, _widget: Widget = widget, **options: bool) -> Widget:
            painted.append((_widget.id, regions))
            return type(_widget).refresh(_widget, *regions, **options)

        setattr(widget, "refresh", refresh)  # noqa: B010 - a spy on one instance
    return painted


async def test_a_changed_number_repaints_a_part_of_one_line() -> None:
    """A snapshot in which one run's speed changed paints neither other lines nor the line's beginning."""
    async with staged() as stage:
        painted = spied(stage)
        changed = structs.replace(LIVE[1], steps_per_s=7.0)
        await stage.arrive(a_fleet((LIVE[0], changed, *stage.client.snapshot.runs[2:]), revision=2))
        ((widget, (region,)),) = painted
        assert widget == "runs"
        assert (region.y, region.height) == (2, 1)
        assert region.x > 20


async def test_an_equal_snapshot_paints_nothing() -> None:
    """A supervisor that repeats itself costs no bytes on the line."""
    async with staged(a_fleet(ENDED)) as stage:
        painted = spied(stage)
        await stage.arrive(a_fleet(ENDED, revision=2))
        assert painted == []


class Sized(Lines):
    """Says how wide it is, and counts how often it was asked."""

    asked = 0

    def redraw(self) -> None:
        """One line of its width."""
        self.asked += 1
        self.show([Strip([Segment(f"{self.size.width:<{self.size.width}}")])])


class Bare(App[None]):
    """Nothing but the widget."""

    def compose(self) -> ComposeResult:
        """The widget, which fills the screen."""
        yield Sized()


async def test_another_size_is_drawn_once_and_by_the_paint_that_shows_it() -> None:
    """No blank or old picture is painted before the one that fits, nor the same one after it."""
    async with Bare().run_test(size=(40, 5)) as pilot:
        lines = pilot.app.query_one(Sized)
        assert lines.render_line(0).text.split() == ["40"]
        asked = lines.asked
        await pilot.resize_terminal(60, 5)
        await pilot.pause()
        assert lines.render_line(0).text.split() == ["60"]
        assert lines.asked == asked + 1


@pytest.mark.slow
class Titled(App[None]):
    """A line that is painted, hidden, set to other words while it has no room, and shown again."""

    def compose(self) -> ComposeResult:
        yield ScrollLines(id="title")


async def test_what_was_set_while_hidden_is_drawn_when_it_is_shown_in_its_former_size() -> None:
    """It comes back in the size that it was painted in, which does not mean that it is drawn."""
    app = Titled()
    async with app.run_test(size=(20, 2)) as pilot:
        title = app.query_one("#title", ScrollLines)
        title.display = False
        await pilot.pause()
        title.set(lambda width: [Strip([Segment("KL over updates".ljust(width))])])
        title.display = True
        await pilot.pause()
        assert title.render_lines(Region(0, 0, 20, 1))[0].text.rstrip() == "KL over updates"


async def test_a_line_is_painted_as_textual_would_paint_it() -> None:
    """Whatever changed before: a number, the choice, the size, what stands beside it, the style."""

    def both(stage: Stage) -> None:
        for lines in stage.screen.query(Lines):
            for whole in (lines.size.region, Region(2, 0, max(0, lines.size.width - 5), min(1, lines.size.height))):
                own = lines.render_lines(whole)
                lines._styles_cache.clear()
                assert own == Widget.render_lines(lines, whole)

    async with staged(size=(160, 50)) as stage:
        both(stage)
        await stage.arrive(a_fleet((LIVE[0], structs.replace(LIVE[1], steps_per_s=7.0), *LIVE[2:]), revision=2))
        both(stage)
        await stage.press("right", "tab")
        both(stage)
        for lines in stage.screen.query(Lines):
            lines.styles.background = "#203040"
        await stage.still()
        both(stage)
        await stage.pilot.resize_terminal(130, 40)
        await stage.still()
        both(stage)


async def test_a_sign_of_life_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A live run says that it lives once a second, and its processes are looked at as often: neither is seen here."""
    async with staged(size=(160, 50)) as stage:
        painted = spied(stage)
        drawn = list[str]()

        def framed(view: RunView, body: list[Strip], *_: object, **__: object) -> list[Strip]:
            drawn.append(view.name)
            return body

        ended = stage.client.snapshot.runs[len(LIVE) :]
        taking = [structs.replace(run, usage=Usage(9.0, 1, 1, 1)) for run in LIVE]
        await stage.arrive(a_fleet((*taking, *ended), revision=2))
        painted.clear()
        monkeypatch.setattr(pane_grid, "framed", framed)
        # What it takes is drawn every two seconds, and the clock stands still.
        lives = [structs.replace(run, heartbeat_t=1.0, phase_t=2.0, usage=Usage(7.0, 1, 1, 1)) for run in LIVE]
        await stage.arrive(a_fleet((*lives, *ended), revision=3))
        assert drawn == []
        assert [widget for widget, _ in painted if widget in ("panes", "runs")] == []


async def test_the_next_phase_is_one_line_of_a_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands within the frame is not drawn again, and the panes beside it stay."""
    async with staged(size=(160, 50)) as stage:
        panes = stage.screen.query_one(pane_grid.PaneGrid)
        before = list(panes._strips)
        monkeypatch.delattr(pane_grid, "inside")
        changed = structs.replace(LIVE[1], phase="saving")
        await stage.arrive(a_fleet((LIVE[0], changed, *stage.client.snapshot.runs[2:]), revision=2))
        anew = [y for y, strip in enumerate(panes._strips) if strip is not before[y]]
        assert anew == [0]
        assert "saving" in panes._strips[0].text


@pytest.mark.slow
async def test_what_was_painted_is_let_go_of_with_the_next_picture() -> None:
    """Without a search through all that is held, in which no key is heard: it lies in no circle."""
    async with staged(size=(160, 50)) as stage:
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for revision in range(2, 6):
                changed = structs.replace(LIVE[1], steps_per_s=float(revision))
                await stage.arrive(a_fleet((LIVE[0], changed, *stage.client.snapshot.runs[2:]), revision=revision))
            gc.collect()
            circles = [it for it in gc.garbage if isinstance(it, Strip)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert circles == []
