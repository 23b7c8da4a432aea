"""Which phase a run was in at which time, as its trainer reports it and as the rows of its metrics file correct it;
kept as spans in a bounded memory.

A phase that is said may be overtaken by the next one or come late; a row tells when its rollout and its update began
and ended, to the millisecond and for every update. So what was said holds until a row covers it. Times are unix
seconds, the trainer's own. While it cannot be known (the link is lost, the processes stand still) there is no span.

Short spans are put together in buckets, coarser with age. In a bucket where a phase comes more than once, what belongs
to one phase is put side by side, in order of its first coming, and what is left over stays a gap at its end. So each
phase keeps its seconds, at every age, and no mark is moved by more than the width of the bucket. A thousand runs that
train for days are kept like this, so a span takes five bytes or ten, and its times a tenth of a millisecond.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from mission_tui.fleet.events.outcome import PHASES, Phase
from mission_tui.fleet.strip import WIDTHS, Span

MOST_MARKS = 64
"""Marks that wait for a row: a script that reports phases may write none."""
SPAN_LEVELS = ((0.1, 900.0), (1.0, 7_200.0), (30.0, 86_400.0))
"""Width of the buckets and for how long their spans are kept, both in seconds; finest first."""
NUMBERS = {phase: number for number, phase in enumerate(PHASES)}
TOUCHING_S = 1e-6
TICKS = 10_000
"""In a second, as edges are kept: rows tell their times to the millisecond."""
MOST_TICKS = 2**32 - 1
BLOCK = 256
GAP = 255
"""Instead of a phase's number, where nobody knows."""


class SpanAccumulator:
    """Puts spans together in buckets of one width: give it spans in their order, it gives back what is complete."""

    def __init__(self, width: float) -> None:
        self._width = width
        self._edge = self._end = 0.0
        self._group: list[Span] = []

    def add(self, span: Span) -> Sequence[Span]:
        """What is complete because of `span`, which begins no earlier than the last one ended."""
        if self._group and span.until < self._end:  # most by far, in the coarse buckets
            self._group.append(span)
            return ()
        edge = span.since // self._width * self._width
        done = self.take() if self._group and edge > self._edge else []
        if not self._group:
            self._edge, self._end = edge, edge + self._width
        self._group.append(span)
        if span.until >= self._end:
            done += self.take()
        return done

    def take(self) -> list[Span]:
        """The open bucket as it is; nothing is open afterwards."""
        group, self._group = self._group, []
        if len(group) == 1 or len({span.phase for span in group}) == len(group):
            return group
        *_, last = group
        end = self._end
        beyond = [Span(last.phase, end, last.until)] if last.until > end else []
        seconds: dict[Phase, float] = {}
        for span in group:
            seconds[span.phase] = seconds.get(span.phase, 0.0) + min(span.until, end) - span.since
        begin, made = group[0].since, list[Span]()
        for phase, lasted in seconds.items():
            made.append(Span(phase, begin, begin + lasted))
            begin += lasted
        return made + beyond

    @property
    def open(self) -> Sequence[Span]:
        """What has been gathered and not been given back."""
        return self._group


class SpanHistory:
    """A day of one run's phases: nearly as they were for a quarter of an hour, in coarser buckets before."""

    def __init__(self) -> None:
        self._tiers = tuple(_Tier(width, horizon) for width, horizon in SPAN_LEVELS)
        self.until = float("-inf")
        """Where the newest span ends, also one that only coarser levels still have; minus infinity without one."""

    def add(self, span: Span) -> None:
        """Take the next span, which begins no earlier than the last one ended; an empty one is nothing."""
        if span.until > span.since:
            self.until = span.until
            for tier in self._tiers:
                tier.add(span)

    def restore(self, kept: Sequence[Sequence[Span]]) -> None:
        """Begin with what another history kept of each level. What its coarser ones had not completed is made anew."""
        finer: _Tier | None = None
        for tier, spans in zip(self._tiers, kept, strict=True):
            for span in spans:
                tier.put(span)
            for span in finer.between(tier.until, float("inf")) if finer is not None else ():
                tier.add(span)
            finer = tier
        self.until = max(tier.until for tier in self._tiers)
        for finer, coarser in pairwise(self._tiers):
            finer.forgot = finer.forgot or coarser.first < finer.first

    def complete(self, level: int, since: float) -> list[Span]:
        """What `level` keeps for good of the time from `since` on."""
        return self._tiers[level].complete(since)

    def between(self, since: float, until: float) -> Iterator[Span]:
        """Every moment once, from the finest level that reaches back to it; cut at `since` and `until`."""
        parts, end = list[list[Span]](), until
        for tier in self._tiers:
            part = tier.between(since, end)
            parts.append(part)
            end = min(end, tier.reaches)
            if end <= since:
                break
        for part in reversed(parts):
            yield from part

    def __len__(self) -> int:
        return sum(len(tier) for tier in self._tiers)


