"""A paper's figure: the numbers of `compare`, text that stays text, the widths of columns, and harmless names."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import structs

from mission_tui.cli.tables.comparison_figure import check_figure, labels_of, write_figure
from mission_tui.errors import UsageError
from mission_tui.fleet.compare import RETURN, Comparison, Drawing, Side, compare, drawing_of
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


def test_the_legend_says_what_varies() -> None:
    """Settings that differ, with the number of seeds; the preset's name where nothing does, and one run's own name."""
    assert list(labels_of(drawn(seeds(2))[0])) == ["gamma 0.9 (2 seeds)", "gamma 0.99 (2 seeds)"]
    assert list(labels_of(drawn(seeds(3, 0.9))[0])) == ["demo (3 seeds)"]


@pytest.mark.parametrize(("columns", "points"), [(1, 252), (2, 515)])
def test_a_pdf_has_the_width_of_its_columns_and_truetype_letters(columns: int, points: int, tmp_path: Path) -> None:
    """3.5 or 7.16 inches; what publishers refuse (Type 3) is not in it, and drawn again it is the same file."""
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    path = tmp_path / "fig.pdf"
    found, drawings = drawn(seeds())
    said = write_figure(path, found, drawings * columns, columns=columns, edges="quartiles", seed_lines=True)
    page = path.read_bytes()
    size = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", page)
    assert size is not None
    assert int(float(size[1])) == points
    assert b"/CIDFontType2" in page
    assert b"Type3" not in page
    assert "median and interquartile range over 4 seeds" in said
    write_figure(path, found, drawings * columns, columns=columns, edges="quartiles", seed_lines=True)
    assert path.read_bytes() == page


def test_names_in_a_figure_are_only_names(tmp_path: Path) -> None:
    """On the axis and in the legend: no mathematics, no markup, no control character; values of any size."""
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    path = tmp_path / "fig.svg"
    named = structs.replace(SPEC, env=structs.replace(SPEC.env, id=HOSTILE))
    sides = [side(HOSTILE, [1.0, 2.0], named), side("b", [1e300, -1e300], spec_of(2))]
    drawing = structs.replace(drawing_of(sides, RETURN), metric=HOSTILE)
    write_figure(path, compare(sides, RETURN), [drawing], columns=1, edges="range", seed_lines=False)
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
