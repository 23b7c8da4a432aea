"""What each tab of a run shows in its short form, and of them `learn`: curves, vitals, progress, what is wrong.

The other sections are loaded when their tab is first shown: the first picture needs none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.marginal_gain import gain_sentence
from mission_tui.fleet.events.metrics import Metric, number
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.present.run_state import share_done
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.metrics import key_metrics, metric_title
from mission_tui.tui.drawing.sparkline import area, bar, spark
from mission_tui.tui.drawing.strips import Part, fit, line, wrap
from mission_tui.tui.state import run_status

if TYPE_CHECKING:
    from mission_tui.tui.state.run_data import RunData


_LOG_LINES = 300
"""The short form of a log; the run's own screen has all of it."""
_HEADLINE_MOST = 3
_CHART_LEAST = 4
"""With its title. What is wrong is told in whole sentences first."""
_CHART_WIDTH = 66
"""Cells from which a chart beside another one has room for its course."""
_EACH_CHART = 16
"""Rows from which one more chart says more than a higher one."""
_CHARTED = ("rollout/ep_rew_mean", "train/approx_kl", "rollout/ep_len_mean")
_FOLDED_MOST = 3


def section(tab: str, view: RunView, data: RunData | None, width: int, height: int, now: float) -> list[Strip]:
    """The content of a tab; one that needs an answer says that it was asked for, or why it did not come."""
    if tab == "learn":
        return learn(view, width, height, now)
    if tab == "health":
        from mission_tui.tui.sections.health import health

        return health(view, data.details if data else None, width, now)
    if tab == "machine":
        from mission_tui.tui.sections.usage import usage_lines

        return usage_lines(view, width, data.summaries, now) if data else usage_lines(view, width)
    return _answered(tab, view, data, width, height, now) if data else []


def _answered(tab: str, view: RunView, data: RunData, width: int, height: int, now: float) -> list[Strip]:
    """A tab whose content the supervisor has to be asked for."""
    if tab == "episodes":
        from mission_tui.fleet.history.series import EPISODES
        from mission_tui.tui.sections.episodes import episodes

        return episodes(view, data.history.get(EPISODES), data.trouble or "", width, height)
    if tab == "log" and data.log.attempt is not None:
        from mission_tui.tui.drawing.strips import fold

        lines = data.log.lines[-_LOG_LINES:] or ["(nothing was printed)"]
        return [line([(" " + text, colours.INK)], width) for raw in lines for text in fold(raw, width - 2, 20)]
    if (details := data.details) is not None:
        match tab:
            case "config":
                from mission_tui.tui.sections.config import config

                return config(details, width)
            case "checkpoints":
                from mission_tui.tui.sections.checkpoints import checkpoints

                return checkpoints(details, width, now)
            case "journal":
                from mission_tui.tui.sections.checkpoints import journal

                return journal(details, width, now)
    return [line([(f" {data.trouble or 'asking…'}", colours.QUIET)], width)]


class _Notice(Struct, frozen=True):
    lead: str
    text: str
    style: Style = colours.INK
    lead_style: Style = colours.QUIET


def learn(view: RunView, width: int, height: int, now: float) -> list[Strip]:
    """`height` lines at most: what asks for attention first, then charts that take the spare ones."""
    inside = width - 2
    rows: list[list[Part]] = []
    if view.cause or not view.update:
        said = wrap(run_status.headline(view, now), inside)[:_HEADLINE_MOST]
        rows += [[(text, run_status.state_style(view))] for text in said]
    if "metrics" not in view.can and not view.cause:
        rows.append([("a command that has reported nothing: no curves; l shows what it prints", colours.QUIET)])
    if view.update:
        rows.append(_progress(view, inside))
        told = [*_concerns(view, now), *_tried(view), *_paid(view)]
        below = [key_metrics(view, inside), *_folded(told, inside, height - len(rows) - 2)]
        rows += _charts(view, inside, height - len(rows) - len(below)) or [_curves(view, inside)]
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


