"""What a run that joined or left brought, as it is journaled and shown: numbers, a verdict and one sentence."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mission_tui.fleet.ranges import Count, Seconds, UnixTime

WORTH = 0.10
"""Below this an extra run hardly pays (health guide, section 8)."""

_ALL_LOST = 0.9
"""A share that a run takes of all steps beyond which its lower end is no figure any more."""

Word = Literal["first", "pays", "little", "costs", "noisy", "unlike", "swapped"]
CONCLUSIVE: frozenset[Word] = frozenset({"pays", "little", "costs"})


class MarginalGain(Struct, frozen=True, omit_defaults=True):
    """A run joined, or left, at unix time `t`: `together` of them at once, beside `others` runs.

    `less_per_s` are summed steps per second of the fleet without it and `more_per_s` with it, `gain` what that is more
    (a share; `low` to `high` with 95 % certainty), each side measured for `seconds`. Of runs whose steps are `unlike`
    they are sums of the others alone. `full` names what is used up; `elsewhere` are the cores that other programs took
    more with the run than without it, where that spoils the comparison.
    """

    t: UnixTime
    change: Literal["joined", "left"]
    verdict: Word
    others: Count
    together: Count = 1
    less_per_s: float | None = None
    more_per_s: float | None = None
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    seconds: Seconds = 0.0
    full: Literal["", "cores", "gpu"] = ""
    elsewhere: float | None = None


def gain_verdict(share: float, low: float, high: float) -> Word:
    """The verdict on a gain of `share` that lies between `low` and `high`."""
    if high < 0.0:
        return "costs"
    if low > 0.0 and share >= WORTH:
        return "pays"
    return "little" if low > 0.0 or -WORTH < low < high < WORTH else "noisy"


def gain_sentence(gain: MarginalGain, name: str) -> str:
    """What came of it that the run called `name` joined or left."""
    subject = name if gain.together == 1 else f"{name} and {gain.together - 1} more"
    if gain.verdict == "first":
        how = "alone" if gain.together == 1 else "together"
        return f"{subject} began {how}: {_rate(gain.more_per_s)} steps/s"
    if gain.verdict == "swapped":
        unknown = "effect on total speed unknown: other runs started or ended at the same time"
        return f"{subject} {gain.change}: {unknown}"
    if gain.verdict == "unlike":
        return _unlike(gain, subject)
    first, then = gain.less_per_s, gain.more_per_s
    if gain.change == "left":
        first, then = then, first
    rates = f"{_rate(first)} -> {_rate(then)} steps/s in all"
    if gain.verdict == "noisy" and gain.elsewhere is None and _says_nothing(gain):
        return f"{subject} {gain.change}: effect on total speed too noisy to say ({rates})"
    # What matters comes first: narrow screens cut the end.
    figures = f"{_percent(gain.low)} to {_percent(gain.high)}; {rates}"
    return f"{subject} {gain.change}: {_percent(gain.gain)} %: {_judgement(gain)} ({figures})"


def _says_nothing(gain: MarginalGain) -> bool:
    """Whether its interval reaches from next to nothing, or to more than twice as much: figures of -99 to +5207 %."""
    return gain.low is not None and gain.high is not None and (gain.low < -_ALL_LOST or gain.high > 1.0)


def _judgement(gain: MarginalGain) -> str:
    joined = gain.change == "joined"
    used_up = {"cores": "the cores are full", "gpu": "the GPU is full", "": "they slow each other down"}[gain.full]
    match gain.verdict:
        case "pays":
            return "worth it" if joined else "that was worth it"
        case "costs":
            return f"{used_up}; stop one" if joined else "the others do more without it"
        case "little" if (gain.low or 0.0) > 0.0:
            return "a little more; another will bring less" if joined else "it brought a little"
        case "little":
            reason = f"; {used_up}" if gain.full else ""
            return f"almost nothing{reason}" if joined else "it brought almost nothing"
        case _ if gain.elsewhere is not None:
            way = "more" if gain.elsewhere > 0.0 else "less"
            return f"cannot be compared: other programs took {abs(gain.elsewhere):.1f} cores {way} with it"
        case _:
            return "too noisy to say"


def _unlike(gain: MarginalGain, subject: str) -> str:
    steps = "steps of different kinds of runs cannot be added up"
    if gain.gain is None:
        return f"{subject} {gain.change}: {steps}"
    if gain.low is None or gain.high is None or gain.low <= 0.0 <= gain.high:
        return f"{subject} {gain.change}: too noisy to say what it did to the others; {steps}"
    effect = f"the others {gain.change.replace('joined', 'make').replace('left', 'made')}"
    share = f"{_percent(gain.gain)} % ({_percent(gain.low)} to {_percent(gain.high)})"
    return f"{subject} {gain.change}: {effect} {share} with it; {steps}"


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    text = f"{100.0 * share:+.0f}"
    return "+0" if text == "-0" else text


def _rate(steps_per_s: float | None) -> str:
    return "-" if steps_per_s is None else f"{steps_per_s:,.0f}"
