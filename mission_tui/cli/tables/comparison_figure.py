"""A comparison as a paper's figure, drawn by matplotlib (the extra `report`) in the width of one or two columns, or any
other: the middle over seeds with its band, colours that the colour-blind tell apart, and text that stays text.

Names are anybody's: none of them is mathematical markup, and none changes the settings that are drawn with.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mission_tui.cli.tables.comparison import COLOURS
from mission_tui.errors import UsageError, install_words
from mission_tui.fleet.statistics.intervals import LEAST_VALUES
from mission_tui.fleet.text import clean
from mission_tui.present.numbers import axis_name
from mission_tui.records.atomic import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mission_tui.fleet.comparison import Comparison, Drawing
    from mission_tui.fleet.comparison_sides import Axis, Curve, Edges


FORMATS = (".pdf", ".svg", ".png")
COLUMN_INCHES: Mapping[int, float] = {1: 3.5, 2: 7.16}
"""Widths of one and of both columns of a two-column paper (IEEE; ACM and NeurIPS scale from them by a few percent)."""

_ROW_INCHES, _LEGEND_INCHES, _PANEL_INCHES = 2.1, 0.17, 2.6
_FLAT_INCHES, _TICKS_INCHES, _CHARACTER_INCHES = 1.4, 0.45, 0.075
"""Panels lower than the first stand side by side; what an axis takes below a panel; and a letter of its name."""

_LEGEND_CHARACTER_INCHES, _LEGEND_HANDLE_INCHES = 0.058, 0.5
_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4}
_LEAST_INCHES, _MOST_INCHES = 1.5, 40.0
_LENGTH = r"(\d+(?:\.\d+)?)\s*(in|cm|mm)?"
_SIZE = re.compile(rf"{_LENGTH}(?:\s*x\s*{_LENGTH})?", re.ASCII)
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
_ALIKE = 1.05
"""Rollouts end where they end: settings that end this close have one budget."""

_LABEL_CHARACTERS, _AXIS_CHARACTERS = 120, 28
_BANDS: Mapping[Edges, str] = {
    "quartiles": "median and interquartile range",
    "range": "median and range",
    "mean": "mean and 95 % interval (Student's, at each place)",
    "iqm": "interquartile mean and 95 % interval (bootstrap, at each place)",
}
_TIMES: Sequence[tuple[float, str]] = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_STEPS: Sequence[tuple[float, str]] = ((1e9, "billions"), (1e6, "millions"), (1e3, "thousands"))


def check_figure(path: Path) -> None:
    """Raise `UsageError` for a file that cannot be drawn: another format, no such folder, or no matplotlib."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--figure {path}: the name has to end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"--figure {path}: there is no folder {path.absolute().parent} to write it to")
    try:
        _load_matplotlib()
    except ImportError as error:
        raise UsageError(
            f"a figure is drawn by matplotlib, which is not here ({error}): {install_words('report')}; "
            "--report DIR draws a plain SVG without it"
        ) from error


def _load_matplotlib() -> None:
    """Import it from the folder of its own defaults: it takes the `matplotlibrc` of the folder that it is imported in,
    which may be a stranger's, or a pipe that says nothing. Raises `ImportError`.
    """
    found = find_spec("matplotlib")
    if found is None or found.origin is None:
        raise ImportError("No module named 'matplotlib'")
    with chdir(Path(found.origin).parent / "mpl-data"):
        import matplotlib.figure  # noqa: F401


