"""A paper's figure: the numbers of `compare`, text that stays text, the widths of columns, and harmless names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec import structs

from mission_tui.cli.tables.comparison_figure import (
    COLUMN_INCHES,
    caption,
    check_figure,
    figure_inches,
    labels_of,
    write_figure,
)
from mission_tui.errors import UsageError
from mission_tui.fleet.comparison import Comparison, Drawing, compare, drawing_of
from mission_tui.fleet.comparison_sides import Edges, Side
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.statistics.intervals import iqm_estimate, mean_estimate
from tests.fleet.recorded import SPEC
from tests.fleet.test_compare import side, spec_of

HOSTILE = "_$\\frac{1}{0}$ <script>\x1b[31m"


def seeds(number: int = 4, *gammas: float) -> list[Side]:
    """So many seeds of each setting; the last seed of each is far above the others."""
    return [
        side(f"run{gamma}-{seed}", [0.0, 1.0 + seed**3, 2.0 + seed**3], spec_of(seed, gamma=gamma))
        for gamma in gammas or (0.9, 0.99)
        for seed in range(number)
    ]


def drawn(sides: list[Side]) -> tuple[Comparison, list[Drawing]]:
    return compare(sides, RETURN), [drawing_of(sides, RETURN, edges="quartiles")]


def test_the_band_of_a_figure_are_quartiles_around_the_median_of_the_tables() -> None:
    """Its last median is that of the last values in `compare`'s table; one seed that ran away widens the range only."""
    sides = seeds(5)
    found, (drawing,) = drawn(sides)
    ends = [band for band in drawing.bands if band is not None]
    assert [band.y[-1] for band in ends] == [cohort.spreads["final"].median for cohort in found.cohorts] == [10.0, 10.0]
    assert [(band.low[-1], band.high[-1]) for band in ends] == [(3.0, 29.0)] * 2
    assert [(band.low[-1], band.high[-1]) for band in found.bands] == [(2.0, 66.0)] * 2


@pytest.mark.parametrize(("edges", "number", "estimate"), [("mean", 5, mean_estimate), ("iqm", 12, iqm_estimate)])
def test_a_band_may_be_the_interval_of_the_tables(edges: Edges, number: int, estimate: Any) -> None:
    """At the last place the mean, or the interquartile mean, with the same 95 % interval as `compare` prints."""
    sides = seeds(number, 0.9)
    (band,) = drawing_of(sides, RETURN, edges=edges).bands
    known = estimate([it.trace.values[-1] for it in sides])
    assert band is not None
    assert (band.y[-1], band.low[-1], band.high[-1]) == pytest.approx((known.middle, *known.interval))
    assert "95 % interval" in caption(compare(sides, RETURN), [drawing_of(sides, RETURN, edges=edges)], edges)


def test_too_few_seeds_get_no_interval_and_a_word_of_it() -> None:
    """Two seeds have the mean alone, which the caption says; nine seeds are no interquartile mean."""
    two = seeds(2)
    drawing = drawing_of(two, RETURN, edges="mean")
    assert all(band is not None and band.y and not band.low for band in drawing.bands)
    assert "two seeds have no interval" in caption(compare(two, RETURN), [drawing], "mean")
    with pytest.raises(UsageError, match=r"takes 10 seeds .* \(A-I\) are 9: take the mean"):
        drawing_of(seeds(9), RETURN, edges="iqm")


def test_a_caption_says_where_budgets_differ() -> None:
    """A line that goes on where another has ended is not more; lines that end together need no word."""
    short = [side(f"s{seed}", [1.0, 2.0, 3.0], spec_of(seed, gamma=0.9)) for seed in (1, 2)]
    long = [side(f"l{seed}", [1.0, 2.0, 3.0, 4.0], spec_of(seed, gamma=0.99)) for seed in (1, 2)]
    said = caption(compare([*short, *long], RETURN), [drawing_of([*short, *long], RETURN)], "range")
    steps = [side_.trace.timesteps[-1] for side_ in (short[0], long[0])]
    ends = f"gamma 0.9 (2 seeds) ends at {steps[0]:,} timesteps, gamma 0.99 (2 seeds) at {steps[1]:,}."
    assert said.endswith(f"Budgets differ: {ends}")
    assert "Budgets" not in caption(compare(short, RETURN), [drawing_of(short, RETURN)], "range")


def test_a_figure_has_the_size_that_is_asked_for(tmp_path: Path) -> None:
    """In centimetres, millimetres or inches, with a height or without; anything else is refused with an example."""
    width, height = figure_inches("12.7cm")
    assert (width, height) == pytest.approx((5.0, None))
    assert figure_inches("127mm x 2in") == pytest.approx((5.0, 2.0))
    assert figure_inches("5x2in") == (5.0, 2.0)
    for word in ("8", "8.5", "cm", "8cmx", "0.1in", "5inx99in", "8cm;rm"):
        with pytest.raises(UsageError, match="--size"):
            figure_inches(word)
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    found, drawings = drawn(seeds())
    write_figure(tmp_path / "a.svg", found, drawings, inches=(5.0, 2.0), edges="quartiles", seed_lines=False)
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert (root.get("width"), root.get("height")) == ("360pt", "144pt")


