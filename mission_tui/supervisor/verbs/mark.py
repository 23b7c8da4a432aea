"""Mark: a finding is acknowledged, a rule is silenced for the run, or either is taken back; no judgement changes."""

from __future__ import annotations

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.events.findings import GRAVITY
from mission_tui.fleet.events.journal import FindingMarked
from mission_tui.fleet.history.journal_state import JournalState
from mission_tui.fleet.specs.thresholds import Limits
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Mark
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.targets import the_finding

__all__ = ["mark"]

RULES = frozenset(Limits.__struct_encode_fields__)


async def mark(core: Core, request: Mark) -> Accepted:
    """Journal the mark, unless it is there already. Raises `UsageError` for what cannot be marked.

    Runs that have ended can be marked too.
    """
    run_id = resolve_run(core, request.run)
    _check(core, run_id, request)
    if _stands(core.store.run(run_id).journal, request):
        what = request.rule or request.finding
        return Accepted(re=request.id, runs=(run_id,), notes=(f"{what} is {request.mark} already",))
    core.record_request_of(run_id, lambda seq, t: FindingMarked(seq, t, request.mark, request.finding, request.rule))
    return Accepted(re=request.id, runs=(run_id,))


def _check(core: Core, run_id: str, request: Mark) -> None:
    if bool(request.finding) == bool(request.rule):
        raise UsageError("a mark is for one finding or for one rule; name exactly one")
    if request.rule:
        if request.rule not in RULES:
            raise UsageError(f"there is no health rule '{request.rule}'{nearest(request.rule, RULES)}")
        if request.mark == "acknowledged":
            raise UsageError(f"'{request.rule}' is a rule, which is silenced; findings are acknowledged")
        return
    finding = the_finding(core, run_id, request.finding)
    if request.mark == "silenced":
        raise UsageError(f"'{finding.id}' is a finding, which is acknowledged; its rule {finding.rule} can be silenced")
    if finding.state == "cleared":
        raise UsageError(f"{finding.id} is over since update {finding.last_update}; there is nothing to mark")


def _stands(journal: JournalState, request: Mark) -> bool:
    if request.rule:
        return (request.rule in journal.silenced) == (request.mark == "silenced")
    known, now = journal.acknowledged.get(request.finding), journal.findings[request.finding].severity
    return (known is not None and GRAVITY[known] >= GRAVITY[now]) if request.mark == "acknowledged" else known is None
