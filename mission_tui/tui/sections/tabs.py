"""What each tab of a run shows in its short form, and of them `learn`: curves, vitals, progress, what is wrong.

The other sections are loaded when their tab is first shown: the first picture needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import Struct, structs
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.marginal_gain import gain_sentence
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.search import SearchResult
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.present.numbers import metric_title
from mission_tui.present.run_state import flag_sentences, share_done
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import bar
from mission_tui.tui.drawing.strips import Part, fit, fold, join, line, literal, part_cells, wrap
from mission_tui.tui.plot.content import Content, content_of, first_history, line_of
from mission_tui.tui.plot.picture import BELOW, frame_for, painted, picture
from mission_tui.tui.plot.scale import steady, steady_reach
from mission_tui.tui.state import run_status
from mission_tui.tui.state.preferences import ChartSettings
from mission_tui.tui.state.run_data import LogTail, RunData
from mission_tui.tui.state.run_status import key_metrics

_NOTHING = RunData("", LogTail(""))

_LOG_LINES = 300
"""The short form of a log; the run's own screen has all of it."""
_HEADLINE_MOST = 3
_CHART_LEAST = 4
"""With its title. What is wrong is told in whole sentences first."""
_CHART_WIDTH = 66
"""Cells from which a chart beside another one has room for its course."""
_EACH_CHART = 16
"""Rows from which one more chart says more than a higher one."""
_BESIDE_CHARTS = 4
"""Lines of progress, metrics and what is told."""
_CHARTED = ("rollout/ep_rew_mean", "train/approx_kl", "rollout/ep_len_mean")
_FOLDED_MOST = 3
_ADVICE = "  advice "


def section(tab: str, view: RunView, data: RunData | None, width: int, height: int, now: float) -> list[Strip]:
    """The content of a tab; one that needs an answer says that it was asked for, or why it did not come."""
    if tab == "learn":
        if (searched := search_of(data)) is not None:
            from mission_tui.tui.sections.ranking import search_table

            return search_table(searched, width)
        return learn(view, data, width, height, now)
    if tab == "health":
        from mission_tui.tui.sections.health import health

        return health(view, data.details if data else None, width, now)
    if tab == "machine":
        from mission_tui.tui.sections.details import usage_lines

        if data is None:
            return usage_lines(view, width)
        effective = {} if data.details is None else data.details.effective
        return usage_lines(view, width, data.summaries, now, effective)
    return _answered(tab, view, data, width, height, now) if data else []


def search_of(data: RunData | None) -> SearchResult | None:
    """What the search has come to that the run drives; None of every other run."""
    return None if data is None or data.details is None else data.details.search


def _answered(tab: str, view: RunView, data: RunData, width: int, height: int, now: float) -> list[Strip]:
    """A tab whose content the supervisor has to be asked for."""
    if tab == "log" and data.log.attempt is not None:
        lines = data.log.lines[-_LOG_LINES:] or ["(nothing was printed)"]
        return [line([(" " + text, colours.INK)], width) for raw in lines for text in fold(raw, width - 2, 20)]
    from mission_tui.tui.sections.details import checkpoints, config, episodes, journal

    if tab == "episodes":
        from mission_tui.fleet.history.series import EPISODES

        return episodes(view, data.history.get(EPISODES), data.trouble or "", width, height)
    if (details := data.details) is not None:
        match tab:
            case "config":
                return config(details, width)
            case "checkpoints":
                return checkpoints(details, width, now)
            case "journal":
                return journal(details, width, now)
    return [line([(f" {data.trouble or 'asking…'}", colours.QUIET)], width)]


class _Notice(Struct, frozen=True):
    lead: str
    text: str
    style: Style = colours.INK
    lead_style: Style = colours.QUIET


