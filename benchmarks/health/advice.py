"""`make health-advice`: does the advice cure? Each sick construction from the last good point, with and without it.

The control goes on as the construction makes it sick; the first warning or worse that advises settings is then followed
from the same boundary, with the same random numbers, to the same budget. Mistakes that are settings are in the spec, so
that advice can undo them; those of the world (rewards, observations, code) stay. Results are kept, one line a pair, so
the same command goes on where it was left.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from benchmarks.health import tampering as tamper
from benchmarks.health.constructions import CONSTRUCTIONS, TWINS, Construction
from benchmarks.health.harm import fell_behind, hung, slowed_down, unsaved
from benchmarks.health.trace import Trace, read_trace, trace_path
from benchmarks.health.train import Bench, Tamper, record_training
from mission_tui.errors import MissionError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import TrainingEnded, TrainingStarted
from mission_tui.fleet.health import HealthJudge, settings_of
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.spec import PpoSpec, Spec
from mission_tui.fleet.specs.thresholds import Limits

KEPT = Path(__file__).parent / "advice.jsonl"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "health" / "advice.md"
MARGIN = 0.10
"""Of what the twin learned: a smaller difference between the arms is none, as in `fleet.trials`."""

Word = Literal["cured", "better", "no difference", "worse", "no settings", "not sick", "refused"]


def _rate(ppo: PpoSpec, times: float) -> float:
    assert isinstance(ppo.learning_rate, float)
    return ppo.learning_rate * times


AS_SETTINGS: Mapping[str, Callable[[PpoSpec], dict[str, Any]]] = {
    "lr-300": lambda ppo: {"learning_rate": _rate(ppo, 300.0)},
    "epochs-40": lambda ppo: {"learning_rate": _rate(ppo, 10.0), "n_epochs": 40},
    "minibatch-4": lambda ppo: {"learning_rate": _rate(ppo, 10.0), "batch_size": 4},
    "ent-1": lambda _: {"ent_coef": 1.0},
    # A spec takes no rate of 0.
    **dict.fromkeys(("frozen", "lr-gone", "lr-0"), lambda ppo: {"learning_rate": _rate(ppo, 1e-7)}),
}
"""What a construction's tamperer does to the living model, as the settings that do the same."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a pair; scores are means of the last quarter, in the task's own terms.

    `superseded`: the advice has been changed since, so the pair is trained again; what came then stays on the page.
    """

    construction: str
    task: str
    seed: int
    word: Word
    rule: str = ""
    advice: tuple[str, ...] = ()
    control: float | None = None
    advised: float | None = None
    twin: float | None = None
    start: float | None = None
    seconds: float = 0.0
    superseded: bool = False


def main(words: Sequence[str] | None = None) -> None:
    """Train what is missing while there is time, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further pair after so long")
    parser.add_argument("--only", action="append", help="name of a construction; may be given several times")
    asked = parser.parse_args(words)
    until_s = time.monotonic() + asked.seconds
    kept = list(read_kept())
    known = {(it.construction, it.task, it.seed): it for it in kept if not it.superseded}
    for construction, seed in wanted():
        name = (construction.name, construction.task.name, seed)
        if name in known or (asked.only and construction.name not in asked.only):
            continue
        if time.monotonic() > until_s:
            break
        known[name] = outcome = try_advice(construction, seed)
        with KEPT.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        print(f"{' '.join(map(str, name))}: {outcome.word} {outcome.seconds:.0f} s", file=sys.stderr, flush=True)
    before = [it for it in kept if it.superseded]
    PAGE.write_text(page((*known.values(), *before)), encoding="utf-8")


def read_kept() -> Iterator[Outcome]:
    """What earlier calls trained."""
    if KEPT.exists():
        for line in KEPT.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            yield Outcome(**fields | {"advice": tuple(fields["advice"])})


