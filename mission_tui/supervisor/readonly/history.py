"""Answers about what went on: columns over updates of one run, runs beside each other, the strip of the machine, and an
attempt's output; and at what pace a new run would train, which is that of the newest run like it.

Of an ended run the columns are read from its file when first asked for, and so are those of a live one of which there
are too many in memory. The strip is what GPUs and processors did over the asked time, and in which phases the runs
were. Output is made harmless line by line.

A runs root may lie on a disk that several machines share; what trained on another one says nothing of the pace here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from mission_tui.errors import DamagedError, UsageError
from mission_tui.fleet.capacity.admission import gpu_for
from mission_tui.fleet.capacity.demand import ReferenceSpeed
from mission_tui.fleet.capacity.reference_runs import ReferenceRun, differences, pace_of_several, reference_runs
from mission_tui.fleet.events.metrics import RETURN, MetricRecord, TrainingStarted
from mission_tui.fleet.history.run import MetricsState, RunHistory, course_rows, goal_of, setting_changes
from mission_tui.fleet.phases import PhaseHistory
from mission_tui.fleet.specs.spec import LAUNCHERS, Spec, is_driver
from mission_tui.fleet.store import Store
from mission_tui.fleet.strip import Cell, CellHistory, GpuTrack, Lane, Strip
from mission_tui.fleet.text import as_left, clean_line
from mission_tui.ipc.replies import ComparisonReply, HistoryReply, LogReply, SidesReply
from mission_tui.ipc.requests import Compare, GetHistory, GetLog, GetSides, GetStrip
from mission_tui.plain_files import open_plain
from mission_tui.records.given_files import read_toml
from mission_tui.records.jsonl import Tail, each_record, read_first
from mission_tui.records.runs.attempt import read_handle, read_identity
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.runs import RunCatalog, named_views, resolve_run

_logger = logging.getLogger(__name__)
_HELD = ("paused", "frozen")
"""Without a phase a run is in the strip for these; who only waits is not."""

MOST_BYTES = 1 << 18
LINE_CHARACTERS = 2000


async def history(
    core: RunCatalog, request: GetHistory, rows: Callable[[str], list[MetricRecord]] | None = None
) -> HistoryReply:
    """The asked series, thinned to buckets; `rows` reads those of an ended run, by default all that its file holds."""
    run_id = resolve_run(core, request.run)
    known = core.store.run(run_id).metrics
    if not known.trimmed and (known.complete or run_id in core.live):
        thinned = core.store.history(run_id, request.series, request.from_update, request.to_update, request.points)
    elif request.is_course:
        path, spec = core.run_dir(run_id).metrics, core.store.run(run_id).spec
        whole = await asyncio.to_thread(
            lambda: _course(rows(run_id) if rows else each_record(path, MetricRecord), spec)
        )
        if run_id in core.store and run_id not in core.live:
            core.store.scan_whole(run_id, whole)
        thinned = whole.columns.thin(request.series, 0, None, request.points)
    else:
        if rows is not None:
            core.store.load_history(run_id, await asyncio.to_thread(rows, run_id))
        else:
            await _load_rows(core, run_id)
        thinned = core.store.history(run_id, request.series, request.from_update, request.to_update, request.points)
    return HistoryReply(
        re=request.id,
        run=run_id,
        updates=thinned.updates,
        timesteps=thinned.timesteps,
        t=thinned.t,
        low=thinned.low,
        high=thinned.high,
        episodes=thinned.episodes,
        outcomes=thinned.outcomes,
        changes=tuple(it for it in setting_changes(core.store.run(run_id)) if it.update is not None),
    )


async def _load_rows(core: RunCatalog, run_id: str) -> None:
    """Have all rows of the run: a thread reads and takes them in, a slice at a time; of one that trains, those that
    came meanwhile are taken in here, where nothing else is.
    """
    tail = Tail(core.run_dir(run_id).metrics, MetricRecord)
    reached = core.store.run(run_id).metrics.reached if run_id in core.live else None
    metrics, later = await asyncio.to_thread(_taken, tail, reached)
    records = (*later, *tail.each())
    if run_id in core.live:
        core.store.reload(run_id, records, metrics)
    else:
        core.store.load_history(run_id, records, metrics)


def _taken(tail: Tail, reached: tuple[int, int] | None) -> tuple[MetricsState, list[MetricRecord]]:
    """What the rows up to `reached` come to, and those after them."""
    metrics, later = MetricsState(complete=True), list[MetricRecord]()
    for each in tail.each():
        if reached is None or (each.attempt, each.seq) <= reached:
            metrics.take(each)
        else:
            later.append(each)
    return metrics, later


def _course(records: Iterable[MetricRecord], spec: Spec | None) -> MetricsState:
    whole = course_rows(records)
    whole.scanned(goal_of(spec, whole.reward_threshold))  # takes a while of a long run, and is kept
    return whole


async def compare(core: RunCatalog, request: Compare) -> ComparisonReply:
    """The comparison. Raises `MissionError` for runs that cannot be compared."""
    # Not before somebody compares: every start of a supervisor would wait for it.
    from mission_tui.records.runs.comparison_sides import compare_runs

    folders = [core.run_dir(resolve_run(core, ref)).path for ref in request.runs]
    found = await asyncio.to_thread(compare_runs, folders, _logger.warning, RETURN, request.by, request.threshold)
    return ComparisonReply(re=request.id, comparison=msgspec.to_builtins(found))


async def sides(core: RunCatalog, request: GetSides) -> SidesReply:
    """What there is to compare of the runs. Raises `MissionError` for one whose spec cannot be read."""
    from mission_tui.fleet.comparison_sides import packed
    from mission_tui.records.runs.comparison_sides import read_sides

    views = [view for view in named_views(core, request.runs) if not is_driver(view.preset)]
    folders = [core.run_dir(view.id).path for view in views]

    def read() -> dict[str, tuple[dict[str, Any], ...]]:
        # Whoever compares them is elsewhere, and would not hear which are left out.
        found = read_sides(folders, _logger.warning, request.metrics, least=len(folders))
        return {metric: tuple(map(packed, its)) for metric, its in found.items()}

    return SidesReply(re=request.id, sides=await asyncio.to_thread(read))


class Tracks(Struct, frozen=True):
    """What a strip is made of. Cells are on a clock that is `ahead` seconds behind unix time. `here`: the UUIDs of the
    GPUs in the driver's order; `visible` is the `CUDA_VISIBLE_DEVICES` of a run where that is known.
    """

    names: Mapping[str, str]
    busy: Mapping[str, CellHistory]
    power: Mapping[str, CellHistory]
    cpu: CellHistory | None
    lanes: Mapping[str, PhaseHistory]
    here: Sequence[str] = ()
    visible: Callable[[str], str | None] = lambda _: None
    ahead: float = 0.0


def strip_of(tracks: Tracks, store: Store, request: GetStrip, now: float) -> Strip:
    """The asked part of the tracks at unix time `now`: live runs first, oldest first, then the last to end first."""
    until = now if request.until is None else min(now, request.until)
    since, ahead = until - request.seconds, tracks.ahead

    def cells(history: CellHistory | None) -> tuple[Cell, ...]:
        found = () if history is None else history.between(since - ahead, until - ahead, request.most)
        return tuple(structs.replace(cell, t=cell.t + ahead) for cell in found)

    gpus = (
        GpuTrack(uuid=uuid, name=name, busy=cells(tracks.busy.get(uuid)), power=cells(tracks.power.get(uuid)))
        for uuid, name in tracks.names.items()
    )
    shown = tuple(gpu for gpu in gpus if gpu.busy or gpu.power or gpu.uuid in tracks.here)
    lanes = tuple(_lanes(tracks, store, since, until, request.most))
    return Strip(since=since, until=until, gpus=shown, cpu=cells(tracks.cpu), lanes=lanes)


def _lanes(tracks: Tracks, store: Store, since: float, until: float, most: int) -> Iterator[Lane]:
    live = store.live_ids()
    over = tracks.lanes.keys() - set(live)
    for run_id in [*live, *sorted(over, key=lambda run_id: -tracks.lanes[run_id].until)]:
        phases = tracks.lanes.get(run_id)
        try:
            known = store.run(run_id)
        except KeyError:  # it was removed, and the files still tell of it
            continue
        spans = () if phases is None else phases.between(since, until, most)
        stands = known.state_intervals.between(since, until)
        if not spans and not any(stand.state in _HELD for stand in stands):
            continue
        steps = known.metrics.columns.steps_between(since, until)
        gpu = _gpu(known, tracks.visible(run_id), tracks.here)
        yield Lane(run=run_id, name=known.journal.name, spans=spans, gpu=gpu, steps=steps, stands=stands)


def _gpu(known: RunHistory, visible: str | None, here: Sequence[str]) -> str:
    """By what its trainer said, the choice of a queue, or the run's own settings; what its launcher's environment hid
    from it is known only while it lives.
    """
    if known.metrics.device == "cpu":
        # Also where it might have had one: 'auto' comes to the CPU where that is faster.
        return ""
    if known.journal.placed is not None:
        return known.journal.placed.uuid
    if known.spec is None:
        return ""
    return gpu_for(known.spec.run.device, known.spec.run.env.get("CUDA_VISIBLE_DEVICES", visible), here) or ""


async def log(core: RunCatalog, request: GetLog) -> LogReply:
    """Up to `limit` bytes from `offset`; the last ones without it, or when the file was cut and ends before it.

    Raises `UsageError` for an attempt that has no files.
    """
    run_id = resolve_run(core, request.run)
    run = core.run_dir(run_id)
    # A journal that is lost says of no attempt, and their output is there all the same.
    newest = core.store.run(run_id).journal.attempt or max(run.attempts(), default=0)
    attempt = newest if request.attempt is None else request.attempt
    folder = run.attempt(attempt)
    if not folder.path.is_dir():
        view = core.store.view(run_id)
        gone = 0 < attempt <= view.attempt
        has = f"the files of attempt {attempt} are gone" if gone else f"it has no attempt {attempt}"
        raise UsageError(f"{view.name}: {has}; its newest is {view.attempt}")
    limit = max(0, min(request.limit, MOST_BYTES))
    raw, start, size = await asyncio.to_thread(_read, folder.output, request.offset, limit)
    return LogReply(
        re=request.id, run=run_id, attempt=attempt, text=_harmless(raw), start=start, end=start + len(raw), size=size
    )


def _read(path: Path, offset: int | None, limit: int) -> tuple[bytes, int, int]:
    try:
        with os.fdopen(open_plain(path)[0], "rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - limit) if offset is None or offset > size or offset < 0 else offset
            file.seek(start)
            return _whole_characters(file.read(limit), start + limit < size), start, size
    except FileNotFoundError:
        return b"", 0, 0


def _whole_characters(raw: bytes, more_follows: bool) -> bytes:
    """`raw` without a UTF-8 character cut at its end: the next stretch begins with it."""
    for back in range(1, 4 if more_follows else 0):
        if len(raw) > back and raw[-back] >= 0xC0:
            length = 2 if raw[-back] < 0xE0 else 3 if raw[-back] < 0xF0 else 4
            return raw[:-back] if length > back else raw
    return raw


def _harmless(raw: bytes) -> str:
    """The text with its line breaks and its blanks; everything else that could move a cursor is taken out. Of a line
    that was overwritten, as progress bars do, what was written last is left.

    The first and the last line may go on in another stretch: there a carriage return says what it overwrites.
    """
    lines = raw.decode("utf-8", "replace").split("\n")
    kept = [_line(line) for line in lines]
    if "\r" in lines[0].rstrip("\r"):
        kept[0] = f"\r{kept[0]}"
    if lines[-1].endswith("\r"):
        kept[-1] += "\r"
    return "\n".join(kept)


def _line(line: str) -> str:
    return clean_line(as_left(line), LINE_CHARACTERS).rstrip()


_RUNS = 200
"""So many are looked at, the live ones and the newest ended ones."""

_FILES = 8
_ALIKE = 5


class _PastRunSource(Protocol):
    """Who knows runs, but of those that are `waiting` little more than their end: the supervisor, or a read-only
    server.
    """

    @property
    def store(self) -> Store: ...
    @property
    def waiting(self) -> Container[str]: ...

    def run_dir(self, run_id: str) -> RunDir: ...


def estimate_paces(memory: _PastRunSource, specs: Sequence[Spec]) -> list[ReferenceSpeed | None]:
    """For each of `specs`; None where nothing like it has trained here. Those that are equally fast are asked once."""
    known: list[tuple[Spec, ReferenceSpeed | None]] = []
    found: list[ReferenceSpeed | None] = []
    for spec in specs:
        same = next((entry for entry in known if _as_fast(spec, entry[0])), None)
        if same is None:
            same = spec, _pace(memory, spec)
            known.append(same)
        found.append(same[1])
    return found


def _as_fast(spec: Spec, other: Spec) -> bool:
    kinds = (spec.preset, spec.run.command), (other.preset, other.run.command)
    return kinds[0] == kinds[1] and not differences(spec, other)


def _pace(memory: _PastRunSource, spec: Spec) -> ReferenceSpeed | None:
    store, waiting = memory.store, memory.waiting
    runs = [store.run(run_id) for run_id in islice((it for it in store.run_ids() if it not in waiting), _RUNS)]
    here: list[ReferenceRun] = []
    for reference in reference_runs(spec, runs)[:_FILES]:
        if here and len(reference.pace.differs) > len(here[0].pace.differs):
            break
        if _was_there(memory.run_dir(reference.run), spec.run.launcher):
            here.append(reference)
    if not here:
        return None
    # Those with the same number of other settings may differ in others: the newest says which.
    alike = [it.pace for it in here if it.pace.differs == here[0].pace.differs][:_ALIKE]
    return structs.replace(pace_of_several(alike), start_s=_start_s(memory.run_dir(here[0].run)))


def _was_there(run: RunDir, launcher: str) -> bool:
    """Whether its newest attempt trained where one by `launcher` will: on this machine, or on a node of its engine."""
    attempts = run.attempts()
    handle = None
    with suppress(DamagedError, OSError):
        handle = read_handle(run.attempt(attempts[-1]).handle) if attempts else None
    if launcher != LAUNCHERS[0]:
        return handle is not None and handle.launcher == launcher
    return (handle is None or handle.launcher == launcher) and _machine(run) in ("", platform.node())


def _machine(run: RunDir) -> str:
    """The name of the machine that its newest attempt trained on; empty where that is not known."""
    attempts = run.attempts()
    with suppress(DamagedError, OSError):
        if attempts:
            return str(read_toml(run.attempt(attempts[-1]).effective, DamagedError).get("host", {}).get("name", ""))
    return ""


def _start_s(run: RunDir) -> float | None:
    """Seconds from the start of the run's first attempt to its first rollout."""
    began = read_first(run.metrics, MetricRecord)
    with suppress(DamagedError, OSError):
        identity = read_identity(run.attempt(1).identity)
        if identity is not None and isinstance(began, TrainingStarted) and began.attempt == 1:
            return max(0.0, began.t - identity.started_t)
    return None
