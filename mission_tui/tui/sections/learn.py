"""How a run learns: curves with their newest value, vitals, progress, and what asks for attention first."""

from __future__ import annotations

import math

from textual.strip import Strip

from mission_tui.fleet.paying import payoff_sentence
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.sparkline import area, bar, spark
from mission_tui.tui.drawing.strips import Part, fit, line
from mission_tui.tui.drawing.wrapping import wrap
from mission_tui.tui.listing import standing
from mission_tui.tui.listing.vitals import vitals

__all__ = ["learn"]

_HEADLINE_MOST = 3
_CHART_LEAST = 4
_CHART_MOST = 14


def learn(view: RunView, width: int, height: int, now: float) -> list[Strip]:
    """`height` lines at most; where there is room, the return is drawn as a chart that takes the spare ones."""
    inside = width - 2
    rows: list[list[Part]] = []
    if view.cause or not view.update:
        said = wrap(standing.headline(view, now), inside)[:_HEADLINE_MOST]
        rows += [[(text, standing.state_style(view))] for text in said]
    if "metrics" not in view.can and not view.cause:
        rows.append([("a command that has reported nothing: no curves; l shows what it prints", colours.QUIET)])
    if view.update:
        rows.append(_progress(view, inside))
        below = [vitals(view, inside), *_concerns(view, inside, now), *_paid(view, inside)]
        rows += _chart(view, inside, height - len(rows) - len(below)) or [_curves(view, inside)]
        rows += below
    return [line([(" ", colours.INK), *parts], width) for parts in rows[:height]]


def _curves(view: RunView, width: int) -> list[Part]:
    """Return and episode length side by side, each with its sparkline."""
    cells = max(4, min(60, (width - 42) // 2))
    parts: list[Part] = []
    for label, tag in (("return ", "rollout/ep_rew_mean"), ("length ", "rollout/ep_len_mean")):
        parts += [
            (label, colours.QUIET),
            (f"{numbers.reading(view.metrics.get(tag)):>8} ", colours.INK),
            (spark(view.series.get(tag, ()), cells, last=view.update), colours.LIVE),
            ("   ", colours.INK),
        ]
    return parts


def _chart(view: RunView, width: int, height: int) -> list[list[Part]]:
    """The last 60 points of the return as an area, with the span of its axis."""
    series = view.series.get("rollout/ep_rew_mean", ())
    known = [float(value) for value in series if value is not None and math.isfinite(float(value))]
    height = min(height - 1, _CHART_MOST)
    if len(known) < 2 or height < _CHART_LEAST:
        return []
    title = f"{'return':>8}  {numbers.reading(known[-1])}  over the last {len(series)} updates"
    rows: list[list[Part]] = [[(title, colours.QUIET)]]
    for at, text in enumerate(area(series, width - 11, height)):
        label = max(known) if at == 0 else min(known) if at == height - 1 else None
        axis = "" if label is None else numbers.reading(label)
        shade = colours.SHADES[at * len(colours.SHADES) // height]
        rows.append([(f"{axis:>8} ", colours.QUIET), ("│", colours.LINE), (text, shade)])
    return rows


def _progress(view: RunView, width: int) -> list[Part]:
    share = standing.share_done(view)
    done, rest = bar(share, 16 if width < 100 else 32)
    steps = f"{numbers.compact(view.timesteps)}/{numbers.compact(view.total_timesteps)}"
    parts: list[Part] = [(done, colours.LIVE), (rest, colours.TRACK)]
    parts.append((f" {numbers.percent(share)}  {steps}  update {numbers.count(view.update)}", colours.INK))
    phases = (numbers.split_second(view.rollout_s), numbers.split_second(view.update_s))
    parts.append(("  rollout {} + update {}".format(*phases), colours.QUIET))
    return parts


def _paid(view: RunView, width: int) -> list[list[Part]]:
    """What it brought that the run joined the others."""
    if view.payoff is None or view.payoff.verdict == "first":
        return []
    return [[("together: ", colours.QUIET), (fit(payoff_sentence(view.payoff, "it"), width - 10), colours.INK)]]


def _concerns(view: RunView, width: int, now: float) -> list[list[Part]]:
    """The worst finding with cause and advice; without findings the outcomes of episodes."""
    worst = standing.told_first(view)
    if worst is not None:
        style = colours.severity_style(worst.severity)
        since = f" ({standing.finding_span(worst, now)})"
        rows: list[list[Part]] = [[(fit(f"{standing.severity_shape(worst)} {worst.sentence}{since}", width), style)]]
        rows.append([("  cause  ", colours.QUIET), (fit(worst.cause, width - 9), colours.INK)])
        if worst.proposal:
            rows.append([("  advice ", colours.QUIET), (fit(worst.proposal, width - 9), colours.INK)])
        return rows
    total = sum(view.outcomes.values())
    if not total:
        return []
    shares = sorted(view.outcomes.items(), key=lambda pair: -pair[1])
    said = "   ".join(f"{name} {numbers.percent(n / total)}" for name, n in shares)
    return [[("episodes: ", colours.QUIET), (fit(said, width - 10), colours.INK)]]
