"""The machine: a line of GPU, CPU, memory and disk, on a tall screen one per GPU and what the newest run brought; or
that the supervisor is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.views.snapshot import (
    FleetSnapshot,
    GpuMeters,
    HostMeters,
    MachineView,
    RunGain,
    RunView,
    of_machine,
    recent_gains,
)
from mission_tui.ipc.replies import DetailsReply
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import spark
from mission_tui.tui.drawing.strips import fit, line, literal, wrap
from mission_tui.tui.widgets.lines import Lines

_TALL = 30
_SPARK_FROM = 70
_LEAST_SPARK = 8
_MOST_SPARK = 60
_SCARCE_BYTES = 2 << 30
_FULL_SHOWN_S = 30 * 86400.0
_FULL_SOON_S = 2 * 86400.0
_MOST_LOST = 4
_MOST_HOSTS = 6
NORMAL = "10-25% is normal for one MLP run"
_NORMAL_PERCENT = 25.0
_LEAST_PERCENT = 1.0


class Meters(Lines):
    """Meters of the newest snapshot, or the banner of a lost connection in their place."""

    def __init__(self) -> None:
        super().__init__(id="meters")
        self._snapshot: FleetSnapshot | None = None
        self._banner: str | None = None
        self._paid: RunGain | None = None
        self._failed = ""
        self._machines: Sequence[MachineView] | None = None
        self.rows = 1

    def update(self, snapshot: FleetSnapshot | None, banner: str | None = None, *, headed: bool = False) -> None:
        """Show the meters of `snapshot`, or `banner` while there is no supervisor. `headed`: those of several machines
        stand in a list, each above its runs, and here only what asks for action.
        """
        self._snapshot = snapshot
        self._banner = banner
        self._machines = _shown_machines(snapshot, headed=headed) if snapshot is not None and banner is None else None
        gpus = len(snapshot.gpus) if snapshot else 0
        tall = self.app.size.height >= _TALL
        told = recent_gains(snapshot) if snapshot is not None and tall and banner is None else ()
        self._paid = told[0] if told else None
        self._failed = _failed_duties(snapshot) if snapshot is not None and banner is None else ""
        own = gpus if gpus > 1 and tall else 1
        if self._machines is not None and snapshot is not None:
            own = len(_several(self._machines, snapshot.t, self.app.size.width))
        self.rows = own + len(told[:1]) + bool(self._failed)
        if banner is not None:
            self.rows = max(1, len(self._lost(self.app.size.width)))
        self.styles.height = self.rows
        if self.display != (self.rows > 0):
            self.display = self.rows > 0
        self.redraw()

    def redraw(self) -> None:
        """Compose the lines for the present width."""
        width = self.size.width
        if self._banner is not None:
            self.show(self._lost(width))
        elif self._snapshot is None:
            self.show([line([(" connecting to the supervisor…", colours.QUIET)], width)])
        elif self._snapshot.host.disk_full and self._machines is None:
            free = numbers.size(self._snapshot.host.disk_free)
            sentence = f" ▲ disk full, {free} left: nothing starts, runs go on and save when there is room"
            self.show([line([(sentence, colours.ALARM)], width)])
        elif self._snapshot.replay is not None and not _measured(self._snapshot):
            self.show([line([(f" {literal(self._snapshot.host.gpu_note)}", colours.QUIET)], width)])
        else:
            paid = [] if self._paid is None else [_paid(self._paid, width)]
            if self._failed:
                paid.append(line([(fit(f" ▲ {self._failed}", width), colours.WARN)], width))
            if self._machines is not None:
                own = _several(self._machines, self._snapshot.t, width)
            else:
                own = _lines(self._snapshot, width, self.size.height - len(paid))
            self.show(own + paid)

    def _lost(self, width: int) -> list[Strip]:
        """Why there are no meters; the end of the text says what helps."""
        said = wrap(self._banner or "", max(10, width - 4), _MOST_LOST)
        leads = (" ▲ ", *["   "] * _MOST_LOST)
        return [line([(lead + text, colours.WARN)], width) for lead, text in zip(leads, said, strict=False)]


class _Piece(Struct, frozen=True):
    """A reading; of those that do not fit together, the highest rank goes first."""

    text: str
    style: Style
    rank: int = 0


def _failed_duties(snapshot: FleetSnapshot) -> str:
    """What the supervisor failed at, and meters that stopped; empty where all is done."""
    note = snapshot.host.gpu_note
    said = [note] if note.startswith("GPU meters") else []
    return literal("; ".join((*said, *(failed.sentence for failed in snapshot.failed_duties))))


def _measured(snapshot: FleetSnapshot) -> bool:
    """Whether anything was kept of this moment."""
    host = snapshot.host
    return bool(snapshot.gpus) or host.cpu_percent is not None or host.ram_used is not None


def _lines(snapshot: FleetSnapshot, width: int, height: int) -> list[Strip]:
    gpus, host = snapshot.gpus, snapshot.host
    if not gpus:
        reason = literal(host.gpu_note).partition(":")[0] or "no GPU"
        note = _Piece(f"{reason}  ", colours.QUIET, 1)
        cores = [_Piece("CPU ", colours.INK)]
        return [_fitted([note, *cores], host.cpu_history, _host(host), width)]
    if len(gpus) > 1 and height < len(gpus):
        busy = "  ".join(f"GPU{index} {numbers.in_unit(gpu.util.now, '%')}" for index, gpu in enumerate(gpus))
        return [_fitted([_Piece(f"{busy}  CPU ", colours.INK)], (), _host(host), width)]
    first, *others = (_gpu(gpu) for gpu in gpus)
    calm = [] if lone_share(snapshot) is None else [_Piece(f"({NORMAL})  ", colours.QUIET, 6)]
    tail = [*first[1:], *calm, _Piece("CPU ", colours.INK), *_host(host)]
    strips = [_fitted([_Piece("GPU0 ", colours.INK), first[0]], gpus[0].history, tail, width)]
    for index, pieces in enumerate(others, start=1):
        lead = [_Piece(f"GPU{index} ", colours.INK), pieces[0]]
        strips.append(_fitted(lead, gpus[index].history, pieces[1:], width))
    return strips


def _shown_machines(snapshot: FleetSnapshot, *, headed: bool) -> Sequence[MachineView] | None:
    """The machines that have a line here: all, or where they have one in the list those that ask for action. None on
    the screen of one machine, whose meters need no name.
    """
    if not snapshot.hosts or (len(snapshot.hosts) == 1 and snapshot.hosts[0].lost_t is None and not headed):
        return None
    if not headed:
        return snapshot.hosts
    return [it for it in snapshot.hosts if it.lost_t is not None or (it.meters and it.meters.disk_full)]


def _several(machines: Sequence[MachineView], now: float, width: int) -> list[Strip]:
    """A line for each, or as many as its reason takes where there is room; what has none is counted in the last."""
    whole = [strip for machine in machines for strip in _whole(machine, now, width)]
    if len(whole) <= _MOST_HOSTS:
        return whole
    strips = [machine_line(machine, now, width) for machine in machines[:_MOST_HOSTS]]
    if len(machines) > _MOST_HOSTS:
        left = machines[_MOST_HOSTS - 1 :]
        silent = sum(machine.lost_t is not None for machine in left)
        words = f" {len(left)} more machines, {silent} of them without an answer"
        strips[-1] = line([(words, colours.WARN if silent else colours.QUIET)], width)
    return strips


def _whole(machine: MachineView, now: float, width: int) -> list[Strip]:
    """What helps stands at the end of why a machine does not answer."""
    if machine.lost_t is None:
        return [machine_line(machine, now, width)]
    return [line([(f" {text}", colours.WARN)], width) for text in wrap(_silence(machine, now), width - 1)]


def _silence(machine: MachineView, now: float) -> str:
    name = literal(machine.name)
    why = literal(machine.why)
    since = numbers.duration(max(0.0, now - (machine.lost_t or now)))
    # Of one that never answered nobody knows whether it has any.
    known = machine.meters is not None or machine.live or machine.runs_root
    silent = f"{name} has not answered for {since}: {why}"
    if machine.refused:  # the machine and its mission-tui are there, and have a reason
        silent = f"{name} has shown no runs for {since} and says: {why}"
    return f"▲ {silent}{'; its runs go on' if known else ''}"


def machine_line(machine: MachineView, now: float, width: int, *, heads: bool = False) -> Strip:
    """Its meters and how many runs live there; or since when and why it does not answer. With `heads` it stands above
    the runs that are there.
    """
    name, ground = literal(machine.name), colours.HEADING if heads else None
    if machine.lost_t is not None:
        return line([(fit(f" {_silence(machine, now)}", width), colours.WARN)], width, ground)
    if machine.same_as:
        return line(
            [(f" {name} is {literal(machine.same_as)} once more: its runs stand there", colours.WARN)], width, ground
        )
    if machine.meters is None:
        return line([(f" {name}: connecting…", colours.QUIET)], width, ground)
    if machine.meters.disk_full:
        said = f" ▲ {name}: disk full, {numbers.size(machine.meters.disk_free)} left: nothing new starts there"
        return line([(fit(said, width), colours.ALARM)], width, ground)
    busy = "".join(f"GPU{at} {numbers.in_unit(gpu.util.now, '%')}  " for at, gpu in enumerate(machine.gpus))
    other = f"mission-tui {literal(machine.version)}  " if machine.version else ""
    lead = [
        _Piece(f"{name} ", colours.KEY if machine.away else colours.BOLD),
        _Piece(f"{machine.live} live ", colours.INK),
        _Piece(f"{machine.queued} queued " if machine.queued else "", colours.INK),
        _Piece(" ", colours.INK),
        _Piece(other, colours.WARN, 1),
        _Piece(busy, colours.INK, 2),
    ]
    return _fitted(
        [*lead, _Piece("CPU ", colours.INK)], machine.meters.cpu_history, _host(machine.meters), width, ground
    )


def _paid(paid: RunGain, width: int) -> Strip:
    """What the newest run to join or leave brought."""
    harm = paid.payoff.verdict == "costs" and paid.payoff.change == "joined"
    mark, style = ("▲", colours.WARN) if harm else ("·", colours.QUIET)
    return line([(f" {mark} ", style), (fit(paid.sentence, width - 4), style)], width)


def _fitted(
    lead: list[_Piece], history: Sequence[float], tail: list[_Piece], width: int, ground: Style | None = None
) -> Strip:
    """Drop what does not fit; the sparkline between lead and tail takes what is left, newest values only."""
    least = min(_LEAST_SPARK, len(history)) if width >= _SPARK_FROM else 0
    while (spare := width - 2 - least - sum(cell_len(piece.text) for piece in lead + tail)) < 0:
        worst = max(lead + tail, key=lambda piece: piece.rank)
        if worst.rank == 0:
            break
        (lead if worst in lead else tail).remove(worst)
    cells = min(_MOST_SPARK, least + max(0, spare), len(history))
    cells = cells if cells >= _LEAST_SPARK else 0
    shown = [(piece.text, piece.style) for piece in lead]
    shown.append((spark(history[-cells:] if cells else (), cells, 0, 100) + (" " if cells else ""), colours.LIVE))
    return line([(" ", colours.INK), *shown, *((piece.text, piece.style) for piece in tail)], width, ground)


def _gpu(gpu: GpuMeters) -> list[_Piece]:
    memory = _fill_style(gpu.memory_used, gpu.memory_total)
    pieces = [
        _Piece(f"{literal(gpu.name)} ", colours.QUIET, 8),
        _Piece(f"busy {numbers.in_unit(gpu.util.mean, '%')} ", colours.INK),
        _Piece(f"peak {numbers.in_unit(gpu.util.max, '%')} ", colours.INK, 2),
        _Piece(f"{numbers.part_of(gpu.memory_used, gpu.memory_total)}  ", memory),
    ]
    if gpu.power_w is not None and gpu.temperature_c is not None:
        pieces.append(_Piece(f"{gpu.power_w:.0f}W {gpu.temperature_c:.0f}C  ", colours.QUIET, 7))
    return pieces


def _host(host: HostMeters) -> list[_Piece]:
    scarce = host.disk_free is not None and host.disk_free < _SCARCE_BYTES
    load = "" if host.load_1m is None else f" load {host.load_1m:.1f} "
    return [
        _Piece(f"{numbers.in_unit(host.cpu_percent, '%')} ", colours.INK),
        _Piece(f"of {host.cores} cores ", colours.QUIET, 5),
        _Piece(load, colours.QUIET, 6),
        _Piece(" ", colours.INK, 4),
        _Piece("RAM ", colours.INK),
        _Piece(f"{numbers.part_of(host.ram_used, host.ram_total)} ", _fill_style(host.ram_used, host.ram_total)),
        _Piece(" ", colours.INK, 4),
        _Piece(f"disk {numbers.size(host.disk_free)}", colours.WARN if scarce else colours.INK, 1),
        _Piece(" free", colours.INK, 3),
        *_full_soon(host),
    ]


def _full_soon(host: HostMeters) -> list[_Piece]:
    """When the disk will be full, once that is near enough to matter."""
    left = host.disk_full_in_s
    if left is None or left > _FULL_SHOWN_S:
        return []
    style = colours.WARN if left < _FULL_SOON_S else colours.QUIET
    return [_Piece(f", full in {numbers.until_full(host)}", style, 2)]


def _fill_style(used: int | None, total: int | None) -> Style:
    nearly_full = used is not None and total is not None and used > 0.92 * total
    return colours.WARN if nearly_full else colours.INK


def lone_share(snapshot: FleetSnapshot, gpu: int = 0) -> float | None:
    """Mean percent of a GPU while a single run is alive and leaves most of it idle; None in any other case.

    A GPU that does nothing at all is not in use, and then there is nothing to explain.
    """
    mean = snapshot.gpus[gpu].util.mean if gpu < len(snapshot.gpus) else None
    alone = sum(view.state in ALIVE for view in snapshot.runs) == 1
    return mean if alone and mean is not None and _LEAST_PERCENT <= mean <= _NORMAL_PERCENT else None


def calm_share(snapshot: FleetSnapshot | None, view: RunView, details: DetailsReply) -> str:
    """The sentence for `view`, if it is that run and trains on that GPU; else nothing."""
    device = str(details.effective.get("run", {}).get("device", ""))
    name, _, index = device.partition(":")
    if (
        snapshot is None
        or name != "cuda"
        or view.state not in ALIVE
        or "Mlp" not in learning_table(details.spec)[1].policy
    ):
        return ""
    mean = lone_share(of_machine(snapshot, view.host), int(index) if index.isdigit() else 0)
    if mean is None:
        return ""
    return f"GPU {mean:.0f}% busy on average: {NORMAL}, most of its time goes into the environments. No finding."
