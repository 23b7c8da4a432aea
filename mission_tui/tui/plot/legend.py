"""What stands around charts: which curve is which, its newest value and its axis, and the line of keys below. And how
several charts of one run share that (the wall): below each other, on a wide screen in two columns, with one axis of
places and one crosshair.

Each panel of a wall has its own axis of values, whose name is its title. All of them reach over the same stretch of the
run, so that the crosshair is one column in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.present import numbers
from mission_tui.present.numbers import metric_title
from mission_tui.tui.actions import BY_NAME, key_label
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.drawing.strips import Part, fit, fit_middle, join, line, literal, part_cells, wrap
from mission_tui.tui.plot.canvas import Canvas
from mission_tui.tui.plot.content import Content, Entry
from mission_tui.tui.plot.curve import Curve, Marks
from mission_tui.tui.plot.picture import BELOW, LABEL, MARKS, Frame, Scene, painted, picture
from mission_tui.tui.state.preferences import AxisScale, ChartSettings

_VALUE, _VALUE_AT, _VALUE_ALONE, _PLACE, _TITLE, _TITLE_LEAST = 8, 13, 17, 14, 22, 6
"""Cells of a value and of each word for a place, so that lines do not jump when they change, and the most of a name."""
_SCALES: Mapping[AxisScale, str] = {"linear": "linear", "log": "logarithmic", "symlog": "symlog"}
_AWAY = "Esc", "screen.back"


def legend(content: Content, width: int) -> list[Strip]:
    """One metric as a title; several as items, as many lines as they need; and below where the crosshair is."""
    if len(content.entries) == 1:
        rows = _wrapped(list(_title(content, content.entries[0])), width)
        if content.entries[0].curve is not None and not _drawn(content):
            rows += [[(f" {text}", colours.QUIET)] for text in wrap(content.empty, width - 2)]
    else:
        rows = _wrapped([_item(content, entry, width) for entry in content.entries], width)
    rows += _hidden(content.entries, width)
    if content.said:
        value = fit(content.entries[0].at, _VALUE_ALONE) + " " if len(content.entries) == 1 else ""
        first, *others = place_words(content.said)
        lead: list[Part] = [(" │", colours.KEY), (f" {value}", colours.BOLD), first]
        rows += _wrapped([lead, *([word] for word in others)], width)
    return [line(row, width) for row in rows]


def place_words(said: Sequence[str]) -> list[Part]:
    """Where the crosshair is, each word in cells of its own, so that nothing jumps when it moves."""
    return [(f" {word:<{_PLACE}}", colours.INK) for word in said]


def _drawn(content: Content) -> bool:
    return content.scene is not None and content.scene.reach is not None


def _title(content: Content, entry: Entry) -> Iterator[list[Part]]:
    """What stays together on a line: the name, the newest value, and what has no place on the chart."""
    parts: list[Part] = [(f" {metric_title(entry.tag)}", colours.BOLD)]
    if entry.curve is None:
        yield [*parts, (f": {content.trouble or 'asking…'}", colours.QUIET)]
        return
    axis = "" if content.kind == "linear" else f", {content.kind}"
    if _drawn(content):
        yield [*parts, (f" over {content.over}{axis}", colours.QUIET)]
        # Each whole: of a limit that is cut, `> 0.080` says `> 0`.
        yield from ([limit] for limit in content.limits)
    else:
        yield [*parts, (":", colours.QUIET)]
        yield from ([(f" {word}", colours.QUIET)] for word in ("fewer than two", "points so far"))
    yield [("  ", colours.INK), *_newest(content, entry)]
    for words in content.aims:
        yield [("   ", colours.INK), (literal(words), colours.QUIET)]
    if entry.curve.broken:
        yield [("  ", colours.INK), _broken(entry.curve)]


def _newest(content: Content, entry: Entry) -> list[Part]:
    return [(f" last {numbers.reading_of(entry.tag, entry.newest)}", colours.INK), *smoothed(content, entry)]


def smoothed(content: Content, entry: Entry) -> Iterator[Part]:
    """The smoothed value at the crosshair, else the newest one; nothing where the curve is not smoothed."""
    if content.factor > 0 and entry.curve is not None and entry.curve.shown:
        soft = entry.soft_at if content.said else entry.curve.shown[-1].drawn
        yield f"  EMA {numbers.reading(soft)}", colours.hue(entry.slot)


def _broken(curve: Curve) -> Part:
    """What no chart has a place for: said, because a gap is easily overlooked."""
    return f" {curve.broken} point{'s' * (curve.broken != 1)} nan or inf left out", colours.WARN


def _hidden(entries: Sequence[Entry], width: int) -> list[list[Part]]:
    """Which values a logarithmic axis cannot draw, and the key to the axis that can."""
    said: list[str] = []
    for curve in (entry.curve for entry in entries):
        if curve is None or not curve.hidden:
            continue
        least, most = (numbers.reading(end(curve.hidden)) for end in (min, max))
        name = metric_title(curve.tag) if len(entries) == 1 else colours.letter(curve.slot)
        span = least if least == most else f"{least} to {most}"
        said.append(f"{len(curve.hidden)} of {len(curve.samples)} points of {name} ({span})")
    if not said:
        return []
    key = key_label(BY_NAME["y scale"].keys[0])
    sentence = f"a log axis cannot draw {' and '.join(said)}, which are not above 0: {key} turns to symlog, which does"
    return [[(f" {text}", colours.WARN)] for text in wrap(sentence, width - 1)]


def _item(content: Content, entry: Entry, width: int) -> list[Part]:
    """The name gives way before anything else does."""
    title = literal(metric_title(entry.tag))
    value = entry.at if content.said else numbers.reading_of(entry.tag, entry.newest)
    rest: list[Part] = [
        (" " + fit(value, _VALUE_AT if content.said else _VALUE), colours.KEY if content.said else colours.BOLD),
        (
            fit(f"EMA {numbers.reading(entry.soft_at)}", 4 + _VALUE) if entry.soft_at is not None else "",
            colours.hue(entry.slot),
        ),
        (_side(content, entry), colours.QUIET),
        *([_broken(entry.curve)] if entry.curve is not None and entry.curve.broken else []),
        (" ", colours.INK),
    ]
    room = max(_TITLE_LEAST, width - 3 - part_cells(rest))
    return [
        (f" {colours.letter(entry.slot)} ", colours.hue(entry.slot) + Style(bold=True)),
        (fit_middle(title, min(_TITLE, room, cell_len(title))), colours.INK),
        *rest,
    ]


def _side(content: Content, entry: Entry) -> str:
    """On which axis it is read; a scale of its own is given from end to end, unless values are said anyway."""
    if entry.curve is None:
        return content.trouble or "asking…"
    if entry.sided is None:
        return "nothing to draw"
    if entry.sided.side != "own" or content.said:
        return entry.sided.side
    low, high = (numbers.reading(value) for value in (entry.sided.scale.low, entry.sided.scale.high))
    return f"own {low}…{high}"


def _wrapped(items: Sequence[list[Part]], width: int) -> list[list[Part]]:
    rows: list[list[Part]] = [[]]
    for item in items:
        cells = part_cells((*rows[-1], *item))
        if rows[-1] and cells > width:
            rows.append([])
        rows[-1].extend(item)
    return rows


def signs(marks: Marks, width: int) -> list[Strip]:
    """What the signs on the charts mean, as many as fit; no line at all where there are none."""
    kinds = {mark.kind for mark in marks.marks}
    said = [
        ("2" if kind == "resume" else sign, style, word) for kind, (sign, style, word) in MARKS.items() if kind in kinds
    ]
    if marks.bands:
        worst = marks.bands[-1].severity
        said.append((f"{SEVERITY_SHAPES[worst]}░", colours.severity_style(worst), "finding"))
    parts: list[Part] = []
    room = width
    for sign, style, word in said:
        cells = cell_len(f" {sign} {word}")
        if cells <= room:
            room -= cells + 1
            parts += [(f" {sign} ", style), (f"{word} ", colours.QUIET)]
    return [line(parts, width)] if said else []


def controls(settings: ChartSettings, *, kept: bool, reading: bool, width: int) -> list[Part]:
    """As many as fit `width` cells, those that change most first; `kept`: the chosen metric stays; `reading`: there is
    a crosshair.
    """
    parts: list[Part] = []
    room = width
    for names, words in _words(settings, kept=kept, reading=reading):
        said = [*_keys(names, reading=reading), (f" {words}  ", colours.INK)]
        cells = 1 + part_cells(said)
        if cells <= room:
            room -= cells
            parts += [(" ", colours.QUIET), *said]
    return parts


def _words(settings: ChartSettings, *, kept: bool, reading: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    if reading:
        yield ("left", "right"), "move"
        yield ("crosshair",), "ends it"
    yield ("x axis",), f"over {settings.over}"
    yield ("y scale",), _SCALES[settings.scale]
    soft = f"EMA {settings.factor:g}, ~{1 / (1 - settings.factor):.0f} updates" if settings.factor else "raw"
    yield ("rougher", "smoother"), soft
    yield ("keep metric",), "drop" if kept else "keep"
    if not reading:
        yield ("crosshair",), "values"


def _keys(names: Sequence[str], *, reading: bool) -> Iterator[Part]:
    for name in names:
        label, call = key_label(BY_NAME[name].keys[0]), BY_NAME[name].call
        if reading and name == "crosshair":
            label, call = _AWAY
        yield label, colours.KEY + Style(meta={"@click": call})


COLUMN_LEAST = 70
_PANEL_TITLE, _PANEL_VALUE_AT = 26, 17
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
        rows = [line(_panel_title(it, width, chosen), width) for it in shown]
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
    title, scene = line(_panel_title(content, width, chosen), width), content.scene
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


def _panel_title(content: Content, width: int, chosen: str) -> list[Part]:
    """One line: the name, the newest value, the value at the crosshair, and what is not drawn."""
    entry = content.entries[0]
    at_cursor = entry.tag == chosen
    name = literal(metric_title(entry.tag))
    parts: list[Part] = [(">" if at_cursor else " ", colours.KEY)]
    parts.append((fit_middle(name, min(_PANEL_TITLE, cell_len(name))), colours.BOLD if at_cursor else colours.INK))
    curve = entry.curve
    if curve is None:
        return [*parts, (f": {content.trouble or 'asking…'}", colours.QUIET)]
    if content.said:
        parts += [("  │ ", colours.KEY), (fit(entry.at, _PANEL_VALUE_AT), colours.BOLD)]
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
