"""`make health-advice`: does the advice cure? What each recorded training would have been advised, followed.

The control is the training as it was recorded. Its first warning or worse that advises settings is followed from the
last good point, with the same seed and to the same budget; where it says to compare first, only if a trial like that of
`mission-tui try` does not say that it hurts or makes no difference. Mistakes that are settings are in the spec, so that
advice can undo them; those of the world (rewards, observations, code) stay. Healthy trainings with a false warning are
followed too; their control is trained beside them, since there small differences count. Results are kept, one line a
pair, and count for as long as the same advice is given, so the same command goes on where it was left.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import structs

from benchmarks.health import tampering as tamper
from benchmarks.health.constructions import CONSTRUCTIONS, TWINS, Construction
from benchmarks.health.halves import Half
from benchmarks.health.harm import WON, hung, slowed_down, unsaved
from benchmarks.health.trace import Trace, read_trace, trace_path
from benchmarks.health.train import Bench, Tamper, record_training
from mission_tui.errors import MissionError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import Episodes, MetricRecord, TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.fleet.events.trials import TrialPlan, TrialWord
from mission_tui.fleet.health import HealthJudge, settings_of
from mission_tui.fleet.health.phrases import COMPARE_FIRST
from mission_tui.fleet.health.rules.throughput import Throughput
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.spec import PpoSpec, Schedule, Spec, rollout_size
from mission_tui.fleet.specs.thresholds import Limits
from mission_tui.fleet.trials import (
    BranchEnd,
    TypicalUpdate,
    judge_trial,
    pair_seeds,
    range_before,
    read_branch,
    until_timesteps,
    updates_of,
    usual_pairs,
)

KEPT = Path(__file__).parent / "advice.jsonl"
MARGIN = 0.10
"""Of what the twin learned: a smaller difference between the arms is none, as in `fleet.trials`."""

NOT_TAKEN = ("hurts", "no difference")
"""What a trial says of advice that is then left."""

Word = Literal["cured", "better", "no difference", "worse", "refused"]


def _rate(ppo: PpoSpec, times: float) -> float | Schedule:
    rate = ppo.learning_rate
    if isinstance(rate, Schedule):
        return structs.replace(rate, start=rate.start * times, end=rate.end * times)
    return rate * times


AS_SETTINGS: Mapping[str, Callable[[PpoSpec], dict[str, Any]]] = {
    "lr-300": lambda ppo: {"learning_rate": _rate(ppo, 300.0)},
    "lr-100": lambda ppo: {"learning_rate": _rate(ppo, 100.0)},
    "epochs-40": lambda ppo: {"learning_rate": _rate(ppo, 10.0), "n_epochs": 40},
    "minibatch-4": lambda ppo: {"learning_rate": _rate(ppo, 10.0), "batch_size": 4},
    "minibatch-8": lambda ppo: {"learning_rate": _rate(ppo, 10.0), "batch_size": 8},
    "clip-10": lambda ppo: {"learning_rate": _rate(ppo, 10.0), "clip_range": 10.0, "n_epochs": 20},
    "grad-0": lambda _: {"max_grad_norm": 1e-9},
    "ent-1": lambda _: {"ent_coef": 1.0},
    # A spec takes no rate of 0.
    **dict.fromkeys(("frozen", "lr-gone", "lr-0"), lambda ppo: {"learning_rate": _rate(ppo, 1e-7)}),
}
"""What a construction's tamperer does to the living model, as the settings that do the same."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A recorded training and what its first advice was; `finding` is None where none advised a setting.

    `boundary` is the last update before what was done to it; of a healthy one, before the warning. `healthy` is whether
    no harm was found in it, whatever was done.
    """

    construction: Construction
    seed: int
    finding: Finding | None
    boundary: int
    healthy: bool

    @property
    def name(self) -> tuple[str, str, int]:
        """Construction, task, seed."""
        return self.construction.name, self.construction.task.name, self.seed

    @property
    def key(self) -> Key | None:
        """What would be the outcome of its advice; None without any."""
        found = self.finding
        return None if found is None else (*self.name, found.advice_set, COMPARE_FIRST in found.advice)

    @property
    def half(self) -> Half:
        """For tuning rules or for scoring them."""
        return self.construction.half


Key = tuple[str, str, int, tuple[str, ...], bool]
"""Construction, task, seed, advice, and whether that was compared first."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a pair; scores are means of the last quarter, in the task's own terms."""

    construction: str
    task: str
    seed: int
    word: Word
    rule: str
    advice: tuple[str, ...]
    control: float | None = None
    advised: float | None = None
    twin: float | None = None
    start: float | None = None
    seconds: float = 0.0
    trial: str = ""
    """What the trial said, where the finding says to compare first; what hurts or changes nothing is not taken."""

    @property
    def key(self) -> Key:
        """What it is the outcome of."""
        return self.construction, self.task, self.seed, self.advice, self.trial != ""


