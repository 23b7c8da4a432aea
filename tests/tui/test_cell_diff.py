"""What goes to the terminal: the picture that Textual means, in fewer bytes."""

from __future__ import annotations

from typing import Any

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.strip import Strip

from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.textual_fixes.cell_diff import CellDiff, Pen
from tests.tui.fleets import LIVE, a_fleet
from tests.tui.stage import Stage, staged

WIDTH, HEIGHT = 160, 50
STYLES = [
    None,
    Style(),
    Style(color="red"),
    Style(color="#56b4e9", bgcolor="#10151b"),
    Style(color="#d8dee6", bgcolor="#10151b"),
    Style(color="#d8dee6", bgcolor="#10151b", bold=True),
    Style(bold=True, italic=True, reverse=True),
    Style(color="bright_blue", bgcolor="bright_green", underline=True, strike=True),
    Style(color="color(200)", bgcolor="color(20)", dim=True),
]


class Paper:
    """A terminal that only shows."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self._screen)

    def take(self, written: str) -> None:
        """Show what is written."""
        self._stream.feed(written)

    def line(self, y: int) -> str:
        """The characters of a line."""
        return self._screen.display[y].rstrip()

    def cells(self) -> list[object]:
        """Every cell with its style; the ink of a blank cannot be seen."""
        return [
            cell if cell.data != " " or cell.reverse or cell.underscore or cell.strikethrough else cell.bg
            for y in range(self._screen.lines)
            for cell in map(self._screen.buffer[y].__getitem__, range(self._screen.columns))
        ]


def console(colours: Any = "truecolor") -> Console:
    """A console that writes nowhere."""
    return Console(color_system=colours, force_terminal=True, width=WIDTH, _environ={})


@pytest.mark.parametrize("colours", ["truecolor", "256", "standard"])
@given(st.lists(st.tuples(st.text("ab │漢", min_size=1, max_size=4), st.sampled_from(STYLES)), max_size=12))
def test_a_pen_writes_the_same_picture(colours: str, words: list[tuple[str, Style | None]]) -> None:
    """Text written with a pen looks as Textual writes it, whatever styles follow each other."""
    # Styles remember how they were written, whichever colours the next console has.
    fresh = [(text, style and Style.parse(str(style))) for text, style in words]
    strip, pen = Strip([Segment(text, style) for text, style in fresh]), Pen(console(colours))
    meant, ours = Paper(100, 1), Paper(100, 1)
    meant.take(strip.render(console(colours)))
    ours.take("".join(pen.write(text, style) for text, style, _ in strip) + pen.lift() + "x")
    meant.take("x")
    assert ours.cells() == meant.cells()


def test_a_link_is_written_as_textual_writes_it() -> None:
    """A style that is more than a colour is not taken apart."""
    pen, style = Pen(console()), Style(link="https://example.org", color="red")
    assert "https://example.org" in pen.write("here", style)
    assert pen.write("there", Style(color="red")).startswith("\x1b[31m")


def test_equal_styles_are_said_once() -> None:
    """The ground that two pieces share is not said again, and a blank asks for no ink."""
    pen = Pen(console())
    assert "48;2" in pen.write("a", Style(color="red", bgcolor="#10151b"))
    assert pen.write("b", Style(color="blue", bgcolor="#10151b")) == "\x1b[34mb"
    assert pen.write("  ", Style(color="green", bgcolor="#10151b")) == "  "
    assert pen.lift() == "\x1b[0m"


def test_a_wide_character_is_never_cut_in_half() -> None:
    """A change that begins within a character of two cells writes the character."""
    strip, paper = Strip([Segment("漢字abc")]), Paper(10, 1)
    update = ChopsUpdate([{0: strip}], [(0, 1, 5)], [[7]])
    paper.take(CellDiff(update, Pen(console())).render_segments(console()))
    assert paper.line(0) == "漢字a"


class Copyist:
    """Writes every update of a staged screen on paper, as the application would to its terminal."""

    def __init__(self, stage: Stage) -> None:
        self._app, self._pen = stage.app, Pen(console())
        self.paper, self.written, self.textuals = Paper(), 0, 0
        self.take(stage.app.screen._compositor.render_update(full=True))
        self.written = self.textuals = 0
        setattr(stage.app, "_display", lambda _screen, update: self.take(update))  # noqa: B010 - a spy

    def take(self, update: Any) -> None:
        """Write one update, and count what Textual would have written."""
        if update is None:
            return
        ours = CellDiff(update, self._pen).render_segments(console())
        self.written += len(ours)
        self.textuals += len(update.render_segments(console())) if isinstance(update, ChopsUpdate) else len(ours)
        self.paper.take(ours)

    def forget(self) -> None:
        """Know nothing of the paper any more."""
        self._pen.cache.forget()

    def check(self) -> None:
        """The paper shows what a full repaint by Textual itself would."""
        fresh = Paper()
        whole: Any = self._app.screen._compositor.render_update(full=True)
        fresh.take(whole.render_segments(console()))
        assert self.paper.cells() == fresh.cells()


async def rested(stage: Stage) -> None:
    """Wait until the charts are drawn that the cursor's rest asks for: they are news whenever they come."""
    fleet = stage.screen
    assert isinstance(fleet, FleetScreen)
    await stage.until(lambda: fleet._rested)
    await stage.still()


