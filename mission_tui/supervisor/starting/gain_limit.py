"""Whether one more run may begin, by what the last one that joined brought to the summed steps per second.

Each run that may is measured before the next one: so the queue stops by itself where the machine is full.
"""

from __future__ import annotations

from mission_tui.fleet.events.marginal_gain import CONCLUSIVE, MarginalGain
from mission_tui.fleet.history.run import RunHistory
from mission_tui.supervisor.core import Core

__all__ = ["gain_shortage"]

FRESH_S = 10.0
"""One that began so lately was not looked at yet."""


def gain_shortage(core: Core, limit: float, now: float) -> str | None:
    """Why a run that asks for `limit` (a share) does not begin at unix time `now`; None when it may."""
    live = [core.store.run(run_id) for run_id in core.live]
    training = [run for run in live if run.journal.attempt and run.journal.outcome is None and not run.journal.held]
    fresh = (run.id for run in training if now - (run.journal.started_t or 0.0) < FRESH_S)
    if (unknown := next((run_id for run_id in (*core.unmeasured, *fresh)), None)) is not None:
        return f"waits until it is known what {core.name_of(unknown)} brings (keep.limits.marginal_gain)"
    last = next((paid for paid in core.store.snapshot(now).paid if _says(paid.payoff)), None)
    if last is None or not _is_little(last.payoff, limit) or _fewer(training, last.payoff):
        return None
    brought, asked = 100.0 * (last.payoff.gain or 0.0), 100.0 * limit
    return (
        f"waits for a run to end: {last.name} was the last to join and brought {brought:+.0f} %, "
        f"keep.limits.marginal_gain asks for {asked:+.0f} %"
    )


def _says(gain: MarginalGain) -> bool:
    return gain.change == "joined" and gain.verdict in (*CONCLUSIVE, "noisy") and gain.high is not None


def _is_little(gain: MarginalGain, limit: float) -> bool:
    """Whether it brought less than `limit`, as far as one can be sure; other programs' doing is nobody's."""
    surely = gain.elsewhere is None and gain.high is not None and gain.high < limit
    return surely or (gain.verdict in CONCLUSIVE and gain.gain is not None and gain.gain < limit)


def _fewer(training: list[RunHistory], gain: MarginalGain) -> bool:
    """Whether fewer runs train than did with it: somebody has made room since."""
    return len(training) < gain.others + gain.together
