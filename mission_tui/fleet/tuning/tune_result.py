"""The result of a tune: a row for each candidate of each stage, a verdict, a host profile, and cautions; and how many
runs of one preset at once are worth it on a machine: one after another joins, until the last one brought too little.

What each run brought is `fleet.marginal_gain`'s to say; the first is what the others are added to.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from mission_tui.fleet.bench.ratio import Ratio
from mission_tui.fleet.events.marginal_gain import WORTH, MarginalGain
from mission_tui.fleet.launch_plan import repeat_seed
from mission_tui.fleet.specs.spec import LimitsKeep, Spec
from mission_tui.fleet.tuning.candidates import label_of
from mission_tui.fleet.tuning.profile import HostProfile, settings_of, task_of
from mission_tui.fleet.tuning.record import ProbeDone, TuneBegun, probe_spec
from mission_tui.fleet.tuning.tune_state import Stage, TuneState, tune_state

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