def main(words: Sequence[str] | None = None) -> None:
    """Train what is missing while there is time, then write the page."""
    from benchmarks.health.advice_page import write_page

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further pair after so long")
    parser.add_argument("--only", action="append", help="name of a construction; may be given several times")
    parser.add_argument("--task", action="append", help="name of a task; may be given several times")
    parser.add_argument("--half", choices=get_args(Half), help="follow pairs of this half alone")
    asked = parser.parse_args(words)
    until_s = time.monotonic() + asked.seconds
    pairs = list(every_pair())
    known = {it.key for it in read_kept()}
    for pair in pairs:
        found = pair.finding
        if found is None or pair.key in known:
            continue
        construction, task, _ = pair.name
        if (asked.only and construction not in asked.only) or (asked.task and task not in asked.task):
            continue
        if asked.half not in (None, pair.half):
            continue
        if time.monotonic() > until_s:
            break
        outcome = follow(pair, found)
        with KEPT.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        print(f"{' '.join(map(str, pair.name))}: {outcome.word} {outcome.seconds:.0f} s", file=sys.stderr, flush=True)
    write_page(pairs, tuple(read_kept()))


def read_kept() -> Iterator[Outcome]:
    """What earlier calls trained, whatever is advised today."""
    if KEPT.exists():
        for line in KEPT.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            yield Outcome(**fields | {"advice": tuple(fields["advice"])})


def every_pair() -> Iterator[Pair]:
    """Two seeds of every sick training, then healthy ones with a false warning, then the rest, seed after seed.

    So a campaign that is cut short has seen each construction as often as any other. Machines are not advised.
    """
    of_learning = [it for it in CONSTRUCTIONS if not set(it.harm) & {slowed_down, hung, unsaved}]
    tiers: dict[tuple[int, int], list[Pair]] = {}
    for it in of_learning:
        for place, seed in enumerate(it.seeds):
            if not trace_path(it.trace_name(seed)).exists():
                continue
            pair = _pair(it, seed)
            if pair.finding is None and pair.healthy:
                continue
            dear = "mission" in it.task.name
            tier = (1, 0) if pair.healthy else (2 * dear, place) if place < 2 else (3 + dear, place)
            tiers.setdefault(tier, []).append(pair)
    for _, pairs in sorted(tiers.items()):
        yield from pairs


def _pair(construction: Construction, seed: int) -> Pair:
    trace = read_trace(trace_path(construction.trace_name(seed)))
    found = first_advice(construction, seed, trace)
    healthy = not harmed(construction, seed, trace)
    boundary = (construction.onset or 1) - 1
    if healthy and not construction.harm and found is not None:
        boundary = max(1, found.first_update - 1)
    return Pair(construction, seed, found, boundary, healthy)


def harmed(construction: Construction, seed: int, trace: Trace) -> bool:
    """Whether one of the construction's own tests finds harm in `trace`."""
    if not construction.harm:
        return False
    twin, onset = twin_of(construction, seed), construction.onset or 1
    return any(test(trace, twin, onset, construction.task.scores) for test in construction.harm)


