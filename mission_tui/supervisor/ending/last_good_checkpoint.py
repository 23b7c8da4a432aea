"""The last checkpoint from before a finding: on the run's own line of attempts, and read back byte by byte."""

from __future__ import annotations

from contextlib import suppress

from mission_tui.errors import CheckpointError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import AttemptStarting, FleetEvent
from mission_tui.records.files.tail import read_all
from mission_tui.records.runs.checkpoint import Manifest, list_checkpoints, verify_checkpoint
from mission_tui.records.runs.layout import RunDir

__all__ = ["last_good"]


def last_good(run: RunDir, finding: Finding) -> Manifest | None:
    """The newest verified checkpoint taken before the finding's first update, None if there is none.

    It is looked for in the finding's attempt, then in the one that this attempt went on from, and so on: what an
    earlier attempt saved after the point that was gone back to is not the past of this policy.
    """
    starts = {
        event.attempt: event.checkpoint
        for event in read_all(run.events, FleetEvent)[0]
        if isinstance(event, AttemptStarting)
    }
    manifests = {manifest.name: manifest for manifest in list_checkpoints(run.checkpoints)}
    attempt, before = finding.attempt, finding.first_update
    while attempt > 0:
        own = [it for it in manifests.values() if it.attempt == attempt and it.update < before]
        begun = manifests.get(starts.get(attempt) or "")
        for manifest in (*reversed(own), *([begun] if begun is not None and begun.update < before else [])):
            with suppress(CheckpointError):
                return verify_checkpoint(run.checkpoints / manifest.name)
        if begun is None:
            return None
        # A later attempt may have saved the same step under the same name: go down whatever the manifest says.
        attempt, before = min(begun.attempt, attempt - 1), min(begun.update, before)
    return None
