"""The score as pictures, with the `report` extra: one SVG a question, the same bytes for the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update(
    {"svg.hashsalt": "mission-tui", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)

from matplotlib import pyplot as plt  # noqa: E402 - the backend is chosen before
from matplotlib.figure import Figure  # noqa: E402

from benchmarks.health.scoring import Scored, false_rate, found  # noqa: E402
from mission_tui.fleet.events.metrics import number  # noqa: E402

__all__ = ["draw"]

EXAMPLES = ("lr-0", "reward-sign", "minibatch-4", "vf-0")
FOUND, FALSE, CURVE = "#0072b2", "#d55e00", "#555555"


def draw(scored: Sequence[Scored], folder: Path) -> tuple[str, ...]:
    """Draw all plots into `folder`; their file names."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [_recall(scored, folder / "recall.svg"), _false(scored, folder / "false.svg")]
    made += [_example(one, folder / f"{one.case.name}.svg") for one in _examples(scored)]
    return tuple(made)


def _recall(scored: Sequence[Scored], path: Path) -> str:
    rows = [one for one in found([one for one in scored if one.case.rules]) if one.positives]
    figure, axes = plt.subplots(figsize=(6.5, 0.28 * len(rows) + 0.8))
    axes.barh([one.kind for one in rows], [one.recall or 0.0 for one in rows], color=FOUND)
    for at, one in enumerate(rows):
        late = "not found" if one.delay is None else f"{one.hits}/{one.positives}, {one.delay:g} updates late"
        axes.text(0.02, at, late, va="center", color="white" if one.hits else "black")
    axes.set_xlabel("share of sick runs found")
    axes.set_xlim(0, 1)
    return _save(figure, path)


def _false(scored: Sequence[Scored], path: Path) -> str:
    rules = sorted({it.rule for one in scored for it in one.alarms})
    rates = [false_rate(scored, ("warning", "critical"), (rule,)) for rule in rules]
    figure, axes = plt.subplots(figsize=(6.5, 0.28 * len(rules) + 0.8))
    axes.barh(rules, [rate.per_1000 for rate in rates], color=FALSE)
    for at, rate in enumerate(rates):
        axes.plot([rate.low, rate.high], [at, at], color="black", linewidth=1)
    axes.set_xlabel("false incidents per 1,000 healthy updates, with 95 % interval over runs")
    return _save(figure, path)


def _examples(scored: Sequence[Scored]) -> list[Scored]:
    """The first run of a few constructions."""
    first: dict[str, Scored] = {}
    for one in scored:
        if one.case.rules:
            first.setdefault(one.case.kind, one)
    return [first[kind] for kind in EXAMPLES if kind in first]


def _example(one: Scored, path: Path) -> str:
    rows = [(row.update, number(row.metrics.get("rollout/ep_rew_mean"))) for row in one.case.rows]
    figure, axes = plt.subplots(figsize=(6.5, 2.2))
    axes.plot([at for at, value in rows if value is not None], [value for _, value in rows if value is not None], CURVE)
    for it in one.alarms:
        axes.axvspan(it.first, it.last, color=FALSE, alpha=0.12, linewidth=0)
        axes.text(it.first, axes.get_ylim()[1], f"{it.rule} ", rotation=90, va="top", ha="right", fontsize=7)
    if one.case.sick_from:
        axes.axvline(one.case.sick_from, color="black", linestyle=":")
    axes.set_xlabel("update (dotted: what was done to the run begins)")
    axes.set_ylabel("mean return")
    return _save(figure, path)


def _save(figure: Figure, path: Path) -> str:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return path.name
