"""Pictures as files in the folder that the screen was started in: the whole screen (F12), and the charts of a run as
lines (Ctrl-S). Always as SVG, and as PNG where the extra `report` is installed.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mission_tui.errors import UsageError, install_words
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.paths import SERVED
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.metrics import metric_title
from mission_tui.tui.drawing.strips import home_relative
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.preferences import Over
from mission_tui.tui.verbs.orders import Verb
from mission_tui.tui.widgets.charts import ComparisonChart, drawn_curves
from mission_tui.tui.widgets.curves import Curves

if TYPE_CHECKING:
    from textual.app import App

    from mission_tui.tui.drawing.picture_file import Surface

    Draw = Callable[[Surface], None]


async def screenshot(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """The screen as it is, toasts and sheets included."""
    # Drawing files is needed here alone, as below.
    from mission_tui.tui.drawing.picture_file import draw_screen, size_of
    from mission_tui.tui.textual_fixes.screen_cells import cells_of

    ground = colours.PALETTE.ground
    rows = cells_of(app_context.shown.app, colours.PALETTE.ink, ground)
    await _save(app_context, "screen", size_of(rows), ground, lambda surface: draw_screen(surface, rows, ground))


def file_of(app: App[int], kind: Literal["svg", "png"]) -> bytes:
    """The screen of `app` as a file. Raises `UsageError` for a PNG where there is nothing to draw it with."""
    from mission_tui.tui.drawing.picture_file import PngSurface, SvgSurface, draw_screen, fonts_folder, size_of
    from mission_tui.tui.textual_fixes.screen_cells import cells_of

    ground, fonts = colours.PALETTE.ground, fonts_folder()
    if kind == "png" and fonts is None:
        raise UsageError(f"a PNG needs Pillow and matplotlib's fonts: {install_words('report')}; .svg needs nothing")
    rows = cells_of(app, colours.PALETTE.ink, ground)
    surface: SvgSurface | PngSurface = SvgSurface(*size_of(rows), ground)
    if kind == "png" and fonts is not None:
        surface = PngSurface(*size_of(rows), ground, fonts)
    draw_screen(surface, rows, ground)
    return surface.data()


async def chart(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """The charts that are shown, one below the other; on a comparison its curves."""
    from mission_tui.tui.plot.chart_picture import GROUND, WIDTH, draw_charts, draw_compared, height_of, panels_of

    if compared := app_context.shown.app.screen.query(ComparisonChart):
        found = compared.first().found
        curves = [] if found is None else drawn_curves(found)
        if found is None or not curves:
            app_context.toast("no curves are shown here: F12 saves the whole screen")
            return
        over: Over = "run time" if found.by == "time" else "timesteps"
        said = f"{metric_title(found.metric)} of {len(runs)} runs"
        size = WIDTH, height_of(1)
        await _save(app_context, "compare", size, GROUND, lambda it: draw_compared(it, said, curves, over))
        return
    shown = app_context.shown.query(Curves)
    panels = panels_of(shown.first().contents) if shown and shown.first().display else []
    if not panels:
        app_context.toast("no chart is shown here: Enter opens that of a run, F12 saves the whole screen")
        return
    name = runs[0].name if runs else ""
    size = (WIDTH, height_of(len(panels)))
    await _save(app_context, f"chart-{name}", size, GROUND, lambda surface: draw_charts(surface, name, panels))


async def _save(app_context: AppContext, stem: str, size: tuple[float, float], ground: str, draw: Draw) -> None:
    """Save the files side by side, under a name that is free. Raises `MissionError` where that cannot be."""
    if os.environ.get(SERVED):
        # Whoever looks from a browser would fill a folder of the machine that serves the screen.
        app_context.toast("this screen is read-only and saves no pictures: take one of the browser's window")
        return
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")[:60]
    base = Path(app_context.origin["cwd"]) / f"mission-tui-{slug}-{time.strftime('%Y%m%d-%H%M%S')}"
    said = await asyncio.to_thread(_write, base, size, ground, draw)
    app_context.toast(f"saved {said} in {home_relative(str(base.parent), app_context.home)}")


def _write(base: Path, size: tuple[float, float], ground: str, draw: Draw) -> str:
    from mission_tui.tui.drawing.picture_file import PngSurface, SvgSurface, fonts_folder, write_fresh

    drawing = SvgSurface(*size, ground)
    draw(drawing)
    svg = base.with_name(f"{base.name}.svg")
    write_fresh(svg, drawing.data())
    fonts = fonts_folder()
    if fonts is None:
        return f"{svg.name} (a PNG too needs the extra `report`)"
    pixels = PngSurface(*size, ground, fonts)
    draw(pixels)
    write_fresh(base.with_name(f"{base.name}.png"), pixels.data())
    return f"{svg.name} and .png"


VERBS: Mapping[str, Verb] = {"screenshot": screenshot, "chart picture": chart}