def figure_inches(size: str) -> tuple[float, float | None]:
    """Width and height that `size` means, such as `8.5cm` or `18x6cm`; without a height it follows from the panels.

    Raises `UsageError`.
    """
    match = _SIZE.fullmatch(size.strip().lower())
    unit = match and (match[2] or match[4])
    if match is None or not unit:
        raise UsageError(
            f"--size {clean(size, 40)}: give WIDTH or WIDTHxHEIGHT in cm, mm or in, such as 8.5cm or 18x6cm"
        )
    width = float(match[1]) * _INCHES[match[2] or unit]
    height = float(match[3]) * _INCHES[match[4] or unit] if match[3] else None
    if not all(_LEAST_INCHES <= side <= _MOST_INCHES for side in (width, height or width)):
        raise UsageError(f"--size {clean(size, 40)}: each side has to be from {_LEAST_INCHES:g} to {_MOST_INCHES:g} in")
    return width, height


def write_figure(
    path: Path,
    found: Comparison,
    drawings: Sequence[Drawing],
    *,
    inches: tuple[float, float | None],
    edges: Edges,
    seed_lines: bool,
) -> str:
    """Draw one panel for each of `drawings` into `path`, replacing what was there; the caption that it needs.

    `inches` are the width and, if it is given, the height. Raises `StorageError`.
    """
    _load_matplotlib()
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # Neither a matplotlibrc nor a name in letters that the font has not changes what is drawn, or says a word.
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure = _figure(found, drawings, inches, seed_lines)
        drawn = io.BytesIO()
        kind = path.suffix.lower().removeprefix(".")
        undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
        figure.savefig(drawn, format=kind, dpi=300, metadata=undated)
    write_atomic(path, drawn.getvalue())
    return caption(found, drawings, edges)


def caption(found: Comparison, drawings: Sequence[Drawing], edges: Edges) -> str:
    """What the lines and bands are, as a paper has to say it, and where settings were trained for longer."""
    counts = sorted({len(cohort.seeds) for cohort in found.cohorts})
    names = ", ".join(axis_name(drawing.metric) for drawing in drawings)
    over = "timesteps" if found.by == "step" else "training time"
    if counts == [1]:
        words = f"{names} over {over}; one seed of each setting."
    else:
        number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        words = f"{names} over {over}: {_BANDS[edges]} over {number} seeds, where all seeds of a setting have values"
        lonely = edges == "mean" and any(1 < count < LEAST_VALUES for count in counts)
        words += f"; two seeds have no interval ({LEAST_VALUES} are the least)." if lonely else "."
    return words + "".join(_budgets(found, drawings))


def _budgets(found: Comparison, drawings: Sequence[Drawing]) -> Iterator[str]:
    """That a line goes on where another has ended, which a reader could take for more than it is."""
    ends = []
    for at, cohort in enumerate(found.cohorts):
        band = drawings[0].bands[at]
        own = [curve for run, curve in zip(found.runs, drawings[0].curves, strict=True) if run.id in cohort.runs]
        ends.append(max((curve.x[-1] for curve in ([band] if band is not None else own) if curve.x), default=0.0))
    if min(ends) <= 0.0 or max(ends) <= _ALIKE * min(ends):
        return
    labels = list(labels_of(found))
    unit = "timesteps" if found.by == "step" else "s of training"
    first, last = ends.index(min(ends)), ends.index(max(ends))
    yield f" Budgets differ: {labels[first]} ends at {ends[first]:,.0f} {unit}, {labels[last]} at {ends[last]:,.0f}."