@pytest.mark.slow
async def test_changes_add_up_to_the_whole_picture() -> None:
    """Numbers, wide names, keys, toasts and screens over the fleet: what was written by parts is the picture."""
    wide = structs.replace(LIVE[1], name="漢字-run")
    async with staged(a_fleet((LIVE[0], wide)), size=(WIDTH, HEIGHT)) as stage:
        copyist = Copyist(stage)
        for turn in range(3):
            changed = structs.replace(wide, name="漢字" * turn + "-run", steps_per_s=7.0 * 10**turn, eta_s=60.0 * turn)
            await stage.arrive(a_fleet((LIVE[0], changed), revision=2 + turn))
            copyist.check()
        for key in ("right", "v", "u", "question_mark", "escape"):
            await stage.press(key)
            await stage.still()
            copyist.check()


async def test_what_stands_there_is_not_written_again() -> None:
    """A screen that Textual paints once more, all of it or by widgets, costs nothing unless the terminal was wiped."""
    async with staged(size=(WIDTH, HEIGHT)) as stage:
        await rested(stage)
        copyist = Copyist(stage)
        stage.screen.refresh()
        await stage.still()
        stage.app.query("*").refresh()
        await stage.still()
        assert copyist.written == 0
        copyist.forget()
        stage.screen.refresh()
        await stage.until(lambda: copyist.written > WIDTH * HEIGHT)


@pytest.mark.parametrize("wiped", ["redraw", "resize"])
async def test_a_terminal_that_may_have_been_wiped_is_written_anew(wiped: str) -> None:
    """After a resize, and when the person asks for it, nothing is taken to stand there."""
    async with staged() as stage:
        whole: Any = stage.screen._compositor.render_update(full=True)
        cache = stage.app._pen.cache
        assert cache.news_of(whole)
        assert cache.news_of(whole) == []
        if wiped == "redraw":
            await stage.app.run_action("redraw")
        else:
            await stage.pilot.resize_terminal(100, 30)
        assert len(cache.news_of(whole)) >= 24


def test_a_chop_of_which_a_part_was_written_is_not_taken_for_known() -> None:
    """Only what was written is sure to stand there: the rest of the line may be older."""
    pen, paper = Pen(console()), Paper(10, 1)

    def write(text: str, first: int, last: int) -> None:
        update = ChopsUpdate([{0: Strip([Segment(text)])}], [(0, first, last)], [[10]])
        paper.take(CellDiff(update, pen).render_segments(console()))

    before, after = "0123456789", "abcdefghij"
    write(before, 0, 10)
    for whole in (before, after):
        write(after, 2, 4)
        assert paper.line(0) == "01cd456789"
        write(whole, 0, 10)
        assert paper.line(0) == whole


async def test_a_changed_number_costs_a_few_bytes() -> None:
    """A speed that changes in a pane at the right is not paid for with the panes at its left."""
    async with staged(a_fleet(LIVE[:2]), size=(WIDTH, HEIGHT)) as stage:
        await rested(stage)
        copyist = Copyist(stage)
        await stage.arrive(a_fleet((LIVE[0], structs.replace(LIVE[1], steps_per_s=7.0)), revision=2))
        copyist.check()
        assert 0 < copyist.written < 200
        assert copyist.textuals > 2 * copyist.written
