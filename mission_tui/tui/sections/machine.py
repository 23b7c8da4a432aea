"""The machine as it is now: the host, each GPU, what every live run takes of it, and what is not ours; and how
the time of one run is split, and what its processes and env workers use. Pure.

A table is a list of columns; what becomes known of a GPU or a run is one more line there. Bars are lengths, so that
the slow one is seen without colours; the shape before a late one says so as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.events.processes import SLOW_TIMES, EnvWorkers, Usage, worker_sentences
from mission_tui.fleet.views.snapshot import FleetSnapshot, GpuMeters, HostMeters, RunView, other_sentence
from mission_tui.present import numbers
from mission_tui.present.machines import share_of
from mission_tui.present.run_state import state_word
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import spark
from mission_tui.tui.drawing.strips import Column, Part, fit, line, literal, ordered, table, wrap
from mission_tui.tui.state import run_status
from mission_tui.tui.state.history import PHASE_SERIES, MetricSummary

_CURVE = 60


@dataclass(frozen=True, slots=True)
class _Gpu:
    at: int
    meters: GpuMeters


@dataclass(frozen=True, slots=True)
class Use:
    """A live run on a machine of `cores`; what it takes is unknown until it was looked at."""

    view: RunView
    cores: int

    @property
    def usage(self) -> Usage | None:
        """What all its processes take."""
        return self.view.usage

    @property
    def share(self) -> float | None:
        """Its part of all the processor time there is, 0..1."""
        return None if self.usage is None else self.usage.cpu_percent / (100 * max(1, self.cores))


def _slowed(row: _Gpu) -> Style:
    return colours.WARN if row.meters.slowed else colours.QUIET


_GPU_COLUMNS: tuple[Column[_Gpu], ...] = (
    Column("GPU", 4, lambda row: f"GPU{row.at}", left=True),
    Column("name", 8, lambda row: row.meters.name, left=True, rank=5, style=lambda _: colours.QUIET),
    Column("now", 4, lambda row: numbers.in_unit(row.meters.util.now, "%"), rank=6),
    Column("busy", 4, lambda row: numbers.in_unit(row.meters.util.mean, "%")),
    Column("peak", 4, lambda row: numbers.in_unit(row.meters.util.max, "%")),
    Column("memory", 9, lambda row: numbers.part_of(row.meters.memory_used, row.meters.memory_total)),
    Column("power", 5, lambda row: numbers.in_unit(row.meters.power_w, "W"), rank=2),
    Column("temp", 4, lambda row: numbers.in_unit(row.meters.temperature_c, "C"), rank=3),
    Column("clock", 7, lambda row: numbers.in_unit(row.meters.clock_mhz, "MHz"), rank=4),
    Column("slowed by", 9, lambda row: ", ".join(row.meters.slowed) or "nothing", left=True, rank=1, style=_slowed),
)


def _taken(
    title: str, width: int, pick: Callable[[Usage], float | None], say: Callable[[Any], str], rank: int = 0
) -> Column[Use]:
    """A column of what a run takes; not known before it was looked at."""

    def value(use: Use) -> float | None:
        return None if use.usage is None else pick(use.usage)

    return Column(title, width, lambda use: say(value(use)), value, rank=rank)


def _state(use: Use) -> str:
    return state_word(use.view)


def _late(use: Use) -> float | None:
    return None if use.view.workers is None else float(use.view.workers.late_count)


def _workers(use: Use) -> str:
    workers = use.view.workers
    if workers is None:
        return numbers.count(len(use.view.pids.workers))
    return f"{workers.late_count} late" if workers.late_count else str(workers.count)


RUN_COLUMNS: tuple[Column[Use], ...] = (
    Column("run", 12, lambda use: use.view.name, lambda use: use.view.name, left=True),
    Column("state", 8, _state, _state, left=True, rank=1, style=lambda use: run_status.state_style(use.view)),
    _taken("CPU", 5, lambda usage: usage.cpu_percent, partial(numbers.in_unit, unit="%")),
    Column("share", 5, lambda use: numbers.percent(use.share), rank=5),
    _taken("RAM", 5, lambda usage: usage.rss_bytes, numbers.size),
    _taken("PSS", 5, lambda usage: usage.pss_bytes, numbers.size, rank=8),
    _taken("VRAM", 5, lambda usage: usage.vram_bytes, numbers.size),
    _taken("GPU", 4, lambda usage: usage.gpu_percent, partial(numbers.in_unit, unit="%"), rank=2),
    _taken("threads", 7, lambda usage: usage.threads, numbers.count, rank=4),
    _taken("processes", 9, lambda usage: usage.processes, numbers.count, rank=6),
    Column("workers", 7, _workers, _late, rank=7, style=lambda use: colours.WARN if _late(use) else colours.INK),
    _taken("written", 7, lambda usage: usage.written_bytes, numbers.size, rank=9),
    _taken("files", 5, lambda usage: usage.open_files, numbers.count, rank=10),
    Column("st/s", 7, lambda use: numbers.rate(use.view.pace), lambda use: use.view.pace, rank=3),
)
RUN_SORTS = ("age", *(column.title for column in RUN_COLUMNS if column.value is not None))
"""What the runs can be sorted by; `age` is the snapshot's own order."""


