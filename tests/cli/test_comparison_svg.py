"""The picture of a report: round ticks, and something to see however few points there are."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from mission_tui.cli.comparison.svg import curves_svg, ticks
from mission_tui.fleet.compare import RETURN, compare
from tests.fleet.test_compare import side, spec_of


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 10.0, [0, 2, 4, 6, 8, 10]),
        (-1.0, 1.0, [-1, -0.5, 0, 0.5, 1]),
        (1e6, 1e6 + 3, [1e6 + n / 2 for n in range(7)]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    """1, 2 or 5 times a power of ten apart, none beyond the ends."""
    assert ticks(low, high) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("returns", [[], [3.0], [3.0, 3.0], [1.0, 2.0, -5.0]])
def test_every_comparison_has_a_picture(returns: list[float]) -> None:
    """Without a point, with one, flat, or falling; names are text whatever is in them."""
    sides = [side("a<b>&", returns), side("c", returns, spec_of(2))]
    for by in ("step", "time"):
        root = ElementTree.fromstring(curves_svg(compare(sides, RETURN, by)))
        texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        assert "A  a<b>&" in texts
        assert "nan" not in ElementTree.tostring(root, encoding="unicode")
