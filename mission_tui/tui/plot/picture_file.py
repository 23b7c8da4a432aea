"""Pictures as files: strokes as SVG, which stays sharp at any size, and the same ones as PNG where Pillow and fonts
are. The cells of a screen so, each piece of text held in its cells; and the charts of a run for paper: lines on white,
with the axes, marks and names of the screen's chart.

Dots of braille and blocks are drawn as what they are, so that no font decides how a curve looks. Nothing is loaded by
an SVG, and whatever is written in it is text.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from rich.cells import cell_len

from mission_tui.errors import MissionError
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.text import clean_line
from mission_tui.present import numbers
from mission_tui.present.numbers import axis_name
from mission_tui.tui.drawing.colours import letter
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.plot.content import Content
from mission_tui.tui.plot.curve import Sample, ScaledCurve, Side
from mission_tui.tui.plot.picture import MARKS, Scene
from mission_tui.tui.plot.scale import scale_of, ticks_over
from mission_tui.tui.state.preferences import Over
from mission_tui.tui.textual_fixes.screen_cells import Cells

if TYPE_CHECKING:
    from mission_tui.fleet.comparison_sides import Curve

Anchor = Literal["start", "middle", "end"]
Place = tuple[float, float]
Box = tuple[float, float, float, float]

_SCALE = 3
"""Pixels of a PNG for each unit: about 300 dots an inch where the SVG is 96 units wide an inch."""

_FONTS = {False: "DejaVuSansMono.ttf", True: "DejaVuSansMono-Bold.ttf"}


class Surface(Protocol):
    """What can be drawn on, in units from the upper left corner."""

    def boxes(self, boxes: Iterable[Box], fill: str) -> None:
        """Left, top, width and height of each."""

    def area(self, points: Sequence[Place], fill: str, opacity: float) -> None:
        """What lies within `points`."""

    def line(self, points: Sequence[Place], ink: str, width: float, dashed: bool = False) -> None:
        """A stroke through `points`."""

    def text(
        self,
        at: Place,
        words: str,
        ink: str,
        size: float,
        anchor: Anchor = "start",
        bold: bool = False,
        cells: float = 0,
    ) -> None:
        """`words` on the base line at `at`; with `cells` held to so many units of width."""


class SvgSurface:
    """An SVG of `width` by `height` units on `ground`."""

    def __init__(self, width: float, height: float, ground: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
            "<style>text{font-family:'DejaVu Sans Mono',ui-monospace,Menlo,Consolas,monospace;white-space:pre}</style>",
            f'<rect width="{width:g}" height="{height:g}" fill="{ground}"/>',
        ]

    def boxes(self, boxes: Iterable[Box], fill: str) -> None:
        drawn = "".join(f"M{x:g} {y:g}h{width:g}v{height:g}h-{width:g}z" for x, y, width, height in boxes)
        self._parts.append(f'<path d="{drawn}" fill="{fill}"/>')

    def area(self, points: Sequence[Place], fill: str, opacity: float) -> None:
        self._parts.append(f'<polygon points="{_points(points)}" fill="{fill}" fill-opacity="{opacity:g}"/>')

    def line(self, points: Sequence[Place], ink: str, width: float, dashed: bool = False) -> None:
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{_points(points)}" fill="none" stroke="{ink}" stroke-width="{width:g}" '
            f'stroke-linejoin="round"{dashes}/>'
        )

    def text(
        self,
        at: Place,
        words: str,
        ink: str,
        size: float,
        anchor: Anchor = "start",
        bold: bool = False,
        cells: float = 0,
    ) -> None:
        held = f' textLength="{cells:g}" lengthAdjust="spacingAndGlyphs"' if cells else ""
        weight = ' font-weight="bold"' if bold else ""
        self._parts.append(
            f'<text x="{at[0]:g}" y="{at[1]:g}" fill="{ink}" font-size="{size:g}" text-anchor="{anchor}"{weight}{held}>'
            f"{escape(clean_line(words), quote=False)}</text>"
        )

    def data(self) -> bytes:
        """The file."""
        return "\n".join([*self._parts, "</svg>", ""]).encode()


class PngSurface:
    """A PNG of the same; made only where `fonts_folder` says that there is what it takes."""

    def __init__(self, width: float, height: float, ground: str, fonts: Path) -> None:
        from PIL import Image, ImageDraw

        self._fonts = fonts
        self._image = Image.new("RGB", (round(width * _SCALE), round(height * _SCALE)), ground)
        self._pen = ImageDraw.Draw(self._image, "RGBA")

    def boxes(self, boxes: Iterable[Box], fill: str) -> None:
        for x, y, width, height in boxes:
            self._pen.rectangle((*_scaled((x, y)), (x + width) * _SCALE - 1, (y + height) * _SCALE - 1), fill=fill)

    def area(self, points: Sequence[Place], fill: str, opacity: float) -> None:
        self._pen.polygon([_scaled(point) for point in points], fill=f"{fill}{round(255 * opacity):02x}")

    def line(self, points: Sequence[Place], ink: str, width: float, dashed: bool = False) -> None:
        scaled = [_scaled(point) for point in points]
        for start, end in pairwise(scaled) if dashed else ():
            length = math.dist(start, end)
            dashes = [(at / length, min(length, at + 5 * _SCALE) / length) for at in range(0, int(length), 9 * _SCALE)]
            for ends in dashes:
                self._pen.line([_between(start, end, share) for share in ends], fill=ink, width=round(width * _SCALE))
        if dashed:
            return
        self._pen.line(scaled, fill=ink, width=max(1, round(width * _SCALE)), joint="curve")

    def text(
        self,
        at: Place,
        words: str,
        ink: str,
        size: float,
        anchor: Anchor = "start",
        bold: bool = False,
        cells: float = 0,
    ) -> None:
        del cells  # the font is the one that the cells were measured for
        from PIL import ImageFont

        font = ImageFont.truetype(str(self._fonts / _FONTS[bold]), size * _SCALE)
        place: dict[Anchor, str] = {"start": "ls", "middle": "ms", "end": "rs"}
        self._pen.text(_scaled(at), clean_line(words), fill=ink, font=font, anchor=place[anchor])

    def data(self) -> bytes:
        """The file."""
        held = io.BytesIO()
        self._image.save(held, "PNG", dpi=(96 * _SCALE, 96 * _SCALE))
        return held.getvalue()


def fonts_folder() -> Path | None:
    """Where the fonts of a PNG lie, which come with matplotlib; None where they, or Pillow, are not."""
    found = importlib.util.find_spec("matplotlib") if importlib.util.find_spec("PIL") is not None else None
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        folder = Path(place) / "mpl-data" / "fonts" / "ttf"
        if all((folder / name).is_file() for name in _FONTS.values()):
            return folder
    return None


def write_fresh(path: Path, data: bytes) -> None:
    """Make the new file `path` with `data`, or none. Raises `MissionError`."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise
    except OSError as error:
        raise MissionError(f"the picture cannot be written: {path}: {error.strerror or error}") from error