def wanted() -> Iterator[tuple[Construction, int]]:
    """Every sick construction of learning, one seed after the other; the dear ones last. Machines are not advised."""
    sick = [it for it in CONSTRUCTIONS if it.harm and not set(it.harm) & {slowed_down, hung, unsaved}]
    rounds = range(max(len(it.seeds) for it in sick))
    for dear in (False, True):
        of = [it for it in sick if ("mission" in it.task.name) is dear]
        yield from ((it, it.seeds[place]) for place in rounds for it in of if place < len(it.seeds))


def try_advice(construction: Construction, seed: int) -> Outcome:
    """Both arms of one construction."""
    begun_s, task = time.monotonic(), construction.task
    sick = sick_spec(construction, seed)
    control = trained(construction, seed, sick)
    bare = Outcome(construction.name, task.name, seed, "no settings")
    found = first_advice(control, sick)
    twin = read_trace(trace_path(_twin(construction).trace_name(seed)))
    onset = construction.onset or 1
    if not any(test(control, twin, onset, task.scores) for test in construction.harm):
        return _seconds(_with(bare, word="not sick"), begun_s)
    if found is None:
        return _seconds(bare, begun_s)
    told = _with(bare, rule=found.rule, advice=found.advice_set)
    try:
        better = draft_change(sick, found.advice_set)
    except MissionError:
        return _seconds(_with(told, word="refused"), begun_s)
    advised = trained(construction, seed, better)
    return _seconds(_compared(told, construction, control, advised, twin), begun_s)


def sick_spec(construction: Construction, seed: int) -> Spec:
    """With what the second attempt goes on."""
    task = construction.task
    changed = {**construction.ppo, **(construction.resumed or {})}
    spec = task.spec(construction.name, seed, construction.updates, changed, construction.resumed_env)
    changes = AS_SETTINGS.get(construction.name)
    change = {} if changes is None else changes(spec.ppo)
    return structs.replace(spec, ppo=structs.replace(spec.ppo, **change))


def trained(construction: Construction, seed: int, then: Spec) -> Trace:
    """Healthy up to the onset, then an attempt of `then`; from the beginning where there was no good point before."""
    onset = construction.onset or 1
    if onset <= 1:
        return record_training(construction.name, [then], construction.tamper)
    first = construction.task.spec(construction.name, seed, construction.updates, construction.ppo)
    act: Tamper = tamper.leaves_alone
    if construction.name not in AS_SETTINGS and construction.resumed is None:
        act = construction.tamper

    def attend(bench: Bench, update: int) -> None:
        if bench.attempt > 1:
            act(bench, update)
        elif update == onset:
            bench.stop()

    return record_training(construction.name, [first, then], attend)


def first_advice(trace: Trace, sick: Spec) -> Finding | None:
    """The first finding worse than information whose advice has settings, as it would have opened live."""
    limits = Limits()
    judge = HealthJudge(settings_of(trace.spec), limits)
    for record in trace.records:
        if isinstance(record, TrainingStarted) and record.attempt > 1:
            judge = HealthJudge(settings_of(sick), limits)
        for finding in judge.feed(record):
            if finding.severity != "info" and finding.advice_set and finding.state != "cleared":
                return finding
    return None


def _compared(told: Outcome, construction: Construction, control: Trace, advised: Trace, twin: Trace) -> Outcome:
    scores, last = construction.task.scores, construction.updates
    first, onset = last * 3 // 4 + 1, construction.onset or 1

    def mean(trace: Trace, low: int, high: int) -> float | None:
        found = [score for row in trace.updates if low <= row.update <= high for score in scores(row.episodes)]
        return statistics.fmean(found) if found else None

    level, start = mean(twin, first, last) or 0.0, mean(twin, 1, 20) or 0.0
    own, other = (start if _failed(it) else mean(it, first, last) for it in (advised, control))
    own, other = (start if it is None else it for it in (own, other))
    harmed = _failed(advised) or fell_behind(advised, twin, onset, scores) is not None
    gain = MARGIN * abs(level - start)
    word: Word = "better" if own > other + gain else "worse" if own < other - gain else "no difference"
    if not harmed and word != "worse":
        word = "cured"
    return _with(told, word=word, control=other, advised=own, twin=level, start=start)


