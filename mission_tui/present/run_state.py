"""How a run stands, in a word, and how much of its budget is used."""

from __future__ import annotations

from mission_tui.fleet.events.findings import Finding, stories
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers

_PHASES_SHOWN = ("rollout", "update", "saving")


def state_word(view: RunView) -> str:
    """One word: the outcome of an ended run, the phase of a running one unless it is to pause, else the state; of
    one that stops to be resumed later `parking`, and of one whose machine does not answer `no link`.
    """
    if view.unheard_since is not None:
        return "no link"
    if view.state == "ended":
        return view.outcome or "ended"
    if view.pausing:
        return "pausing"
    if view.parking:
        return "parking"
    if view.state == "running" and view.phase in _PHASES_SHOWN:
        return view.phase
    if view.restart is not None:
        return "restarts"
    return view.state


_WHILE_IT_LIVES = frozenset({"throughput", "hang", "checkpoint-age"})
"""Rules about a process at work: of a run that is over they say nothing that could still be mended."""


def asks_for_action(view: RunView) -> tuple[Finding, ...]:
    """The findings that somebody should look at, as lists and comparisons count them: open ones, information and
    symptoms of others left out, and of a run that is over not those about its process.
    """
    over = view.state in OVER
    return tuple(
        finding
        for finding in stories(view.findings)
        if finding.state == "open" and finding.severity != "info" and not (over and finding.rule in _WHILE_IT_LIVES)
    )


def time_left(view: RunView) -> str:
    """Until the end of its budget, as a range where its updates take differently long; a dash unless it trains."""
    if view.eta_low_s is None:
        return numbers.duration(view.eta_s)
    return numbers.duration_range(view.eta_low_s, view.eta_high_s)


def goal_words(view: RunView) -> str:
    """What it is to reach, and whether and when it does: `goal 475 in 3-9m`; empty where there is no goal."""
    goal = view.goal
    if goal is None:
        return ""
    words = f"goal {goal.words}"
    if goal.reached is not None:
        return f"{words} reached at {numbers.compact(goal.reached.timesteps)}"
    if goal.of == "success" and goal.newest is not None:
        words += f", now {numbers.percent(goal.newest)}"
    match goal.trend:
        case "nearer":
            return f"{words} in {numbers.duration_range(goal.low_s, goal.high_s)}"
        case "beyond":
            return f"{words} not within the budget"
        case "none":
            return f"{words}: no trend"
        case _:
            return words


def share_done(view: RunView) -> float | None:
    """The share of the budget that is used, by steps or by time; None while neither is known."""
    if view.total_timesteps and view.timesteps is not None:
        return min(1.0, view.timesteps / view.total_timesteps)
    if view.duration_s:
        # A checkpoint in between counts too, so that the last update ends a little before the budget.
        return 1.0 if view.outcome == "finished" else min(1.0, view.trained_s / view.duration_s)
    return None
