"""How episodes ended over the whole run: the share of each outcome stacked over its updates, and in figures. Pure.

Each outcome has a fill of its own, also in plain letters, so that the stack is read without colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.snapshot import ABILITIES, RunView
from mission_tui.ipc.replies import HistoryReply
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, fit, line, wrap

_LABEL = 6
"""Cells left of the columns."""
_LEAST, _MOST = 5, 24
_NAME = 20
_FILLS: tuple[tuple[str, Style], ...] = (
    ("█", colours.LIVE),
    ("░", colours.UPDATE),
    ("━", colours.PAUSED),
    ("│", colours.GOOD),
    ("×", colours.WARN),
    ("╌", colours.QUIET),
)
"""What is beyond these shares the last one."""
_UNNAMED = "not named"


def episodes(view: RunView, history: HistoryReply | None, trouble: str, width: int, height: int) -> list[Strip]:
    """At most `height` lines where that is enough for the figures: the stack takes the rows that they leave."""
    if history is None:
        return [line([(f" {trouble or 'asking…'}", colours.QUIET)], width)]
    ended = sum(history.episodes)
    if not ended:
        return [line([(f" {text}", colours.QUIET)], width) for text in wrap(_none_ended(view), width - 2)]
    counts = _with_unnamed(history)
    if list(counts) == [_UNNAMED]:
        said = f"{numbers.count(ended)} episodes ended, without outcomes: the environment may set info['outcome']"
        return [line([(f" {text}", colours.QUIET)], width) for text in wrap(said, width - 2)]
    figures = _figures(view, counts, ended, width)
    rows = max(_LEAST, min(_MOST, height - len(figures) - 2))
    drawn = stacked(counts, history.episodes, width - _LABEL - 1, rows)
    strips = [line([(_axis(at, rows), colours.QUIET), *parts], width) for at, parts in enumerate(drawn)]
    return [*strips, _ruler(history, width), line([], width), *figures]


def _none_ended(view: RunView) -> str:
    if view.can != ABILITIES:
        return "its command has reported no episodes; l shows what it prints"
    if view.state in OVER:
        return "no episode ended; l shows what it printed"
    return "no episode has ended yet; l shows what it prints"


def _with_unnamed(history: HistoryReply) -> Mapping[str, Sequence[int]]:
    """The outcomes, and what ended without one."""
    named = [sum(column) for column in zip(*history.outcomes.values(), strict=True)] or [0] * len(history.episodes)
    rest = [max(0, ended - known) for ended, known in zip(history.episodes, named, strict=True)]
    return {**history.outcomes, **({_UNNAMED: rest} if any(rest) else {})}


def stacked(counts: Mapping[str, Sequence[int]], ended: Sequence[int], width: int, rows: int) -> list[list[Part]]:
    """`rows` lines of `width` cells, top first: in each column the outcomes' shares, the first at the bottom.

    Where no episode ended the column is blank; fewer buckets than columns are drawn broader.
    """
    fills = [_fill(at) for at in range(len(counts))]
    columns: list[list[int | None]] = []
    for at in range(width):
        bucket = at * len(ended) // width
        column = [of[bucket] for of in counts.values()]
        columns.append(_column(column, rows))
    lines: list[list[Part]] = []
    for row in range(rows - 1, -1, -1):
        parts: list[Part] = []
        for column_ in columns:
            which = column_[row]
            glyph, style = (" ", colours.QUIET) if which is None else fills[which]
            if parts and parts[-1][1] == style:
                parts[-1] = (parts[-1][0] + glyph, style)
            else:
                parts.append((glyph, style))
        lines.append(parts)
    return lines


def _column(counts: Sequence[int], rows: int) -> list[int | None]:
    """Which outcome is in each row from the bottom; None everywhere without an episode."""
    total = sum(counts)
    if not total:
        return [None] * rows
    edges, so_far = [], 0
    for count in counts:
        so_far += count
        edges.append(round(rows * so_far / total))
    return [next(at for at, edge in enumerate(edges) if row < edge) for row in range(rows)]


def _fill(at: int) -> tuple[str, Style]:
    return _FILLS[min(at, len(_FILLS) - 1)]


def _axis(at: int, rows: int) -> str:
    label = {0: "100%", rows // 2: "50%", rows - 1: "0%"}.get(at, "")
    return f"{label:>{_LABEL - 1}} "


def _ruler(history: HistoryReply, width: int) -> Strip:
    """The updates that the stack goes over."""
    first = max(1, history.updates[0] - _bucket(history) + 1)
    left, right = f"update {numbers.count(first)}", numbers.count(history.updates[-1])
    room = width - _LABEL - 1 - len(left) - len(right)
    return line([(f"{'':{_LABEL}}{left}{' ' * max(1, room)}{right}", colours.QUIET)], width)


def _bucket(history: HistoryReply) -> int:
    """Updates of the first bucket, taken from the second."""
    return history.updates[1] - history.updates[0] if len(history.updates) > 1 else 1


def _figures(view: RunView, counts: Mapping[str, Sequence[int]], ended: int, width: int) -> list[Strip]:
    """A line per outcome, topmost of the stack first: its fill, its share of late, and of all."""
    of_late = sum(view.outcomes.values())
    head = f" {'':2}{fit('outcome', _NAME)}{'recent':>8}{'whole run':>11}{'episodes':>12}"
    rows = [line([(head, colours.QUIET)], width)]
    for at, (name, column) in reversed(list(enumerate(counts.items()))):
        glyph, style = _fill(at)
        late = numbers.percent(view.outcomes.get(name, 0) / of_late) if of_late and name != _UNNAMED else numbers.DASH
        total = sum(column)
        said = f"{late:>8}{numbers.percent(total / ended):>11}{numbers.count(total):>12}"
        rows.append(line([(f" {glyph} ", style), (fit(name, _NAME), colours.INK), (said, colours.INK)], width))
    return rows