def _points(points: Sequence[Place]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in points)


def _between(start: Place, end: Place, share: float) -> Place:
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _scaled(point: Place) -> Place:
    return point[0] * _SCALE, point[1] * _SCALE


_CELL_WIDTH, _CELL_HEIGHT = 8.0, 16.0
_SIZE, _BASE = 13.28, 12.5
"""Of DejaVu Sans Mono, whose letters are 0.602 of its size wide."""

_BRAILLE = range(0x2800, 0x2900)
_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each bit of a braille character."""

_DOT = 2.6
_EIGHTHS_UP = "▁▂▃▄▅▆▇█"
_EIGHTHS_ACROSS = "▏▎▍▌▋▊▉"


def draw_screen(surface: Surface, rows: Sequence[Sequence[Cells]], ground: str) -> None:
    """Draw all `rows` on a surface whose own colour is `ground`."""
    for row, line in enumerate(rows):
        column = 0
        for it in line:
            width = cell_len(it.text)
            left, top = column * _CELL_WIDTH, row * _CELL_HEIGHT
            if it.ground != ground:
                surface.boxes([(left, top, width * _CELL_WIDTH, _CELL_HEIGHT)], it.ground)
            _draw(surface, it, left, top)
            column += width


def _draw(surface: Surface, it: Cells, left: float, top: float) -> None:
    boxes: list[Box] = []
    for column, text in _pieces(it.text):
        x = left + column * _CELL_WIDTH
        drawn = list(_shape(text, x, top)) if len(text) == 1 else []
        if drawn:
            boxes += drawn
        elif text.strip():
            width = cell_len(text) * _CELL_WIDTH
            surface.text((x, top + _BASE), text, it.ink, _SIZE, bold=it.bold, cells=0 if text.isascii() else width)
    if boxes:
        surface.boxes(boxes, it.ink)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Shapes alone, and words between them; what lies two blanks apart is two pieces, so that none drifts."""
    column, begin, held = 0, 0, ""
    for character in text:
        alone = bool(list(_shape(character, 0.0, 0.0)))
        if held and (alone or (held.endswith("  ") and character != " ")):
            yield begin, held.rstrip(" ")
            held = ""
        if alone:
            yield column, character
        elif held or character != " ":
            begin = column if not held else begin
            held += character
        column += cell_len(character)
    if held.strip():
        yield begin, held.rstrip(" ")


