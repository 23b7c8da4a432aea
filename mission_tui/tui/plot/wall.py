"""Several charts of one run below each other, on a wide screen in two columns: one axis of places, one crosshair.

Each panel has its own axis of values, whose name is its title. All of them reach over the same stretch of the run, so
that the crosshair is one column in each.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.strip import Strip

from mission_tui.present import numbers
from mission_tui.tui.actions import BY_NAME, key_label
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.metrics import metric_title
from mission_tui.tui.drawing.strips import Part, fit, fit_middle, join, line, literal
from mission_tui.tui.plot.canvas import Canvas
from mission_tui.tui.plot.content import Content
from mission_tui.tui.plot.legend import place_words, signs, smoothed
from mission_tui.tui.plot.picture import BELOW, LABEL, Frame, Scene, painted, picture

COLUMN_LEAST = 70
_TITLE, _VALUE_AT = 26, 17
_GAP = 1
_WORDS = 2
"""Rows: what the panels have in common above them, what the signs mean below."""


@dataclass(slots=True)
class PaintedPanel:
    """What was painted of `scene`, which stays while the crosshair moves, and its lines with the crosshair `at`."""

    scene: Scene
    frame: Frame
    canvas: Canvas
    at: float | None
    strips: Sequence[Strip]


Painted = MutableMapping[str, PaintedPanel]
"""By tag."""


@dataclass(frozen=True, slots=True)
class Grid:
    """`columns` side by side of panels of `height` rows with their title, as many as there are or as have room."""

    columns: int
    rows: int
    height: int

    @property
    def panels(self) -> int:
        """How many have room."""
        return self.columns * self.rows


@dataclass(frozen=True, slots=True)
class Stacking:
    """Panels of `least` rows or more, in no more than so many columns."""

    least: int
    columns: int


def grid_for(width: int, height: int, wanted: int, how: Stacking) -> Grid:
    """The places for `wanted` panels, between lines of words and above the axis of places."""
    room = max(0, height - _WORDS - BELOW)
    most = room // how.least
    # Below each other they are wider: two columns only where that gains something.
    across = 1 if most >= wanted else max(1, min(how.columns, width // COLUMN_LEAST))
    rows = min(most, -(-wanted // across))
    return Grid(across, rows, room // rows if rows else 0)


@dataclass(frozen=True, slots=True)
class Placed:
    """A frame whose picture begins at column `x` of the wall."""

    x: int
    frame: Frame


def wall(
    contents: Sequence[Content], grid: Grid, width: int, chosen: str, kept: Painted
) -> tuple[list[Strip], list[Placed]]:
    """The lines of the wall, and where its pictures are; more contents than places are left out."""
    shown = contents[: max(1, grid.panels)]
    reaches = [it.scene.reach for it in shown if it.scene is not None and it.scene.reach is not None]
    strips = [line(_head(shown, len(contents), width), width)]
    if not reaches:
        rows = [line(_title(it, width, chosen), width) for it in shown]
        return [*strips, *rows], []
    reach = min(low for low, _ in reaches), max(high for _, high in reaches)
    wide = (width - _GAP * (grid.columns - 1)) // grid.columns
    frame = Frame(LABEL + 1, max(2, wide - LABEL - 1), max(2, grid.height - 1), *reach, right=False)
    placed: list[Placed] = []
    for row in range(-(-len(shown) // grid.columns)):
        beside = shown[row * grid.columns :][: grid.columns]
        last = (row + 1) * grid.columns >= len(shown)
        panels = [_panel(it, frame, wide, chosen, kept) for it in beside]
        placed += [Placed(nth * (wide + _GAP), frame) for nth in range(len(beside))]
        tall = 1 + frame.rows + (BELOW if last else 0)
        blank = Strip.blank(wide)
        panels = [[*panel, *[blank] * (tall - len(panel))][:tall] for panel in panels]
        panels += [[blank] * tall] * (grid.columns - len(panels))
        strips += [join(_spaced(parts, width)) for parts in zip(*panels, strict=True)]
    scene = next(it.scene for it in shown if it.scene is not None and it.scene.reach is not None)
    return [*strips, *signs(scene.marks, width)], placed


def _spaced(parts: Sequence[Strip], width: int) -> Iterator[Strip]:
    used = 0
    for nth, strip in enumerate(parts):
        if nth:
            yield Strip.blank(_GAP)
            used += _GAP
        yield strip
        used += strip.cell_length
    yield Strip.blank(max(0, width - used))


def _panel(content: Content, frame: Frame, width: int, chosen: str, kept: Painted) -> list[Strip]:
    """Title, picture, and below it the axis of places, which the caller cuts off where another panel follows."""
    title, scene = line(_title(content, width, chosen), width), content.scene
    if scene is None or scene.reach is None:
        return [title]
    tag = content.entries[0].tag
    known = kept.get(tag)
    if known is None or known.scene is not scene or known.frame != frame:
        canvas = painted(scene, frame)
        known = kept[tag] = PaintedPanel(scene, frame, canvas, content.at, picture(scene, frame, canvas, content.at))
    elif known.at != content.at:
        known.at, known.strips = content.at, picture(scene, frame, known.canvas, content.at)
    return [title, *known.strips]


def _head(shown: Sequence[Content], many: int, width: int) -> list[Part]:
    """What all panels have in common: the axis of places, and where the crosshair is on it."""
    first = shown[0]
    axis = "" if first.kind == "linear" else f", {first.kind} axis"
    narrow = width < COLUMN_LEAST
    count = f"{len(shown)} of {many}" if narrow and len(shown) < many else str(len(shown))
    parts: list[Part] = [(f" {count} metrics over {first.over}{axis}", colours.QUIET)]
    if first.said:
        if narrow:
            parts.clear()  # where the crosshair is, is not on the screen elsewhere
        parts += [(" │ " if not parts else "   │ ", colours.KEY), *place_words(first.said)]
    elif any(entry.curve is not None and entry.curve.hidden for it in shown for entry in it.entries):
        key = key_label(BY_NAME["y scale"].keys[0])
        parts.append((f"   a log axis draws nothing at or below 0: {key} turns to symlog, which does", colours.WARN))
    elif len(shown) < many and not narrow:
        parts.append(
            (f"   {many - len(shown)} more {'has' if many - len(shown) == 1 else 'have'} no room", colours.WARN)
        )
    return parts


def _title(content: Content, width: int, chosen: str) -> list[Part]:
    """One line: the name, the newest value, the value at the crosshair, and what is not drawn."""
    entry = content.entries[0]
    at_cursor = entry.tag == chosen
    name = literal(metric_title(entry.tag))
    parts: list[Part] = [(">" if at_cursor else " ", colours.KEY)]
    parts.append((fit_middle(name, min(_TITLE, cell_len(name))), colours.BOLD if at_cursor else colours.INK))
    curve = entry.curve
    if curve is None:
        return [*parts, (f": {content.trouble or 'asking…'}", colours.QUIET)]
    if content.said:
        parts += [("  │ ", colours.KEY), (fit(entry.at, _VALUE_AT), colours.BOLD)]
    parts.append((f"  last {numbers.reading(entry.newest)}", colours.QUIET if content.said else colours.INK))
    parts += [*smoothed(content, entry), *content.limits]
    if curve.hidden:
        parts.append((f"  {len(curve.hidden)} of {len(curve.samples)} not above 0", colours.WARN))
    elif len(curve.shown) < 2:
        parts.append(("  fewer than two points so far", colours.QUIET))
    if curve.broken:
        parts.append((f"  {curve.broken} nan or inf", colours.WARN))
    room, cut = width, []
    for text, style in parts:
        cells = cell_len(text)
        if cells > room:
            break
        cut.append((text, style))
        room -= cells
    return cut
