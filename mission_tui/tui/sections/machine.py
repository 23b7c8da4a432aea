"""The machine as it is now: the host, each GPU, what every live run takes of it, and what is not ours. Pure.

A table is a list of columns; what becomes known of a GPU or a run is one more line there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.events.processes import Usage, worker_sentences
from mission_tui.fleet.views.machine_sharing import share_of
from mission_tui.fleet.views.snapshot import FleetSnapshot, GpuMeters, HostMeters, RunView, other_sentence
from mission_tui.present import numbers
from mission_tui.present.run_state import state_word
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.sparkline import spark
from mission_tui.tui.drawing.strips import Column, Part, fit, line, literal, ordered, table, wrap
from mission_tui.tui.state import run_status

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
