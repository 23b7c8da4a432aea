"""How many runs of one preset pay on a machine: one after another joins, until the last one brought too little."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mission_tui.fleet.paying import Payoff
from mission_tui.fleet.paying.payoff import WORTH

__all__ = ["FleetSaid", "goes_on", "said_of"]


class FleetSaid(Struct, frozen=True, kw_only=True):
    """So many runs `pay`; None where that cannot be said. `steps_per_s` are the summed speeds with 1, 2, ... runs."""

    pays: int | None
    sentence: str
    steps_per_s: tuple[float | None, ...] = ()


def goes_on(payoff: Payoff) -> bool:
    """Whether one more may join after a run that brought this."""
    return payoff.verdict in ("first", "pays")


def said_of(payoffs: Sequence[Payoff], most: int, ended: str = "") -> FleetSaid:
    """What the runs that joined one by one brought. `ended` is why it ended before its time, if it did."""
    speeds = tuple(each.more_per_s for each in payoffs)
    pays = sum(goes_on(each) for each in payoffs)
    if not pays:
        return FleetSaid(pays=None, sentence=f"not to be said: {ended or 'no run was measured'}", steps_per_s=speeds)
    last = payoffs[-1]
    beyond = f"run {len(payoffs)}"
    if goes_on(last):
        why = f"; what {pays + 1} would bring was not measured: {ended}" if ended else f", and {most} is what was asked"
        least = "at least " if ended or pays == most else ""
    elif last.verdict in ("little", "costs"):
        least, why = "", f": {beyond} brought {_percent(last)}, and {100 * WORTH:.0f} % is what makes one worth it"
    else:
        least, why = "at least ", f": what {beyond} brought is too noisy to say ({_percent(last)})"
    runs = "1 run pays" if pays == 1 else f"{pays} runs pay"
    return FleetSaid(pays=pays, sentence=f"{least}{runs} on this machine{why}", steps_per_s=speeds)


def _percent(payoff: Payoff) -> str:
    if payoff.gain is None or payoff.low is None or payoff.high is None:
        return "no figure"
    return f"{100 * payoff.gain:+.0f} %, {100 * payoff.low:+.0f} to {100 * payoff.high:+.0f}"
