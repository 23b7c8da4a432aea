"""From who trained when, and their updates, to what each coming and going brought. A function of records.

So a supervisor that was restarted in between says the same; what was said before is given as `known`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

from msgspec import structs

from mission_tui.fleet.paying.gain import LOOKS, gain_of
from mission_tui.fleet.paying.payoff import CONCLUSIVE, Payoff, word_of
from mission_tui.fleet.paying.stretches import Stay, Stretch, stretches_of
from mission_tui.fleet.paying.throughput import Span, cell_s, summed

__all__ = ["PATIENCE_S", "Looked", "Records", "look"]

STALE_S = 1800.0
"""A fleet that was last measured longer ago is not the one that was joined."""
PATIENCE_S = 900.0
"""Nobody is kept waiting longer for a verdict that may never come."""
TYPICAL, EVERY = 30, 1 << 30
"""So many updates show how long one takes."""
OTHERS_CORES, OTHERS_SHARE = 0.5, 0.1
"""Other programs that take so many cores more on one side, or this share of all, spoil the comparison."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """Summed steps per second of neighbouring cells, each `seconds` long."""

    sums: list[float]
    seconds: float

    @property
    def whole_s(self) -> float:
        return len(self.sums) * self.seconds

    def first(self, count: int) -> _Cells:
        return _Cells(self.sums[:count], self.seconds)


@dataclass(frozen=True, slots=True)
class Records:
    """What is known besides who was there.

    `spans(run, begin, end, most)` are the updates of that time, the first `most` of them or (below 0) the last;
    `elsewhere(begin, end)` how many cores other programs took then, None where nobody looked. `kept` are cells that
    will not change any more; whoever looks again hands them on.
    """

    spans: Callable[[str, float, float, int], Sequence[Span]]
    elsewhere: Callable[[float, float], float | None]
    cores: int
    kept: dict[object, _Cells] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Looked:
    """`payoffs` by run, each new; `waiting` are the runs of which it is not known yet what they bring."""

    payoffs: tuple[tuple[str, Payoff], ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Turn:
    run: str
    t: float
    change: Literal["joined", "left"]


def look(stays: Sequence[Stay], records: Records, now: float, known: Set[tuple[str, float]]) -> Looked:
    """What can be said at unix time `now` of every coming and going that is not `known` (run, and when)."""
    payoffs: list[tuple[str, Payoff]] = []
    waiting = {stay.run for stay in stays if stay.until is None and (stay.warm is None or stay.warm > now)}
    base: Stretch | None = None
    for stretch in stretches_of(stays, now):
        turns = _turns(stays, base, stretch)
        new = [turn for turn in turns if (turn.run, turn.t) not in known]
        # Where a part was judged before, what it was compared with is not there any more.
        if new and len(new) == len(turns):
            found = _Comparison(stays, base, stretch, records).payoff()
            if found is not None:
                payoffs += [(turn.run, structs.replace(found, t=turn.t, change=turn.change)) for turn in turns]
            elif stretch.open:
                waiting |= {turn.run for turn in turns if turn.change == "joined"}
        if len(_cells(records, stretch, stretch.runs).sums) >= LOOKS[0]:
            base = stretch
    late = {stay.run for stay in stays if now - stay.since > PATIENCE_S}
    return Looked(tuple(payoffs), tuple(sorted(waiting - late)))


def _turns(stays: Sequence[Stay], base: Stretch | None, stretch: Stretch) -> list[_Turn]:
    """Who came and who went between the last stretch that could be measured and this one."""
    old = base.runs if base is not None else frozenset()
    came = dict.fromkeys(sorted(stretch.runs - old), 0.0)
    gone = dict.fromkeys(sorted(old - stretch.runs), 0.0)
    for stay in stays:
        if stay.run in came and stay.since <= stretch.begin:
            came[stay.run] = max(came[stay.run], stay.since)
        if stay.run in gone and stay.until is not None and stay.until <= stretch.begin:
            gone[stay.run] = max(gone[stay.run], stay.until)
    return [*(_Turn(run, t, "joined") for run, t in came.items()), *(_Turn(run, t, "left") for run, t in gone.items())]


def _cells(records: Records, stretch: Stretch, runs: Set[str], *, backwards: bool = False) -> _Cells:
    """The speed of `runs` in the first cells of the stretch, or in the last ones.

    How long a cell is the updates of the stretch itself say, the nearest ones: what comes later changes nothing.
    """
    near = -TYPICAL if backwards else TYPICAL
    samples = {run: records.spans(run, stretch.begin, stretch.end, near) for run in runs}
    length = cell_s(samples)
    window_s = (LOOKS[-1] + 1) * length
    over = not stretch.open or (not backwards and stretch.end - stretch.begin > window_s)
    key = (stretch.begin, stretch.end if backwards or not over else None, frozenset(runs), length, backwards)
    if key in records.kept:
        return records.kept[key]
    begin = max(stretch.begin, stretch.end - window_s) if backwards else stretch.begin
    end = stretch.end if backwards else min(stretch.end, stretch.begin + window_s)
    spans = {run: records.spans(run, begin, end, EVERY) for run in runs}
    cells = _Cells(summed(spans, stretch, length, LOOKS[-1], backwards=backwards), length)
    if over:
        records.kept[key] = cells
    return cells


class _Comparison:
    """Of the fleet in `stretch` with that in `base`, the last one measured; None where nobody trained before."""

    def __init__(self, stays: Sequence[Stay], base: Stretch | None, stretch: Stretch, records: Records) -> None:
        self._base, self._stretch, self._records = base, stretch, records
        old = base.runs if base is not None else frozenset()
        self._came, self._gone = stretch.runs - old, old - stretch.runs
        self._alike = len({stay.kind for stay in stays if stay.run in stretch.runs | old}) == 1
        self._both = stretch.runs & old

    def payoff(self) -> Payoff | None:
        """What the turn brought, as if at time 0; None while that cannot be said."""
        after = _cells(self._records, self._stretch, self._stretch.runs)
        if len(after.sums) < LOOKS[0]:
            return None
        bare = Payoff(0.0, "joined", "swapped", len(self._both), len(self._came) or len(self._gone))
        if self._base is None:
            speed = statistics.fmean(after.sums)
            return structs.replace(bare, verdict="first", more_per_s=speed, seconds=after.whole_s)
        if self._came and self._gone:
            return bare
        if self._stretch.begin - self._base.end > STALE_S:
            return None
        return self._measured(bare, self._base)

    def _measured(self, bare: Payoff, base: Stretch) -> Payoff | None:
        records, stretch = self._records, self._stretch
        before = _cells(records, base, base.runs if self._alike else self._both, backwards=True)
        after = _cells(records, stretch, stretch.runs if self._alike else self._both)
        if len(before.sums) < LOOKS[0]:
            return None
        said: Payoff | None = None
        for cells in LOOKS:
            if len(after.sums) < cells:
                break
            said = self._judged(bare, base, before, after.first(cells))
            if said.verdict in CONCLUSIVE or (said.verdict == "unlike" and said.elsewhere is None):
                return said
        # By the clock: cells in which a run evaluated or saved are left out, and never made up for.
        whole = stretch.end - stretch.begin > (LOOKS[-1] + 1) * after.seconds
        return said if whole or not stretch.open else None

    def _judged(self, bare: Payoff, base: Stretch, before: _Cells, after: _Cells) -> Payoff:
        less, more = (before, after) if self._came else (after, before)
        gain = gain_of(less.sums, more.sums)
        if gain is None:
            return structs.replace(bare, verdict="noisy")
        spoiled = self._spoiled(base, before.whole_s, after.whole_s)
        word = "unlike" if not self._alike else word_of(gain.share, gain.low, gain.high)
        return structs.replace(
            bare,
            verdict="noisy" if spoiled is not None and self._alike else word,
            less_per_s=gain.before,
            more_per_s=gain.after,
            gain=gain.share,
            low=gain.low,
            high=gain.high,
            seconds=min(before.whole_s, after.whole_s),
            elsewhere=spoiled,
        )

    def _spoiled(self, base: Stretch, before_s: float, after_s: float) -> float | None:
        """The cores that other programs took more with the run than without it, where they are many."""
        look_, begin = self._records.elsewhere, self._stretch.begin
        then = look_(base.end - before_s, base.end)
        now = look_(begin, begin + after_s)
        if then is None or now is None:
            return None
        more = now - then if self._came else then - now
        return more if abs(more) > max(OTHERS_CORES, OTHERS_SHARE * self._records.cores) else None
