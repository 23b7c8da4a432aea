"""What `top` prints: the host in a line, a row per GPU, a row per run with processes, and what others take; and of the
last minute how busy each GPU was in updates and outside of them, and each run's phases.

`top --csv` is the strip as a series, a line per GPU, host and run for every stretch of time. Its rows have one width:
whole multiples of it since the epoch, so that rows of strips asked one after the other continue each other. A busy cell
counts in the row in which its middle lies, so a peak is in one row and never lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from mission_tui.cli.terminal_output import CsvRows, Table, inert
from mission_tui.errors import UsageError
from mission_tui.fleet.events.outcome import PHASES, Phase
from mission_tui.fleet.events.processes import Usage, worker_sentences
from mission_tui.fleet.strip import WIDTHS, Cell, Lane, Strip, merged
from mission_tui.fleet.text import clean_line
from mission_tui.present.machines import Attribution, attribute, duty_sentence, share_of
from mission_tui.present.numbers import DASH, count, in_unit, size
from mission_tui.present.run_state import state_word

if TYPE_CHECKING:
    from mission_tui.cli.session import Session
    from mission_tui.fleet.views.snapshot import FleetSnapshot, HostMeters, RunView


_ALL = ("run", "name", "state", "CPU", "memory", "share", "VRAM", "GPU", "written", "files", "threads", "procs", "st/s")
_BRIEF = ("name", "state", "CPU", "memory", "VRAM", "GPU", "st/s")
_EACH_CORE = 16
_CALM_BYTES = 64 << 20
"""Of a GPU's memory: less than this the driver itself takes."""
WINDOW_S = 60.0
CELLS = 240

COLUMNS = ("t", "what", "id", "name", "busy_min", "busy_mean", "busy_max", "power_w", "cpu_percent", *PHASES)
LATE_S = 2.0
"""A row is written so long after its end: by then what trainers say of it has come."""
PAGE_CELLS = 500
MOST_ROWS = 100_000
DAY_S = 86_400.0
EDGE_S = 1e-6


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


def write_series(session: Session, last_s: float, every_s: float, *, watch: bool) -> None:
    """Print the last `last_s` seconds in rows of `every_s`, then go on where `watch`. Raises `UsageError`."""
    if every_s not in WIDTHS:
        nearest = min(WIDTHS, key=lambda width: abs(width - every_s))
        raise UsageError(f"--every {every_s:g}s is not available: the nearest interval is {nearest:g}s")
    if last_s > DAY_S or last_s / every_s > MOST_ROWS:
        longest = min(DAY_S, MOST_ROWS * every_s)
        raise UsageError(f"--last {last_s:g}s is too long for intervals of {every_s:g}s: give at most {longest:g}s")
    rows = CsvRows()
    rows.add(COLUMNS)
    since = floor((time.time() - last_s) / every_s) * every_s
    while True:
        until = floor((time.time() - (LATE_S if watch else 0.0)) / every_s) * every_s
        if until > since:
            for strip in _pages(session, since, until, every_s):
                for row in strip_rows(strip, every_s):
                    rows.add(_line(row))
            since = until
        rows.flush()
        if not watch:
            return
        time.sleep(max(1.0, since + every_s + LATE_S - time.time()))


