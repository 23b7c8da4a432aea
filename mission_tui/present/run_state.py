"""How a run stands, in a word, and how much of its budget is used."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView

_PHASES_SHOWN = ("rollout", "update", "saving")


def state_word(view: RunView) -> str:
    """One word: the outcome of an ended run, the phase of a running one unless it is to pause, else the state."""
    if view.state == "ended":
        return view.outcome or "ended"
    if view.pausing:
        return "pausing"
    if view.state == "running" and view.phase in _PHASES_SHOWN:
        return view.phase
    if view.restart is not None:
        return "restarts"
    return view.state


def share_done(view: RunView) -> float | None:
    """The share of the budget that is used, by steps or by time; None while neither is known."""
    if view.total_timesteps and view.timesteps is not None:
        return min(1.0, view.timesteps / view.total_timesteps)
    if view.duration_s:
        # A checkpoint in between counts too, so that the last update ends a little before the budget.
        return 1.0 if view.outcome == "finished" else min(1.0, view.trained_s / view.duration_s)
    return None
