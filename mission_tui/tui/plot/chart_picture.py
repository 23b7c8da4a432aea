"""The charts of a run as a picture for paper: lines on white, with the axes, marks and names of the screen's chart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from mission_tui.fleet.events.metrics import RETURN
from mission_tui.present import numbers
from mission_tui.present.numbers import axis_name
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.drawing.metrics import letter
from mission_tui.tui.drawing.picture_file import Anchor, Surface
from mission_tui.tui.plot.content import Content
from mission_tui.tui.plot.curve import Sample, ScaledCurve, Side
from mission_tui.tui.plot.picture import MARKS, Scene
from mission_tui.tui.plot.scale import scale_of, ticks_over
from mission_tui.tui.state.preferences import Over

if TYPE_CHECKING:
    from mission_tui.fleet.compare import Curve

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
