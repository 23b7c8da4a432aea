"""Checkpoints of one attempt: when they are due, what is written, what is kept; and reading one back.

A checkpoint is a boundary and nothing else, so saving is safe at any time and never sees half an update. Reading
verifies every byte first and never unpickles.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch as th

from mission_tui.errors import CheckpointError
from mission_tui.fleet.events.findings import RETENTION
from mission_tui.fleet.specs.spec import CheckpointKeep
from mission_tui.forks import leave_fork
from mission_tui.plain_files import make_folder, open_fresh, read_plain
from mission_tui.records.atomic import Reserve, StorageError, storing
from mission_tui.records.given_files import LARGEST_BYTES
from mission_tui.records.runs.checkpoint import CheckpointFacts, Manifest, prune, save_checkpoint, verify_checkpoint
from mission_tui.records.runs.code_files import rules_digest
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.failures import complain
from mission_tui.trainer.record import CheckpointReason, Record
from mission_tui.trainer.state.boundary import Boundary, read_tensors, write_tensors
from mission_tui.trainer.tree import read_tree, write_tree

RESERVE = ".reserve"
RULES = "rules_sha256"
"""In a manifest's `extra`: the digest of the rules that were trained by, where there are any."""

_SLACK_BYTES = 256 << 10
"""For file headers, JSON, folders, and the last rows of the record."""
_POLICY, _OPTIMIZER, _STATE = "policy.safetensors", "optimizer.safetensors", "state"
_REPLAY = "replay.npz"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A verified checkpoint, read."""

    manifest: Manifest
    boundary: Boundary


def load_checkpoint(folder: Path) -> Loaded:
    """The checkpoint in `folder`. Raises `CheckpointError` for anything but what was saved."""
    manifest = verify_checkpoint(folder)
    state = read_tree(folder / _STATE)
    trained_s = state.get("trained_s")
    if not isinstance(trained_s, int | float) or not 0 <= trained_s < math.inf:
        said = "no trained_s" if trained_s is None else f"trained_s = {str(trained_s)[:40]}"
        raise CheckpointError(f"checkpoint {folder} has {said} in its state, where seconds of training belong")
    boundary = Boundary(
        update=manifest.update,
        timesteps=manifest.timesteps,
        trained_s=float(trained_s),
        parameters=read_tensors(folder / _POLICY),
        moments=read_tensors(folder / _OPTIMIZER),
        state=state,
        replay_file=folder / _REPLAY if _REPLAY in manifest.files else None,
    )
    return Loaded(manifest, boundary)


class Checkpoints:
    """Saves boundaries of one attempt under ``checkpoints/<timesteps>`` and removes what retention does not keep."""

    def __init__(self, run_dir: RunDir, attempt: int, spec_file: Path, keep: CheckpointKeep, record: Record) -> None:
        self._run_dir = run_dir
        self._attempt = attempt
        self._spec_sha256 = hashlib.sha256(read_plain(spec_file, LARGEST_BYTES)).hexdigest()
        rules = rules_digest(run_dir.snapshot)
        self._rules = {} if rules is None else {RULES: rules}
        self._keep = keep
        self._record = record
        self._saved_at_s = time.monotonic()
        self._saved_at: tuple[int, int] | None = None
        self._saved_timesteps = 0
        self._protected: set[str] = set()
        self._reserve: Reserve | None = None
        self.newest: str | None = None
        self._newest_update = 0
        self._newest_t: float | None = None
        """When the newest one was saved: monotonic, of one that another attempt saved as far as its clock tells."""

    def started_from(self, loaded: Loaded) -> None:
        """The attempt goes on from `loaded`, which stays for good, like those that earlier attempts went on from."""
        boundary = loaded.boundary
        self.newest = loaded.manifest.name
        self._newest_update = loaded.manifest.update
        self._newest_t = time.monotonic() - max(0.0, time.time() - loaded.manifest.t)
        self._saved_at, self._saved_timesteps = (boundary.update, boundary.timesteps), boundary.timesteps
        self._protected = {loaded.manifest.name, *loaded.manifest.extra.get("lineage", ())}

    def due(self, boundary: Boundary) -> CheckpointReason | None:
        """Why a checkpoint is due at `boundary` by the run's own rules, if one is."""
        if boundary.update == 0 or self._saved_at == (boundary.update, boundary.timesteps):
            return None
        if self._keep.every_steps and boundary.timesteps - self._saved_timesteps >= self._keep.every_steps:
            return "steps"
        return "time" if time.monotonic() - self._saved_at_s >= self._keep.every_s else None

    def newest_in_words(self, update: int) -> str:
        """The checkpoint that is left to go on from after `update` updates, with its age; empty where there is none."""
        if self.newest is None or self._newest_t is None:
            return ""
        age = seconds_in_words(time.monotonic() - self._newest_t)
        lost = update - self._newest_update
        return f"the newest checkpoint is {self.newest}, {lost:,} update{'' if lost == 1 else 's'} and {age} older"

    def outdate(self) -> None:
        """Other settings are in effect at the last boundary: a checkpoint of it says so, even if there is one."""
        self._saved_at = None

    def postpone(self) -> None:
        """After a save that the disk refused: try again when the next one is due."""
        self._saved_at_s = time.monotonic()

    def save(
        self, boundary: Boundary, reason: CheckpointReason, extra: Mapping[str, Any], kept: Collection[str] = ()
    ) -> str:
        """Save `boundary` unless it is what was saved last; returns the checkpoint's name. `kept` outlive retention.

        Raises `CheckpointError`, for a boundary that is not finite too, and `StorageError`; earlier ones are untouched.
        """
        if self.newest is not None and self._saved_at == (boundary.update, boundary.timesteps):
            return self.newest
        leave_fork()
        self._record.fence.check()
        _check_finite(boundary)
        self._record.phase("saving")
        begun_s = time.monotonic()
        facts = CheckpointFacts(
            run=self._run_dir.id,
            attempt=self._attempt,
            update=boundary.update,
            timesteps=boundary.timesteps,
            t=time.time(),
            reason=reason,
            spec_sha256=self._spec_sha256,
            extra={**extra, **self._rules, "env_state": boundary.has_env_state, "lineage": sorted(self._protected)},
        )
        name = checkpoint_name(boundary.timesteps)
        manifest = self._written(name, boundary, facts)
        self.newest, self._saved_at, self._saved_at_s = name, (boundary.update, boundary.timesteps), time.monotonic()
        self._saved_timesteps = boundary.timesteps
        self._newest_update, self._newest_t = boundary.update, self._saved_at_s
        self._record.saved(manifest, reason, seconds=self._saved_at_s - begun_s)
        self._prune(kept)
        return name

    def reserve_space(self, boundary: Boundary) -> None:
        """Keep room for one checkpoint like `boundary`, so that a disk that fills up costs the run nothing."""
        tensors = (*boundary.parameters.values(), *boundary.moments.values())
        size = sum(tensor.nbytes for tensor in tensors) + _bytes(boundary.state) + _SLACK_BYTES
        if boundary.replay is not None:
            size += boundary.replay.size_bytes
        self._reserve = Reserve(self._run_dir.checkpoints / RESERVE, size)
        why = "the disk is nearly full"
        try:
            with storing(self._run_dir.checkpoints, "make"):
                make_folder(self._run_dir.checkpoints)
                if not self._reserve.held:
                    # A file that can be made and removed tells a full disk from a folder that takes nothing.
                    probe = self._run_dir.checkpoints / ".writable"
                    os.close(open_fresh(probe))
                    probe.unlink()
        except StorageError as error:
            why = str(error)
        if not self._reserve.hold():
            sentence = f"no room is kept for a last checkpoint: {why}"
            complain(sentence)
            self._record.failed("room for a last checkpoint", sentence)

    def close(self) -> None:
        """Nothing more is saved: the room that was kept is given back."""
        if self._reserve is not None:
            self._reserve.release()

    def _written(self, name: str, boundary: Boundary, facts: CheckpointFacts) -> Manifest:
        """On a full disk the last checkpoint of an attempt gets the room that was kept for it."""

        def fill(folder: Path) -> None:
            fill_checkpoint(folder, boundary)
            # Writing may have taken minutes; a newer attempt's checkpoint of this name must not be replaced.
            self._record.fence.check()

        def write() -> Manifest:
            return save_checkpoint(self._run_dir.checkpoints, name, fill, facts)

        try:
            return write()
        except StorageError as error:
            last = facts.reason in ("stop", "end") and self._reserve is not None
            if not last or self._reserve is None or not self._reserve.gives_way_to(error):
                raise
            complain(f"{error}; the room kept for a last checkpoint is used")
            return write()

    def _prune(self, kept: Collection[str]) -> None:
        try:
            protected = self._protected.union(kept)
            prune(self._run_dir.checkpoints, self._keep.last, protected, self._keep.spread)
        except StorageError as error:
            # What was saved is saved; an old checkpoint too many is no reason to end a training.
            complain(f"old checkpoints could not be removed: {error}")
            self._record.failed(RETENTION, f"old checkpoints could not be removed: {error}")