def _pages(session: Session, since: float, until: float, every_s: float) -> Iterator[Strip]:
    """The strip from `since` to `until` in parts that fit into a reply, in cells finer than the rows."""
    from mission_tui.ipc.requests import GetStrip

    width = max(WIDTHS[0], max((each for each in WIDTHS if each <= every_s / 4), default=0.0))
    page_s = max(every_s, PAGE_CELLS * width // every_s * every_s)
    with session.connect() as connection:
        while since < until:
            seconds = min(page_s, until - since)
            end, most = since + seconds, round(seconds / width) + 1
            reply = connection.ask(lambda id_: GetStrip(id=id_, seconds=seconds, until=end, most=most))  # noqa: B023
            yield reply.strip
            since += page_s


def _line(row: StripRow) -> tuple[object, ...]:
    busy = ("", "", "") if row.busy is None else (_short(row.busy.least), _short(row.busy.mean), _short(row.busy.most))
    names = (inert(clean_line(word)) for word in (row.id, row.name))
    phases = row.phases or {}
    shares = ((_short(phases.get(phase, 0.0)) if row.what == "run" else "") for phase in PHASES)
    return (f"{row.t:.2f}", row.what, *names, *busy, _short(row.power_w), _short(row.cpu_percent), *shares)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


class StripRow(Struct, frozen=True, kw_only=True):
    """What a GPU, the host or a run did from unix time `t` on; None where that is not known or not its own.

    `busy` is least, mean and most in percent; `phases` percent of the row's time by phase.
    """

    t: float
    what: Literal["gpu", "host", "run"]
    id: str = ""
    name: str = ""
    busy: Cell | None = None
    power_w: float | None = None
    cpu_percent: float | None = None
    phases: dict[Phase, float] | None = None


def strip_rows(strip: Strip, width: float) -> Iterator[StripRow]:
    """The rows that lie wholly in the strip, oldest first; nothing is a row without anything known."""
    first, last = ceil((strip.since - EDGE_S) / width), floor((strip.until + EDGE_S) / width)
    count = last - first
    if count <= 0:
        return
    busy = [(gpu, _binned(gpu.busy, width, first, count), _mean(gpu.power, width, first, count)) for gpu in strip.gpus]
    cpu = _mean(strip.cpu, width, first, count)
    lanes = [(lane, _phases(lane, width, first, count)) for lane in strip.lanes]
    for place in range(count):
        t = (first + place) * width
        for gpu, cells, watts in busy:
            if cells[place] is not None or watts[place] is not None:
                yield StripRow(t=t, what="gpu", id=gpu.uuid, name=gpu.name, busy=cells[place], power_w=watts[place])
        if cpu[place] is not None:
            yield StripRow(t=t, what="host", cpu_percent=cpu[place])
        for lane, phases in lanes:
            if phases[place]:
                yield StripRow(t=t, what="run", id=lane.run, name=lane.name, phases=phases[place])


def _binned(cells: Sequence[Cell], width: float, first: int, count: int) -> list[Cell | None]:
    bins = [list[Cell]() for _ in range(count)]
    for cell in cells:
        place = floor((cell.t + cell.seconds / 2) / width) - first
        if 0 <= place < count:
            bins[place].append(cell)
    return [merged((first + place) * width, found) for place, found in enumerate(bins)]


def _mean(cells: Sequence[Cell], width: float, first: int, count: int) -> list[float | None]:
    """Of a value that changes slowly: by how much of each row the cells cover."""
    sums, seconds = [0.0] * count, [0.0] * count
    for cell in cells:
        for place, part in _parts(cell.t, cell.t + cell.seconds, width, first, count):
            sums[place] += part * cell.mean
            seconds[place] += part
    return [total / covered if covered > EDGE_S else None for total, covered in zip(sums, seconds, strict=True)]


def _phases(lane: Lane, width: float, first: int, count: int) -> list[dict[Phase, float]]:
    found = [dict[Phase, float]() for _ in range(count)]
    for span in lane.spans:
        for place, part in _parts(span.since, span.until, width, first, count):
            found[place][span.phase] = found[place].get(span.phase, 0.0) + 100.0 * part / width
    return found


def _parts(since: float, until: float, width: float, first: int, count: int) -> Iterator[tuple[int, float]]:
    """The rows that a stretch touches, and for how many seconds."""
    for place in range(max(0, floor(since / width) - first), min(count, ceil(until / width) - first)):
        begin = (first + place) * width
        part = min(until, begin + width) - max(since, begin)
        if part > 0.0:
            yield place, part
