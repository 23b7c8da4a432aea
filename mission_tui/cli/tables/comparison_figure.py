"""A comparison as a paper's figure, drawn by matplotlib (the extra `report`) in the width of one or two columns: the
median over seeds with its band, colours that the colour-blind tell apart, and text that stays text.

Names are anybody's: none of them is mathematical markup, and none changes the settings that are drawn with.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mission_tui.cli.tables.comparison_report import COLOURS
from mission_tui.errors import UsageError, install_words
from mission_tui.fleet.text import clean
from mission_tui.present.numbers import axis_name
from mission_tui.records.files.atomic import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mission_tui.fleet.compare import Axis, Comparison, Curve, Drawing, Edges


FORMATS = (".pdf", ".svg", ".png")
COLUMN_INCHES: Mapping[int, float] = {1: 3.5, 2: 7.16}
"""Widths of one and of both columns of a two-column paper (IEEE; ACM and NeurIPS scale from them by a few percent)."""

_ROW_INCHES, _LEGEND_INCHES = 2.1, 0.17
_DASHES: Sequence[Any] = ("-", "--", ":", "-.")
_SETTINGS: dict[Any, Any] = {
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "mission-tui",
    "text.usetex": False,
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "lines.linewidth": 1.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
}
_LABEL_CHARACTERS, _AXIS_CHARACTERS = 60, 28
_TIMES: Sequence[tuple[float, str]] = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_STEPS: Sequence[tuple[float, str]] = ((1e9, "billions"), (1e6, "millions"), (1e3, "thousands"))


def check_figure(path: Path) -> None:
    """Raise `UsageError` for a file that cannot be drawn: another format, no such folder, or no matplotlib."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--figure {path}: the name has to end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"--figure {path}: there is no folder {path.absolute().parent} to write it to")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"a figure is drawn by matplotlib, which is not here ({error}): {install_words('report')}"
        ) from error


def write_figure(
    path: Path, found: Comparison, drawings: Sequence[Drawing], *, columns: int, edges: Edges, seed_lines: bool
) -> str:
    """Draw one panel for each of `drawings` into `path`, replacing what was there; the caption that it needs.

    Raises `StorageError`.
    """
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # Neither a matplotlibrc nor a name in letters that the font has not changes what is drawn, or says a word.
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure = _figure(found, drawings, columns, seed_lines)
        drawn = io.BytesIO()
        kind = path.suffix.lower().removeprefix(".")
        undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
        figure.savefig(drawn, format=kind, dpi=300, metadata=undated)
    write_atomic(path, drawn.getvalue())
    return caption(found, drawings, edges)


def caption(found: Comparison, drawings: Sequence[Drawing], edges: Edges) -> str:
    """What the lines and bands are, as a paper has to say it."""
    seeds = sorted({len(cohort.seeds) for cohort in found.cohorts})
    names = ", ".join(axis_name(drawing.metric) for drawing in drawings)
    over = "timesteps" if found.by == "step" else "time in rollouts and updates"
    if seeds == [1]:
        return f"{names} over {over}; one seed of each setting."
    number = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    band = "interquartile range" if edges == "quartiles" else "range"
    return f"{names} over {over}: median and {band} over {number} seeds, where all seeds of a setting have values."


def _figure(found: Comparison, drawings: Sequence[Drawing], columns: int, seed_lines: bool) -> Figure:
    from matplotlib.figure import Figure

    across = min(columns, len(drawings))
    down = -(-len(drawings) // across)
    labels = list(labels_of(found))
    legend_rows = -(-len(labels) // columns) if len(labels) > 1 or found.settings else 0
    width, height = COLUMN_INCHES[columns], _ROW_INCHES * down + _LEGEND_INCHES * legend_rows
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flat
    for panel, drawing in zip(panels, drawings, strict=False):
        _draw(panel, found, drawing, labels, seed_lines)
    for panel in list(panels)[len(drawings) :]:
        panel.set_axis_off()
    if legend_rows:
        lines = figure.axes[0].get_lines()
        handles = [line for line in lines if not str(line.get_label()).startswith("_")]
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, handlelength=2.4)
    return figure


def labels_of(found: Comparison) -> Iterator[str]:
    """A label for each cohort: what it has set otherwise, else its name; and over how many seeds it is."""
    from mission_tui.fleet.compare import setting_words

    places = {run.id: at for at, run in enumerate(found.runs)}
    for cohort in found.cohorts:
        alone = found.runs[places[cohort.runs[0]]]
        words = setting_words(found.settings, places[cohort.runs[0]]) or (
            alone.name if len(cohort.runs) == 1 else alone.preset
        )
        words = clean(words, _LABEL_CHARACTERS)
        if words.startswith("_"):  # which matplotlib leaves out of a legend
            words = f"'{words}'"
        yield words + (f" ({len(cohort.seeds)} seeds)" if len(cohort.seeds) > 1 else "")


def _draw(panel: Axes, found: Comparison, drawing: Drawing, labels: Sequence[str], seed_lines: bool) -> None:
    curves = {run.id: curve for run, curve in zip(found.runs, drawing.curves, strict=True)}
    every = [*drawing.curves, *(band for band in drawing.bands if band is not None)]
    unit, name = _axis(found.by, max((curve.x[-1] for curve in every if curve.x), default=1.0))
    for at, (cohort, band, label) in enumerate(zip(found.cohorts, drawing.bands, labels, strict=True)):
        colour, dash = COLOURS[at % len(COLOURS)], _DASHES[at // len(COLOURS) % len(_DASHES)]
        own = [curves[run] for run in cohort.runs]
        if band is not None:
            panel.fill_between(_over(band, unit), band.low, band.high, color=colour, alpha=0.2, linewidth=0)
        if band is None or seed_lines:
            faint: dict[str, Any] = {"alpha": 0.45, "linewidth": 0.6} if band is not None else {}
            for nth, curve in enumerate(own):
                said = label if band is None and nth == 0 else "_seed"
                panel.plot(_over(curve, unit), curve.y, color=colour, linestyle=dash, label=said, **faint)
        if band is not None:
            panel.plot(_over(band, unit), band.y, color=colour, linestyle=dash, label=label)
    if drawing.threshold is not None:
        panel.axhline(drawing.threshold, color="#777777", linestyle=(0, (4, 3)), linewidth=0.8, label="_threshold")
    panel.set_xlabel(name)
    panel.set_ylabel(textwrap.fill(axis_name(drawing.metric), _AXIS_CHARACTERS))
    panel.margins(x=0.0)


def _over(curve: Curve, unit: float) -> list[float]:
    return [x / unit for x in curve.x]


def _axis(by: Axis, most: float) -> tuple[float, str]:
    """By what the axis is divided, and its name with the unit."""
    if by == "time":
        unit, word = next((it for it in _TIMES if most >= 2 * it[0]), _TIMES[-1])
        return unit, f"time in rollouts and updates ({word})"
    unit, word = next((it for it in _STEPS if most >= it[0]), (1.0, ""))
    return unit, f"timesteps ({word})" if word else "timesteps"
