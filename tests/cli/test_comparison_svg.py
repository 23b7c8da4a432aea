"""The picture of a report: round ticks, and something to see however few points there are."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from mission_tui.cli.tables.comparison import curves_svg, ticks
from mission_tui.fleet.comparison import compare
from mission_tui.fleet.events.metrics import RETURN
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


@pytest.mark.parametrize(
    "returns", [[], [3.0], [3.0, 3.0], [1.0, 2.0, -5.0], [-1e17] * 3, [1e9, 1e9 + 1000], [1e99, -1e99]]
)
def test_every_comparison_has_a_picture(returns: list[float]) -> None:
    """Without a point, with one, flat, of any size, or falling; names are text whatever is in them, and no two
    ticks read the same.
    """
    sides = [side("a<b>&", returns), side("c", returns, spec_of(2))]
    for by in ("step", "time"):
        root = ElementTree.fromstring(curves_svg(compare(sides, RETURN, by)))
        texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
        assert "A  a<b>&" in [text.text for text in texts]
        heights = [text.text for text in texts if text.attrib.get("text-anchor") == "end"]
        assert len(set(heights)) == len(heights) > 1
        assert "nan" not in ElementTree.tostring(root, encoding="unicode")


def test_the_legend_has_room_for_every_name() -> None:
    """With sixty runs and names of sixty characters the last line and the end of a name are still on the picture."""
    sides = [side(f"{'n' * 60}{number}", [1.0, 2.0], spec_of(gamma=number / 100)) for number in range(60)]
    root = ElementTree.fromstring(curves_svg(compare(sides, RETURN)))
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    named = [text for text in root.iter("{http://www.w3.org/2000/svg}text") if "nnn" in (text.text or "")]
    assert len(named) == 60
    assert max(float(text.attrib["y"]) for text in named) < height
    assert max(float(text.attrib["x"]) + 6.5 * len(text.text or "") for text in named) < width
