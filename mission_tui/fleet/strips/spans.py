"""Spans of phases, kept by time in a bounded memory: short ones are put together in buckets, coarser with age.

In a bucket where a phase comes more than once, what belongs to one phase is put side by side, in order of its first
coming, and what is left over stays a gap at its end. So each phase keeps its seconds exactly, at every age, and no mark
is moved by more than the width of the bucket.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from mission_tui.fleet.events.outcome import PHASES, Phase
from mission_tui.fleet.strips.cells import WIDTHS
from mission_tui.fleet.strips.strip import Span

__all__ = ["SpanHistory", "thinned"]

SPAN_LEVELS = ((0.1, 900.0), (1.0, 7_200.0), (10.0, 86_400.0))
"""Width of the buckets and for how long their spans are kept, both in seconds; finest first."""
NUMBERS = {phase: number for number, phase in enumerate(PHASES)}
TOUCHING_S = 1e-6
MOST_STALE = 1024


class SpanAccumulator:
    """Puts spans together in buckets of one width: give it spans in their order, it gives back what is complete."""

    def __init__(self, width: float) -> None:
        self._width = width
        self._edge = 0.0
        self._group: list[Span] = []

    def add(self, span: Span) -> list[Span]:
        """What is complete because of `span`, which begins no earlier than the last one ended."""
        edge = span.since // self._width * self._width
        done = self.take() if self._group and edge > self._edge else []
        if not self._group:
            self._edge = edge
        self._group.append(span)
        if span.until >= self._edge + self._width:
            done += self.take()
        return done

    def take(self) -> list[Span]:
        """The open bucket as it is; nothing is open afterwards."""
        group, self._group = self._group, []
        if len({span.phase for span in group}) == len(group):
            return group
        *_, last = group
        end = self._edge + self._width
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

    def __init__(self, levels: Sequence[tuple[float, float]] = SPAN_LEVELS) -> None:
        self._shelves = tuple(_Tier(width, horizon) for width, horizon in levels)

    @property
    def until(self) -> float:
        """Where the newest span ends; minus infinity without one."""
        return self._shelves[0].until

    def add(self, span: Span) -> None:
        """Take the next span, which begins no earlier than the last one ended; an empty one is nothing."""
        if span.until > span.since:
            for shelf in self._shelves:
                shelf.add(span)

    def restore(self, kept: Sequence[Sequence[Span]]) -> None:
        """Begin with what another history kept of each level. What its coarser ones had not completed is made anew."""
        finer: _Tier | None = None
        for shelf, spans in zip(self._shelves, kept, strict=True):
            for span in spans:
                shelf.put(span)
            for span in finer.between(shelf.until, float("inf")) if finer is not None else ():
                shelf.add(span)
            finer = shelf
        for finer, coarser in pairwise(self._shelves):
            finer.forgot = finer.forgot or coarser.first < finer.first

    def complete(self, level: int, since: float) -> list[Span]:
        """What `level` keeps for good of the time from `since` on."""
        return self._shelves[level].complete(since)

    def between(self, since: float, until: float) -> Iterator[Span]:
        """Every moment once, from the finest level that reaches back to it; cut at `since` and `until`."""
        parts, end = list[list[Span]](), until
        for shelf in self._shelves:
            part = shelf.between(since, end)
            parts.append(part)
            end = min(end, shelf.reaches)
            if end <= since:
                break
        for part in reversed(parts):
            yield from part

    def __len__(self) -> int:
        return sum(len(shelf) for shelf in self._shelves)


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


class _Tier:
    """The spans of one level, 17 bytes each, oldest first."""

    def __init__(self, width: float, horizon: float) -> None:
        self._horizon = horizon
        self._gathering = SpanAccumulator(width)
        self._since, self._until, self._phase = array("d"), array("d"), bytearray()
        self.forgot = False
        self.until = float("-inf")

    @property
    def first(self) -> float:
        """Where its oldest span begins; infinity without one."""
        if self._since:
            return self._since[0]
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
        if self._phase and self._phase[-1] == number and span.since - self._until[-1] <= TOUCHING_S:
            self._until[-1] = span.until
            return
        self._since.append(span.since)
        self._until.append(span.until)
        self._phase.append(number)
        stale = bisect_left(self._until, span.until - self._horizon)
        if stale > MOST_STALE:
            del self._since[:stale], self._until[:stale], self._phase[:stale]
            self.forgot = True

    def complete(self, since: float, until: float = float("inf")) -> list[Span]:
        first, last = bisect_right(self._until, since), bisect_left(self._since, until)
        return [self._span(index, since, until) for index in range(first, last)]

    def between(self, since: float, until: float) -> list[Span]:
        if until <= since:
            return []
        opened = [span for span in self._gathering.open if span.until > since and span.since < until]
        cut = [Span(span.phase, max(span.since, since), min(span.until, until)) for span in opened]
        return self.complete(since, until) + cut

    def _span(self, index: int, since: float, until: float) -> Span:
        return Span(PHASES[self._phase[index]], max(self._since[index], since), min(self._until[index], until))

    def __len__(self) -> int:
        return len(self._since)
