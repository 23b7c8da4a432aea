"""The course of a tune, worked out from its journal each time anew: what is to be probed next, or what won.

Knob after knob, what stands and what could replace it are probed in turns; what is certainly slower than the leader is
dropped. What has won all stages is held against the preset's own settings in fresh pairs, because the best of many
looks better than it is. So nothing is known that is not in the journal.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from mission_tui.fleet.bench.ratio import MARGIN, Ratio, is_enough, ratio_of, undisturbed_rounds
from mission_tui.fleet.statistics.intervals import studentized_range_quantile
from mission_tui.fleet.tuning.candidates import Candidate, Refused, challengers
from mission_tui.fleet.tuning.record import Knob, ProbeDone, Resolved, TuneBegun, in_order

OWN, PAIRS = "own", "pairs"
BETTER = 1.03
"""What stands is left for something that looks faster by so much; the last word have the fresh pairs."""
LEAST_NOISE = 0.02
LEAST_FREEDOM = 3
"""Below, an interval is so wide that it says nothing."""
ERROR = 0.05


class NextProbe(Struct, frozen=True):
    """The next probe: of `candidate`, in this round of this stage; `most` more may come after it."""

    stage: str
    round: int
    candidate: Candidate
    most: int = 0


class Stage(Struct):
    """A knob as far as it was tried: `entrants` (what stood first), who is `out` and why, and who `won`.

    `cut_after` is the number of rounds after which the budget was spent, None where it was not.
    """

    knob: Knob
    entrants: tuple[Candidate, ...]
    refused: tuple[Refused, ...] = ()
    rates: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    out: dict[tuple[str, ...], str] = field(default_factory=dict)
    won: Candidate | None = None
    cut_after: int | None = None


class TuneState(Struct):
    """How far a tune has come. `ask` None: it is over.

    `champion` has the words of what is to be used: none where nothing was certainly better than the preset's own.
    `tried` are the words that won all stages, `ratio` is what the fresh pairs that count say of them. `cut` names the
    knobs that the budget left no time for.
    """

    ask: NextProbe | None = None
    champion: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    stages: list[Stage] = field(default_factory=list)
    ratio: Ratio | None = None
    pairs: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    cut: list[Knob] = field(default_factory=list)


Field = tuple[tuple[Candidate, ...], tuple[Refused, ...]]


def tune_state(begun: TuneBegun, done: Sequence[ProbeDone], kept: dict[object, Field] | None = None) -> TuneState:
    """Where the tune that `begun` stands after the probes `done`, which a course asked for one after another.

    `kept` are candidates that will not change any more; a later call about the same tune hands it on.
    """
    return _Fold(begun, done, {} if kept is None else kept).state()


class _Fold:
    """Goes through the stages again; `spent_s` is what the probes met so far have taken."""

    def __init__(self, begun: TuneBegun, done: Sequence[ProbeDone], kept: dict[object, Field]) -> None:
        self._kept = kept
        self._begun, self._plan = begun, begun.plan
        self._knobs = begun.plan.knobs
        self._share: float | None = None
        self._done = {(each.stage, each.round, each.words): each for each in done}
        self._found = TuneState()
        self._spent_s = 0.0

    def state(self) -> TuneState:
        found, own = self._found, Candidate((), self._begun.spec)
        first = self._probe(OWN, 1, own)
        if first is None:
            return self._asking(NextProbe(OWN, 1, own), 0)
        if first.steps_per_s is None:
            return found
        self._share = first.rollout_share
        self._knobs = in_order(self._plan.knobs, self._share)
        held, resolved = own, first.resolved or Resolved("")
        for place, knob in enumerate(self._knobs):
            why_not = _why_not_worth_trying(knob, self._share)
            if self._spent_s >= self._plan.budget_s and not why_not:
                found.cut.append(knob)
                continue
            new, refused = self._field(knob, held.words, resolved)
            if why_not:
                refused, new = (*refused, *(Refused(each.words, why_not) for each in new)), ()
            stage = Stage(knob, (held, *new), refused)
            found.stages.append(stage)
            ask = next(self._race(stage), None)
            if ask is not None:
                return self._asking(ask, place)
            assert stage.won is not None
            held = stage.won
        found.tried = held.words
        return self._pairs(own, held) if held.words else found

    def _probe(self, stage: str, number: int, candidate: Candidate) -> ProbeDone | None:
        known = self._done.get((stage, number, candidate.words))
        self._spent_s += known.wall_s if known is not None else 0.0
        return known

    def _race(self, stage: Stage) -> Iterator[NextProbe]:
        """The probe that the stage waits for; none once its winner is known."""
        alive = list(stage.entrants)
        for number in range(1, self._plan.rounds + 1):
            if len(alive) < 2:
                break
            if number > 1 and self._spent_s >= self._plan.budget_s:
                stage.cut_after = number - 1
                break
            for candidate in alive if number % 2 else alive[::-1]:
                known = self._probe(stage.knob, number, candidate)
                if known is None:
                    yield NextProbe(stage.knob, number, candidate)
                    return
                if known.steps_per_s is None:
                    stage.out[candidate.words] = known.why
                else:
                    stage.rates.setdefault(candidate.words, []).append(known.steps_per_s)
            alive = [each for each in alive if each.words not in stage.out]
            for place in slower_than_leader([stage.rates[each.words] for each in alive], self._plan.rounds - 1):
                stage.out[alive[place].words] = f"certainly slower after {number} rounds"
            alive = [each for each in alive if each.words not in stage.out]
        stage.won = self._won(stage, alive)

    def _won(self, stage: Stage, alive: list[Candidate]) -> Candidate:
        probed = [each for each in alive if each.words in stage.rates]
        if not probed:
            return stage.entrants[0]
        return probed[winner([stage.rates[each.words] for each in probed])]

    def _pairs(self, own: Candidate, best: Candidate) -> TuneState:
        """Fresh pairs of both; those that met more of other work are probed again, as rounds of a bench are."""
        found, loads, number = self._found, list[tuple[float | None, ...]](), 0
        while not is_enough(loads, self._plan.repeats):
            number += 1
            met: list[float | None] = []
            for candidate in (best, own) if number % 2 else (own, best):
                known = self._probe(PAIRS, number, candidate)
                if known is None:
                    return self._asking(NextProbe(PAIRS, number, candidate), len(self._knobs))
                if known.steps_per_s is None:
                    found.stages[-1].out[candidate.words] = f"failed in the fresh pairs: {known.why}"
                    return found
                found.pairs[candidate is own].append(known.steps_per_s)
                met.append(known.elsewhere_percent)
            loads.append(tuple(met))
        places = undisturbed_rounds(loads, self._plan.repeats)
        for rates in found.pairs:
            rates[:] = [rates[place] for place in places]
        found.ratio = ratio_of(*found.pairs, paired=True)
        if found.ratio.verdict == "faster":
            found.champion = best.words
        return found

    def _asking(self, ask: NextProbe, place: int) -> TuneState:
        """The most that may come: every round of everybody still in it, stages to come as they look now, the pairs."""
        plan, later = self._plan, 0
        if ask.stage == PAIRS:
            later = 2 * max(plan.repeats, ask.round) - sum(map(len, self._found.pairs)) - 1
        else:
            if self._found.stages and ask.stage != OWN:
                stage = self._found.stages[-1]
                alive = [each for each in stage.entrants if each.words not in stage.out]
                probed = sum(len(stage.rates.get(each.words, ())) == ask.round for each in alive)
                later = len(alive) * (plan.rounds - ask.round + 1) - probed - 1
                place += 1
            coming = [knob for knob in self._knobs[place:] if not _why_not_worth_trying(knob, self._share)]
            later += sum(self._size(knob) * plan.rounds for knob in coming) + 2 * plan.repeats
        self._found.ask = NextProbe(ask.stage, ask.round, ask.candidate, later)
        return self._found

    def _field(self, knob: Knob, held: tuple[str, ...], resolved: Resolved) -> Field:
        key = (knob, held, resolved)
        if key not in self._kept:
            self._kept[key] = challengers(knob, self._begun.spec, held, self._begun.cores, resolved)
        return self._kept[key]

    def _size(self, knob: Knob) -> int:
        new, _ = self._field(knob, (), Resolved(""))
        return len(new) + 1 if new else 0


def _why_not_worth_trying(knob: Knob, rollout_share: float | None) -> str:
    """Why the knob could bring nothing that changes a decision; empty where it could."""
    if knob != "vec" or rollout_share is None or rollout_share >= MARGIN:
        return ""
    return f"rollouts take {rollout_share:.0%} of the time, so it could not bring {MARGIN:.0%}"


# Load that comes and goes slows a whole round, so speeds are compared within rounds: on logarithms, with the two-way
# model "candidate plus round plus noise" and one noise for all. With so few probes a lucky calm would look like
# certainty, so noise is never taken for less than 2 %. The leader is chosen after looking, so all pairs are asked at
# once (Tukey), and each look has its part of the 5 % (Bonferroni).
def slower_than_leader(rates: Sequence[Sequence[float]], looks: int) -> tuple[int, ...]:
    """The places of candidates that are certainly slower than the leader, if this is one of `looks` looks in all.

    `rates` has a row for each candidate with a speed above 0 for each round, all rows equally long.
    """
    count, rounds = len(rates), len(rates[0]) if rates else 0
    freedom = (count - 1) * (rounds - 1)
    if freedom < LEAST_FREEDOM:
        return ()
    logs = [[math.log(rate) for rate in row] for row in rates]
    means = [statistics.fmean(row) for row in logs]
    noise = max(LEAST_NOISE, math.sqrt(_left_over(logs, means) / freedom))
    margin = studentized_range_quantile(1.0 - ERROR / looks, count, freedom) * noise / math.sqrt(rounds)
    best = max(means)
    return tuple(place for place, mean in enumerate(means) if mean + margin < best)


def winner(rates: Sequence[Sequence[float]]) -> int:
    """The place of the candidate to go on with; the first one stands unless another looks faster by 3 %."""
    means = [statistics.fmean(math.log(rate) for rate in row) for row in rates]
    best = max(range(len(means)), key=means.__getitem__)
    return best if means[best] - means[0] >= math.log(BETTER) else 0


def _left_over(logs: Sequence[Sequence[float]], means: Sequence[float]) -> float:
    """The sum of squares that neither candidate nor round explains."""
    whole = statistics.fmean(means)
    of_round = [statistics.fmean(column) - whole for column in zip(*logs, strict=True)]
    return sum(
        (value - mean - shift) ** 2
        for row, mean in zip(logs, means, strict=True)
        for value, shift in zip(row, of_round, strict=True)
    )
