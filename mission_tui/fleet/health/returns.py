"""The mean return of a run as every rule needs it: its noise, its range, its best, and whether it is getting anywhere.

Everything is computed from what was seen since the last declared break, in bounded memory, and only when it is asked.
"""

from __future__ import annotations

import math
import statistics
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from mission_tui.fleet.windows import Sorted, Window

NOISE_SCALE = 1.4826
"""Makes the median of absolute values a standard deviation under normal noise (health guide, section 3)."""

NOISE_WINDOW = 100
TREND_WINDOW, TREND_FEWEST = 32, 16
SMOOTHING = 0.2
FLAT_SHARE = 0.05
MOST_EPISODES = 1_000_000
MOST_REPEATS = 10
"""Rows without a new episode that lie between two bursts of endings; a mean that stays for longer does so by itself."""

FEW_UPDATES = 24
"""Updates whose episodes a mean remembers, from which on the newest of them are looked at by themselves."""
SURE_ERRORS = 4.0
BURST_GAP, BURST_EPISODES, MOST_BURSTS = 8, 8, 64
"""Updates that end no episode, and episodes that end together after them, from which on endings come in bursts; and of
how many bursts is known what they returned.
"""
LONGEST = 1_000_000
"""Steps that an episode counts for at most: a log may claim any length."""