def learn(view: RunView, data: RunData | None, width: int, height: int, now: float) -> list[Strip]:
    """`height` lines at most: what asks for attention first, then charts that take the spare ones."""
    inside = width - 2
    above: list[list[Part]] = []
    if view.cause or not view.update:
        said = run_status.headline_lines(view, now, inside, _HEADLINE_MOST)
        above += [[(text, run_status.state_style(view))] for text in said]
    if "metrics" not in view.can and not view.cause:
        above.append([("a command that has reported nothing: no curves; l shows what it prints", colours.QUIET)])
    charts: list[Strip] = []
    below: list[list[Part]] = []
    if view.update:
        above.append(_progress(view, inside))
        flagged = [_Notice("▲ ", sentence, colours.WARN, colours.WARN) for sentence in flag_sentences(view)]
        told = [*flagged, *_concerns(view, now), *_tried(view), *_paid(view)]
        below = [key_metrics(view, inside), *_folded(told, inside, height - len(above) - 2)]
        charts = _charts(view, data, width, height - len(above) - len(below))
        if not charts:
            above.append(_curves(view, inside))
    strips = [line([(" ", colours.INK), *parts], width) for parts in above]
    return [*strips, *charts, *(line([(" ", colours.INK), *parts], width) for parts in below)][:height]


def _curves(view: RunView, width: int) -> list[Part]:
    """The newest return with that of the whole run, where there is no room for a chart."""
    cells = max(4, min(60, width - 20))
    return [
        ("return ", colours.QUIET),
        (f"{numbers.reading(view.metrics.get(RETURN)):>8} ", colours.INK),
        (line_of(view, cells), colours.LIVE),
    ]


