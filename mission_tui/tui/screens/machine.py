"""The machine: the strip with the phases of all runs, and below it what host, GPUs and runs are at now: what every
live run takes of it, and what is not ours.

A table is a list of columns; what becomes known of a GPU or a run is one more line there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from msgspec import structs
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Region
from textual.strip import Strip

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.events.processes import Usage, worker_sentences
from mission_tui.fleet.views.snapshot import FleetSnapshot, GpuMeters, HostMeters, RunView, of_machine, other_sentence
from mission_tui.present import numbers
from mission_tui.present.machines import share_of
from mission_tui.present.run_state import state_word
from mission_tui.tui.actions import Move, Place, rows_by
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import spark
from mission_tui.tui.drawing.strips import Column, Part, fit, line, literal, ordered, table, wrap
from mission_tui.tui.screens.snapshot_screen import SnapshotScreen, bindings
from mission_tui.tui.state import run_status
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.preferences import Split, split_of
from mission_tui.tui.widgets.bars import Footer, Header
from mission_tui.tui.widgets.lines import ScrollLines, SplitContainer
from mission_tui.tui.widgets.meters import machine_line
from mission_tui.tui.widgets.timeline import Timeline

_STRIP_FROM = 16
_STRIP_LEAST, _LINES_LEAST = 3, 6


class StripAndLines(SplitContainer):
    """The strip above the tables; it takes no more rows than it fills."""

    def strip_rows(self, whole: int) -> int:
        """How many of `whole` rows it may take."""
        chosen = self.shares.cells("strip", whole, _STRIP_LEAST, _LINES_LEAST)
        return whole // 3 if chosen is None else chosen

    def split(self) -> Split | None:
        """Where the strip is shown."""
        strip = self.query_one(Timeline)
        if not strip.display:
            return None
        at, whole = strip.region, self.size.height
        grip = Region(at.x, at.bottom, at.width, 1)
        split = split_of("strip", at, grip, whole, least=_STRIP_LEAST, other_least=_LINES_LEAST)
        return structs.replace(split, most=max(split.least, min(split.most, strip.wanted_rows)))


class MachineScreen(SnapshotScreen, inherit_bindings=False):
    """Keys apply to the run under the cursor, which stays with its run while the order changes."""

    CSS_PATH = "machine.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("machine")]
    PLACE: ClassVar[Place] = "machine"

    def __init__(self, app_context: AppContext, chosen: RunView | None) -> None:
        super().__init__()
        self._app_context = app_context
        self._chosen = chosen.id if chosen else None
        self._machine = chosen.host if chosen else ""
        self._at = 0
        self._sort = app_context.machine_sort if app_context.machine_sort in RUN_SORTS else RUN_SORTS[0]
        self._alone = False
        self._runs: list[RunView] = []
        self._cursor: int | None = None

    def compose(self) -> ComposeResult:
        """The strip gives way to the tables on a low screen."""
        yield Header("Esc back  ? help", self._app_context.home)
        with StripAndLines(self._app_context.shares, id="machine-parts"):
            yield Timeline(self._app_context)
            yield ScrollLines(self._lines, id="machine-lines")
        yield Footer()

    def on_mount(self) -> None:
        """Draw what is known."""
        self.set_reactive(MachineScreen.snapshot, self._app_context.snapshot)
        self.redraw_later()

    def chosen(self) -> RunView | None:
        """The run under the cursor."""
        return self._runs[self._at] if self._runs else None

    def redraw(self) -> None:
        """Settle the cursor on the snapshot and draw."""
        width, height = self.size
        if not self.is_mounted or width == 0:
            return
        self._settle()
        shown = self._shown
        rows = self.query_one(StripAndLines).strip_rows(height - 2) if height >= _STRIP_FROM and not self._alone else 0
        self.query_one(Header).update(shown, note=self._app_context.readonly_note)
        self.query_one(Timeline).update(shown, rows)
        self.query_one("#machine-lines", ScrollLines).redraw()
        self.draw_footer()

    @property
    def _shown(self) -> FleetSnapshot | None:
        """Of several machines that of the run from which one came, else the first."""
        if self.snapshot is None or not self.snapshot.hosts:
            return self.snapshot
        return of_machine(self.snapshot, self._machine or self.snapshot.hosts[0].name)

    def _settle(self) -> None:
        shown = self._shown
        self._runs = [] if shown is None else runs_on(shown, self._sort)
        at = next((place for place, view in enumerate(self._runs) if view.id == self._chosen), self._at)
        self._at = max(0, min(at, len(self._runs) - 1))
        self._chosen = self._runs[self._at].id if self._runs else None

    def _lines(self, width: int) -> list[Strip]:
        shown = self._shown
        if shown is None:
            return [line([(f" {self._app_context.banner or 'connecting to the supervisor…'}", colours.QUIET)], width)]
        strips, self._cursor = machine_lines(
            shown,
            self._runs,
            width,
            sort=self._sort,
            chosen=self._chosen,
            told=self.query_one(Timeline).sentences,
        )
        if shown.hosts and shown.hosts[0].lost_t is not None:
            strips.insert(0, machine_line(shown.hosts[0], shown.t, width))
        if self._app_context.banner is not None:
            strips.insert(0, line([(f" ▲ {self._app_context.banner}", colours.WARN)], width))
        return strips

    def action_move(self, how: Move) -> None:
        """The cursor goes through the runs and takes the window with it; at their ends the lines scroll."""
        body = self.query_one("#machine-lines", ScrollLines)
        to = max(0, min(self._at + rows_by(how, 0, len(self._runs)), len(self._runs) - 1))
        if to == self._at:
            body.move(how)
            return
        self._at, self._chosen = to, self._runs[to].id
        self.redraw()
        # What stands before the first run and after the last one is seen with them where there is room.
        end = [0 if to == 0 else -1] if to in (0, len(self._runs) - 1) else []
        body.reveal(*end, *([] if self._cursor is None else [self._cursor]))

    def action_choose(self, run: str) -> None:
        """A run was clicked."""
        self._chosen = run
        self.redraw()

    def action_sort(self, title: str) -> None:
        """A title was clicked; a second click goes back to the order of age."""
        self._sort_by(RUN_SORTS[0] if self._sort == title else title)
        self.redraw()

    def _sort_by(self, title: str) -> None:
        self._sort = self._app_context.machine_sort = title

    def action_look(self, what: str) -> None:
        """Another order, or the tables alone."""
        if what == "maximise":
            self._alone = not self._alone
        else:
            at = RUN_SORTS.index(self._sort) + (1 if what == "sort right" else -1)
            self._sort_by(RUN_SORTS[at % len(RUN_SORTS)])
        self.redraw()

    def action_open(self, tab: str) -> None:
        """Open the run under the cursor at `tab`."""
        if (view := self.chosen()) is not None:
            self._app_context.open_run(view, tab)

    def action_back(self) -> None:
        """One layer: the tables alone, then this screen."""
        if self._alone:
            self.action_look("maximise")
        else:
            self.dismiss(None)


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