def first_advice(construction: Construction, seed: int, trace: Trace) -> Finding | None:
    """The first finding worse than information whose advice has settings, as it would have opened live."""
    limits, sick, onset = Limits(), sick_spec(construction, seed), construction.onset or 1
    judge = HealthJudge(settings_of(trace.spec), limits)
    as_set = construction.name not in AS_SETTINGS
    for record in trace.records:
        if isinstance(record, TrainingStarted) and record.attempt > 1:
            judge = HealthJudge(settings_of(sick), limits)
        if construction.name in AS_SETTINGS and isinstance(record, UpdateDone) and record.update >= onset:
            if not as_set:
                judge, as_set = HealthJudge(settings_of(sick), limits), True
            record = _with_rate(record, sick)  # noqa: PLW2901 - the same row, of a training with these settings
        if isinstance(record, TrainingEnded) and record.cause.startswith("the reward of environment"):
            # Recorded before the trainer said whose number it was.
            record = structs.replace(record, from_env=True)  # noqa: PLW2901
        for finding in judge.feed(record):
            # Of speed nothing is to be cured: the same numbers come out of what it advises.
            told = finding.severity != "info" and finding.state != "cleared" and finding.rule != Throughput.id
            if told and finding.advice_set:
                return finding
    return None


def _with_rate(record: UpdateDone, spec: Spec) -> MetricRecord:
    """`record` with the learning rate that `spec` says: a tamperer's 0 is next to nothing there."""
    rate = spec.ppo.learning_rate
    return structs.replace(record, metrics={**record.metrics, "train/learning_rate": rate})


def follow(pair: Pair, found: Finding) -> Outcome:
    """Train on with the advice, and compare."""
    begun_s, construction, seed = time.monotonic(), pair.construction, pair.seed
    compares = COMPARE_FIRST in found.advice
    told = Outcome(construction.name, construction.task.name, seed, "refused", found.rule, found.advice_set)
    told = replace(told, trial="refused" if compares else "")
    sick = sick_spec(construction, seed)
    try:
        better = draft_change(sick, found.advice_set)
    except MissionError:
        return told
    if compares:
        told = replace(told, trial=compared_first(pair, found, sick, better))
    if told.trial in NOT_TAKEN or not pair.healthy:
        control = read_trace(trace_path(construction.trace_name(seed)))
    else:
        control = trained(construction, seed, sick, pair.boundary)
    # The same settings again would come out otherwise, which no advice has done.
    taken = told.trial not in NOT_TAKEN
    advised = trained(construction, seed, better, pair.boundary, found.advice_set) if taken else control
    outcome = compared(told, pair, control, advised)
    return replace(outcome, seconds=round(time.monotonic() - begun_s, 1))


def compared_first(pair: Pair, found: Finding, sick: Spec, better: Spec) -> TrialWord:
    """What `mission-tui try` would have said, with the budget and the pairs that it takes unasked."""
    construction, seed, boundary = pair.construction, pair.seed, pair.boundary
    trace = read_trace(trace_path(construction.trace_name(seed)))
    rows = [row for row in trace.updates if row.update <= found.first_update][-20:]
    pace = TypicalUpdate(
        statistics.fmean(row.rollout_s + row.update_s for row in rows), statistics.fmean(row.episodes.n for row in rows)
    )
    updates, _ = updates_of(None, pace, 0 if boundary else found.first_update)
    begun = boundary * rollout_size(sick)
    plan = TrialPlan(
        number=1,
        checkpoint=f"update-{boundary}" if boundary else "",
        from_update=boundary,
        from_timesteps=begun,
        until_timesteps=until_timesteps(sick, begun, updates),
        updates=updates,
        seeds=pair_seeds(seed, 1, usual_pairs(updates, pace)),
        group="try1",
        assignments=found.advice_set,
    )

    def branch(spec: Spec, own: int) -> BranchEnd:
        run = structs.replace(spec.run, seed=own, total_timesteps=plan.until_timesteps)
        ended = trained(construction, seed, structs.replace(spec, run=run), boundary)
        return BranchEnd(str(own), read_branch(plan, ended.records), diverged=_failed(ended))

    ends = [(branch(sick, own), branch(better, own)) for own in plan.seeds]
    return judge_trial(plan, ends, range_before(plan, trace.records)).says