def trend_warm_up(budget: int | None) -> int:
    """Updates before any rule about trends may speak: 5 % of the budget, at least 30, at most 200; 100 unknown."""
    return 100 if budget is None else min(200, max(30, budget // 20))


class Quantiles:
    """The spread of a series of any length: a sample of every k-th value, k doubling, at most `SIZE` values.

    They are kept sorted, and beside each the place in which it came. `seen` counts the values.
    """

    SIZE = 512

    def __init__(self) -> None:
        self._sorted = array("d")
        self._came = array("H")
        self._stride = 1
        self.seen = 0

    def add(self, value: float) -> bool:
        """Take in a finite value; whether it is one of the sample, which no other changes."""
        sampled = self.seen % self._stride == 0
        self.seen += 1
        if sampled:
            place = bisect_right(self._sorted, value)
            self._came.insert(place, len(self._came))
            self._sorted.insert(place, value)
            if len(self._sorted) >= self.SIZE:
                kept = [place for place, came in enumerate(self._came) if came % 2 == 0]
                self._sorted = array("d", [self._sorted[place] for place in kept])
                self._came = array("H", [self._came[place] // 2 for place in kept])
                self._stride *= 2
        return sampled

    def at(self, share: float) -> float | None:
        """The value that `share` of the values lie below; None before the first."""
        return self._sorted[round(share * (len(self._sorted) - 1))] if self._sorted else None


class NewestEpisodes:
    """The newest 20 episodes, for where the mean of the last hundred is mostly of old ones.

    Where episodes are long an update ends few of them, and what is lost today shows in their mean in fifty updates.
    Followed here is the mean return of a step's episode: each counts as long as it was, because those that fail are
    over first and would be most of the newest. `mean` is the present one, NaN before there is one, `peak` the best,
    reached at update `peak_update`, and `base` the lowest of before that, which may be that of the last hundred.
    `share_lost` is the share of what was gained that they have lost; 0 where chance may have made it, and where updates
    end so many episodes that the mean of the last hundred says it as soon.
    """

    COUNT = 20

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._updates: deque[tuple[int, Sequence[float], Sequence[int]]] = deque()
        self._lowest = self._error = self._peak_error = math.nan
        self.mean = self.peak = self.base = math.nan
        self.peak_update = 0
        self.share_lost = 0.0

    def update(self, update: int, mean: float | None, returns: Sequence[float], lengths: Sequence[int]) -> None:
        """Take in the mean of the last hundred and the returns and lengths of the episodes that ended in `update`."""
        if mean is not None and not mean >= self._lowest and math.isfinite(mean):
            self._lowest = mean
        if not returns or len(lengths) != len(returns):
            return
        self._updates.append((update, returns, lengths))
        self._count += len(returns)
        while self._count - len(self._updates[0][1]) >= self._most:
            self._count -= len(self._updates.popleft()[1])
        # The hundred are of many updates.
        says_more = self._count >= self.COUNT and update - self._updates[0][0] >= FEW_UPDATES
        if says_more:
            self._follow(update)
        self.share_lost = self._fallen() if says_more and self._count >= 2 * self.COUNT else 0.0

    def _fallen(self) -> float:
        gain, fall = self.peak - self.base, self.peak - self.mean
        surely = fall > SURE_ERRORS * math.hypot(self._peak_error, self._error)
        return fall / gain if surely and gain > 0.0 else 0.0

    def _follow(self, update: int) -> None:
        newest: list[tuple[float, float]] = []
        for _, returns, lengths in reversed(self._updates):
            told = zip(reversed(returns), reversed(lengths), strict=True)
            newest += [(value, length) for value, length in told if math.isfinite(value)]
            if len(newest) >= self.COUNT:
                break
        # Written out, as `min` and `max` for each of twenty cost as much as all the rest.
        newest = [
            (value, 1.0 if length < 1.0 else LONGEST if length > LONGEST else length)
            for value, length in newest[: self.COUNT]
        ]
        steps = sum([length for _, length in newest])
        mean = sum([length * value for value, length in newest]) / max(1.0, steps)
        if len(newest) < self.COUNT or not math.isfinite(mean):
            return
        self.mean = mean
        away = [length * (value - mean) / steps for value, length in newest]
        self._error = math.hypot(*away) * math.sqrt(self.COUNT / (self.COUNT - 1))
        if not mean >= self._lowest:
            self._lowest = mean
        if not mean < self.peak:
            self.peak, self.base, self._peak_error = mean, self._lowest, self._error
            self.peak_update = update


class Burst(Struct, frozen=True):
    """Episodes that ended together: at which update, how many, their mean return and its standard error, NaN where a
    log says nothing of single episodes.
    """

    update: int
    episodes: int
    mean: float
    error: float


class Bursts:
    """What each burst returned, where environments end their episodes all together and many updates apart.

    The mean of the last hundred is of several bursts then, and lags behind the newest by all updates that those took;
    what one burst has lost is known as soon as it has ended. A log that does not count episodes tells by its steps how
    many a burst is of, and by the mean of all what the newest returned.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known = Window[Burst](MOST_BURSTS)
        self._first: tuple[int, float] | None = None
        self._ended = 0.0
        self.silent = 0
        """Updates since the newest burst."""
        self.gap = 0
        """Updates between the newest two bursts; 0 before there are two."""
        self.newest: Burst | None = None
        self.begun = False
        """Whether there was one, known or not."""

    def update(
        self, update: int, mean: float | None, ended: float, sampled: Sequence[float], episodes: int | None
    ) -> bool:
        """Take in one update, and whether a burst ended in it.

        `episodes` are how many ended in it, None where none did, and 0 where that is not known: about `ended` did, all
        updates since the last burst together. `sampled` are those returns that are known.
        """
        self._ended += ended
        if episodes is None:
            self.silent += 1
            return False
        silent = self.silent
        episodes = min(episodes or round(max(0.0, min(self._ended, MOST_EPISODES))), MOST_EPISODES)
        self.silent, self._ended = 0, 0.0
        if silent < BURST_GAP or mean is None or not math.isfinite(mean):
            self._known.clear()
            self._first = self.newest = None
            self.gap, self.begun = 0, False
            return False
        self.begun = True
        if len(sampled) >= BURST_EPISODES:
            count = len(sampled)
            mean = sum(sampled) / count
            error = math.hypot(*[value - mean for value in sampled]) / math.sqrt(count * (count - 1))
            burst = Burst(update, episodes, mean, error)
        elif self._first is None:
            # How many it is of no log says: as many as in the next one.
            self._first = update, mean
            return False
        elif episodes < BURST_EPISODES:
            return False
        else:
            if not self._known:
                self._known.append(Burst(self._first[0], episodes, self._first[1], math.nan))
            burst = Burst(update, episodes, self._newest_of(mean, episodes), math.nan)
        if not math.isfinite(burst.mean):
            return False
        if self._known:
            self.gap = update - self._known[-1].update
        self._known.append(burst)
        self.newest = burst
        return True

    def _newest_of(self, mean: float, episodes: int) -> float:
        """What the newest `episodes` returned, if all that the window holds returned `mean`."""
        left, total = self._most - episodes, 0.0
        for before in reversed(self._known):
            count = min(left, before.episodes)
            if count <= 0:
                break
            left, total = left - count, total + count * before.mean
        return ((self._most - left) * mean - total) / episodes

    @property
    def has_gained(self) -> bool:
        """Whether a later burst than the first returned more than it, and more than chance makes, if that is known."""
        if len(self._known) < 2:
            return False
        first, best = self._known[0], max(self._known[1:], key=lambda it: it.mean)
        errors = math.hypot(first.error, best.error)
        return best.mean > first.mean and not best.mean - first.mean <= SURE_ERRORS * errors

    @property
    def before(self) -> Sequence[Burst]:
        """All that are known but the newest."""
        return self._known[:-1]


class Returns:
    """Takes in the mean return after each update.

    `updates` counts rows, `known` those that said a return. `filled` is whether the window that the mean is over holds
    episodes of this attempt alone, and true where it is not known how many have ended, but for the first row of a log:
    it has none before it, from which to tell. The mean of the first few episodes is anybody's guess. `warm` is whether
    trends may be judged: the warm-up is over and the window filled. `low` and `high` are the 5 and the 95 % quantile of
    all returns, 0 before the first. `sampled` and `lengths` are the returns and lengths of those episodes that ended in
    the row that is judged and were sampled, `newest` the newest of them in all.
    """

    def __init__(self, warm_up: int, stats_window: int) -> None:
        self._warm_up = warm_up
        self._stats_window = stats_window
        # Lists, though their numbers take more memory there: all of them are gone through in every update.
        self._recent = Window[float](TREND_WINDOW)
        self._moves = Sorted(TREND_WINDOW - 1)
        self._steps = array("d")
        self._sorted_steps = array("d")
        self._step_before: float | None = None
        self._bends = Window[float](NOISE_WINDOW)
        self._spread = Quantiles()
        self._trend: float | None = None
        self._move: float | None = None
        self._noise: float | None = None
        self._usual_step: float | None = None
        self._span: float | None = None
        self._error: float | None = None
        self.updates = 0
        self.known = 0
        self.episodes = 0
        self.ended = 0.0
        self._endings = self._repeats = 0
        self._share_new = 1.0
        self.filled = self.warm = self._was_filled = False
        self.latest: float | None = None
        self.smooth: float | None = None
        self.best: float | None = None
        self.low = self.high = 0.0
        self.sampled: tuple[float, ...] = ()
        self.lengths: tuple[int, ...] = ()
        self.newest = NewestEpisodes(stats_window)
        self.bursts = Bursts(stats_window)
        self.burst = False
        """Whether a burst of episodes ended in the row that is judged."""

    def update(self, mean: float | None, episodes: int, ended: float = 0.0, at: int = 0) -> None:
        """Take in update `at`: its mean return, if it said one, and how many episodes ended in it.

        `ended` is about how many, where they are not counted and steps and lengths tell.
        """
        counts = episodes > 0 or self.episodes > 0
        ends = episodes > 0 if counts else mean is not None and mean != self.latest
        self.burst = self.bursts.update(at, mean, 0.0 if counts else ended, self.sampled, episodes if ends else None)
        self._error = None
        self.updates += 1
        self.episodes += max(0, episodes)
        some_ended = episodes > 0 or (self.episodes == 0 and self._seem_to_end(mean))
        self._endings += some_ended
        self.ended += min(episodes, MOST_EPISODES) if self.episodes > 0 else max(0.0, ended)
        if self.ended:
            self._share_new = min(1.0, max(1.0, self.ended / max(1, self._endings)) / max(1, self._stats_window))
        # Every rule asks for both in every update.
        self.filled = self.ended >= self._stats_window or (self.ended == 0.0 and self.updates > 1)
        self.warm = self.filled and self.updates >= self._warm_up
        if mean is None or not math.isfinite(mean):
            return
        self.known += 1
        # Where episodes end in bursts, an update without any says nothing of how far the next one will move the mean.
        if self.latest is not None and some_ended:
            self._step(mean - self.latest)
        if self._recent:
            self._moves.append(abs(mean - self._recent[-1]))
        self._recent.append(mean)
        if self._spread.add(mean):
            self.low, self.high = self._spread.at(0.05) or 0.0, self._spread.at(0.95) or 0.0
        self._trend = self._move = self._span = None
        self.latest = mean
        if self.smooth is None or self.best is None or not self._was_filled:
            # The mean of the first few episodes is no level to smooth from, nor a best to fall short of.
            self.smooth = self.best = mean
        else:
            self.smooth += SMOOTHING * (mean - self.smooth)
            if self.smooth > self.best:
                self.best = self.smooth
        self._was_filled = self.filled

    def _seem_to_end(self, mean: float | None) -> bool:
        """Whether episodes ended in a row that does not count them: the mean moved, or has not for many rows."""
        self._repeats = self._repeats + 1 if mean == self.latest else 0
        return self._repeats == 0 or self._repeats > MOST_REPEATS

    @property
    def warm_up(self) -> int:
        """Updates before any rule about trends may speak, however many episodes those ended."""
        return self._warm_up

    @property
    def error(self) -> float:
        """The standard error of the mean return.

        Neighbours share most of their episodes, so that they differ by less: by the error x sqrt(2 x the share that is
        new). Where that share is not known they are taken to have nothing in common.
        """
        if self._error is None:
            self._error = self.noise / math.sqrt(2.0 * self._share_new)
        return self._error

    @property
    def smooth_error(self) -> float:
        """The standard error of the smoothed return, which is over about nine updates, as far as those differ."""
        return self.error / math.sqrt(1.0 + (2.0 / SMOOTHING - 1.0) * self._share_new)

    @property
    def updates_of_window(self) -> float:
        """About how many updates the episodes of the mean are from, at least one."""
        return 1.0 / self._share_new

    @property
    def noise(self) -> float:
        """The standard deviation of the last 100 successive differences, without what is learned in them.

        It is the larger of two: 1.4826 x half of what their middle half spans, and what follows from how much
        neighbours among them differ. The first sees no rare disasters, of which one episode in fifty may move a mean
        more than all others do; a steady rise or fall is noise to neither.
        """
        if self._noise is None:
            self._noise = self._noise_of_bends()
        return self._noise

    @property
    def span(self) -> float:
        """The range of the returns, 5 to 95 %, never less than the noise; 0 only where nothing ever changed."""
        if self._span is None:
            # What follows of the noise from neighbours is never more than the range, and dear to compute.
            self._span = max(self.high - self.low, self._noise_of_steps())
        return self._span

    @property
    def share_of_best(self) -> float | None:
        """Where the smoothed return stands between the run's low (0) and its best (1); None while both are one."""
        if self.smooth is None or self.best is None or self.best - self.low <= 0.0:
            return None
        return (self.smooth - self.low) / (self.best - self.low)

    @property
    def improving(self) -> bool | None:
        """Whether the newer half of the last 32 returns beats the older by more than noise; None when too few."""
        gain = self._gain()
        return None if gain is None else gain > 0.0 and gain > self._noise_of_moves()

    @property
    def flat(self) -> bool | None:
        """Whether the two halves differ by no more than noise or 5 % of the range; None when too few."""
        gain = self._gain()
        if gain is None:
            return None
        return abs(gain) <= FLAT_SHARE * self.span or abs(gain) <= self._noise_of_moves()

    def _step(self, size: float) -> None:
        """Kept sorted, because every rule asks for the noise of every update."""
        self._noise = self._usual_step = None
        self._steps.append(size)
        insort(self._sorted_steps, size)
        # Of a mean that is not over a whole window yet, a new episode is a larger share.
        share = min(1.0, self.ended / self._stats_window) if self.ended else 1.0
        if self._step_before is not None:
            self._bends.append(share * abs(size - self._step_before))
        self._step_before = size
        if len(self._steps) >= NOISE_WINDOW:
            del self._sorted_steps[bisect_left(self._sorted_steps, self._steps.pop(0))]

    def _noise_of_steps(self) -> float:
        if self._usual_step is None:
            steps, quarter = self._sorted_steps, len(self._sorted_steps) // 4
            self._usual_step = NOISE_SCALE * (steps[-1 - quarter] - steps[quarter]) / 2.0 if steps else 0.0
        return self._usual_step

    def _noise_of_bends(self) -> float:
        usual = self._noise_of_steps()
        if not self._bends:
            return usual
        # Steps are independent where the window spans several updates; where each has its own, neighbours share a mean.
        together = 3.0 if self._share_new >= 1.0 else 2.0
        # Beyond the range of the returns lies no disaster, but a slip of whoever wrote the log. Written out,
        # as `min` for each of a hundred is a twentieth of all judging; and none is larger than all together.
        most, bends = self.high - self.low, math.hypot(*self._bends)
        if not bends <= most:
            bends = math.hypot(*[most if most < it else it for it in self._bends])
        return max(usual, bends / math.sqrt(len(self._bends) * together))

    def _gain(self) -> float | None:
        """Median of the newer half minus that of the older half."""
        if self._trend is None and len(self._recent) >= TREND_FEWEST:
            returns, half = self._recent, len(self._recent) // 2
            self._trend = statistics.median(returns[half:]) - statistics.median(returns[:half])
        return self._trend

    def _noise_of_moves(self) -> float:
        """The noise of the same values."""
        if self._move is None:
            self._move = NOISE_SCALE * self._moves.median
        return self._move
