"""What open findings would go back to stays: the trainer is told which checkpoints retention must leave.

A finding often opens long before anybody looks. Without this the last good checkpoint would be gone by then.
"""

from __future__ import annotations

from mission_tui.fleet.events.findings import Finding
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.files.storage import StorageError
from mission_tui.records.runs.checkpoint import Manifest, list_checkpoints
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.run import LiveRun

__all__ = ["keep_last_good", "keep_last_good_again"]


def keep_last_good(core: Core, run: LiveRun) -> None:
    """Tell the trainer, if what it must keep has changed; without a link it is told when it comes back."""
    findings = core.store.run(run.id).journal.findings.values()
    open_ones = [it for it in findings if it.state == "open" and it.severity != "info" and it.attempt == run.attempt]
    try:
        manifests = [it for it in list_checkpoints(run.dir.checkpoints) if it.attempt == run.attempt]
    except StorageError:
        # What was asked to be kept before stays; the next finding that changes looks again.
        return
    names = {name for finding in open_ones if (name := _before(finding, manifests)) is not None}
    wanted = tuple(sorted(names | ({run.offered} if run.offered else set())))
    if wanted != run.kept and run.link is not None:
        run.kept = wanted
        run.link.send(Order("keep", keep=wanted))


def keep_last_good_again(core: Core, run: LiveRun) -> None:
    """A trainer has come, or come back: what it was told before is not known."""
    run.kept = ()
    keep_last_good(core, run)


def _before(finding: Finding, manifests: list[Manifest]) -> str | None:
    """The newest checkpoint of this attempt from before the finding; the one it started from stays anyway."""
    return next((it.name for it in reversed(manifests) if it.update < finding.first_update), None)
