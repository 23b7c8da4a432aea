"""Findings of what a machine does to a run, which no row shows: how the journal says that one begins and is over."""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.events.findings import Finding, Severity
from mission_tui.fleet.events.journal import FindingChanged
from mission_tui.fleet.health import cleared
from mission_tui.fleet.health.rule import Explanation
from mission_tui.supervisor.runs.core import Core


def open_finding(core: Core, run_id: str, rule: str) -> Finding | None:
    """The finding of `rule` that is open in the run's newest attempt."""
    journal = core.store.run(run_id).journal
    mine = (it for it in journal.findings.values() if it.rule == rule and it.attempt == journal.attempt)
    return next((it for it in mine if it.state == "open"), None)


def end_finding(core: Core, run_id: str, rule: str, t: float) -> None:
    """What the machine did to a run is over with its processes, at unix time `t`; it stays on record."""
    if run_id in core.store and (found := open_finding(core, run_id, rule)) is not None:
        over = cleared(found, found.last_update, t)
        core.record_observed_of(run_id, lambda seq, at: FindingChanged(seq, at, over))


def new_finding(rule: str, severity: Severity, words: Explanation, attempt: int, update: int, t: float) -> Finding:
    """A finding of `rule` that begins at `update`, unix time `t`."""
    finding = Finding(
        id=f"{rule}-{attempt}-{update}",
        rule=rule,
        severity=severity,
        first_update=update,
        last_update=update,
        sentence=words.sentence,
        cause=words.cause,
        advice=words.advice,
        first_t=t,
        last_t=t,
    )
    return structs.replace(
        finding,
        advice_set=words.advice_set,
        evidence=words.evidence,
        signal=words.signal,
        window=words.window,
    )