def test_names_of_axes_fit_into_a_flat_figure(tmp_path: Path) -> None:
    """Two panels in 12 by 6 cm stand side by side, and a name that is longer than its axis is broken."""
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    found, drawings = drawn(seeds())
    for height, whole in ((2.36, True), (1.5, False)):
        path = tmp_path / f"{height}.svg"
        write_figure(path, found, drawings * 2, inches=(4.72, height), edges="range", seed_lines=False)
        texts = [text.strip() for text in ElementTree.parse(path).getroot().itertext() if text.strip()]
        assert (texts.count("mean episode return") == 2) is whole
        assert texts.count("timesteps (thousands)") == 2


def test_the_legend_says_what_varies() -> None:
    """Settings that differ, with the number of seeds; the preset's name where nothing does, and one run's own name.
    Two that differ only in the fourth setting are told apart.
    """
    assert list(labels_of(drawn(seeds(2))[0])) == ["gamma 0.9 (2 seeds)", "gamma 0.99 (2 seeds)"]
    assert list(labels_of(drawn(seeds(3, 0.9))[0])) == ["demo (3 seeds)"]
    values_of = ((1, 0.9, 0.9, 0.0), (2, 0.8, 0.8, 0.0), (2, 0.8, 0.8, 0.1))
    four = ("n_epochs", "gamma", "gae_lambda", "ent_coef")
    many = [dict(zip(four, values, strict=True)) for values in values_of]
    apart = list(labels_of(drawn([side(f"r{at}", [1.0, 2.0], spec_of(1, **it)) for at, it in enumerate(many)])[0]))
    assert len(set(apart)) == 3


@pytest.mark.parametrize(("columns", "points"), [(1, 252), (2, 515)])
def test_a_pdf_has_the_width_of_its_columns_and_truetype_letters(columns: int, points: int, tmp_path: Path) -> None:
    """3.5 or 7.16 inches; what publishers refuse (Type 3) is not in it, and drawn again it is the same file."""
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    path = tmp_path / "fig.pdf"
    found, drawings = drawn(seeds())
    said = write_figure(
        path, found, drawings * columns, inches=(COLUMN_INCHES[columns], None), edges="quartiles", seed_lines=True
    )
    page = path.read_bytes()
    size = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", page)
    assert size is not None
    assert int(float(size[1])) == points
    assert b"/CIDFontType2" in page
    assert b"Type3" not in page
    assert "median and interquartile range over 4 seeds" in said
    write_figure(
        path, found, drawings * columns, inches=(COLUMN_INCHES[columns], None), edges="quartiles", seed_lines=True
    )
    assert path.read_bytes() == page


def test_names_in_a_figure_are_only_names(tmp_path: Path) -> None:
    """On the axis and in the legend: no mathematics, no markup, no control character; values of any size."""
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    path = tmp_path / "fig.svg"
    named = structs.replace(SPEC, env=structs.replace(SPEC.env, id=HOSTILE))
    sides = [side(HOSTILE, [1.0, 2.0], named), side("b", [1e300, -1e300], spec_of(2))]
    drawing = structs.replace(drawing_of(sides, RETURN), metric=HOSTILE)
    write_figure(path, compare(sides, RETURN), [drawing], inches=(3.5, None), edges="range", seed_lines=False)
    root = ElementTree.parse(path).getroot()
    assert root.findall(".//{http://www.w3.org/2000/svg}script") == []
    texts = [text for text in root.itertext() if "script" in text]
    assert len(texts) == 2
    assert all("$\\frac{1}{0}$ <script>" in text and "\x1b" not in text for text in texts)


def test_without_matplotlib_the_error_names_the_install_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before any run is read; as for another format, and for a folder that is not there."""
    for path, said in ((tmp_path / "fig.jpeg", ".pdf, .svg or .png"), (tmp_path / "none" / "fig.pdf", "no folder")):
        with pytest.raises(UsageError, match=said):
            check_figure(path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"pip install -c constraints.txt -e '\.\[report\]'"):
        check_figure(tmp_path / "fig.pdf")


def test_no_matplotlibrc_of_the_working_folder_is_read(tmp_path: Path) -> None:
    """A stranger's might be a pipe that never says a word; the process of its own has imported nothing before."""
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    os.mkfifo(tmp_path / "matplotlibrc")
    call = "from pathlib import Path; from mission_tui.cli.tables.comparison_figure import check_figure as it"
    words = [sys.executable, "-c", f"{call}; it(Path('figure.svg')); print(Path.cwd())"]
    done = subprocess.run(words, cwd=tmp_path, timeout=20, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path)
