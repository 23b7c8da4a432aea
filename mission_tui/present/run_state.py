"""How a run stands, in a word, and how much of its budget is used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

from mission_tui.fleet.events.findings import Finding, asking
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.events.processes import RunFlag
from mission_tui.fleet.history.course import WHOLE_WINDOW
from mission_tui.fleet.specs.thresholds import HangLimits
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers

_PHASES_SHOWN = ("rollout", "update", "saving")


def state_word(view: RunView) -> str:
    """One word: the outcome of an ended run, the phase of a running one unless it is to pause, else the state; of
    one that stops to be resumed later `parking`, of one whose job waits in the queue of Slurm or Ray `pending`, and of
    one whose machine does not answer `no link`.
    """
    if view.unheard_since is not None:
        return "no link"
    if view.state == "ended":
        return view.outcome or "ended"
    if view.pausing:
        return "pausing"
    if view.parking:
        return "parking"
    if view.job_waits:
        return "pending"
    if view.state == "running" and view.phase in _PHASES_SHOWN:
        return view.phase
    if view.restart is not None and view.restart.after != "request":
        return "restarts"
    return view.state


def asks_for_action(view: RunView) -> tuple[Finding, ...]:
    """The findings of a run that somebody should look at."""
    return asking(view.findings, over=view.state in OVER)


FLAG_SENTENCES: Mapping[RunFlag, str] = {
    "keeperless": "its keeper is gone: it trains on, and obeys, but how a crash ended it would not be recorded",
    "unkillable": "even SIGKILL does not end its processes: they wait in the kernel, for a device or a disk",
    "unverifiable": "it cannot be told whether its processes are its own, so that none of them is signalled",
    "damaged": "files of it are damaged or cannot be read; what is whole is shown",
    "slow-start": "it has been starting for unusually long; l shows what it has printed",
    "silent": "its node has said nothing for a while",
}
"""What a flag means that has no other words: of the rest the cause says it."""


def flag_sentences(view: RunView) -> list[str]:
    """What the flags of a run mean, and first that what it is at goes on for too long."""
    stuck = stuck_sentence(view)
    return [stuck] * bool(stuck) + [_flag_sentence(flag, view) for flag in view.flags if flag in FLAG_SENTENCES]


def _flag_sentence(flag: RunFlag, view: RunView) -> str:
    if flag == "slow-start" and view.connected and view.env_id:
        # A trainer that speaks has imported what it needs: then something of the user's is in the way.
        return (
            f"it has been starting for unusually long: making, resetting or stepping {view.env_id} may block; "
            "l shows what it has printed"
        )
    return FLAG_SENTENCES[flag]


_FEWEST_UPDATES, _DECIDED, _STILL_KL, _KL_ROWS = 10, 0.01, 1e-6, 8
_OF_NOISE, _OF_GAIN = 4.0, 0.5


def stands_still(view: RunView) -> bool:
    """Whether its policy has nothing left to choose, or no longer moves, with a return that never rose or is lost.

    That is no finding: rules wait until they are sure and how long that takes depends on the budget. But whoever reads
    `ok` in between goes to bed.
    """
    if (view.update or 0) < _FEWEST_UPDATES or (view.goal is not None and view.goal.reached is not None):
        return False
    entropy, moved = view.metrics.get("policy/entropy_ratio"), view.series.get("train/approx_kl", ())[-_KL_ROWS:]
    decided = isinstance(entropy, float) and entropy < _DECIDED
    still = len(moved) == _KL_ROWS and all(isinstance(kl, float) and abs(kl) < _STILL_KL for kl in moved)
    return (decided or still) and not _has_risen(view)


_FIRST_UPDATES, _SILENCE = 2, HangLimits()
_EARLY_S, _EARLY_TIMES = 20.0, 10.0


def stuck_s(view: RunView) -> float | None:
    """For how many seconds its present rollout or update has gone on, where that is unusually long; else None.

    The rule of hangs waits for two minutes, in the first updates for a quarter of an hour, and an env worker that hangs
    is given one minute. But whoever reads `ok` in between goes to bed.
    """
    if not view.env_id or view.state != "running" or view.phase not in ("rollout", "update"):
        return None  # a command need not say when a phase begins again
    if view.phase_t is None or view.heartbeat_t is None or not view.update:
        return None
    if any(finding.rule == "hang" and finding.state != "cleared" for finding in view.findings):
        return None
    usual_s, lasted_s = (view.rollout_s or 0.0) + (view.update_s or 0.0), view.heartbeat_t - view.phase_t
    limits = (_EARLY_S, _EARLY_TIMES)
    if view.update <= _FIRST_UPDATES:  # what is usual is not known yet
        limits = (_SILENCE.least_s, _SILENCE.times_median)
    return lasted_s if lasted_s > max(limits[0], limits[1] * usual_s) else None


def stuck_sentence(view: RunView) -> str:
    """The same in words; empty where it is as long as usual."""
    if (lasted_s := stuck_s(view)) is None:
        return ""
    last_s = view.rollout_s if view.phase == "rollout" else view.update_s
    before = "" if last_s is None else f", the one before took {numbers.split_second(last_s)}"
    return f"this {view.phase} has gone on for {numbers.duration(lasted_s)}{before}; l shows what it prints"


def _has_risen(view: RunView) -> bool:
    """Whether the return has gained more than its own noise since the first updates, and still has half of that."""
    if view.course is None or view.best is None or any(it.checkpoint and it.kind != "resumed" for it in view.origins):
        return True  # unknown, as what a policy from elsewhere had gained there is: then nothing is said of it
    import statistics  # which takes 3 ms to load, and the first picture waits for it

    known = [middle for middle in view.course.middles if middle is not None and math.isfinite(middle)]
    if len(known) < _OF_NOISE:
        return True
    first = statistics.median(known[:3])
    gain, error = view.best.value - first, _error(view, view.course.every, known)
    return gain > _OF_NOISE * error and statistics.median(known[-3:]) - first >= _OF_GAIN * gain


def _error(view: RunView, every: int, middles: list[float]) -> float:
    """The standard error of its mean return. Neighbours that share most of their episodes differ by less than that."""
    import statistics

    between = 1.4826 * statistics.median(abs(later - earlier) for earlier, later in pairwise(middles))
    length, steps = view.metrics.get("rollout/ep_len_mean"), every * view.n_envs * view.n_steps
    share_new = 1.0
    if isinstance(length, float) and length > 0.0 and steps > 0:
        share_new = min(1.0, max(1.0, steps / length) / WHOLE_WINDOW)
    return between / math.sqrt(2.0 * share_new)


def time_left(view: RunView) -> str:
    """Until the end of its budget, as a range where its updates take differently long; a dash unless it trains."""
    low_s, high_s = (view.eta_s, view.eta_s) if view.eta_low_s is None else (view.eta_low_s, view.eta_high_s)
    return numbers.duration_range(low_s, high_s)


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
            # Where the trend is there and the mean of its episodes is not, no time is left that could be said.
            if goal.high_s is not None and goal.high_s <= 0.0:
                return f"{words} nearly reached"
            return f"{words} in {numbers.duration_range(goal.low_s, goal.high_s, finest_s=numbers.MINUTE_S)}"
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