def runs_on(snapshot: FleetSnapshot, sort: str) -> list[RunView]:
    """The runs that are on the machine, in the order of `sort`."""
    uses = [Use(view, snapshot.host.cores) for view in snapshot.runs if view.state in ALIVE]
    return [use.view for use in ordered(RUN_COLUMNS, uses, sort)]


def machine_lines(
    snapshot: FleetSnapshot,
    runs: Sequence[RunView],
    width: int,
    *,
    sort: str,
    chosen: str | None,
    told: Sequence[str] = (),
) -> tuple[list[Strip], int | None]:
    """All lines, and which of them is that of the `chosen` run. `runs` are those of `runs_on`.

    `told` are sentences about the stretch of the strip, which stand with the host.
    """
    strips = [line([(" ", colours.INK), *parts], width) for parts in _host(snapshot.host, width)]
    strips += [line([(" ", colours.INK), *parts], width) for parts in _cores(snapshot.host, width)]
    for sentence in told:
        # The figure that ends it says of how much of the time the others are.
        strips += [line([(f" {text}", colours.INK)], width) for text in wrap(sentence, max(20, width - 2))]
    if snapshot.gpus:
        gpus = [_Gpu(at, meters) for at, meters in enumerate(snapshot.gpus)]
        strips += [Strip.blank(width), *table(_GPU_COLUMNS, gpus, width)]
    else:
        note = snapshot.host.gpu_note or "no GPU"
        if note.startswith("no GPU"):
            note = f"{note}: runs train on the processors"
        strips += [line([(" " + text, colours.QUIET)], width) for text in wrap(literal(note), max(20, width - 2))]
    partly = [snapshot.host.gpu_note] if snapshot.gpus and snapshot.host.gpu_note else []
    for sentence in (*partly, *(failed.sentence for failed in snapshot.failed_duties)):
        for text in wrap(literal(sentence), max(20, width - 4)):
            strips.append(line([(" ▲ ", colours.WARN), (text, colours.INK)], width))
    strips.append(Strip.blank(width))
    if not runs:
        strips.append(line([(" no run is live; Esc goes back to the list", colours.QUIET)], width))
    at = next((place for place, view in enumerate(runs) if view.id == chosen), None)
    place = None if at is None else len(strips) + 1 + at
    if runs:
        uses = [Use(view, snapshot.host.cores) for view in runs]
        strips += table(
            RUN_COLUMNS,
            uses,
            width,
            sort=sort,
            lead=lambda use: _lead(use.view, chosen=use.view.id == chosen),
            ground=lambda use: _click(use.view) + (colours.CHOSEN if use.view.id == chosen else colours.INK),
        )
        strips += [line([(" ", colours.INK), *parts], width) for parts in _waiting(runs, width - 2)]
    strips += [line([(" ", colours.INK), *parts], width) for parts in _shared(snapshot)]
    for program in snapshot.host.others:
        said = fit(f"          {other_sentence(program)}", width)
        strips.append(line([(said, colours.QUIET)], width))
    return strips, place


