"""One live run as a framed pane: progress, speed and phases, return and length, vitals, the worst finding.

What is inside the frame changes with the run's updates; what stands on the frame, name and state, far more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.cells import cell_len
from rich.style import Style
from rich.table import Table
from textual.strip import Strip

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.present.run_state import share_done, state_word
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.metrics import key_metrics
from mission_tui.tui.drawing.sparkline import bar, spark
from mission_tui.tui.drawing.strips import Part, clause, fit, join, line, literal, rendered, words
from mission_tui.tui.state import run_status

PANE_HEIGHT = 7
_PHASE_CELLS = 8


def inside(view: RunView, width: int, now: float) -> list[Strip]:
    """What stands within the frame of a pane of `width` cells; the phase, for one, is not in it."""
    width -= 4
    body = [
        line(_progress(view, width), width),
        *_facts(_cells(view, width), width),
        line(key_metrics(view, width), width),
        line(_concern(view, now, width), width),
    ]
    return body[: PANE_HEIGHT - 2]


def framed(view: RunView, body: Sequence[Strip], width: int, *, chosen: bool, marked: bool) -> list[Strip]:
    """`body` as the pane of `view`: `PANE_HEIGHT` strips of `width` cells."""
    frame = colours.KEY if chosen else colours.LINE
    left, right = line([("│ ", frame)], 2), line([(" │", frame)], 2)
    return [
        _top(view, width, frame, chosen=chosen, marked=marked),
        *(join((left, strip, right)) for strip in body),
        line([("└" + "─" * (width - 2) + "┘", frame)], width),
    ]


def _top(view: RunView, width: int, frame: Style, *, chosen: bool, marked: bool) -> Strip:
    word, health = state_word(view), run_status.badge(view)
    badge = literal(health[0])
    state = f" {run_status.shape(view)} {word} "
    room = width - 6 - len(state) - cell_len(badge) - 3
    name = fit(view.name, min(room, cell_len(literal(view.name)))) if room > 0 else ""
    mark = "✓" if marked else " "
    lead = ">" if chosen else "─"
    rule = "─" * max(0, width - 7 - cell_len(name) - len(state) - cell_len(badge))
    parts: list[Part] = [
        (f"┌{lead}{mark}", frame),
        (name, colours.BOLD),
        (state, run_status.state_style(view)),
        (rule, frame),
        (f" {badge} ", health[1]),
        ("─┐", frame),
    ]
    return line(parts, width)


def _progress(view: RunView, width: int) -> list[Part]:
    share = share_done(view)
    if view.total_timesteps:
        amount = f"{numbers.compact(view.timesteps)}/{numbers.compact(view.total_timesteps)}"
    else:
        amount = numbers.compact(view.timesteps)
    tail = f" {numbers.percent(share):>4}  {amount}  {numbers.duration(view.eta_s)}"
    done, rest = bar(share, width - len(tail))
    return [(done, colours.LIVE), (rest, colours.TRACK), (tail, colours.INK)]


def _cells(view: RunView, width: int) -> tuple[tuple[Part, ...], ...]:
    """Two pairs of number and sparkline: speed beside phases, return beside episode length."""
    half = (width - 2) // 2
    return (
        _curve("st/s", numbers.rate(view.pace), view, "steps_per_s", half),
        _phases(view),
        _curve("return", _newest(view, "rollout/ep_rew_mean"), view, "rollout/ep_rew_mean", half),
        _curve("length", _newest(view, "rollout/ep_len_mean"), view, "rollout/ep_len_mean", half),
    )


@lru_cache(maxsize=256)
def _facts(cells: tuple[tuple[Part, ...], ...], width: int) -> tuple[Strip, ...]:
    """The cells as a table of two columns. Phases change more often than what stands here, so strips are kept."""
    table = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    half = (width - 2) // 2
    table.add_column(width=half, no_wrap=True)
    table.add_column(width=width - half - 1, no_wrap=True)
    speed, phases, returned, length = (words(*parts) for parts in cells)
    table.add_row(speed, phases)
    table.add_row(returned, length)
    return tuple(rendered(table, width))


def _newest(view: RunView, tag: str) -> str:
    return numbers.reading(view.metrics.get(tag))


def _curve(label: str, value: str, view: RunView, tag: str, width: int) -> tuple[Part, ...]:
    curve = spark(view.series.get(tag, ()), max(0, width - 16), last=view.update)
    return (f"{label:<6} ", colours.QUIET), (f"{value:>7} ", colours.INK), (curve, colours.LIVE)


def _phases(view: RunView) -> tuple[Part, ...]:
    """Rollout and update as shares of the newest update's time."""
    share = run_status.update_share(view)
    if share is None:
        return (("update -", colours.QUIET),)
    update_cells = round(share * _PHASE_CELLS)
    return (
        ("▓" * (_PHASE_CELLS - update_cells), colours.LIVE),
        ("░" * update_cells, colours.UPDATE),
        (" update ", colours.QUIET),
        (numbers.percent(share), colours.INK),
    )


def _concern(view: RunView, now: float, width: int) -> list[Part]:
    worst = run_status.headline_finding(view)
    if worst is None:
        said = run_status.headline(view, now)
        if cell_len(literal(said)) > width and said == view.description:
            said = " on ".join(filter(None, (view.preset, view.env_id)))
        return [(fit(said, width), colours.QUIET)]
    style = colours.severity_style(worst.severity)
    return [(f"{run_status.severity_shape(worst)} {clause(worst.sentence, width - 2)}", style)]