def thinned(spans: Sequence[Span], seconds: float, most: int) -> tuple[Span, ...]:
    """The spans of a stretch of `seconds` in buckets of which it has at most `most`."""
    width = next((width for width in WIDTHS if seconds / width <= most), seconds / max(1, most))
    gathering, found = SpanAccumulator(width), list[Span]()
    for span in spans:
        for done in gathering.add(span):
            _join(found, done)
    for done in gathering.take():
        _join(found, done)
    return tuple(found)


def _join(found: list[Span], span: Span) -> None:
    if found and found[-1].phase == span.phase and span.since - found[-1].until <= TOUCHING_S:
        found[-1] = Span(span.phase, found[-1].since, span.until)
    else:
        found.append(span)


class _Block:
    """Up to `BLOCK` edges, five bytes each: when a phase or a gap began, in ticks since the first one at `base`."""

    __slots__ = ("base", "phases", "ticks")

    def __init__(self, base: float) -> None:
        self.base = base
        self.ticks = array("I")
        self.phases = bytearray()

    def at(self, tick: float) -> float:
        """A tick as unix seconds."""
        return self.base + tick / TICKS


class _Tier:
    """The spans of one level, oldest first, to a tenth of a millisecond; beyond the horizon they go by blocks."""

    def __init__(self, width: float, horizon: float) -> None:
        self._horizon = horizon
        self._gathering = SpanAccumulator(width)
        self._blocks = deque[_Block]()
        self._end = float("-inf")
        self.forgot = False
        self.until = float("-inf")

    @property
    def first(self) -> float:
        """Where its oldest span begins; infinity without one."""
        if self._blocks:
            return self._blocks[0].base
        return self._gathering.open[0].since if self._gathering.open else float("inf")

    @property
    def reaches(self) -> float:
        """From when on this level knows everything; minus infinity while nothing was forgotten."""
        return self.first if self.forgot else float("-inf")

    def add(self, span: Span) -> None:
        for done in self._gathering.add(span):
            self.put(done)
        self.until = span.until

    def put(self, span: Span) -> None:
        """Keep a span that is complete, as part of the last one where that goes on."""
        number, self.until = NUMBERS[span.phase], max(self.until, span.until)
        gap = span.since - self._end
        if not self._blocks or gap > TOUCHING_S or self._blocks[-1].phases[-1] != number:
            if self._blocks and gap > TOUCHING_S:
                self._edge(self._end, GAP)
            self._edge(max(span.since, self._end), number)
        # Rounded as the next edge will be: what is read twice ends at the same moment both times.
        last = self._blocks[-1]
        self._end = last.at(round((span.until - last.base) * TICKS))
        while len(self._blocks) > 1 and self._blocks[1].base < span.until - self._horizon:
            self._blocks.popleft()
            self.forgot = True

    def complete(self, since: float, until: float = float("inf")) -> list[Span]:
        """What is kept for good of the time from `since` to `until`, cut there."""
        found, begun, phase = list[Span](), 0.0, GAP
        for t, next_phase in self._edges(since):
            _clip(found, begun, min(t, until), phase, since)
            begun, phase = t, next_phase
            if begun >= until:
                return found
        _clip(found, begun, min(self._end, until), phase, since)
        return found

    def between(self, since: float, until: float) -> list[Span]:
        if until <= since:
            return []
        return self.complete(since, until) + _cut(self._gathering.open, max(since, self._end), until)

    def _edge(self, t: float, phase: int) -> None:
        block = self._blocks[-1] if self._blocks else None
        if block is None or len(block.ticks) >= BLOCK or (t - block.base) * TICKS > MOST_TICKS:
            block = _Block(t if block is None else block.at(round((t - block.base) * TICKS)))
            self._blocks.append(block)
        # A base that was rounded up may lie half a tick and the error of a float after `t`: ticks are not negative.
        block.ticks.append(max(0, round((t - block.base) * TICKS)))
        block.phases.append(phase)

    def _edges(self, since: float) -> Iterator[tuple[float, int]]:
        """From the last edge at or before `since` on."""
        begun = max(0, bisect_right(self._blocks, since, key=_base) - 1)
        for number, block in enumerate(islice(self._blocks, begun, None)):
            first = max(0, bisect_right(block.ticks, (since - block.base) * TICKS) - 1) if number == 0 else 0
            for tick, phase in zip(block.ticks[first:], block.phases[first:], strict=True):
                yield block.at(tick), phase

    def __len__(self) -> int:
        return sum(len(block.ticks) for block in self._blocks)


def _base(block: _Block) -> float:
    return block.base


def _clip(found: list[Span], begun: float, until: float, phase: int, since: float) -> None:
    """Take the part of a span from `since` on, unless it is a gap or empty."""
    if phase != GAP and until > max(begun, since):
        found.append(Span(PHASES[phase], max(begun, since), until))


