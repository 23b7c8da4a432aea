"""Whether an extra run pays off: what each run that joined the others or left them changed in steps per second,
computed from who trained when and from their updates. A function of records, so a supervisor that was restarted in
between says the same; what was said before is given as `known`.

Steps per second are summed over the stretches in which the same runs trained and none was just starting, in equal cells
of time. A run disturbs others from its hand-over to a keeper, but counts only once it is warm: the time between is left
out. Runs on one machine take from each other, so their noise is not independent: summing first and taking the spread of
the sums is honest where adding up the spread of each is not.

Judged again and again as time goes on, an interval is wrong more often than it says; so each look gets its part of the
5 % (Bonferroni). Neighbouring cells are alike on a busy machine, which the variance of a mean must know (Bayley and
Hammersley 1946: for a first-order memory rho it is larger by (1 + rho) / (1 - rho)).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Literal, NamedTuple

from msgspec import Struct, field, structs

from mission_tui.fleet.events.marginal_gain import CONCLUSIVE, MarginalGain, gain_verdict
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.spec import other_settings
from mission_tui.fleet.statistics.intervals import t_quantile

WARM_S = 5.0
"""The first update of an attempt, and what follows so soon, fills caches and starts threads: it is not timed."""
LEAST_CELL_S = 2.0
"""No cell is shorter, nor than an update of the slowest run: within one nobody knows where its steps lie."""
LEAST_COVER = 0.5


class TrainingSpan(Struct, frozen=True):
    """One stay of a run among those that train, in unix seconds.

    It comes at `since` (its keeper was asked for, or it goes on after a pause), counts from `warm` on (None while it
    starts and warms up) and is gone at `until` (it ended or is held; None while it is there). `kind` is equal for runs
    of which one step costs as much as another's.
    """

    run: str
    since: float
    warm: float | None
    until: float | None = None
    kind: str = ""


class SteadyPeriod(Struct, frozen=True):
    """From `begin` to `end` (unix s) the warm runs were `runs`, and none began or ended; `open` until now."""

    begin: float
    end: float
    runs: frozenset[str]
    open: bool = False


def steady_periods(stays: Iterable[TrainingSpan], now: float) -> list[SteadyPeriod]:
    """Every stretch up to `now` in which at least one run trained, oldest first."""
    found: list[SteadyPeriod] = []
    here: set[str] = set()
    coming: set[TrainingSpan] = set()
    begun = float("-inf")
    for t, what, span in sorted(_turns(stays, now), key=lambda turn: (turn[0], turn[1] != "gone")):
        if here and not coming and t > begun:
            found.append(SteadyPeriod(begun, t, frozenset(here)))
        begun = t
        match what:
            case "comes":
                coming.add(span)
            case "warm":
                coming.discard(span)
                here.add(span.run)
            case _:
                coming.discard(span)
                if span.warm is not None and span.warm <= t:
                    here.discard(span.run)
    if here and not coming and now > begun:
        found.append(SteadyPeriod(begun, now, frozenset(here), open=True))
    return found


def _turns(stays: Iterable[TrainingSpan], now: float) -> Iterable[tuple[float, str, TrainingSpan]]:
    for span in stays:
        if span.since > now:
            continue
        yield span.since, "comes", span
        until = span.until
        if span.warm is not None and span.warm <= now and (until is None or span.warm < until):
            yield span.warm, "warm", span
        if until is not None and until <= now:
            yield until, "gone", span


def training_spans_of(run: RunHistory) -> Iterator[TrainingSpan]:
    """When the newest attempt of `run` was one of those that train; from another setting on it is another run."""
    journal, spec = run.journal, run.spec
    silent = spec is not None and spec.run.command is not None and run.metrics.row is None
    if journal.attempt == 0 or journal.started_t is None or silent:
        return
    since: float | None = journal.started_t
    for t, ends, begins in _cuts(run):
        if ends and since is not None:
            yield _stay(run, since, t)
            since = None
        since = t if begins and since is None else since
    if since is not None:
        yield _stay(run, since, journal.ended_t)


def _cuts(run: RunHistory) -> list[tuple[float, bool, bool]]:
    """When a stay of the attempt ends, or another begins, or both at once."""
    held = [(t, cause in ("pause", "freeze"), cause in ("unpause", "thaw")) for t, cause in run.journal.breaks]
    started_t = run.journal.started_t or 0.0
    return sorted(held + [(each.t, True, True) for each in run.metrics.sets if each.t >= started_t])


def _stay(run: RunHistory, since: float, until: float | None) -> TrainingSpan:
    first_t = run.metrics.columns.first_t(since)
    return TrainingSpan(run.id, since, None if first_t is None else first_t + WARM_S, until, _kind(run))


def _kind(run: RunHistory) -> str:
    """Equal for runs of which a step costs the same; what merely learns otherwise is no difference."""
    spec = run.spec
    if spec is None:
        return run.id
    if spec.run.command is not None:
        return spec.preset
    ppo, how = spec.ppo, spec.run
    work: tuple[object, ...] = (
        ppo.algo,
        ppo.policy,
        ppo.n_steps,
        ppo.n_epochs,
        ppo.batch_size,
        ppo.net_arch,
        ppo.use_sde,
    )
    if (settings := other_settings(spec)) is not None:
        work = (how.algo, settings)
    return repr((spec.env, work, how.engine, how.device, how.precision, how.compile, how.threads))


class Span(NamedTuple):
    """One update, from `begin` to `end` (unix s), at `steps_per_s`; there are tens of thousands in a look."""

    begin: float
    end: float
    steps_per_s: float


def cell_s(spans: Mapping[str, Sequence[Span]]) -> float:
    """Seconds of a cell for runs whose updates took as long as `spans` did."""
    typical = [statistics.median(span.end - span.begin for span in each) for each in spans.values() if each]
    return max(LEAST_CELL_S, max(typical, default=0.0))


def summed(
    spans: Iterable[Sequence[Span]], period: SteadyPeriod, seconds: float, most: int, *, backwards: bool = False
) -> list[float]:
    """Summed steps per second of all runs, whose updates are `spans`, in the first `most` cells of the stretch,
    `seconds` long each.

    `backwards`: in the last ones, counted from its end. Only updates that lie wholly in the stretch count, and only
    cells of which every run was seen updating for half the time or more: evaluations and pauses are left out. A run
    that was seen so in none of them is the last that is asked for.
    """
    count = min(most, int((period.end - period.begin) / seconds))
    begin = period.end - count * seconds if backwards else period.begin
    rates: list[list[float | None]] = []
    for each in spans:
        rates.append(_rates(each, period, begin, seconds, count))
        if all(rate is None for rate in rates[-1]):
            return []
    known = [cell for cell in zip(*rates, strict=True) if None not in cell]
    return [sum(rate for rate in cell if rate is not None) for cell in known]


def _rates(spans: Sequence[Span], period: SteadyPeriod, begin: float, seconds: float, count: int) -> list[float | None]:
    covered, steps = [0.0] * count, [0.0] * count
    for span in spans:
        if span.begin < period.begin or span.end > period.end:
            continue
        first, last = int((span.begin - begin) // seconds), int((span.end - begin) // seconds)
        for cell in range(max(0, first), min(count - 1, last) + 1):
            left = begin + cell * seconds
            shared = min(span.end, left + seconds) - max(span.begin, left)
            covered[cell] += shared
            steps[cell] += shared * span.steps_per_s
    return [
        done / cover if cover >= LEAST_COVER * seconds else None for done, cover in zip(steps, covered, strict=True)
    ]


STALE_S = 1800.0
"""A fleet that was last measured longer ago is not the one that was joined."""
PATIENCE_S = 900.0
"""Nobody is kept waiting longer for a verdict that may never come."""
TYPICAL, EVERY = 30, 1 << 30
"""So many updates show how long one takes."""
OTHERS_CORES, OTHERS_SHARE = 0.5, 0.1
"""Other programs that take so many cores more on one side, or this share of all, spoil the comparison."""
LOOKS = (8, 16, 32, 64)
"""Cells on each side at which it is judged."""

ERROR = 0.05 / len(LOOKS)
LEAST_MEMORY, MOST_MEMORY = 0.2, 0.9
"""Eight cells cannot show that there is none, so some is always assumed."""


class _Cells(Struct, frozen=True):
    """Summed steps per second of neighbouring cells, each `seconds` long."""

    sums: list[float]
    seconds: float

    @property
    def whole_s(self) -> float:
        return len(self.sums) * self.seconds

    def first(self, count: int) -> _Cells:
        return _Cells(self.sums[:count], self.seconds)


class Records(Struct, frozen=True):
    """What is known besides who was there.

    `spans(run, begin, end, most)` are the updates of that time, the first `most` of them or (below 0) the last;
    `elsewhere(begin, end)` how many cores other programs took then, None where it was not sampled. `kept` are cells
    that will not change any more; whoever looks again hands them on.
    """

    spans: Callable[[str, float, float, int], Sequence[Span]]
    elsewhere: Callable[[float, float], float | None]
    cores: int
    kept: dict[object, _Cells] = field(default_factory=dict)


class MeasuredGains(Struct, frozen=True):
    """`gains` by run, each new; `waiting` are the runs of which it is not known yet what they bring."""

    gains: tuple[tuple[str, MarginalGain], ...] = ()
    waiting: tuple[str, ...] = ()


class _Change(Struct, frozen=True):
    run: str
    t: float
    change: Literal["joined", "left"]


def measure_gains(
    stays: Sequence[TrainingSpan], records: Records, now: float, known: Set[tuple[str, float]]
) -> MeasuredGains:
    """What can be said at unix time `now` of every coming and going that is not `known` (run, and when)."""
    payoffs: list[tuple[str, MarginalGain]] = []
    waiting = {span.run for span in stays if span.until is None and (span.warm is None or span.warm > now)}
    base: SteadyPeriod | None = None
    for period in steady_periods(stays, now):
        cells = _cells(records, period, period.runs)
        turns = _changes(stays, base, period)
        new = [turn for turn in turns if (turn.run, turn.t) not in known]
        # Where a part was judged before, what it was compared with is not there any more.
        if new and len(new) == len(turns):
            found = _Comparison(stays, base, period, records, cells).gain()
            if found is not None:
                payoffs += [(turn.run, structs.replace(found, t=turn.t, change=turn.change)) for turn in turns]
            elif period.open:
                waiting |= {turn.run for turn in turns if turn.change == "joined"}
        if len(cells.sums) >= LOOKS[0]:
            base = period
    late = {span.run for span in stays if now - span.since > PATIENCE_S}
    return MeasuredGains(tuple(payoffs), tuple(sorted(waiting - late)))


def _changes(stays: Sequence[TrainingSpan], base: SteadyPeriod | None, period: SteadyPeriod) -> list[_Change]:
    """Who came and who went between the last stretch that could be measured and this one."""
    old = base.runs if base is not None else frozenset()
    came = dict.fromkeys(sorted(period.runs - old), 0.0)
    gone = dict.fromkeys(sorted(old - period.runs), 0.0)
    for span in stays:
        if span.run in came and span.since <= period.begin:
            came[span.run] = max(came[span.run], span.since)
        if span.run in gone and span.until is not None and span.until <= period.begin:
            gone[span.run] = max(gone[span.run], span.until)
    return [
        *(_Change(run, t, "joined") for run, t in came.items()),
        *(_Change(run, t, "left") for run, t in gone.items()),
    ]


def _cells(records: Records, period: SteadyPeriod, runs: Set[str], *, backwards: bool = False) -> _Cells:
    """The speed of `runs` in the first cells of the stretch, or in the last ones.

    How long a cell is the updates of the stretch itself say, the nearest ones: what comes later changes nothing.
    """
    near = -TYPICAL if backwards else TYPICAL
    samples = {run: records.spans(run, period.begin, period.end, near) for run in runs}
    length = cell_s(samples)
    window_s = (LOOKS[-1] + 1) * length
    over = not period.open or (not backwards and period.end - period.begin > window_s)
    key = (period.begin, period.end if backwards or not over else None, frozenset(runs), length, backwards)
    if key in records.kept:
        return records.kept[key]
    begin = max(period.begin, period.end - window_s) if backwards else period.begin
    end = period.end if backwards else min(period.end, period.begin + window_s)
    spans = (records.spans(run, begin, end, EVERY) for run in runs)
    cells = _Cells(summed(spans, period, length, LOOKS[-1], backwards=backwards), length)
    if over:
        records.kept[key] = cells
    return cells


class _Comparison:
    """Of the fleet in `period`, which is `after`, with that in `base`, the last one measured; None where nobody trained
    before.
    """

    def __init__(
        self,
        stays: Sequence[TrainingSpan],
        base: SteadyPeriod | None,
        period: SteadyPeriod,
        records: Records,
        after: _Cells,
    ) -> None:
        self._base, self._period, self._records, self._after = base, period, records, after
        old = base.runs if base is not None else frozenset()
        self._came, self._gone = period.runs - old, old - period.runs
        self._alike = len({span.kind for span in stays if span.run in period.runs | old}) == 1
        self._both = period.runs & old

    def gain(self) -> MarginalGain | None:
        """What the turn brought, as if at time 0; None while that cannot be said."""
        after = self._after
        if len(after.sums) < LOOKS[0]:
            return None
        bare = MarginalGain(0.0, "joined", "swapped", len(self._both), len(self._came) or len(self._gone))
        if self._base is None:
            speed = statistics.fmean(after.sums)
            return structs.replace(bare, verdict="first", more_per_s=speed, seconds=after.whole_s)
        if self._came and self._gone:
            return bare
        if self._period.begin - self._base.end > STALE_S:
            return None
        return self._measured(bare, self._base)

    def _measured(self, bare: MarginalGain, base: SteadyPeriod) -> MarginalGain | None:
        records, period = self._records, self._period
        before = _cells(records, base, base.runs if self._alike else self._both, backwards=True)
        after = self._after if self._alike else _cells(records, period, self._both)
        if len(before.sums) < LOOKS[0]:
            return None
        said: MarginalGain | None = None
        for cells in LOOKS:
            if len(after.sums) < cells:
                break
            said = self._verdict(bare, base, before, after.first(cells))
            if said.verdict in CONCLUSIVE or (said.verdict == "unlike" and said.elsewhere is None):
                return said
        # By the clock: cells in which a run evaluated or saved are left out, and never made up for.
        whole = period.end - period.begin > (LOOKS[-1] + 1) * after.seconds
        return said if whole or not period.open else None

    def _verdict(self, bare: MarginalGain, base: SteadyPeriod, before: _Cells, after: _Cells) -> MarginalGain:
        less, more = (before, after) if self._came else (after, before)
        gain = _gain_interval(less.sums, more.sums)
        if gain is None:
            return structs.replace(bare, verdict="noisy")
        disturbance = self._disturbance(base, before.whole_s, after.whole_s)
        word = "unlike" if not self._alike else gain_verdict(gain.share, gain.low, gain.high)
        return structs.replace(
            bare,
            verdict="noisy" if disturbance is not None and self._alike else word,
            less_per_s=gain.before,
            more_per_s=gain.after,
            gain=gain.share,
            low=gain.low,
            high=gain.high,
            seconds=min(before.whole_s, after.whole_s),
            elsewhere=disturbance,
        )

    def _disturbance(self, base: SteadyPeriod, before_s: float, after_s: float) -> float | None:
        """The cores that other programs took more with the run than without it, where they are many."""
        cores_elsewhere, begin = self._records.elsewhere, self._period.begin
        then = cores_elsewhere(base.end - before_s, base.end)
        now = cores_elsewhere(begin, begin + after_s)
        if then is None or now is None:
            return None
        more = now - then if self._came else then - now
        return more if abs(more) > max(OTHERS_CORES, OTHERS_SHARE * self._records.cores) else None


class GainInterval(Struct, frozen=True):
    """`after` / `before` - 1 is `share`, and with 95 % certainty, over all looks, it lies from `low` to `high`."""

    before: float
    after: float
    share: float
    low: float
    high: float


def _gain_interval(before: Sequence[float], after: Sequence[float]) -> GainInterval | None:
    """The gain of the mean of `after` over that of `before`, three values each or more; None where one of them stood
    still.
    """
    old, new = statistics.fmean(before), statistics.fmean(after)
    if old <= 0.0 or new <= 0.0:
        return None
    memory = _memory(before, after)
    wider = (1.0 + memory) / (1.0 - memory)
    sides = [wider * statistics.variance(side) / len(side) / statistics.fmean(side) ** 2 for side in (before, after)]
    error = math.sqrt(sum(sides))
    half = t_quantile(1.0 - ERROR / 2.0, _freedom(sides, (len(before) / wider, len(after) / wider))) * error
    ratio = new / old
    # By the logarithm, so that "half as fast" and "twice as fast" are equally far from "as before".
    return GainInterval(old, new, ratio - 1.0, ratio * math.exp(-half) - 1.0, ratio * math.exp(half) - 1.0)


def _memory(before: Sequence[float], after: Sequence[float]) -> float:
    """How alike neighbouring cells are, of both sides together; corrected for the bias of short rows (Kendall 1954)."""
    product = spread = 0.0
    for side in (before, after):
        mean = statistics.fmean(side)
        apart = [value / mean - 1.0 for value in side]
        product += sum(one * next_ for one, next_ in pairwise(apart))
        spread += sum(value * value for value in apart)
    cells = (len(before) + len(after)) / 2.0
    seen = product / spread if spread > 0.0 else 0.0
    corrected = (seen + 1.0 / cells) / (1.0 - 4.0 / cells) if cells > 4.0 else MOST_MEMORY
    return min(MOST_MEMORY, max(LEAST_MEMORY, corrected))


def _freedom(variances: Sequence[float], cells: Sequence[float]) -> float:
    """Degrees of freedom of the difference of two means (Welch 1947), with as many cells as count."""
    total = sum(variances)
    if total <= 0.0:
        return sum(cells)
    parts = sum(part * part / max(1.0, count - 1.0) for part, count in zip(variances, cells, strict=True))
    return max(1.0, total * total / parts)
