"""Which actions mean something for a run as it stands. Hints and menus leave out the others; their keys say why not."""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.outcome import ALIVE, OVER, RunState
from mission_tui.fleet.views.abilities import refusal
from mission_tui.fleet.views.snapshot import RunView

__all__ = ["STATES", "is_applicable"]

_TRAINS: frozenset[RunState] = frozenset({"running", "paused", "frozen"})
_WAITS: frozenset[RunState] = frozenset({"queued"})
_HELD: frozenset[RunState] = frozenset({"paused", "frozen"})
_HALTED: frozenset[RunState] = frozenset({"stopping"})

STATES: Mapping[str, frozenset[RunState]] = {
    "pause": frozenset({"running", "starting"}),
    "freeze": frozenset({"running", "starting", "paused"}),
    "checkpoint": frozenset({"running", "paused"}),
    "park": ALIVE - _HALTED | _WAITS,
    "stop": ALIVE - _HALTED | _WAITS,
    "kill": ALIVE | _WAITS,
    "remove": OVER,
    "set": _TRAINS,
    "set advice": _TRAINS,
    "resume with": OVER,
}
"""By the action's name; what is not here means something in every state."""

_FOR_OURS = frozenset(
    {
        *("pause", "freeze", "park", "resume", "resume with", "set", "set advice", "clone", "stop", "kill"),
        *("checkpoint", "evaluate", "apply", "acknowledge", "silence", "rename", "note", "label"),
    }
)
"""What is refused for a foreign run."""

_ON_FINDINGS = frozenset({"apply", "acknowledge", "silence", "set advice"})


def is_applicable(action: str, view: RunView, finding: Finding | None = None) -> bool:
    """Whether `action` would do something to `view`; `finding` is the one that keys for findings would apply to."""
    if action == "adopt":
        return "foreign" in view.flags
    if "foreign" in view.flags and action in _FOR_OURS:
        return False
    if refusal(view.can, action) is not None or view.state not in STATES.get(action, (view.state,)):
        return False
    if action in _ON_FINDINGS:
        return _on_finding(action, finding)
    if action == "pause":
        return not view.pausing
    if action == "evaluate":
        return view.last_checkpoint is not None
    if action == "resume":
        waits = view.state in _HELD | OVER or view.pausing or view.restart is not None
        return waits and (view.state not in OVER or _has_begun_somewhere(view))
    return action != "resume with" or _has_begun_somewhere(view)


def _on_finding(action: str, finding: Finding | None) -> bool:
    if finding is None or finding.state == "cleared":
        return False
    if action == "apply":
        return finding.applicable
    return action != "set advice" or bool(finding.advice_set)


def _has_begun_somewhere(view: RunView) -> bool:
    """What is over goes on from a checkpoint; only a command may begin again without one."""
    return view.last_checkpoint is not None or "checkpoint" not in view.can