def seconds_in_words(seconds: float) -> str:
    """A duration for a sentence: `40 s`, `12 min`, `3 h 5 min`."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{max(0.0, seconds):.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _bytes(tree: Any) -> int:
    """Bytes of the arrays in a state."""
    if isinstance(tree, dict | list | tuple):
        return sum(map(_bytes, tree.values() if isinstance(tree, dict) else tree))
    return int(tree.nbytes) if isinstance(tree, np.ndarray) else 0


def _check_finite(boundary: Boundary) -> None:
    """A resume trusts a checkpoint, so numbers that are not finite never become one."""
    for tensors in (boundary.parameters, boundary.moments):
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not bool(th.isfinite(tensor).all()):
                raise CheckpointError(f"{name} at update {boundary.update} is nan or infinite; it was not saved")


def checkpoint_name(timesteps: int) -> str:
    """The name of the checkpoint at `timesteps`: names in order are checkpoints in order, up to a billion steps."""
    return f"{timesteps:09d}"


def fill_checkpoint(folder: Path, boundary: Boundary) -> None:
    """Write the members of a checkpoint of `boundary` into `folder`."""
    write_tensors(boundary.parameters, folder / _POLICY)
    write_tensors(boundary.moments, folder / _OPTIMIZER)
    write_tree({"trained_s": boundary.trained_s, **boundary.state}, folder / _STATE)
    if boundary.replay is not None:
        boundary.replay.write(folder / _REPLAY)
