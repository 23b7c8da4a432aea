"""What stands around the picture: which curve is which, its newest value and its axis, and the line of keys below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.present import numbers
from mission_tui.tui.actions import BY_NAME, key_label
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.drawing.metrics import hue, letter, metric_title
from mission_tui.tui.drawing.strips import Part, fit, fit_middle, line, literal, wrap
from mission_tui.tui.plot.content import Content, Entry
from mission_tui.tui.plot.curve import Curve, Marks
from mission_tui.tui.plot.picture import MARKS
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
        yield f"  EMA {numbers.reading(soft)}", hue(entry.slot)


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
        name = metric_title(curve.tag) if len(entries) == 1 else letter(curve.slot)
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
            hue(entry.slot),
        ),
        (_side(content, entry), colours.QUIET),
        *([_broken(entry.curve)] if entry.curve is not None and entry.curve.broken else []),
        (" ", colours.INK),
    ]
    room = max(_TITLE_LEAST, width - 3 - sum(cell_len(text) for text, _ in rest))
    return [
        (f" {letter(entry.slot)} ", hue(entry.slot) + Style(bold=True)),
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
        cells = sum(cell_len(text) for text, _ in (*rows[-1], *item))
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
        cells = 1 + sum(cell_len(text) for text, _ in said)
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
