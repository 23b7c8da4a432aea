"""What a run can go on from and how it was judged, and its journal: what was done to it, when, by whom and with what.

Foreign text is shown as it is.
"""

from __future__ import annotations

from typing import Any

from rich.style import Style
from rich.table import Table
from textual.strip import Strip

from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import AttemptView, AuditEntry, CheckpointView, DetailsReply
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, fit, line, literal, rendered, words, wrap

_GAP, _FOLDED = 2, 20
"""Between columns, and of the last one where it is folded."""
_WHEN, _WHAT, _WHO = 13, 13, 24
_ENDED = "ended"


def checkpoints(details: DetailsReply, width: int, now: float) -> list[Strip]:
    """The bytes on disk, and three tables, the newest first in each; an empty one is a sentence."""
    strips = [_sizes(details, width)] if details.view.size_bytes is not None else []
    view = details.view
    saved = [_checkpoint(row, now) for row in _newest_first(details.checkpoints)]
    strips += _titled("checkpoints", width, saved, _no_checkpoint(view), gives_way=(5, 4, 1))
    attempts = [_attempt(row, now) for row in reversed(details.attempts)]
    strips += _titled("attempts", width, attempts, "no attempt yet: it has not begun", gives_way=(3, 2))
    judged = [_evaluation(row, now) for row in reversed(details.evaluations)]
    drawn = any(row.get("deterministic") is False for row in details.evaluations)
    policy = "policy as it trains" if drawn else "deterministic policy"
    title = f"evaluations: {policy}, return ± deviation, 95 % CI of the mean"
    strips += _titled(title, width, judged, _no_evaluation(view), gives_way=(5, 3))
    return strips


def _sizes(details: DetailsReply, width: int) -> Strip:
    """What the run takes on disk, and what of that could be pruned."""
    saved = sum(row.size_bytes for row in details.checkpoints)
    sentence = f" {numbers.size(details.view.size_bytes)} on disk, {numbers.size(saved)} of it in checkpoints"
    return line([(sentence, colours.QUIET)], width)


def _newest_first(rows: tuple[CheckpointView, ...]) -> list[CheckpointView]:
    return sorted(rows, key=lambda row: row.t, reverse=True)


def _no_checkpoint(view: RunView) -> str:
    """Why there is none, and the key that makes one."""
    if "checkpoint" not in view.can:
        return "no checkpoint: its command saves by itself"
    if view.state in OVER:
        return "no checkpoint: nothing was saved; N starts a run like it"
    return "no checkpoint yet; C saves one at the next update"


def _no_evaluation(view: RunView) -> str:
    if "evaluate" not in view.can:
        return "no evaluation: a command leaves no policy to play"
    if view.last_checkpoint is None:
        return "no evaluation: that needs a checkpoint"
    return "no evaluation yet; e plays 100 episodes with the newest checkpoint"


def _titled(
    title: str, width: int, rows: list[list[tuple[str, Style]]], without: str, gives_way: tuple[int, ...]
) -> list[Strip]:
    """A table under `title`, or the sentence that says why there is none.

    What has no room goes by whole columns in the order of `gives_way`; then the last one is folded.
    """
    if not rows:
        return [line([(f" {text}", colours.QUIET)], width) for text in wrap(without, width - 2)]
    cells = {at: max(words(row[at]).cell_len for row in rows) for at in range(len(rows[0]))}
    cells[len(cells) - 1] = min(cells[len(cells) - 1], _FOLDED)
    for at in gives_way:
        if sum(cells.values()) + _GAP * len(cells) > width:
            del cells[at]
    table = Table.grid(padding=(0, _GAP, 0, 0))
    for at in cells:
        table.add_column(no_wrap=at < len(rows[0]) - 1, overflow="ellipsis")
    for row in rows:
        table.add_row(*(words(row[at]) for at in cells))
    return [*(line([(f" {text}", colours.QUIET)], width) for text in wrap(title, width - 2)), *rendered(table, width)]