def _shape(character: str, x: float, y: float) -> Iterator[Box]:
    """The boxes that a character is made of; none of a letter."""
    if ord(character) in _BRAILLE:
        bits = ord(character) - _BRAILLE.start
        for bit, (column, row) in enumerate(_DOTS):
            if bits >> bit & 1:
                yield x + 0.7 + 4 * column, y + 0.7 + 4 * row, _DOT, _DOT
    elif character in _EIGHTHS_UP:
        height = _CELL_HEIGHT * (1 + _EIGHTHS_UP.index(character)) / 8
        yield x, y + _CELL_HEIGHT - height, _CELL_WIDTH, height
    elif character in _EIGHTHS_ACROSS:
        yield x, y, _CELL_WIDTH * (1 + _EIGHTHS_ACROSS.index(character)) / 8, _CELL_HEIGHT
    elif character == "▀":
        yield x, y, _CELL_WIDTH, _CELL_HEIGHT / 2
    elif character == "▐":
        yield x + _CELL_WIDTH / 2, y, _CELL_WIDTH / 2, _CELL_HEIGHT


def size_of(rows: Iterable[Sequence[Cells]]) -> tuple[float, float]:
    """Width and height of the picture of `rows`."""
    lengths = [sum(cell_len(it.text) for it in row) for row in rows]
    return max(lengths, default=1) * _CELL_WIDTH, max(1, len(lengths)) * _CELL_HEIGHT