def _figure(
    found: Comparison, drawings: Sequence[Drawing], inches: tuple[float, float | None], seed_lines: bool
) -> Figure:
    from matplotlib.figure import Figure

    width = inches[0]
    across = min(max(1, int(width / _PANEL_INCHES)), len(drawings))
    labels, legend_columns, legend_lines = _legend(found, width)
    below = _LEGEND_INCHES * legend_lines
    while inches[1] and across < len(drawings) and (inches[1] - below) / -(-len(drawings) // across) < _FLAT_INCHES:
        across += 1
    down = -(-len(drawings) // across)
    height = inches[1] or _ROW_INCHES * down + below
    room = int(((height - below) / down - _TICKS_INCHES) / _CHARACTER_INCHES)
    name_characters = min(_AXIS_CHARACTERS, max(6, room)) if inches[1] else _AXIS_CHARACTERS
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flat
    for panel, drawing in zip(panels, drawings, strict=False):
        _draw(panel, found, drawing, labels, seed_lines)
        name = textwrap.fill(axis_name(drawing.metric), name_characters, break_long_words=False)
        panel.set_ylabel(name)
    for panel in list(panels)[len(drawings) :]:
        panel.set_axis_off()
    if legend_lines:
        lines = figure.axes[0].get_lines()
        handles = [line for line in lines if not str(line.get_label()).startswith("_")]
        figure.legend(
            handles=handles, loc="outside lower center", ncols=legend_columns, frameon=False, handlelength=2.4
        )
    return figure


def _legend(found: Comparison, width: float) -> tuple[list[str], int, int]:
    """Labels broken into lines that fit into `width` inches, in how many columns, and how many lines high."""
    room = max(8, int((width - _LEGEND_HANDLE_INCHES) / _LEGEND_CHARACTER_INCHES))
    labels = [textwrap.fill(label, room) for label in labels_of(found)]
    if len(labels) == 1 and not found.settings:
        return labels, 1, 0
    longest = max(len(line) for label in labels for line in label.splitlines())
    fit = int(width / (longest * _LEGEND_CHARACTER_INCHES + _LEGEND_HANDLE_INCHES))
    columns = max(1, min(fit, len(labels), 4))
    rows = -(-len(labels) // columns)
    return labels, columns, rows * max(1 + label.count("\n") for label in labels)


def labels_of(found: Comparison) -> Iterator[str]:
    """A label for each cohort: what it has set otherwise, else its name; and over how many seeds it is.

    Labels differ: where the first settings do not tell two apart, all of them are named.
    """
    from mission_tui.fleet.comparison_sides import setting_words

    places = {run.id: at for at, run in enumerate(found.runs)}
    firsts = [places[cohort.runs[0]] for cohort in found.cohorts]
    words = [setting_words(found.settings, at) for at in firsts]
    if len(set(words)) < len(words):
        words = [setting_words(found.settings, at, len(found.settings)) for at in firsts]
    for cohort, at, setting in zip(found.cohorts, firsts, words, strict=True):
        alone = found.runs[at]
        label = clean(setting or (alone.name if len(cohort.runs) == 1 else alone.preset), _LABEL_CHARACTERS)
        if label.startswith("_"):  # which matplotlib leaves out of a legend
            label = f"'{label}'"
        yield label + (f" ({len(cohort.seeds)} seeds)" if len(cohort.seeds) > 1 else "")


def _draw(panel: Axes, found: Comparison, drawing: Drawing, labels: Sequence[str], seed_lines: bool) -> None:
    curves = {run.id: curve for run, curve in zip(found.runs, drawing.curves, strict=True)}
    every = [*drawing.curves, *(band for band in drawing.bands if band is not None)]
    unit, name = _axis(found.by, max((curve.x[-1] for curve in every if curve.x), default=1.0))
    for at, (cohort, band, label) in enumerate(zip(found.cohorts, drawing.bands, labels, strict=True)):
        colour, dash = COLOURS[at % len(COLOURS)], _DASHES[at // len(COLOURS) % len(_DASHES)]
        own = [curves[run] for run in cohort.runs]
        if band is not None and band.low:
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
    panel.margins(x=0.0)


def _over(curve: Curve, unit: float) -> list[float]:
    return [x / unit for x in curve.x]


def _axis(by: Axis, most: float) -> tuple[float, str]:
    """By what the axis is divided, and its name with the unit."""
    if by == "time":
        unit, word = next((it for it in _TIMES if most >= 2 * it[0]), _TIMES[-1])
        return unit, f"training time ({word})"
    unit, word = next((it for it in _STEPS if most >= it[0]), (1.0, ""))
    return unit, f"timesteps ({word})" if word else "timesteps"
