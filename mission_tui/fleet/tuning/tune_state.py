"""The course of a tune, worked out from its journal each time anew (what is to be probed next, or what won), and its
result: a row for each candidate of each stage, a verdict, a host profile, and cautions.

Knob after knob, what stands and what could replace it are probed in turns; what is certainly slower than the leader is
dropped. What has won all stages is held against the preset's own settings in fresh pairs, because the best of many
looks better than it is. So nothing is known that is not in the journal.

For each knob the values beside the present settings are tried that a launch would accept and, but for the shape of a
rollout, that do not change what is learned. Workers share environments evenly, so their numbers are divisors of
`env.n_envs`; about as many as there are cores are worth a probe. Threads and compiling reorder sums of float32; bf16
rounds each layer's product to 8 bits, which SB3 never does, and is tried on request only.

How many runs of one preset at once are worth it on a machine: one after another joins, until the last one brought too
little. What each brought is `fleet.marginal_gain`'s to say; the first is what the others are added to.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field, structs

from mission_tui.errors import MissionError
from mission_tui.fleet.events.marginal_gain import WORTH, MarginalGain
from mission_tui.fleet.launch_plan import repeat_seed
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.sizes import WITH_WORKERS, divisors, nearby_divisors, plan_batch
from mission_tui.fleet.specs.spec import LimitsKeep, Spec, rollout_size
from mission_tui.fleet.statistics.intervals import studentized_range_quantile
from mission_tui.fleet.timed_runs import MARGIN, Ratio, is_enough, ratio_of, undisturbed_rounds
from mission_tui.fleet.tuning.profile import HostProfile, settings_of, task_of
from mission_tui.fleet.tuning.record import Knob, ProbeDone, Resolved, TuneBegun, in_order, probe_spec

SHAPE_FACTORS = (0.25, 0.5, 2.0, 4.0)
BUFFER_WITHIN = 2.0
STEPS_WITHIN = 2.0
FEWEST_STEPS = 16
"""Shorter pieces of an episode are mostly the critic's guess of what follows."""


class Candidate(Struct, frozen=True):
    """Settings as `--set` words over the preset (none: the preset's own), and the spec that they make."""

    words: tuple[str, ...]
    spec: Spec

    @property
    def label(self) -> str:
        """How people see it."""
        return label_of(self.words)


class Refused(Struct, frozen=True):
    """Words that were not tried, and the sentence that says why."""

    words: tuple[str, ...]
    why: str


def label_of(words: Sequence[str]) -> str:
    """The words as people say them: `4 workers, 2 threads`; the preset's own have none."""
    settings = dict(word.split("=", 1) for word in words)
    said = [_said(key, value, settings) for key, value in settings.items()]
    return ", ".join(each for each in said if each) or "as it is"


def _said(key: str, value: str, settings: Mapping[str, str]) -> str:
    match key:
        case "env.vec":
            return value if value == "split" or settings.get("env.n_workers", "none") == "none" else ""
        case "env.n_workers":
            return "" if value == "none" else f"{value} worker{'' if value == '1' else 's'}"
        case "run.threads":
            return f"{value} thread{'' if value == '1' else 's'}"
        case "run.compile":
            return "compiled" if value == "true" else "not compiled"
        case "run.precision":
            return value
        case _:
            return f"{key.partition('.')[2]} {value}"


def challengers(
    knob: Knob, own: Spec, held: Sequence[str], cores: int, resolved: Resolved
) -> tuple[tuple[Candidate, ...], tuple[Refused, ...]]:
    """What `knob` has beside the words `held` over the spec `own`, and what of it must not be tried.

    `resolved` is what the preset's own settings turned out to be: what would only repeat them is left out.
    """
    stands = change(own, held)
    found: list[Candidate] = []
    refused: list[Refused] = []
    for more in _words(knob, stands, cores):
        words = _joined(held, more)
        try:
            spec = change(own, words)
        except MissionError as error:
            refused.append(Refused(words, str(error)))
            continue
        if spec == stands or any(spec == each.spec for each in found) or _same(knob, stands, spec, resolved):
            continue
        if knob == "shape" and (why := shape_refusal(own, spec)) is not None:
            refused.append(Refused(words, why))
            continue
        found.append(Candidate(words, spec))
    return tuple(found), tuple(refused)