def _charts(view: RunView, width: int, height: int) -> list[list[Part]]:
    """The return, and on a tall or wide screen what else is known, below and beside each other; nothing where there is
    no room.
    """
    known = [tag for tag in _CHARTED if len(_finite(view.series.get(tag, ()))) > 1]
    if height < _CHART_LEAST or _CHARTED[0] not in known:
        return []
    columns = max(1, min(len(known), width // _CHART_WIDTH))
    many = max(1, min(-(-len(known) // columns), height // _EACH_CHART))
    shares = [height // many + (at < height % many) for at in range(many)]
    rows: list[list[Part]] = []
    for at, share in enumerate(shares):
        tags = known[at * columns :][:columns]
        wide = (width - len(tags) + 1) // len(tags)
        charts = (_chart(view, tag, wide, share) for tag in tags)
        rows += [_in_columns(parts, wide + 1) for parts in zip(*charts, strict=True)]
    return rows


def _in_columns(cells: Sequence[list[Part]], width: int) -> list[Part]:
    """The parts of one row of several charts, each from its column on."""
    row: list[Part] = []
    for parts in cells:
        used = sum(cell_len(text) for text, _ in parts)
        row += [*parts, (" " * max(0, width - used), colours.INK)]
    return row


def _chart(view: RunView, tag: str, width: int, height: int) -> list[list[Part]]:
    """The last points of `tag` as an area below their title, with the span of its axis."""
    series = view.series[tag]
    known = _finite(series)
    name = metric_title(tag)
    title = f"{name:>8}  {numbers.reading(known[-1])}  over the last {len(series)} updates"
    rows: list[list[Part]] = [[(title, colours.QUIET)]]
    height -= 1
    for at, text in enumerate(area(series, width - 11, height)):
        label = max(known) if at == 0 else min(known) if at == height - 1 else None
        axis = "" if label is None else numbers.reading(label)
        shade = colours.SHADES[at * len(colours.SHADES) // height]
        rows.append([(f"{axis:>8} ", colours.QUIET), ("│", colours.LINE), (text, shade)])
    return rows


def _finite(series: Sequence[Metric | None]) -> list[float]:
    return [value for it in series if (value := number(it)) is not None and math.isfinite(value)]


def _progress(view: RunView, width: int) -> list[Part]:
    share = share_done(view)
    done, rest = bar(share, 16 if width < 100 else 32)
    steps = f"{numbers.compact(view.timesteps)}/{numbers.compact(view.total_timesteps)}"
    parts: list[Part] = [(done, colours.LIVE), (rest, colours.TRACK)]
    parts.append((f" {numbers.percent(share)}  {steps}  update {numbers.count(view.update)}", colours.INK))
    phases = (numbers.split_second(view.rollout_s), numbers.split_second(view.update_s))
    split = "  rollout {} + update {}".format(*phases)
    fits = 1 + sum(cell_len(text) for text, _ in parts) + len(split) <= width
    return [*parts, (split, colours.QUIET)] if fits else parts


def _tried(view: RunView) -> list[_Notice]:
    """What the newest trial says, and how far it is; one that was discarded is over."""
    trials = [trial for trial in view.trials[-1:] if trial.closed != "discarded"]
    return [_Notice("tried: ", f"{trial.sentence}; V shows it") for trial in trials]


def _paid(view: RunView) -> list[_Notice]:
    """What it brought that the run joined the others."""
    if view.payoff is None or view.payoff.verdict == "first":
        return []
    return [_Notice("together: ", gain_sentence(view.payoff, "it"))]


def _concerns(view: RunView, now: float) -> list[_Notice]:
    """The worst finding with cause and advice; without findings the outcomes of episodes."""
    worst = run_status.headline_finding(view)
    if worst is not None:
        style = colours.severity_style(worst.severity)
        said = f"{worst.sentence} ({run_status.finding_span(worst, now, over=view.state in OVER)})"
        told = [_Notice(f"{run_status.severity_shape(worst)} ", said, style, style), _Notice("  cause  ", worst.cause)]
        return [*told, _Notice("  advice ", worst.proposal)] if worst.proposal else told
    total = sum(view.outcomes.values())
    if not total:
        return []
    shares = sorted(view.outcomes.items(), key=lambda pair: -pair[1])
    return [_Notice("episodes: ", "   ".join(f"{name} {numbers.percent(n / total)}" for name, n in shares))]


def _folded(told: Sequence[_Notice], width: int, height: int) -> list[list[Part]]:
    """Each in a line, and the first ones in more of them where `height` has lines to spare; the rest is cut."""
    spare = max(0, height - len(told))
    rows: list[list[Part]] = []
    for it in told:
        room = width - len(it.lead)
        lines = wrap(it.text, room) or [""]
        most = 1 + min(spare, _FOLDED_MOST - 1)
        if len(lines) > most:
            lines = [*lines[: most - 1], fit(" ".join(lines[most - 1 :]), room)]
        spare -= len(lines) - 1
        leads = [it.lead, *[" " * len(it.lead)] * (len(lines) - 1)]
        rows += [[(lead, it.lead_style), (text, it.style)] for lead, text in zip(leads, lines, strict=True)]
    return rows