WIDTH, PANEL = 760.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM, _HEAD = 78.0, 22.0, 46.0, 42.0, 30.0
GROUND = "#ffffff"
_INK, _QUIET, _RULE = "#1b1b1f", "#5c5f66", "#e1e3e7"
_INKS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, which the colour-blind tell apart."""
_BANDS = {"critical": "#b3261e", "warning": "#e69f00", "info": "#5c5f66"}
Height = Callable[[ScaledCurve, float], float | None]
_TICKS, _SMALL, _WORD = 5, 11.0, 64.0


def panels_of(contents: Sequence[Content]) -> list[tuple[Content, Scene]]:
    """The charts that have something to draw."""
    return [(it, it.scene) for it in contents if it.scene is not None and it.scene.reach is not None]


def height_of(panels: int) -> float:
    """The height of a picture of so many panels."""
    return _HEAD + PANEL * panels


def draw_charts(surface: Surface, title: str, panels: Sequence[tuple[Content, Scene]]) -> None:
    """Draw one panel below the other under `title`."""
    surface.text((_LEFT, 20.0), title, _INK, 14.0, bold=True)
    for at, (content, scene) in enumerate(panels):
        _panel(surface, content, scene, _HEAD + PANEL * at)


def draw_compared(surface: Surface, title: str, curves: Sequence[tuple[str, Curve, str]], over: Over) -> None:
    """Draw compared runs under `title`: each a line with its letter, seeds between their least and greatest."""
    values = [value for _, curve, _ in curves for column in (curve.y, curve.low, curve.high) for value in column]
    scale = scale_of(values)
    low, high = min(curve.x[0] for _, curve, _ in curves), max(curve.x[-1] for _, curve, _ in curves)
    surface.text((_LEFT, 20.0), title, _INK, 14.0, bold=True)
    if scale is None or high <= low:
        return
    right, upper, lower = WIDTH - _RIGHT, _HEAD + _TOP, _HEAD + PANEL - _BOTTOM

    def places(curve: Curve, ys: Sequence[float]) -> list[tuple[float, float]]:
        shares = ((x, scale.share(y)) for x, y in zip(curve.x, ys, strict=False))
        across = (right - _LEFT) / (high - low)
        return [(_LEFT + (x - low) * across, lower - up * (lower - upper)) for x, up in shares if up is not None]

    for value, word in scale.ticks(_TICKS):
        y = lower - (scale.share(value) or 0.0) * (lower - upper)
        surface.line([(_LEFT, y), (right, y)], _RULE, 0.8)
        surface.text((_LEFT - 8, y + 4), word, _QUIET, _SMALL, "end")
    for place, word in ticks_over(over, low, high, 7):
        x = _LEFT + (place - low) / (high - low) * (right - _LEFT)
        surface.text((x, lower + 16), word, _QUIET, _SMALL, "middle")
    surface.line([(_LEFT, upper), (_LEFT, lower), (right, lower)], _QUIET, 0.8)
    surface.text(((_LEFT + right) / 2, lower + 32), str(over), _QUIET, _SMALL, "middle")
    free = _LEFT
    for at, (mark, curve, _) in enumerate(curves):
        ink = _INKS[at % len(_INKS)]
        if curve.low and curve.high:
            surface.area([*places(curve, curve.low), *reversed(places(curve, curve.high))], ink, 0.18)
        if len(points := places(curve, curve.y)) > 1:
            surface.line(points, ink, 1.6)
        words = f"{mark} {curve.name}"
        surface.text((free, _HEAD + 22), words, ink, 12.0, bold=True)
        free += 7.4 * len(words) + 20


def _panel(surface: Surface, content: Content, scene: Scene, top: float) -> None:
    reach = scene.reach
    assert reach is not None
    right = WIDTH - _RIGHT - (_LEFT - _RIGHT if any(it.side == "right" for it in scene.sided) else 0.0)
    upper, lower = top + _TOP, top + PANEL - _BOTTOM

    def across(place: float) -> float:
        return _LEFT + (place - reach[0]) / (reach[1] - reach[0]) * (right - _LEFT)

    def up(it: ScaledCurve, value: float) -> float | None:
        share = it.scale.share(value)
        return None if share is None else lower - min(1.0, max(0.0, share)) * (lower - upper)

    _axes(surface, scene, (_LEFT, right, upper, lower), across)
    for mark in scene.marks.marks:
        if mark.kind in ("set", "resume") and reach[0] <= mark.place <= reach[1]:
            x = across(mark.place)
            surface.line([(x, upper), (x, lower)], _QUIET, 0.8, dashed=True)
            surface.text((x, upper - 4), mark.word or MARKS[mark.kind][2], _QUIET, 9.0, "middle")
    free = _LEFT
    for band in scene.marks.bands:
        ink, first, last = _BANDS[band.severity], across(max(reach[0], band.first)), across(min(reach[1], band.last))
        surface.boxes([(first, upper - 2, max(1.0, last - first), 5.0)], ink)
        place = max(first, free)
        surface.text((place, upper - 4), f"{SEVERITY_SHAPES[band.severity]} {band.severity}", ink, 9.0)
        free = place + _WORD
    for it in reversed(scene.sided):
        ink = _INKS[it.curve.slot % len(_INKS)]
        for run in _stretches(it):
            if scene.alone and any(sample.high > sample.low for sample in run):
                edges = [[(across(s.place), up(it, value)) for s, value in ((s, getattr(s, edge)) for s in run)]
                         for edge in ("high", "low")]  # fmt: skip
                around = [(x, y) for x, y in (*edges[0], *reversed(edges[1])) if y is not None]
                surface.area(around, ink, 0.18)
            points = [(across(sample.place), y) for sample in run if (y := up(it, sample.drawn)) is not None]
            if len(points) > 1:
                surface.line(points, ink, 1.6)
    _draw_judged(surface, scene, across, up)
    _names(surface, content, scene, top)


def _draw_judged(surface: Surface, scene: Scene, across: Callable[[float], float], up: Height) -> None:
    """Evaluations with their 95 % interval, on the axis of the return, because that is what they are about."""
    returns = next((it for it in scene.sided if it.curve.tag == RETURN), None)
    if returns is None:
        return
    for judged in scene.marks.judged:
        top, middle, bottom = (up(returns, value) for value in (judged.high, judged.mean, judged.low))
        if top is not None and middle is not None and bottom is not None:
            x = across(judged.place)
            surface.line([(x, top), (x, bottom)], _INK, 1.0)
            surface.boxes([(x - 3, middle - 3, 6.0, 6.0)], _INK)


def _stretches(it: ScaledCurve) -> Iterator[list[Sample]]:
    """The samples between gaps."""
    run: list[Sample] = []
    for sample in it.curve.samples:
        if math.isnan(sample.drawn):
            if run:
                yield run
            run = []
        else:
            run.append(sample)
    if run:
        yield run


def _axes(
    surface: Surface, scene: Scene, edges: tuple[float, float, float, float], across: Callable[[float], float]
) -> None:
    left, right, upper, lower = edges
    assert scene.reach is not None
    sides: Sequence[tuple[Side, float, Anchor]] = (("left", left - 8, "end"), ("right", right + 8, "start"))
    for side, x, anchor in sides:
        on = [it for it in scene.sided if it.side == side]
        for value, word in on[0].scale.ticks(_TICKS) if on else ():
            share = on[0].scale.share(value)
            if share is not None:
                y = lower - share * (lower - upper)
                if side == "left":
                    surface.line([(left, y), (right, y)], _RULE, 0.8)
                surface.text((x, y + 4), word, _QUIET, _SMALL, anchor)
    for place, word in ticks_over(scene.ruler.over, *scene.reach, 7):
        surface.text((across(place), lower + 16), word, _QUIET, _SMALL, "middle")
        surface.line([(across(place), lower), (across(place), lower + 4)], _QUIET, 0.8)
    surface.line([(left, upper), (left, lower), (right, lower)], _QUIET, 0.8)
    surface.text(((left + right) / 2, lower + 32), str(scene.ruler.over), _QUIET, _SMALL, "middle")


def _names(surface: Surface, content: Content, scene: Scene, top: float) -> None:
    """Each curve with its newest value, in its colour; a letter where there are several."""
    x = _LEFT
    for entry in content.entries:
        if entry.curve is None:
            continue
        side = f", {entry.sided.side}" if entry.sided is not None else ""
        name = axis_name(entry.tag) + ("" if scene.alone else f" ({letter(entry.slot)}{side})")
        words = f"{name}: {numbers.reading(entry.newest)}"
        surface.text((x, top + 22), words, _INKS[entry.slot % len(_INKS)], 12.0, bold=True)
        x += 7.4 * len(words) + 20