def _waiting(runs: Sequence[RunView], width: int) -> Iterator[list[Part]]:
    """Which env workers keep a run waiting."""
    for view in runs:
        for sentence in worker_sentences(view.workers) if view.workers is not None else ():
            yield [("▲ ", colours.WARN), (fit(f"{view.name}: {sentence}", width - 2), colours.INK)]


def _lead(view: RunView, *, chosen: bool) -> list[Part]:
    return [(">" if chosen else " ", colours.KEY), (run_status.shape(view), run_status.state_style(view))]


def _click(view: RunView) -> Style:
    return Style(meta={"@click": f"screen.choose({view.id!r})"})


def _host(host: HostMeters, width: int) -> Iterator[list[Part]]:
    cells = max(0, min(_CURVE, len(host.cpu_history), width - 68))
    curve = spark(host.cpu_history[-cells:] if cells else (), cells, 0, 100)
    load: list[Part] = [] if host.load_1m is None else [(f"   load {host.load_1m:.1f}", colours.INK)]
    head: list[Part] = [
        ("CPU ", colours.QUIET),
        (curve + (" " if curve else ""), colours.LIVE),
        (f"{numbers.in_unit(host.cpu_percent, '%')} of {host.cores} cores", colours.INK),
    ]
    tail: list[Part] = [
        ("   RAM ", colours.QUIET),
        (numbers.part_of(host.ram_used, host.ram_total), colours.INK),
        ("   disk ", colours.QUIET),
        (f"{numbers.size(host.disk_free)} free", colours.INK),
    ]
    fits = sum(len(text) for text, _ in (*head, *load, *tail)) < width
    yield [*head, *(load if fits else []), *tail]


def _cores(host: HostMeters, width: int) -> Iterator[list[Part]]:
    """A block for each core, in its own order, as many lines as it takes."""
    cells = max(1, width - 9)
    blocks = spark(host.cpu_cores, len(host.cpu_cores), 0, 100)
    for at in range(0, len(blocks), cells):
        yield [
            ("" if at else "cores ", colours.QUIET),
            (" " * 6 if at else "", colours.INK),
            (blocks[at : at + cells], colours.LIVE),
        ]
    if host.swap_total:
        yield [("swap ", colours.QUIET), (numbers.part_of(host.swap_used, host.swap_total), colours.INK)]


def _shared(snapshot: FleetSnapshot) -> Iterator[list[Part]]:
    """What is ours and what others take, as far as it is known: the question that comes before starting one more."""
    live = [view for view in snapshot.runs if view.state in ALIVE]
    if live and all(view.usage is None for view in live):
        return
    share = share_of(snapshot.host, snapshot.gpus, live)
    for who, cpu, vram, style in (
        ("all runs ", share.cpu_ours, share.vram_ours, colours.INK),
        ("not ours ", share.cpu_others, share.vram_others, colours.QUIET),
    ):
        if cpu is not None or vram is not None:
            held = "" if vram is None else f"   VRAM {numbers.size(vram)}"
            yield [
                (who, colours.QUIET),
                (f"CPU {numbers.in_unit(cpu, '%')} of {100 * snapshot.host.cores}%{held}", style),
            ]


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
    took = f"late {numbers.duration(late.seconds)}" if late else numbers.step_time(step_s)
    room = max(1, width - _NUMBERS - 2)
    bar = "▓" * max(1, round(room * step_s / most_s)) if most_s > 0 else ""
    return [
        ("▲ " if late or slow else "  ", style),
        (f"{index:>3} {pid:>7} {fit(took, 10, 'right')} ", colours.INK),
        (fit(bar, room + 1), style),
    ]