def sick_spec(construction: Construction, seed: int) -> Spec:
    """With what the second attempt goes on."""
    task = construction.task
    changed = {**construction.ppo, **(construction.resumed or {})}
    spec = task.spec(construction.name, seed, construction.updates, changed, construction.resumed_env)
    changes = AS_SETTINGS.get(construction.name)
    change = {} if changes is None else changes(spec.ppo)
    return structs.replace(spec, ppo=structs.replace(spec.ppo, **change))


def trained(construction: Construction, seed: int, then: Spec, boundary: int, advice: tuple[str, ...] = ()) -> Trace:
    """As recorded up to update `boundary`, then an attempt of `then`; from the beginning where there was no good point.

    What was done to the world is done to both attempts. A rate that is in `advice` takes the place of one that creeps.
    """
    if boundary < 1:
        return record_training(construction.name, [then], construction.tamper)
    first = construction.task.spec(construction.name, seed, construction.updates, construction.ppo)
    act: Tamper = tamper.leaves_alone
    replaced = construction.name == "creep" and any(word.startswith("ppo.learning_rate=") for word in advice)
    if construction.name not in AS_SETTINGS and construction.resumed is None and not replaced:
        act = construction.tamper

    def attend(bench: Bench, update: int) -> None:
        if bench.attempt > 1:
            act(bench, update)
        elif update == boundary + 1:
            bench.stop()

    return record_training(construction.name, [first, then], attend)


def compared(told: Outcome, pair: Pair, control: Trace, advised: Trace) -> Outcome:
    """`told` with its scores and word. Of a healthy training the word is of the difference alone."""
    construction, last, twin = pair.construction, pair.construction.updates, twin_of(pair.construction, pair.seed)
    # What a mission pays is what some of its constructions change.
    scores = _won if "mission" in construction.task.name else construction.task.scores
    first = last * 3 // 4 + 1

    def mean(trace: Trace, low: int, high: int) -> float | None:
        found = [score for row in trace.updates if low <= row.update <= high for score in scores(row.episodes)]
        return statistics.fmean(found) if found else None

    # A twin that was trained for less is compared by its own last quarter.
    until = min(last, twin.updates[-1].update)
    level, start = mean(twin, until * 3 // 4 + 1, until) or 0.0, mean(twin, 1, 20) or 0.0
    own, other = (start if _failed(it) else mean(it, first, last) for it in (advised, control))
    own, other = (start if it is None else it for it in (own, other))
    gain = MARGIN * abs(level - start)
    word: Word = "better" if own > other + gain else "worse" if own < other - gain else "no difference"
    if not pair.healthy and word != "worse":
        word = word if _failed(advised) or harmed(construction, pair.seed, advised) else "cured"
    return replace(told, word=word, control=other, advised=own, twin=level, start=start)


def _won(episodes: Episodes) -> list[float]:
    outcomes = episodes.outcomes or {}
    won = sum(outcomes.get(word, 0) for word in WON)
    return [1.0] * won + [0.0] * (sum(outcomes.values()) - won)


def _failed(trace: Trace) -> bool:
    last = trace.records[-1]
    return isinstance(last, TrainingEnded) and last.how == "failed"


def twin_of(construction: Construction, seed: int) -> Trace:
    """The healthy training of the same task and seed; of a task that has none, that of the same environment."""
    task = construction.task
    same = [twin for twin in TWINS if twin.task.name == task.name]
    same += [twin for twin in TWINS if twin.task.env.id == task.env.id]
    twin = (same or [construction])[0]
    path = trace_path(twin.trace_name(seed))
    return read_trace(path if path.exists() else trace_path(twin.trace_name(twin.seeds[0])))


if __name__ == "__main__":
    main()
