"""What one run takes of the machine: how its time is split, what its processes and env workers use. Pure.

Bars are lengths, so that the slow one is seen without colours; the shape before a late one says so as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from textual.strip import Strip

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.events.processes import SLOW_TIMES, EnvWorkers, worker_sentences
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.present.run_state import state_word
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.sparkline import spark
from mission_tui.tui.drawing.strips import Part, fit, line, literal, wrap
from mission_tui.tui.state import run_status
from mission_tui.tui.state.history import PHASE_SERIES, MetricSummary

NOTHING: Mapping[str, Any] = {}
_BAR = 40
_LABEL = 10
_NAMES = ("rollout", "update")
"""The phases that every update has, in the order of `PHASE_SERIES`."""
_VALUE = 9
_CELL_LEAST, _NUMBERS = 36, 24


def usage_lines(
    view: RunView,
    width: int,
    summaries: Mapping[str, MetricSummary] = NOTHING,
    now: float = 0.0,
    effective: Mapping[str, Any] = NOTHING,
) -> list[Strip]:
    """A line for each fact that is known; of a run that is over, how its last update was split.

    `summaries` are asked for where there is room for what its phases took over the whole run. `effective` are the
    values that it runs with, by table.
    """
    inside = width - 2
    phases = phase_rows(view, summaries, inside, now) if summaries else ()
    rows = [*_split(view, inside), *phases, *_device(effective, inside), *_use(view), *_processes(view, inside)]
    if view.state not in ALIVE:
        rows.append([(f"not on the machine: {state_word(view)}", colours.QUIET)])
    return [line([(" ", colours.INK), *parts], width) for parts in rows]


def _label(text: str) -> Part:
    return f"{text:<{_LABEL}}", colours.QUIET


def _split(view: RunView, width: int) -> Iterator[list[Part]]:
    """The newest update's time as a bar, in the shapes that panes have for the two phases."""
    share = run_status.update_share(view)
    if share is None:
        return
    cells = max(8, min(_BAR, width - 44))
    updates = min(cells - 1, max(1, round(share * cells))) if 0 < share < 1 else round(share * cells)
    rollout, update = numbers.split_second(view.rollout_s), numbers.split_second(view.update_s)
    yield [
        _label("time"),
        (f"rollout {rollout} ", colours.INK),
        ("▓" * (cells - updates), colours.LIVE),
        ("░" * updates, colours.UPDATE),
        (f" {update} update, {100 * share:.0f}%", colours.INK),
    ]


def _device(effective: Mapping[str, Any], width: int) -> Iterator[list[Part]]:
    """Where it computes and why: what it takes of a GPU does not say that."""
    if device := str(effective.get("run", {}).get("device", "")):
        why = str(effective.get("reasons", {}).get("run.device", "")).partition(" (")[0]
        said = fit(literal(f"{device}  {why}".rstrip()), width - _LABEL)
        yield [_label("device"), (said[: len(device)], colours.INK), (said[len(device) :], colours.QUIET)]


def _use(view: RunView) -> Iterator[list[Part]]:
    usage = view.usage
    if usage is not None and view.state in ALIVE:
        cores = f"{usage.cpu_percent / 100:.1f} cores"
        yield [_label("CPU"), (f"{usage.cpu_percent:.0f}%", colours.INK), (f"  as much as {cores}", colours.QUIET)]
        shared = "" if usage.processes == 1 else "  memory that its processes share is counted for each"
        yield [_label("RAM"), (numbers.size(usage.rss_bytes), colours.INK), (shared, colours.QUIET)]
        yield [_label("VRAM"), (numbers.size(usage.vram_bytes), colours.INK)]
        if usage.pss_bytes is not None:
            yield [
                _label("PSS"),
                (numbers.size(usage.pss_bytes), colours.INK),
                ("  shared memory counted once", colours.QUIET),
            ]
        if usage.gpu_percent is not None:
            yield [
                _label("GPU"),
                (f"{usage.gpu_percent:.0f}%", colours.INK),
                ("  of the time a kernel of it ran, by the driver's word", colours.QUIET),
            ]
        if usage.written_bytes is not None:
            yield [_label("written"), (numbers.size(usage.written_bytes), colours.INK), ("  to disks", colours.QUIET)]
        if usage.open_files is not None:
            yield [_label("files"), (f"{usage.open_files} open", colours.INK)]
        yield [_label("threads"), (f"{usage.threads} in {usage.processes} processes", colours.INK)]
    if view.held is not None:
        vram = f" and {numbers.size(view.held.vram_bytes)} of GPU memory" if view.held.vram_bytes else ""
        vram = vram or (" and a GPU" if view.held.gpu else "")
        yield [_label("held"), (f"{numbers.size(view.held.memory_bytes)}{vram} while it is frozen", colours.PAUSED)]


def _processes(view: RunView, width: int) -> Iterator[list[Part]]:
    pids = view.pids
    named = [f"{role} {pid}" for role, pid in (("keeper", pids.keeper), ("trainer", pids.trainer)) if pid is not None]
    if named:
        yield [_label("processes"), (", ".join(named), colours.INK)]
    for sentence in worker_sentences(view.workers) if view.workers is not None else ():
        for at, text in enumerate(wrap(sentence, width - 2)):
            yield [("  " if at else "▲ ", colours.WARN), (text, colours.INK)]
    if view.workers is not None and view.workers.steps_s:
        yield from worker_rows(view.workers, width)
    elif pids.workers:
        said = f"{len(pids.workers)}: {' '.join(map(str, pids.workers))}"
        for at, text in enumerate(wrap(said, width - _LABEL)):
            yield [_label("" if at else "workers"), (text, colours.INK)]
    elif pids.trainer is not None and view.n_envs:
        yield [_label("workers"), ("none: its environments are stepped in the trainer", colours.QUIET)]


def phase_rows(view: RunView, summaries: Mapping[str, MetricSummary], width: int, now: float) -> Iterator[list[Part]]:
    """In which phase it is, since when; then a line for rollouts and one for updates, over the whole run."""
    if view.state in ALIVE and view.phase is not None and view.phase_t is not None:
        since = numbers.duration(max(0.0, now - view.phase_t))
        yield [
            (f"{'phase':<{_LABEL}}", colours.QUIET),
            (view.phase, colours.INK),
            (f" for {since}", colours.QUIET),
        ]
    newest = (view.rollout_s, view.update_s)
    if not any(tag in summaries for tag in PHASE_SERIES):
        return
    titles = "".join(f"{title:>{_VALUE}}" for title in ("newest", "least", "most"))
    yield [(f"{'':{_LABEL}}{titles}  whole run", colours.QUIET)]
    for name, tag, seconds in zip(_NAMES, PHASE_SERIES, newest, strict=True):
        summary = summaries.get(tag, MetricSummary()).reaching(seconds)
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
    yield [("workers: index, pid, time of a step of all its environments", colours.QUIET)]
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
