"""Details: all that is known of one run beyond its view, read from its directory on demand."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from mission_tui.errors import DamagedError
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, FleetEvent
from mission_tui.fleet.events.outcome import outcome_word
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import AttemptView, CheckpointView, DetailsReply
from mission_tui.ipc.requests import GetDetails
from mission_tui.plain_files import names_in, read_plain
from mission_tui.records.files.storage import StorageError
from mission_tui.records.files.tail import read_all
from mission_tui.records.files.toml_file import read_toml
from mission_tui.records.runs.checkpoint import Manifest, list_checkpoints
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.provenance_file import read_provenance
from mission_tui.records.runs.spec_file import read_spec
from mission_tui.records.runs.trash import tree_bytes
from mission_tui.supervisor.audit_log import audit_log_of
from mission_tui.supervisor.catalog import RunCatalog, resolve_run

__all__ = ["details"]

SHOWN_EVALUATIONS = 50
EVALUATION_BYTES = 1 << 18
MOST_EVALUATIONS = 10_000
MOST_NUMBER = 2**63
"""No integer of an evaluation means more; who reads the answer may know no larger ones."""


async def details(core: RunCatalog, request: GetDetails) -> DetailsReply:
    """The run's spec, effective values, attempts, checkpoints (unverified) and newest evaluations."""
    run_id = resolve_run(core, request.run)
    known, run = core.store.run(run_id), core.run_dir(run_id)
    spec = known.spec or read_spec(run.spec)
    read, size = await asyncio.to_thread(lambda: (_read(run, known.journal.attempt), tree_bytes(run.path)))
    core.record_size(run_id, size)
    return DetailsReply(re=request.id, view=core.store.view(run_id), spec=spec, **read)


def _read(run: RunDir, attempt: int) -> dict[str, Any]:
    try:
        manifests = list_checkpoints(run.checkpoints)
    except StorageError:
        # That none can be saved or read there is a finding; all else about the run is known without.
        manifests = []
    events = read_all(run.events, FleetEvent)[0]
    return {
        "effective": _effective(run, attempt),
        "deeds": audit_log_of(events),
        "attempts": _attempts(events, {manifest.name: manifest.timesteps for manifest in manifests}),
        "checkpoints": tuple(_checkpoint(manifest) for manifest in manifests),
        "evaluations": _evaluations(run.evaluations),
        "provenance": read_provenance(run, attempt),
    }


def _effective(run: RunDir, attempt: int) -> dict[str, Any]:
    """What the model really uses; empty until the trainer has written it."""
    path = run.attempt(attempt).effective
    try:
        table: dict[str, Any] = _cleaned(read_toml(path, DamagedError)) if path.is_file() else {}
    except DamagedError as error:
        return {"damaged": {"effective.toml": clean(str(error))}}
    return table


def _attempts(events: Sequence[FleetEvent], timesteps: dict[str, int]) -> tuple[AttemptView, ...]:
    views: list[AttemptView] = []
    for event in events:
        match event:
            case AttemptStarting():
                first = event.checkpoint is None
                views.append(
                    AttemptView(
                        attempt=event.attempt,
                        started_t=event.t,
                        ended_t=None,
                        outcome=None,
                        cause=None,
                        from_checkpoint=event.checkpoint,
                        from_timesteps=0 if first else timesteps.get(event.checkpoint or ""),
                        changes=event.changes,
                    )
                )
            case AttemptEnded() if views:
                word, cause = outcome_word(event.outcome), clean(event.outcome.cause, 400)
                views[-1] = msgspec.structs.replace(views[-1], ended_t=event.t, outcome=word, cause=cause)
    return tuple(views)


def _checkpoint(manifest: Manifest) -> CheckpointView:
    return CheckpointView(
        name=manifest.name,
        update=manifest.update,
        timesteps=manifest.timesteps,
        t=manifest.t,
        size_bytes=manifest.size_bytes,
        reason=clean(manifest.reason),
    )


def _evaluations(folder: Path) -> tuple[dict[str, Any], ...]:
    """The newest evaluations, oldest first; files that hold something else are passed over."""
    results = []
    for path in _newest(folder):
        with suppress(OSError, ValueError, RecursionError):
            raw = read_plain(path, EVALUATION_BYTES)
            results.append(_cleaned(msgspec.json.decode(raw, type=dict[str, Any])))
    return tuple(results)


def _newest(folder: Path) -> list[Path]:
    """The plain files that may be evaluations, the newest so many, oldest first."""
    found: list[tuple[float, str]] = []
    with suppress(OSError):
        for name in names_in(folder, MOST_EVALUATIONS):
            with suppress(OSError):
                facts = (folder / name).lstat()
                if name.endswith(".json") and stat.S_ISREG(facts.st_mode):
                    found.append((facts.st_mtime, name))
    return [folder / name for _, name in sorted(found)[-SHOWN_EVALUATIONS:]]


def _cleaned(value: Any) -> Any:
    """`value` with every text in it made harmless: these files were written by foreign code's neighbours."""
    match value:
        case str():
            return clean(value, 400)
        case dict():
            return {clean(str(key)): _cleaned(item) for key, item in value.items()}
        case list():
            return [_cleaned(item) for item in value]
        case int() if abs(value) > MOST_NUMBER:
            return None
        case bool() | int() | float() | None:
            return value
        case _:
            return clean(str(value))
