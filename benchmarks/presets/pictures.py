"""The curves of each preset as one SVG, with the `report` extra: the same bytes for the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update(
    {"svg.hashsalt": "mission-tui", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)

from matplotlib import pyplot as plt  # noqa: E402 - the backend is chosen before
from matplotlib.axes import Axes  # noqa: E402

from benchmarks.presets.ends import Ends  # noqa: E402
from benchmarks.presets.measured import Kept, Measured, share_won, slug  # noqa: E402

__all__ = ["draw"]

WON, PLAYED, KL, CLIP = "#0072b2", "#009e73", "#d55e00", "#555555"


def draw(kept: Kept, folder: Path) -> dict[str, str]:
    """Draw all into `folder`; by preset the file, as the page beside the folder names it."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        name: f"{folder.name}/{_preset(name, it, kept.ends.get(it.mission), folder / f'{slug(name)}.svg')}"
        for name, it in kept.presets.items()
    }


def _preset(name: str, it: Measured, ends: Ends | None, path: Path) -> str:
    figure, (above, below) = plt.subplots(2, 1, figsize=(6.5, 3.8), sharex=True)
    _line(above, [(at.steps, at.won) for at in it.points], WON, "won in training")
    played = [(at.steps, at.won) for at in it.played]
    above.plot(*_columns(played), PLAYED, marker="o", markersize=3, linewidth=1, label="won in evaluations")
    if ends is not None:
        for outcomes, word in ((ends.seeker, "seeker"), (ends.random, "random")):
            above.axhline(share_won(outcomes), color=CLIP, linestyle=":", linewidth=1)
            beside = above.get_yaxis_transform()
            above.text(1.0, share_won(outcomes), f" {word}", va="center", fontsize=7, transform=beside)
    above.set_xlim(0, max(1, it.steps))
    above.set_ylim(-0.02, 1.02)
    above.set_ylabel("share of episodes")
    above.set_title(f"{name}: {it.steps:,} of {it.budget:,} steps", loc="left", fontsize=9)
    above.legend(frameon=False, fontsize=7, loc="best")
    _line(below, [(at.steps, at.kl) for at in it.points], KL, "KL")
    _line(below, [(at.steps, at.clip) for at in it.points], CLIP, "clip fraction")
    below.set_yscale("symlog", linthresh=1e-3)
    below.set_ylim(bottom=0)
    below.set_xlabel("environment steps")
    below.legend(frameon=False, fontsize=7, loc="best")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return path.name


def _line(axes: Axes, points: Sequence[tuple[int, float | None]], colour: str, label: str) -> None:
    axes.plot(*_columns([(at, value) for at, value in points if value is not None]), colour, linewidth=1, label=label)


def _columns(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [at for at, _ in points], [value for _, value in points]
