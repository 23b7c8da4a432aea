"""The line below a chart: how it is drawn now, each with the key that changes it. Read from the table of actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.style import Style

from mission_tui.tui.actions import ACTIONS, key_label
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part
from mission_tui.tui.plot.chart_settings import ChartSettings

__all__ = ["controls"]

_ACTIONS = {action.name: action for action in ACTIONS}
_AWAY = "Esc", "screen.back"


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
    yield ("log scale",), "logarithmic" if settings.log else "linear"
    soft = f"EMA {settings.factor:g}, ~{1 / (1 - settings.factor):.0f} updates" if settings.factor else "raw"
    yield ("rougher", "smoother"), soft
    yield ("keep metric",), "drop" if kept else "keep"
    if not reading:
        yield ("crosshair",), "values"


def _keys(names: Sequence[str], *, reading: bool) -> Iterator[Part]:
    for name in names:
        label, call = key_label(_ACTIONS[name].keys[0]), _ACTIONS[name].call
        if reading and name == "crosshair":
            label, call = _AWAY
        yield label, colours.KEY + Style(meta={"@click": call})
