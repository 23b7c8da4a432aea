"""How often the intervals and verdicts of `compare` are right, on seeds drawn from known distributions; and how often a
percentile bootstrap of the mean would be, which is what most plots of returns have. Writes its tables into
docs/statistics.md, between the two lines that say so.

Run: python -m benchmarks.calibration [--trials 4000] [--page docs/statistics.md]
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mission_tui.fleet.statistics.intervals import (
    LEAST_FOR_IQM,
    Estimate,
    Interval,
    behind_best,
    interquartile_mean,
    iqm_estimate,
    mean_estimate,
)

__all__ = ["Shape", "covered", "falsely_behind", "found_behind", "iqm_interval", "main", "mean_interval", "shapes"]

BEGIN, END = "<!-- by `make calibration` -->", "<!-- to here -->"
SEEDS = (3, 5, 10, 20)
SETTINGS = (2, 4, 8)
BOOTSTRAPPED = 10
"""One trial in so many where each takes a bootstrap of its own."""

_LARGE = 400_000
_BETWEEN = """How often any setting of several equals is called behind; and where one of four is truly better by so many
standard deviations of its seeds, how many of the others are:"""

Draw = Callable[[random.Random], float]


@dataclass(frozen=True, slots=True)
class Shape:
    """A distribution of final returns over seeds; `spread` is its standard deviation."""

    name: str
    draw: Draw
    mean: float
    iqm: float
    spread: float


def _shape(name: str, draw: Draw) -> Shape:
    """With its true middles, from more seeds than anybody trains."""
    dice = random.Random(0)
    many = [draw(dice) for _ in range(_LARGE)]
    return Shape(name, draw, statistics.fmean(many), interquartile_mean(many), statistics.pstdev(many))


def _normal(dice: random.Random) -> float:
    return dice.gauss(0.0, 1.0)


def _skewed(dice: random.Random) -> float:
    return -dice.lognormvariate(0.0, 0.75)


def _learns_or_not(dice: random.Random) -> float:
    return dice.gauss(500.0, 20.0) if dice.random() < 0.7 else dice.gauss(200.0, 40.0)


def shapes() -> Mapping[str, Shape]:
    """The distributions by their names."""
    return {
        name: _shape(name, draw)
        for name, draw in (("normal", _normal), ("skewed", _skewed), ("learns or not", _learns_or_not))
    }


def shown(values: Sequence[float]) -> Estimate | None:
    """The middle that `compare` ranks by: the interquartile mean where there are seeds enough."""
    return iqm_estimate(values) if len(values) >= LEAST_FOR_IQM else mean_estimate(values)


def percentile_bootstrap(values: Sequence[float]) -> Interval:
    """The 95 % interval of the mean as plots have it: for comparison, used nowhere."""
    dice = random.Random(0)
    means = sorted(statistics.fmean(dice.choices(values, k=len(values))) for _ in range(1000))
    return means[25], means[974]


def covered(shape: Shape, seeds: int, trials: int, how: Callable[[Sequence[float]], Interval | None]) -> float:
    """The share of `trials` in which the interval holds the true middle; one that is not there holds nothing."""
    dice, held = random.Random(seeds), 0
    for _ in range(trials):
        ends = how([shape.draw(dice) for _ in range(seeds)])
        true = shape.iqm if how is iqm_interval else shape.mean
        held += ends is not None and ends[0] <= true <= ends[1]
    return held / trials


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The mean's interval."""
    found = mean_estimate(values)
    return None if found is None else found.interval


def iqm_interval(values: Sequence[float]) -> Interval | None:
    """The interquartile mean's interval."""
    found = iqm_estimate(values)
    return None if found is None else found.interval


def falsely_behind(shape: Shape, settings: int, seeds: int, trials: int) -> float:
    """The share of comparisons of `settings` equals in which any is called behind."""
    dice = random.Random(f"{settings} {seeds}")
    return sum(_behind(shape, settings, seeds, 0.0, dice) > 0 for _ in range(trials)) / trials


def found_behind(shape: Shape, settings: int, seeds: int, lead: float, trials: int) -> float:
    """The share of the others that are called behind where one is better by `lead` standard deviations."""
    dice = random.Random(f"{settings} {seeds} {lead}")
    return statistics.fmean(_behind(shape, settings, seeds, lead, dice) / (settings - 1) for _ in range(trials))


def _behind(shape: Shape, settings: int, seeds: int, lead: float, dice: random.Random) -> int:
    sides = [[shape.draw(dice) + lead * shape.spread * (at == 0) for _ in range(seeds)] for at in range(settings)]
    return sum(ends is not None and ends[0] > 0.0 for ends in behind_best([shown(side) for side in sides]))


def main() -> None:
    """Simulate, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--page", type=Path, default=Path("docs/statistics.md"))
    args = parser.parse_args()
    text = _tables(args.trials)
    print(text)
    before, _, rest = args.page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    args.page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _tables(trials: int) -> str:
    known, few = shapes(), max(100, trials // BOOTSTRAPPED)
    cover = [
        [
            shape.name,
            str(seeds),
            _percent(covered(shape, seeds, few, percentile_bootstrap)),
            _percent(covered(shape, seeds, trials, mean_interval)),
            _percent(covered(shape, seeds, few, iqm_interval)) if seeds >= LEAST_FOR_IQM else "-",
        ]
        for shape in known.values()
        for seeds in SEEDS
    ]
    wrong = []
    for shape in known.values():
        for seeds in SEEDS:
            times = few if seeds >= LEAST_FOR_IQM else trials
            false = [falsely_behind(shape, many, seeds, times) for many in SETTINGS]
            found = [found_behind(shape, 4, seeds, lead, few) for lead in (2.0, 4.0)]
            wrong.append([shape.name, str(seeds), *map(_percent, (*false, *found))])
    said = f"{trials:,} draws a figure, {few:,} where each takes a bootstrap: they scatter by {_scatter(trials)} and"
    said += f" {_scatter(few)} around 95 %."
    heads = (*(f"{many} equals" for many in SETTINGS), "found, 2 sd better", "4 sd better")
    return "\n\n".join(
        (
            said,
            _table(("returns", "seeds", "percentile bootstrap", "of the mean", "of the IQM"), cover),
            _BETWEEN,
            _table(("returns", "seeds", *heads), wrong),
        )
    )


def _scatter(trials: int) -> str:
    return f"{100.0 * math.sqrt(0.05 * 0.95 / trials):.1f} %"


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