class PhaseHistory:
    """A day of one run's phases. Facts come in about the order of their times; what comes too late changes nothing."""

    def __init__(self) -> None:
        self.kept = SpanHistory()
        self._marks: list[tuple[float, Phase | None]] = []
        self._stands: list[tuple[float, float]] = []
        self._stood_in: Phase | None = None
        self._row_t = float("-inf")

    def begin_with(self, kept: SpanHistory) -> None:
        """Let `kept`, which somebody wrote down, stand for its time, and what is known here for the time since."""
        for span in self.kept.between(kept.until, float("inf")):
            kept.add(span)
        self.kept = kept
        self._row_t = max(self._row_t, kept.until)

    def entered(self, phase: Phase, t: float) -> None:
        """The trainer said that it was in `phase` from `t` on; said once more after a lost link, it still was."""
        if t >= self._row_t:
            self._mark(max(t, self._newest), phase)

    def link_lost(self, t: float) -> None:
        """The link was lost: from `t` on the phase is unknown, until a row shows what it was."""
        if self._phase is not None:
            self._mark(max(t, self._newest), None)

    def stopped(self, t: float) -> None:
        """From `t` on the processes stand still."""
        self._stands.append((t, float("inf")))
        self._stood_in = self._phase
        self.link_lost(t)

    def continued(self, t: float) -> None:
        """They run again from `t` on, in the phase in which they stood still."""
        if self._stands and self._stands[-1][1] > t:
            self._stands[-1] = (self._stands[-1][0], t)
            if self._stood_in is not None:
                self.entered(self._stood_in, t)

    def trained(self, t: float, rollout_s: float, update_s: float) -> None:
        """A row: at `t` an update was over, which took `update_s` after a rollout of `rollout_s`, without standing."""
        if not (self._row_t < t and rollout_s >= 0.0 and update_s >= 0.0):
            return
        update = self._before("update", t, update_s)
        rollout = self._before("rollout", update[0].since, rollout_s)
        self._settle(rollout[0].since)
        for span in (*rollout, *update):
            self._keep(span)
        self._marks = [mark for mark in self._marks if mark[0] >= t]
        self._stands = [stand for stand in self._stands if stand[1] > t]
        self._row_t = t

    def ended(self, t: float) -> None:
        """The attempt is over, and no row of it comes any more."""
        self.link_lost(t)
        self._settle(float("inf"))
        self._marks, self._stands = [], []

    def between(self, since: float, until: float, most: int) -> tuple[Span, ...]:
        """The phases from `since` to `until` in at most `most` buckets; what goes on ends there."""
        spans = [*self.kept.between(since, until), *_cut(self._marked_spans(until), max(since, self.kept.until), until)]
        return thinned(spans, until - since, most)

    @property
    def until(self) -> float:
        """When anything was last known; infinity while a phase goes on."""
        return max(self.kept.until, self._newest) if self._phase is None else float("inf")

    @property
    def _phase(self) -> Phase | None:
        return self._marks[-1][1] if self._marks else None

    @property
    def _newest(self) -> float:
        return self._marks[-1][0] if self._marks else self._row_t

    def _mark(self, t: float, phase: Phase | None) -> None:
        if not self._marks or self._marks[-1] != (t, phase):
            self._marks.append((t, phase))
        if len(self._marks) > MOST_MARKS:
            self._settle(self._marks[1][0])
            del self._marks[0]

    def _marked_spans(self, until: float) -> list[Span]:
        """The marks as spans, the last one to `until`."""
        ends = [t for t, _ in self._marks[1:]] + [until]
        # Without a mark there is one end too many.
        return [Span(phase, t, end) for (t, phase), end in zip(self._marks, ends, strict=False) if phase is not None]

    def _before(self, phase: Phase, end: float, seconds: float) -> list[Span]:
        """`phase` in the last `seconds` before `end` in which nothing stood, oldest first; at least one span."""
        found = list[Span]()
        for stand, went_on in reversed(self._stands):
            if end - seconds >= went_on:
                break
            if went_on < end:
                found.append(Span(phase, went_on, end))
                seconds -= end - went_on
            end = min(end, stand)
        return [Span(phase, end - seconds, end), *reversed(found)]

    def _settle(self, until: float) -> None:
        if until <= self.kept.until:
            return
        for span in _cut(self._marked_spans(until), self.kept.until, until):
            self._keep(span)

    def _keep(self, span: Span) -> None:
        known = self.kept.until
        self.kept.add(span if span.since >= known else Span(span.phase, known, span.until))


def _cut(spans: Sequence[Span], since: float, until: float) -> list[Span]:
    return [
        Span(span.phase, max(span.since, since), min(span.until, until))
        for span in spans
        if span.until > since and span.since < until
    ]