def _failed(trace: Trace) -> bool:
    last = trace.records[-1]
    return isinstance(last, TrainingEnded) and last.how == "failed"


def _twin(construction: Construction) -> Construction:
    task = construction.task
    same = [twin for twin in TWINS if twin.task.name == task.name]
    return (same + [twin for twin in TWINS if twin.task.env.id == task.env.id])[0]


def _with(outcome: Outcome, **fields: Any) -> Outcome:
    return Outcome(**asdict(outcome) | fields)


def _seconds(outcome: Outcome, begun_s: float) -> Outcome:
    return _with(outcome, seconds=round(time.monotonic() - begun_s, 1))


HEAD = """# Does the advice cure?

Written by `make health-advice`. From the last good point of each sick construction ([health](../health.md)) two
trainings go on with the same random numbers to the same budget: the control, which the construction makes sick, and one
that follows the first warning or worse that advises settings. Mistakes that are settings (a learning rate, epochs, a
minibatch) are in the settings of both, so advice can undo them; what is wrong with the world (rewards, observations,
code) stays wrong in both.

*Cured*: in its last quarter the advised training is back inside its healthy twin's band, by the same test that says of
the control that it came to harm. *Better* and *worse*: its mean score of that quarter differs from the control's by
more than a tenth of what the twin learned; less is *no difference*. A training whose numbers became nan counts as
having learned nothing.
"""


def page(every: Sequence[Outcome]) -> str:
    """The page, and what it comes to."""
    outcomes = [it for it in every if not it.superseded]
    before = [it for it in every if it.superseded]
    tried = [it for it in outcomes if it.word in ("cured", "better", "no difference", "worse")]
    good = sum(it.word in ("cured", "better") for it in tried)
    worse = sum(it.word == "worse" for it in tried)
    silent = sum(it.word == "no settings" for it in outcomes)
    goals = (
        f"**{good} of {len(tried)} advised trainings are cured or better than their control "
        f"({_share(good, len(tried))}; goal 70 %), {worse} are worse ({_share(worse, len(tried))}; goal: up to 5 %).** "
        f"In {silent} more no finding of the control advised a setting. {_left(outcomes)}"
    )
    words: tuple[Word, ...] = ("cured", "better", "no difference", "worse", "no settings")
    rows = [f"| construction | task | first advice | {' | '.join(words)} |", "|---|---|---|---|---|---|---|---|"]
    for key in dict.fromkeys((it.construction, it.task) for it in outcomes):
        of = [it for it in outcomes if (it.construction, it.task) == key]
        counts = Counter(it.word for it in of)
        said = Counter(f"{it.rule}: {' '.join(it.advice)}" for it in of if it.advice).most_common(1)
        advice = f"`{said[0][0]}`" if said else "–"
        cells = [str(counts[word] or "") for word in words]
        rows.append(f"| {key[0]} | {key[1]} | {advice} | {' | '.join(cells)} |")
    parts = [HEAD.rstrip(), goals, "\n".join(rows), "## Each pair", _pairs(tried)]
    if before:
        parts += ["## Advice that is given no longer", _pairs(before)]
    return "\n\n".join(parts) + "\n"


def _pairs(outcomes: Sequence[Outcome]) -> str:
    rows = ["| construction | task | seed | advice | control | advised | twin | |", "|---|---|---|---|---|---|---|---|"]
    for it in sorted(outcomes, key=lambda it: (it.construction, it.task, it.seed)):
        figures = " | ".join(f"{value:.4g}" for value in (it.control, it.advised, it.twin) if value is not None)
        what = f"{it.construction} | {it.task} | {it.seed} | `{' '.join(it.advice)}`"
        rows.append(f"| {what} | {figures} | {it.word} |")
    return "\n".join(rows)


def _left(outcomes: Sequence[Outcome]) -> str:
    done = {(it.construction, it.task, it.seed) for it in outcomes}
    left = sum((it.name, it.task.name, seed) not in done for it, seed in wanted())
    return f"{left} of {left + len(done)} pairs are not trained yet." if left else "Every pair is trained."


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


if __name__ == "__main__":
    main()
