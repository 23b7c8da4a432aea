"""A run's phases and its env workers one by one: what each took for a step, and who is late. Pure.

Bars are lengths, so that the slow one is seen without colours; the shape before a late one says so as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.events.processes import SLOW_TIMES, EnvWorkers
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.sparkline import spark
from mission_tui.tui.drawing.strips import Part, fit
from mission_tui.tui.queries.metric_summaries import PHASE_SERIES, MetricSummary

__all__ = ["phase_rows", "worker_rows"]

_NAMES = ("rollout", "update")
"""The phases that every update has, in the order of `PHASE_SERIES`."""
_LABEL, _VALUE = 10, 9
_CELL_LEAST, _NUMBERS = 36, 24


def phase_rows(view: RunView, courses: Mapping[str, MetricSummary], width: int, now: float) -> Iterator[list[Part]]:
    """In which phase it is, since when; then a line for rollouts and one for updates, over the whole run."""
    if view.state in ALIVE and view.phase is not None and view.phase_t is not None:
        since = numbers.duration(max(0.0, now - view.phase_t))
        yield [(f"{'phase':<{_LABEL}}", colours.QUIET), (view.phase, colours.INK), (f" for {since}", colours.QUIET)]
    newest = (view.rollout_s, view.update_s)
    if not any(tag in courses for tag in PHASE_SERIES):
        return
    titles = "".join(f"{title:>{_VALUE}}" for title in ("newest", "least", "most"))
    yield [(f"{'':{_LABEL}}{titles}  whole run", colours.QUIET)]
    for name, tag, seconds in zip(_NAMES, PHASE_SERIES, newest, strict=True):
        summary = courses.get(tag, MetricSummary()).reaching(seconds)
        values = "".join(f"{numbers.split_second(it):>{_VALUE}}" for it in (seconds, summary.least, summary.most))
        cells = max(0, min(48, width - _LABEL - 3 * _VALUE - 2))
        yield [
            (f"{name:<{_LABEL}}", colours.QUIET),
            (f"{values}  ", colours.INK),
            (spark(summary.points, cells).lstrip(), colours.LIVE if name == "rollout" else colours.UPDATE),
        ]


def worker_rows(workers: EnvWorkers, width: int) -> Iterator[list[Part]]:
    """As many side by side as fit: index, pid, milliseconds a step, and a bar as long as that is of the slowest's."""
    if not workers.steps_s:
        return
    side_by_side = max(1, width // _CELL_LEAST)
    cell = width // side_by_side
    yield [("workers: index, pid, for a step of all its environments", colours.QUIET)]
    each = [_worker(workers, index, cell) for index in range(len(workers.steps_s))]
    rows = -(-len(each) // side_by_side)
    for row in range(rows):
        yield [part for parts in each[row::rows] for part in parts]
    if workers.count > len(each):
        yield [(f"and {workers.count - len(each)} more", colours.QUIET)]


def _worker(workers: EnvWorkers, index: int, width: int) -> list[Part]:
    step_s, most_s = workers.steps_s[index], max(workers.steps_s)
    late = next((it for it in workers.late if it.index == index), None)
    slowest = workers.slowest
    slow = slowest is not None and step_s > SLOW_TIMES * slowest.usual_s > 0
    style = colours.ALARM if late else colours.WARN if slow else colours.LIVE
    pid = str(workers.pids[index]) if index < len(workers.pids) else numbers.DASH
    took = f"late {numbers.duration(late.seconds)}" if late else f"{1000 * step_s:.3g} ms"
    room = max(1, width - _NUMBERS - 2)
    bar = "▓" * max(1, round(room * step_s / most_s)) if most_s > 0 else ""
    return [
        ("▲ " if late or slow else "  ", style),
        (f"{index:>3} {pid:>7} {fit(took, 10, 'right')} ", colours.INK),
        (fit(bar, room + 1), style),
    ]