def charted(view: RunView, width: int, height: int) -> list[tuple[str, ...]]:
    """Of which metrics `learn` draws charts in so many cells, as far as it is known: rows of them."""
    known = [tag for tag in _CHARTED if tag in view.metrics]
    columns = max(1, min(len(known), width // _CHART_WIDTH))
    rows = max(1, min(-(-len(known) // columns), (height - _BESIDE_CHARTS) // _EACH_CHART))
    return [tuple(known[at * columns :][:columns]) for at in range(rows)]


def _charts(view: RunView, data: RunData | None, width: int, height: int) -> list[Strip]:
    """The return, and on a tall or wide screen what else is known, below and beside each other; nothing where there is
    no room.
    """
    histories = {} if data is None else dict(data.history)
    first = first_history(view)
    if first is not None:
        histories.setdefault(RETURN, first)
    known = structs.replace(data or _NOTHING, history=histories)
    rows = [
        shown
        for tags in charted(view, width, height + _BESIDE_CHARTS)
        if (shown := [tag for tag in tags if tag in histories])
    ]
    if height < _CHART_LEAST or not rows:
        return []
    drawn = {tag: content_of(view, known, ChartSettings(), [(0, tag)]) for tags in rows for tag in tags}
    reaches = [it.scene.reach for it in drawn.values() if it.scene is not None and it.scene.reach is not None]
    if not reaches:
        return []
    # One for all, though one of them may be an update ahead: a moment stands at the same place in each.
    reach = steady_reach(min(low for low, _ in reaches), max(high for _, high in reaches))
    strips: list[Strip] = []
    for at, tags in enumerate(rows):
        tall, wide = height // len(rows) + (at < height % len(rows)), width // len(tags)
        charts = [_chart(drawn[tag], wide, tall, reach) for tag in tags]
        strips += [join(beside).adjust_cell_length(width) for beside in zip(*filter(None, charts), strict=True)]
    return strips


def _chart(content: Content, width: int, height: int, reach: tuple[float, float]) -> list[Strip]:
    """A chart below its title; the axis of places goes first where there is little room."""
    entry, scene = content.entries[0], content.scene
    if scene is None or scene.reach is None:
        return []
    parts: list[Part] = [(f" {metric_title(entry.tag)} {numbers.reading(entry.newest)}", colours.INK)]
    # Beside each other, what is cut would run into the next one's title.
    for words in (f"   {literal(words)}" for words in content.aims):
        if part_cells(parts) + cell_len(words) < width:
            parts.append((words, colours.QUIET))
    # Every cell that changes is sent over the line, and all of them do where the ends of an axis move.
    scene = replace(scene, sided=[replace(it, scale=steady(it.scale)) for it in scene.sided])
    axis = BELOW if height >= _CHART_LEAST + BELOW else 0
    frame = frame_for(width - 1, height - 1 - axis + BELOW, reach, ["left"])
    if frame.columns < 2:
        return []
    drawn = picture(scene, frame, painted(scene, frame))
    blank = Strip.blank(width)
    drawn = [strip.adjust_cell_length(width) for strip in drawn[: height - 1]]
    return [line(parts, width), *drawn, *[blank] * (height - 1 - len(drawn))]


def _progress(view: RunView, width: int) -> list[Part]:
    share = share_done(view)
    done, rest = bar(share, 16 if width < 100 else 32)
    parts: list[Part] = [(done, colours.LIVE), (rest, colours.TRACK)]
    steps = run_status.steps_words(view) or numbers.DASH
    parts.append((f" {numbers.percent(share)}  {steps}  update {numbers.count(view.update)}", colours.INK))
    phases = (numbers.split_second(view.rollout_s), numbers.split_second(view.update_s))
    split = "  rollout {} + update {}".format(*phases)
    fits = 1 + part_cells(parts) + len(split) <= width
    return [*parts, (split, colours.QUIET)] if fits else parts


def _tried(view: RunView) -> list[_Notice]:
    """What the newest trial says, and how far it is; one that was discarded is over."""
    trials = [trial for trial in view.trials[-1:] if trial.closed != "discarded"]
    return [_Notice("tried: ", f"{trial.sentence}; V shows it") for trial in trials]


def _paid(view: RunView) -> list[_Notice]:
    """What it brought that the run joined the others; nothing where that is not known."""
    if view.payoff is None or view.payoff.verdict in ("first", "swapped"):
        return []
    return [_Notice("together: ", gain_sentence(view.payoff, "it"))]


def _concerns(view: RunView, now: float) -> list[_Notice]:
    """The worst finding with cause and advice; without findings the outcomes of episodes."""
    worst = run_status.headline_finding(view)
    if worst is not None:
        style = colours.severity_style(worst.severity)
        said = f"{worst.sentence} ({run_status.finding_span(worst, now, over=view.state in OVER)})"
        told = [_Notice(f"{run_status.severity_shape(worst)} ", said, style, style), _Notice("  cause  ", worst.cause)]
        return [*told, _Notice(_ADVICE, worst.proposal)] if worst.proposal else told
    total = sum(view.outcomes.values())
    if not total:
        return []
    shares = sorted(view.outcomes.items(), key=lambda pair: -pair[1])
    return [_Notice("episodes: ", "   ".join(f"{name} {numbers.percent(n / total)}" for name, n in shares))]


def _folded(told: Sequence[_Notice], width: int, height: int) -> list[list[Part]]:
    """Each in a line, and the first ones in more of them where `height` has lines to spare; the rest is cut. Advice
    comes before all others, as its end is the setting to type.
    """
    spare = max(0, height - len(told))
    folded: dict[int, list[str]] = {}
    for at in sorted(range(len(told)), key=lambda at: told[at].lead != _ADVICE):
        room = width - len(told[at].lead)
        lines = wrap(told[at].text, room) or [""]
        most = 1 + min(spare, _FOLDED_MOST - 1)
        if len(lines) > most:
            lines = [*lines[: most - 1], fit(" ".join(lines[most - 1 :]), room)]
        spare -= len(lines) - 1
        folded[at] = lines
    rows: list[list[Part]] = []
    for at, it in enumerate(told):
        lines = folded[at]
        leads = [it.lead, *[" " * len(it.lead)] * (len(lines) - 1)]
        rows += [[(lead, it.lead_style), (text, it.style)] for lead, text in zip(leads, lines, strict=True)]
    return rows