def _checkpoint(row: CheckpointView, now: float) -> list[tuple[str, Style]]:
    verified = {
        True: ("✓ verified", colours.GOOD),
        False: ("✗ damaged", colours.ALARM),
        None: ("not verified", colours.QUIET),
    }
    return [
        (f"  {row.name}", colours.INK),
        (f"{numbers.compact(row.timesteps)} steps", colours.INK),
        (f"update {numbers.count(row.update)}", colours.QUIET),
        (numbers.ago(row.t, now), colours.QUIET),
        (numbers.size(row.size_bytes), colours.QUIET),
        (row.reason, colours.QUIET),
        verified[row.verified],
    ]


def _attempt(row: AttemptView, now: float) -> list[tuple[str, Style]]:
    lasted = None if row.started_t is None else (row.ended_t or now) - row.started_t
    origin = f"from {row.from_checkpoint}" if row.from_checkpoint else "from scratch"
    changes = "; ".join(f"{change.name} {change.was} → {change.now}" for change in row.changes)
    return [
        (f"  {row.attempt}", colours.INK),
        (origin, colours.INK),
        (numbers.ago(row.started_t, now), colours.QUIET),
        (f"lasted {numbers.duration(lasted)}", colours.QUIET),
        (row.outcome or "going on", colours.outcome_style(row.outcome) if row.outcome else colours.LIVE),
        ("; ".join(part for part in (row.cause or "", changes) if part), colours.QUIET),
    ]


def _evaluation(row: dict[str, Any], now: float) -> list[tuple[str, Style]]:
    interval = row.get("ci95")
    ends = [_number(end) for end in interval] if isinstance(interval, list | tuple) else []
    won, due = row.get("won"), row.get("put_off_from")
    put_off = f" (was due at {due:,})" if isinstance(due, int) and not isinstance(due, bool) else ""
    return [
        (f"  {row.get('checkpoint', numbers.DASH)}", colours.INK),
        (numbers.spread_words(_number(row.get("mean")), _number(row.get("std")), row.get("episodes")), colours.INK),
        (" to ".join(ends) if ends else "no interval", colours.QUIET),
        (f"{row.get('episodes', numbers.DASH)} episodes{put_off}", colours.QUIET),
        (f"won {numbers.percent(won)}" if isinstance(won, float | int) else "", colours.GOOD),
        (numbers.ago(row["t"], now) if isinstance(row.get("t"), float | int) else "", colours.QUIET),
    ]


def _number(value: object) -> str:
    """The file was written by another process, so anything may stand there."""
    return numbers.reading(value) if isinstance(value, float | int) else literal(str(value or numbers.DASH))


def journal(details: DetailsReply, width: int, now: float) -> list[Strip]:
    """A line for each entry under titles; the detail is wrapped below itself, or on a narrow screen below the entry."""
    if not details.audit_log:
        return [line([(" nothing was done to it yet", colours.QUIET)], width)]
    head = f" {fit('when', _WHEN)}{fit('what', _WHAT)}{fit('by', _WHO)}"
    strips = [line([(head, colours.QUIET)], width)]
    for entry in reversed(details.audit_log):
        strips += _entry(entry, width, now)
    return strips


def _entry(entry: AuditEntry, width: int, now: float) -> list[Strip]:
    indent = 1 + _WHEN + _WHAT + _WHO
    own_lines = width - indent < 20
    indent = 1 + _WHEN if own_lines else indent
    said = wrap(entry.detail, max(10, width - indent - 1))
    head: list[Part] = [
        (f" {fit(numbers.clock(entry.t, now), _WHEN)}", colours.QUIET),
        (fit(entry.what, _WHAT), colours.QUIET if entry.what == _ENDED else colours.BOLD),
        (fit(entry.by or numbers.DASH if entry.what != _ENDED else "", _WHO - 1) + " ", colours.QUIET),
    ]
    if not own_lines and said:
        head.append((said.pop(0), colours.INK))
    below = [line([(" " * indent + text, colours.INK)], width) for text in said]
    return [line(head, width), *below]
