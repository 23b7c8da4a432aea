"""In which phase a run was, when: from what its trainer says as it goes, set right by the rows of its metrics file.

A phase that is said may be overtaken by the next one or come late; a row tells when its rollout and its update began
and ended, to the millisecond and for every update. So what was said holds until a row covers it. Times are unix
seconds, the trainer's own. While nobody can know (the link is lost, the processes stand still) there is no span.
"""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.strips.spans import SpanHistory, thinned
from mission_tui.fleet.strips.strip import Span

__all__ = ["PhaseHistory"]

MOST_MARKS = 64
"""Marks that wait for a row: a script that reports phases may write none."""


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
        """From `t` on nobody knows, because the link was lost; a row may tell what was."""
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
        for span in _cut(self._marked_spans(until), self.kept.until, until):
            self._keep(span)

    def _keep(self, span: Span) -> None:
        self.kept.add(Span(span.phase, max(span.since, self.kept.until), span.until))


def _cut(spans: Sequence[Span], since: float, until: float) -> list[Span]:
    return [
        Span(span.phase, max(span.since, since), min(span.until, until))
        for span in spans
        if span.until > since and span.since < until
    ]
