"""How many runs of one preset pay on a machine: one after another joins, until the last one brought too little.

What each brought is `fleet.marginal_gain`'s to say; the first is what the others are added to.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from mission_tui.fleet.events.marginal_gain import WORTH, MarginalGain
from mission_tui.fleet.launch_plan import repeat_seed
from mission_tui.fleet.specs.spec import EvaluateSpec, LimitsKeep, RestartKeep, Spec


class FleetSizeVerdict(Struct, frozen=True, kw_only=True):
    """So many runs `pay`, or at `least` so many; None where that cannot be said."""

    pays: int | None
    sentence: str
    least: bool = False


def fleet_run_spec(spec: Spec, number: int, seconds: float) -> Spec:
    """`spec` as the run `number` (from 1) of a fleet that lasts at most so many seconds; each has its own seed."""
    return structs.replace(
        spec,
        run=structs.replace(
            spec.run, total_timesteps=None, duration_s=seconds, seed=repeat_seed(spec.run.seed, number)
        ),
        keep=structs.replace(spec.keep, restart=RestartKeep(), limits=LimitsKeep(), on_reboot="leave"),
        evaluate=EvaluateSpec(),
    )


def may_add_run(payoffs: Sequence[MarginalGain]) -> bool:
    """Whether one more may join after the runs that brought these."""
    return len(payoffs) < 2 or payoffs[-1].verdict == "pays"


def fleet_size_verdict(payoffs: Sequence[MarginalGain], most: int, ended: str = "") -> FleetSizeVerdict:
    """What the runs that joined one by one brought. `ended` is why it ended before its time, if it did."""
    if not payoffs:
        return FleetSizeVerdict(pays=None, sentence=f"cannot be said: {ended or 'no run was measured'}")
    last, paid = payoffs[-1], may_add_run(payoffs)
    pays = len(payoffs) if paid else len(payoffs) - 1
    little = not paid and last.verdict in ("little", "costs")
    if little:
        why = f": run {len(payoffs)} brought {_percent(last)}, and a run is worth it from {100 * WORTH:.0f} % on"
    elif not paid:
        why = f": what run {len(payoffs)} brought cannot be said ({_percent(last)}{_elsewhere(last)})"
    elif pays < most:
        why = f": what run {pays + 1} would bring was not measured, because {ended or 'it ended before'}"
    else:
        why = ", and more were not asked for"
    runs = "1 run pays" if pays == 1 else f"{pays} runs pay"
    return FleetSizeVerdict(
        pays=pays, sentence=f"{'' if little else 'at least '}{runs} on this machine{why}", least=not little
    )


def _percent(gain: MarginalGain) -> str:
    if gain.gain is None or gain.low is None or gain.high is None:
        return "no figure"
    return f"{100 * gain.gain:+.0f} %, {100 * gain.low:+.0f} to {100 * gain.high:+.0f}"


def _elsewhere(gain: MarginalGain) -> str:
    return "" if gain.elsewhere is None else f"; other programs took {gain.elsewhere:+.1f} cores with it"
