"""What `top` prints: the host in a line, a row per GPU, a row per run with processes, and what others take; and of the
last minute how busy each GPU was in updates and outside of them, and each run's phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mission_tui.cli.tables.table import Table
from mission_tui.fleet.events.processes import worker_sentences
from mission_tui.fleet.strips.attribution import Attribution, attribute, duty_sentence
from mission_tui.fleet.views.machine_sharing import share_of
from mission_tui.present.numbers import DASH, count, in_unit, size
from mission_tui.present.run_state import state_word

if TYPE_CHECKING:
    from mission_tui.cli.session import Session
    from mission_tui.fleet.events.processes import Usage
    from mission_tui.fleet.views.snapshot import FleetSnapshot, HostMeters, RunView


_ALL = ("run", "name", "state", "CPU", "memory", "share", "VRAM", "GPU", "written", "files", "threads", "procs", "st/s")
_BRIEF = ("name", "state", "CPU", "memory", "VRAM", "GPU", "st/s")
_EACH_CORE = 16
_CALM_BYTES = 64 << 20
"""Of a GPU's memory: less than this the driver itself takes."""
WINDOW_S = 60.0
CELLS = 240


def host_line(host: HostMeters) -> str:
    """Processor and memory of the machine, and why there is no GPU, where there is none."""
    cpu = in_unit(host.cpu_percent, "%")
    load = DASH if host.load_1m is None else f"{host.load_1m:.1f}"
    words = [
        host.name,
        f"CPU {cpu} of {host.cores} cores",
        f"load {load}",
        f"RAM {size(host.ram_used)} of {size(host.ram_total)}",
        *([f"swap {size(host.swap_used)} of {size(host.swap_total)}"] if host.swap_used else []),
        *([host.gpu_note] if host.gpu_note else []),
    ]
    return "  ".join(words)


def cores_line(host: HostMeters) -> str:
    """How busy each core is, in percent; where there are many, how many are busy and idle."""
    cores = host.cpu_cores
    if len(cores) <= _EACH_CORE:
        return f"cores {' '.join(f'{core:.0f}' for core in cores)} %" if cores else ""
    busy, idle = (sum(core >= 90.0 for core in cores), sum(core < 10.0 for core in cores))
    return f"cores: {busy} of {len(cores)} busy (90% and more), {idle} idle (less than 10%)"


def others_table(host: HostMeters) -> Table:
    """A row per program that is not ours and takes much."""
    columns = ("not ours", "pid", "user", "CPU", "memory", "VRAM")
    table = Table(columns, numbers=frozenset(("pid", *columns[3:])))
    for other in host.others:
        cpu, memory = in_unit(other.cpu_percent, "%"), size(other.rss_bytes)
        table.add(other.name, str(other.pid), other.user, cpu, memory, size(other.vram_bytes))
    return table


def gpu_table(snapshot: FleetSnapshot) -> Table:
    """How busy each GPU was: the mean of the last 20 s beside its peak, which a mean hides."""
    columns = ("GPU", "name", "busy", "peak", "memory", "power", "heat", "clock", "slowed by")
    table = Table(columns, numbers=frozenset(columns[2:8]))
    for place, gpu in enumerate(snapshot.gpus):
        table.add(
            str(place),
            gpu.name,
            in_unit(gpu.util.mean, "%"),
            in_unit(gpu.util.max, "%"),
            f"{size(gpu.memory_used)}/{size(gpu.memory_total)}",
            in_unit(gpu.power_w, "W"),
            in_unit(gpu.temperature_c, "C"),
            in_unit(gpu.clock_mhz, "MHz"),
            ", ".join(gpu.slowed),
        )
    return table


def usage_table(views: Sequence[RunView], *, brief: bool = False) -> Table:
    """A row per run that has processes, the busiest first; `share` counts memory of several processes once.

    `brief` leaves out what does not fit into 80 columns.
    """
    columns = _BRIEF if brief else _ALL
    table = Table(columns, numbers=frozenset(_ALL[3:]))
    used = [(view, view.usage) for view in views if view.usage is not None]
    for view, usage in sorted(used, key=lambda pair: -pair[1].cpu_percent):
        cells = _cells(view, usage)
        table.add(*(cells[column] for column in columns))
    return table


def _cells(view: RunView, usage: Usage) -> dict[str, str]:
    return {
        "run": view.id,
        "name": view.name,
        "state": state_word(view),
        "CPU": in_unit(usage.cpu_percent, "%"),
        "memory": size(usage.rss_bytes),
        "share": size(usage.pss_bytes),
        "VRAM": size(usage.vram_bytes),
        "GPU": in_unit(usage.gpu_percent, "%"),
        "written": size(usage.written_bytes),
        "files": in_unit(usage.open_files, ""),
        "threads": str(usage.threads),
        "procs": str(usage.processes),
        "st/s": count(view.pace),
    }


def worker_lines(views: Sequence[RunView]) -> Iterator[str]:
    """A line for each env worker that keeps its run waiting."""
    for view in views:
        for sentence in worker_sentences(view.workers) if view.workers is not None else ():
            yield f"{view.name}: {sentence}"


def others_line(snapshot: FleetSnapshot) -> str:
    """How much of the processor the runs take together, and what is not ours."""
    share = share_of(snapshot.host, snapshot.gpus, snapshot.runs)
    others = in_unit(share.cpu_others, "%")
    words = f"runs take {share.cpu_ours:.0f}% (100% is one core), everything else {others}"
    if share.vram_others is not None and share.vram_others > _CALM_BYTES:
        words += f"; {size(share.vram_others)} of GPU memory is held by other programs"
    return words


def last_minute(session: Session) -> Attribution:
    """Asked of the supervisor, in its finest cells."""
    from mission_tui.ipc.requests import GetStrip

    with session.connect() as connection:
        return attribute(connection.ask(lambda id_: GetStrip(id=id_, seconds=WINDOW_S, most=CELLS)).strip)


def duty_lines(shown: Attribution) -> Iterator[str]:
    """A sentence per GPU, by name where there are several."""
    for duty in shown.gpus:
        name = f"{duty.name} ({duty.uuid[:12]}): " if len(shown.gpus) > 1 else ""
        yield f"last minute: {name}{duty_sentence(duty)}"


def share_table(shown: Attribution) -> Table:
    """A row per run with phases in the last minute."""
    columns = ("run", "name", "rollout", "update", "energy", "per 1M steps")
    table = Table(columns, numbers=frozenset(columns[2:]))
    for share in shown.runs:
        energy, each = (_joules(value) for value in (share.joules, share.joules_per_million_steps))
        table.add(share.run, share.name, f"{share.rollout:.0f}%", f"{share.update:.0f}%", energy, each)
    return table


def attribution_facts(shown: Attribution) -> dict[str, Any]:
    """`duties` and `phases` of the document of `top`."""
    import msgspec

    return {
        "duties": [msgspec.to_builtins(duty) for duty in shown.gpus],
        "phases": [
            msgspec.to_builtins(share) | {"joules_per_million_steps": share.joules_per_million_steps}
            for share in shown.runs
        ],
    }


def _joules(value: float | None) -> str:
    if value is None:
        return DASH
    for unit in ("J", "kJ", "MJ"):
        if value < 1_000.0:
            return f"{value:.3g}{unit}"
        value /= 1_000.0
    return f"{value:.3g}GJ"