def _joined(held: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Both, the later word for a key counting."""
    return tuple({word.partition("=")[0]: word for word in (*held, *more)}.values())


def _words(knob: Knob, spec: Spec, cores: int) -> Iterator[tuple[str, ...]]:
    match knob:
        case "vec":
            for kind in ("native", "inline"):
                yield f"env.vec={kind}", "env.n_workers=none"
            for count in _divisors_near(spec.env.n_envs, (2, cores // 2, cores), cores):
                yield "env.vec=split", f"env.n_workers={count - 1}"
            for count in _divisors_near(spec.env.n_envs, (2, cores, 2 * cores), max(2, 2 * cores)):
                yield "env.vec=workers", f"env.n_workers={count}"
        case "threads":
            for threads in _thread_counts(cores):
                yield (f"run.threads={threads}",)
        case "compile":
            yield (f"run.compile={'false' if spec.run.compile else 'true'}",)
        case "precision":
            yield (f"run.precision={'fp32' if spec.run.precision == 'bf16' else 'bf16'}",)
        case "shape":
            yield from _shapes(spec)


def _divisors_near(n_envs: int, wanted: Sequence[int], most: int) -> list[int]:
    """Numbers of processes that share the environments evenly; one alone would only be further away."""
    near = {divisor for count in wanted if count >= 2 for divisor in nearby_divisors(n_envs, count)}
    return sorted(count for count in near if 2 <= count <= most)


def _thread_counts(cores: int) -> list[int]:
    powers = [2**power for power in range(cores.bit_length()) if 2**power <= cores]
    return sorted({*powers, cores})


def _shapes(spec: Spec) -> Iterator[tuple[str, ...]]:
    """Wider and shorter rollouts of the same size, larger ones, and other minibatches that divide them."""
    n_envs, n_steps, batch = spec.env.n_envs, spec.ppo.n_steps, plan_batch(spec).batch_size
    for factor in SHAPE_FACTORS:
        envs, steps = round(n_envs * factor), round(n_steps / factor)
        if envs >= 1 and steps >= 1 and envs * steps == n_envs * n_steps:
            yield f"env.n_envs={envs}", f"ppo.n_steps={steps}", f"ppo.batch_size={batch}"
    yield f"env.n_envs={2 * n_envs}", f"ppo.n_steps={n_steps}", f"ppo.batch_size={batch}"
    for size in (batch // 2, batch * 2):
        if size in divisors(n_envs * n_steps) and size >= 2:
            yield f"env.n_envs={n_envs}", f"ppo.n_steps={n_steps}", f"ppo.batch_size={size}"


def _same(knob: Knob, stands: Spec, spec: Spec, resolved: Resolved) -> bool:
    """Whether `spec` is what `stands` turns out to be anyway, where that leaves the knob to the trainer."""
    if knob == "threads":
        return stands.run.threads is None and spec.run.threads == resolved.threads
    if knob != "vec":
        return False
    n_workers = spec.env.n_workers if spec.env.vec in WITH_WORKERS else None
    left_open = stands.env.vec == "auto" or (stands.env.vec in WITH_WORKERS and stands.env.n_workers is None)
    if left_open:
        return (spec.env.vec, n_workers) == (resolved.vec, resolved.n_workers)
    return spec.env.vec == stands.env.vec and spec.env.vec not in WITH_WORKERS


# How far a shape may be from the preset's: wider rollouts are faster for free only while each sample is learned from
# about as often, out of about as large a buffer.
def steps_per_sample(spec: Spec) -> float:
    """Gradient steps per update and transition of it: what decides how far a sample moves the policy."""
    return plan_batch(spec).gradient_steps / rollout_size(spec)


def shape_refusal(own: Spec, other: Spec) -> str | None:
    """Why `other` is too far from `own` to be its shape for another machine; None where it is not."""
    buffer, size = rollout_size(own), rollout_size(other)
    if not 1.0 / BUFFER_WITHIN <= size / buffer <= BUFFER_WITHIN:
        return f"its rollout of {size:,} transitions is beyond {BUFFER_WITHIN:g} times the preset's {buffer:,}"
    ratio = steps_per_sample(other) / steps_per_sample(own)
    # A hair beyond the limit is rounding.
    if not 0.999 / STEPS_WITHIN <= ratio <= 1.001 * STEPS_WITHIN:
        return f"it takes {ratio:.2g} times the preset's gradient steps per sample, beyond {STEPS_WITHIN:g} times"
    batch = plan_batch(other).batch_size
    if size % batch:
        return f"its minibatch of {batch:,} does not divide its rollout of {size:,}"
    if other.ppo.n_steps < min(FEWEST_STEPS, own.ppo.n_steps):
        return f"its {other.ppo.n_steps} steps of each environment are fewer than {FEWEST_STEPS}"
    return None


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


LOADED_PERCENT = 10.0

Fate = Literal["stands", "won", "not better", "dropped", "not tried"]


class Row(Struct, frozen=True):
    """One candidate: the median of its steps per second, that over what stood in its stage, and what became of it.

    `words` are its own beside what stood: what this row is about.
    """

    stage: str
    label: str
    words: tuple[str, ...]
    rates: tuple[float, ...]
    ratio: float | None
    fate: Fate
    why: str = ""

    @property
    def median(self) -> float | None:
        """Steps per second; None where no probe gave any."""
        return statistics.median(self.rates) if self.rates else None


class TuneResult(Struct, frozen=True):
    """`sentence` is the verdict, `ratio` the fresh pairs' (None: there were none), `better` whether anything was."""

    begun: TuneBegun
    rows: tuple[Row, ...]
    sentence: str
    ratio: Ratio | None
    better: bool
    profile: HostProfile
    notes: tuple[str, ...]
    probes: int
    seconds: float


def tune_result(begun: TuneBegun, probes: Sequence[ProbeDone], tuned: str, others: Sequence[str] = ()) -> TuneResult:
    """What the journal of a tune that is over says; `tuned` is when, as people read it. `others` lived beside it."""
    over = tune_state(begun, probes)
    rows = tuple(row for stage in over.stages for row in _rows(stage))
    sentence, better = _sentence(over), bool(over.champion)
    versions = next((probe.versions for probe in probes if probe.versions), {})
    settings = settings_of(begun.spec, over.champion)
    profile = HostProfile(
        preset=begun.spec.preset,
        tuned=tuned,
        sentence=sentence,
        host=begun.host,
        versions={name: versions[name] for name in ("mission_tui", "torch", "python") if name in versions},
        work=task_of(begun.spec),
        settings=settings,
        why=_why(rows, settings),
    )
    notes = tuple(_notes(begun, over, probes, others))
    seconds = sum(probe.wall_s for probe in probes)
    return TuneResult(begun, rows, sentence, over.ratio, better, profile, notes, len(probes), seconds)


def _rows(stage: Stage) -> Iterator[Row]:
    stood = stage.entrants[0]
    first = stage.rates.get(stood.words, [])
    for candidate in stage.entrants:
        rates = stage.rates.get(candidate.words, [])
        new = tuple(word for word in candidate.words if word not in stood.words)
        label = label_of(stood.words if candidate is stood else new)
        why = stage.out.get(candidate.words, "")
        fate: Fate = "won" if candidate is stage.won else "dropped" if why else "not better"
        if candidate is stood and not why:
            fate = "stands"
        if not rates and not why:
            fate, why = "not tried", "nothing to compare it with" if len(stage.entrants) == 1 else "no time was left"
        yield Row(stage.knob, label, new, tuple(rates), _against(rates, first), fate, why)
    for refused in stage.refused:
        new = tuple(word for word in refused.words if word not in stood.words)
        yield Row(stage.knob, label_of(new), new, (), None, "not tried", refused.why)


def _against(rates: Sequence[float], first: Sequence[float]) -> float | None:
    """The ratio of the rounds that both were probed in."""
    pairs = list(zip(rates, first, strict=False))
    return math.exp(statistics.fmean(math.log(one / other) for one, other in pairs)) if pairs else None


def _sentence(over: TuneState) -> str:
    if over.champion and over.ratio is not None:
        return f"{over.ratio.sentence}, with {label_of(over.champion)}"
    if over.ratio is not None:
        said = over.ratio.sentence
        return (
            f"nothing was certainly better than the preset's own settings; the best was {label_of(over.tried)}: {said}"
        )
    return "nothing was better than the preset's own settings"


def _why(rows: Sequence[Row], settings: dict[str, dict[str, object]]) -> dict[str, str]:
    found = {}
    for row in rows:
        if row.fate != "won" or row.ratio is None:
            continue
        for word in row.words:
            key = word.partition("=")[0]
            table, name = key.split(".", 1)
            if name in settings.get(table, {}):
                rounds = f"{len(row.rates)} round{'' if len(row.rates) == 1 else 's'}"
                found[key] = f"{row.ratio:.2f} x what stood before it in {rounds}, {row.median or 0:,.0f} steps/s"
    return found


def _notes(begun: TuneBegun, over: TuneState, probes: Sequence[ProbeDone], others: Sequence[str]) -> Iterator[str]:
    if begun.devices is not None:
        yield begun.devices.caution(begun.spec.run.device) or begun.devices.sentence
    loads = [each.elsewhere_percent for each in probes if each.elsewhere_percent is not None]
    if loads and statistics.median(loads) > LOADED_PERCENT:
        yield (
            f"other programs took {statistics.median(loads):.0f} % of all cores at the median and "
            f"{max(loads):.0f} % at most: tune again when the machine is idle"
        )
    if others:
        yield f"{', '.join(others)} ran at the same time: the result is what is fastest beside them"
    for stage in over.stages:
        if stage.cut_after is not None:
            rounds = f"{stage.cut_after} of {begun.plan.rounds} rounds"
            yield f"the budget of {begun.plan.budget_s:.0f} s ended {stage.knob} after {rounds}: less is known of it"
    if over.cut:
        left_out = ", ".join(over.cut)
        yield f"the budget of {begun.plan.budget_s:.0f} s left no time for {left_out}; give a larger --budget"
    if "precision" in begun.plan.knobs:
        yield "bf16 rounds layers to 8 bits: its numbers are not Stable-Baselines3's, and how it learns was not tried"
    elif begun.spec.run.precision == "fp32":
        yield "bf16 was not tried, because its numbers are not Stable-Baselines3's; --allow-precision tries it"
    if "shape" in begun.plan.knobs and any(word.startswith(("env.n_envs", "ppo.")) for word in over.champion):
        yield "another shape changes what is learned a little: compare returns before you rely on it"


class FleetSizeVerdict(Struct, frozen=True, kw_only=True):
    """So many runs `pay`, or at `least` so many; None where that cannot be said."""

    pays: int | None
    sentence: str
    least: bool = False


def fleet_run_spec(spec: Spec, number: int, seconds: float) -> Spec:
    """`spec` as the run `number` (from 1) of a fleet that lasts at most so many seconds; each has its own seed."""
    alone = probe_spec(spec, repeat_seed(spec.run.seed, number), seconds)
    return structs.replace(alone, keep=structs.replace(alone.keep, limits=LimitsKeep(group_runs=4096)))


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
