"""The action ladder: what a finding may cause, never more than `keep.health.<rule>.act` of the run allows.

Each action is journaled with its finding, so that the next supervisor does not repeat it. What cannot be done yet,
because the trainer is not connected, stays due. The trainer is also told which checkpoints its retention must leave:
those that open findings would go back to, because a finding often opens long before a person looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from mission_tui.fleet.commands import refusal
from mission_tui.fleet.events.findings import GRAVITY, Finding
from mission_tui.fleet.events.journal import Asked, HealthActed, Verb
from mission_tui.fleet.health import acts
from mission_tui.fleet.health.after_change import AfterChange
from mission_tui.fleet.history.journal_state import JournalState
from mission_tui.fleet.views.snapshot import abilities_of
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.atomic import StorageError
from mission_tui.records.runs.checkpoint import Manifest, list_checkpoints
from mission_tui.supervisor.ending.ladder import stop_gracefully
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.watching.notifying import notify_finding

FindingAction = Literal["notified", "checkpoint", "pause", "stop"]

# A stop saves by itself, and a pause on the way to it would only delay it.
_LADDER: Mapping[str, tuple[FindingAction, ...]] = {
    "off": (),
    "notify": ("notified",),
    "checkpoint": ("notified", "checkpoint"),
    "pause": ("notified", "checkpoint", "pause"),
    "stop": ("notified", "stop"),
}


def react(core: Core, run: LiveRun, finding: Finding) -> None:
    """Do what `finding` may cause and has not caused yet. One that is marked, cleared or over causes nothing."""
    for action in _allowed(run, finding):
        journal = core.store.run(run.id).journal
        if action == "notified" and _told_by_its_cause(journal, finding):
            continue
        if finding.id in journal.due and (finding.id, finding.severity, action) not in journal.acted:
            _ACTIONS[action](core, run, finding)


def react_to_due(core: Core, run: LiveRun) -> None:
    """Do what is still due: the supervisor is new, or the trainer has come back."""
    journal = core.store.run(run.id).journal
    for finding_id in sorted(journal.due):
        react(core, run, journal.findings[finding_id])


def _allowed(run: LiveRun, finding: Finding) -> tuple[FindingAction, ...]:
    if run.spec is None or finding.severity == "info":
        return ()
    can = abilities_of(run.spec, reports=True)
    ladder = tuple(
        action for action in _LADDER[acts(run.spec.keep.health, finding.rule)] if refusal(can, action) is None
    )
    if finding.part_of.startswith(f"{AfterChange.id}-"):
        # The finding of the change is notified, with the same severity; once is enough.
        ladder = tuple(action for action in ladder if action != "notified")
        return ladder if finding.severity == "critical" else ()
    return ladder if finding.severity == "critical" else ladder[:1]


def _told_by_its_cause(journal: JournalState, finding: Finding) -> bool:
    """Whether somebody was notified already of what may have caused it, as something at least as severe."""
    as_severe = (it for it in GRAVITY if GRAVITY[it] >= GRAVITY[finding.severity])
    return any((finding.part_of, severity, "notified") in journal.acted for severity in as_severe)


def _checkpoint(runs: Runs, run: LiveRun, finding: Finding) -> None:
    if _takes_orders(runs, run) and run.link is not None:
        _journal(runs, run, finding, "checkpoint", "checkpoint")
        run.send(Order("checkpoint", reason="finding"))


def _pause(runs: Runs, run: LiveRun, finding: Finding) -> None:
    if _takes_orders(runs, run) and not run.wants_pause and runs.store.run(run.id).state != "paused":
        _journal(runs, run, finding, "pause", "pause")
        run.pause()


def _stop(core: Core, run: LiveRun, finding: Finding) -> None:
    if _takes_orders(core, run):
        _journal(core, run, finding, "stop", "stop")
        stop_gracefully(core, run)


_ACTIONS: Mapping[FindingAction, Callable[[Core, LiveRun, Finding], None]] = {
    "notified": notify_finding,
    "checkpoint": _checkpoint,
    "pause": _pause,
    "stop": _stop,
}


def _takes_orders(runs: Runs, run: LiveRun) -> bool:
    """Whether there is a process to ask, which is neither at its end nor asked to end already."""
    return run.lives() and run.end is None and runs.store.run(run.id).state != "stopping"


def _journal(runs: Runs, run: LiveRun, finding: Finding, verb: Verb, action: FindingAction) -> None:
    """First what is asked, by which a restarted supervisor goes on, then that it was this finding that asked."""
    runs.record_observed(run, lambda seq, t: Asked(seq, t, verb, run.attempt))
    runs.record_observed(run, partial(HealthActed, finding=finding.id, act=action))


def keep_last_good(runs: Runs, run: LiveRun) -> None:
    """Tell the trainer, if what it must keep has changed; without a link the order is sent when it comes back."""
    findings = runs.store.run(run.id).journal.findings.values()
    open_ones = [it for it in findings if it.state == "open" and it.severity != "info" and it.attempt == run.attempt]
    try:
        manifests = list_checkpoints(run.dir.checkpoints) if open_ones else []
    except StorageError:
        # What was asked to be kept before stays; the next finding that changes looks again.
        return
    own = [it for it in manifests if it.attempt == run.attempt]
    names = {name for finding in open_ones if (name := _before(finding, own)) is not None}
    run.keep_checkpoints(tuple(sorted(names | ({run.offered} if run.offered else set()))))


def _before(finding: Finding, manifests: list[Manifest]) -> str | None:
    """The newest checkpoint of this attempt from before the finding; the one it started from stays anyway."""
    return next((it.name for it in reversed(manifests) if it.update < finding.suspect_from), None)
