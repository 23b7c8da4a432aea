"""Made-up trainings of seven kinds that are healthy and look odd, and each rule's own trouble added to each of them.

They ask every rule the same two questions: is it quiet where nothing is wrong, and does it still speak where something
is? What comes out is the table of kinds in `docs/health.md`.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any

from msgspec import structs

from benchmarks.health.cases import Case, Incident, Judging, judged
from benchmarks.health.foreign import as_foreign
from mission_tui.fleet.events.findings import CHECKPOINT
from mission_tui.fleet.events.metrics import DutyFailed, Episodes, MetricRecord, Resumed, TrainingStarted, UpdateDone
from mission_tui.fleet.health import Settings
from mission_tui.fleet.specs.spec import Schedule
from mission_tui.fleet.specs.thresholds import Limits

__all__ = ["FAULTS", "KINDS", "STEPS", "UPDATES", "Kind", "dressed", "said", "said_with", "stream"]

UPDATES, FAULT, STEPS = 320, 230, 1024
RATE, CLIP = 1e-3, 0.2
EARLY = {"plateau": 90}
"""Faults that need longer than the rest to show begin sooner."""

Columns = dict[str, float]


@dataclass(frozen=True, slots=True, eq=False)  # one of a kind: what is kept of it is found by identity
class Kind:
    """A kind of healthy training: `columns` are the values of update `i` of `UPDATES`, with dice of its own."""

    name: str
    what: str
    columns: Callable[[int, random.Random], Columns]
    start: float
    spread: float
    """The return that it began with, to which it falls back when it is harmed; the deviation of its episodes."""
    settings: Mapping[str, Any]


def _solved(i: int, dice: random.Random) -> Columns:
    left = math.exp(-i / 6.0)
    return {
        "ret": 8.0 - 6.0 * math.exp(-i / 3.0),
        "length": 8.0,
        "kl": 0.02 * left + 1e-8,
        "clipped": 0.1 * left if left > 0.01 else 0.0,
        "entropy": 0.001 + 0.9 * left,
        "ev": 0.4 * left + dice.gauss(-0.05, 0.1),
        "value_loss": 2.0 * left + 1e-4,
        "grad": 0.5 * left + 1e-3,
        "std": max(0.01, math.exp(-i / 40.0)),
        "bound": 0.8,
    }


def _annealed(i: int, dice: random.Random) -> Columns:
    left = 1.0 - i / UPDATES
    step = 0.12 * (0.3 + 0.7 * left) * dice.lognormvariate(0.0, 0.1)
    edge = max(1e-6, CLIP * left) / step
    return {
        "ret": 20.0 + 460.0 / (1.0 + math.exp(-(i - 90) / 20.0)),
        "length": 300.0,
        "kl": step * step / 2.0 * left * left + 1e-8,
        "clipped": 2.0 * (1.0 - NormalDist().cdf(edge)),
        "clip": CLIP * left,
        "rate": RATE * left,
        "entropy": 0.3 + 0.6 * left,
        "ev": 0.5 + dice.gauss(0.0, 0.1),
    }


def _noisy(i: int, dice: random.Random) -> Columns:
    return {
        "ret": 20.0 + 300.0 * (1.0 - math.exp(-i / 60.0)),
        "length": 400.0,
        "ev": dice.gauss(0.01, 0.02),
        "value_loss": 90.0 * dice.lognormvariate(0.0, 0.2),
        "grad": 5.0,
    }


def _slow(i: int, dice: random.Random) -> Columns:
    learned = max(0.0, (i - 120) / (UPDATES - 120))
    return {
        "ret": -200.0 + 120.0 * learned,
        "length": 200.0 - 100.0 * learned,
        "kl": 0.003 * dice.lognormvariate(0.0, 0.3),
        "clipped": 0.02,
        "entropy": 0.99 - 0.3 * learned,
        "ev": (0.8 * learned if learned > 0.1 else 0.0) + dice.gauss(0.0, 0.02),
        "value_loss": 30.0 * dice.lognormvariate(0.0, 0.2),
    }


def _normalised(i: int, dice: random.Random) -> Columns:
    left = math.exp(-i / 50.0)
    return {
        "ret": -150.0 - 1050.0 * left,
        "ev": 0.9 - 0.6 * left + dice.gauss(0.0, 0.05),
        "value_loss": 0.02 + 0.1 * left,
        "std": 0.3 + 0.7 * left,
        "bound": 0.6 - 0.4 * left,
    }


def _one_step(i: int, dice: random.Random) -> Columns:
    return {
        "ret": 0.95 - 0.7 * math.exp(-i / 25.0),
        "length": 1.0,
        "ev": dice.gauss(0.02, 0.03),
        "value_loss": 0.1 * dice.lognormvariate(0.0, 0.1),
        "entropy": 0.05 + 0.9 * math.exp(-i / 30.0),
    }


def _sparse(i: int, dice: random.Random) -> Columns:
    learned = min(1.0, max(0.0, (i - 130) / 60.0))
    return {
        "ret": 0.0 if i < 130 else 0.9 * learned,
        "length": 40.0 - 20.0 * learned,
        "kl": 0.004 * dice.lognormvariate(0.0, 0.3),
        "ev": dice.gauss(-2.0, 1.0) if i < 130 else 0.7 * learned,
        "value_loss": 1e-6 + 1e-3 * math.exp(-i / 4.0) if i < 130 else 0.05,
        "grad": 0.05,
        "entropy": 0.97 - 0.4 * learned,
    }


KINDS = (
    Kind("solved", "solved to its ceiling within a few updates", _solved, 2.0, 0.0, {}),
    Kind(
        "annealed",
        "learning rate and clip range decay to 0",
        _annealed,
        20.0,
        100.0,
        {"learning_rate": Schedule(start=RATE, end=0.0), "clip_range_decays": True},
    ),
    Kind("noisy", "episodes differ by a third of all that can be gained", _noisy, 20.0, 100.0, {}),
    Kind("slow", "nothing for 120 of 320 updates, then slowly", _slow, -200.0, 10.0, {}),
    Kind(
        "normalised", "rewards are normalised, returns are not", _normalised, -1200.0, 120.0, {"normalize_reward": True}
    ),
    Kind("one step", "every episode is one step long", _one_step, 0.25, 0.3, {}),
    Kind("sparse", "no reward at all before the first success at update 130", _sparse, 0.0, -1.0, {}),
)


@dataclass(slots=True)
class _Harm:
    """What a fault may change: the values of each update from `FAULT` on, and the records."""

    kind: Kind
    since: int
    before: Columns
    columns: Columns
    dice: random.Random

    def fall(self, share: float = 1.0) -> None:
        """The return falls back to where it began, within ten updates."""
        part = min(1.0, self.since / 10.0) * share
        best = self.before["ret"]
        self.columns["ret"] += part * (self.kind.start - best)


def _kl(harm: _Harm) -> None:
    harm.columns |= {"kl": 0.15, "clipped": 0.6}
    harm.fall()


def _spike(harm: _Harm) -> None:
    if harm.since == 0:
        harm.columns["kl"] = 1.0
    harm.fall()


def _creep(harm: _Harm) -> None:
    harm.columns["kl"] = max(harm.before["kl"], 1e-3) * 1.08**harm.since


def _frozen(harm: _Harm) -> None:
    level, start = harm.before["ret"], harm.kind.start
    wander = 0.06 * abs(level - start) * math.sin(harm.since / 7.0) if harm.kind.name != "solved" else 0.0
    harm.columns |= {"kl": 1e-9, "clipped": 0.0, "ret": start + 0.5 * (level - start) + wander}


def _clip(harm: _Harm) -> None:
    harm.columns["clipped"] = 0.97 if "clip" in harm.columns else 0.6
    harm.fall()


def _setting(**values: float) -> Callable[[_Harm], None]:
    def act(harm: _Harm) -> None:
        harm.columns |= values
        harm.fall()

    return act


def _value_loss(harm: _Harm) -> None:
    harm.columns["value_loss"] = 300.0 * max(harm.before["value_loss"], 1e-3)
    harm.columns["ret"] += min(1.0, harm.since / 30.0) * (harm.kind.start - harm.before["ret"])


def _swinging(harm: _Harm) -> None:
    if harm.since // 12 % 2 == 0:
        harm.columns["ret"] = harm.kind.start


def _growing(harm: _Harm) -> None:
    harm.columns["length"] *= 1.0 + harm.since / 60.0
    level = harm.before["ret"]
    harm.columns["ret"] = level + (harm.columns["ret"] - level) * 0.1


def _still(harm: _Harm) -> None:
    harm.columns["ret"] = harm.kind.start + 0.6 * (harm.before["ret"] - harm.kind.start) + 0.1 * harm.dice.random()


FAULTS: Mapping[str, Callable[[_Harm], None]] = {
    "kl-persistent": _kl,
    "kl-spike": _spike,
    "kl-creep": _creep,
    "policy-frozen": _frozen,
    "clip-fraction": _clip,
    "entropy-collapse": _setting(entropy=0.001),
    "policy-std": _setting(std=0.005),
    "actions-at-bound": _setting(bound=0.95),
    "explained-variance": _setting(ev=-1.0, value_loss=500.0),
    "value-loss": _value_loss,
    "grad-norm": _setting(grad=120.0),
    "ratio": _setting(ratio_first=0.1),
    "drawdown": _setting(),
    "reward-oscillation": _swinging,
    "stall": _growing,
    "outcomes": _setting(),
    "throughput": _setting(rollout_s=3.0),
    "hang": _setting(),
    "nan": _setting(loss=math.nan),
    "checkpoint-age": _setting(),
    "plateau": _still,
    "resume-probe": _setting(),
}
"""What is done from update 230 on to call each rule; some are done to the records (`stream`)."""

_BASE: Columns = {
    "length": 100.0,
    "kl": 0.01,
    "clipped": 0.1,
    "clip": CLIP,
    "rate": RATE,
    "entropy": 0.6,
    "ev": 0.6,
    "value_loss": 1.0,
    "grad": 0.6,
    "std": 0.8,
    "bound": 0.1,
    "ratio_first": 1e-7,
    "rollout_s": 0.75,
    "loss": 0.1,
}
_TAGS = {
    "ret": "rollout/ep_rew_mean",
    "length": "rollout/ep_len_mean",
    "kl": "train/approx_kl",
    "clipped": "train/clip_fraction",
    "clip": "train/clip_range",
    "rate": "train/learning_rate",
    "entropy": "policy/entropy_ratio",
    "ev": "train/explained_variance",
    "value_loss": "train/value_loss",
    "grad": "train/grad_norm",
    "std": "policy/std_min_ratio",
    "bound": "policy/actions_at_bound",
    "ratio_first": "train/ratio_first",
    "loss": "train/loss",
}


def stream(kind: Kind, fault: str | None = None, seed: int = 0) -> Case:
    """A training of `kind` as ours, with the trouble of rule `fault` from update 230 on."""
    settings = Settings(
        total_timesteps=UPDATES * STEPS,
        rollout=STEPS,
        learning_rate=RATE,
        n_epochs=4,
        batch_size=256,
        gradient_steps=16,
        clip_range=CLIP,
        ent_coef=0.0,
        vf_coef=0.5,
        gamma=0.99,
        normalize_reward=False,
        normalize_obs=False,
        checkpoint_every_s=600.0,
    )
    settings = structs.replace(settings, **kind.settings)
    return Case(
        name=kind.name if fault is None else f"{kind.name}, {fault}",
        source="constructed",
        env=kind.name,
        kind=kind.name,
        label="healthy" if fault is None else "positive",
        records=_records(kind, fault, seed),
        settings=settings,
        sick_from=None if fault is None else EARLY.get(fault, FAULT),
        rules=() if fault is None else (fault,),
    )


def dressed(case: Case) -> Iterator[tuple[str, Case]]:
    """`case` as ours, and as a stranger's log with discrete and with continuous actions."""
    yield "ours", case
    for name, left_out in (("discrete", "train/std"), ("continuous", "policy/entropy_ratio")):
        rows = tuple(_with_entropy(row, left_out) for row in case.rows)
        foreign = as_foreign(replace(case, records=rows))
        assert foreign is not None
        yield f"foreign, {name}", foreign


def said(case: Case) -> dict[str, str]:
    """The worst that each rule said of `case`; of one with a fault, from the fault on."""
    return _worst(case, judged(case, Limits()))


def _worst(case: Case, incidents: Iterable[Incident]) -> dict[str, str]:
    gravity = {"info": 0, "warning": 1, "critical": 2}
    worst: dict[str, str] = {}
    for incident in incidents:
        if incident.last < (case.sick_from or 0) - 10:
            continue
        if gravity[incident.level] >= gravity.get(worst.get(incident.rule, ""), -1):
            worst[incident.rule] = incident.level
    return worst


@cache
def said_with(name: str, fault: str | None = None) -> dict[str, str]:
    """The same of a training of the kind of that name, without judging anew what all of a kind have in common."""
    (kind,) = (kind for kind in KINDS if kind.name == name)
    case, onset = stream(kind, fault), _onset(fault)
    alike = _judged_before(kind, onset)
    return _worst(case, deepcopy(alike).through(case.records[len(_begun(kind, onset, 0).records) :]).incidents)


@cache
def _judged_before(kind: Kind, onset: int) -> Judging:
    return Judging(stream(kind), Limits()).through(_begun(kind, onset, 0).records)


@cache
def _begun(kind: Kind, onset: int, seed: int) -> _Course:
    """A healthy training as far as update `onset`, from which it goes on in each way."""
    course = _Course(kind, seed)
    course.go_on(0, onset, None)
    return course


def _onset(fault: str | None) -> int:
    return EARLY.get(fault or "", FAULT)


def _records(kind: Kind, fault: str | None, seed: int) -> tuple[MetricRecord, ...]:
    onset = _onset(fault)
    course = _begun(kind, onset, seed).copy()
    course.go_on(onset, UPDATES, fault)
    return tuple(course.records)


class _Course:
    """A made-up training on its way: its records so far, and all that the next ones depend on."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self._kind = kind
        self._dice, self._before, self._t = random.Random(seed), Columns(), 1000.0
        self._window: deque[float] = deque(maxlen=100)
        self._attempt = 1
        self.records: list[MetricRecord] = [TrainingStarted(1, 1, self._t)]

    def copy(self) -> _Course:
        """One that goes on by itself; records are shared, which nobody changes."""
        other = copy(self)
        other._dice, other._window = deepcopy(self._dice), deepcopy(self._window)
        other._before, other.records = dict(self._before), list(self.records)
        return other

    def go_on(self, first: int, end: int, fault: str | None) -> None:
        """Updates `first` to `end`, `end` excluded, with the trouble of rule `fault` if there is one."""
        kind, dice = self._kind, self._dice
        for i in range(first, end):
            columns = _BASE | kind.columns(i, dice)
            if fault is not None:
                FAULTS[fault](_Harm(kind, i - first, self._before, columns, dice))
            else:
                self._before = columns
            if i == FAULT and fault == "checkpoint-age":
                self.records.append(
                    DutyFailed(i + 2, self._attempt, i, i * STEPS, self._t, CHECKPOINT, "no space left on device", 1)
                )
            if i == FAULT and fault == "resume-probe":
                self._resume(i)
            self._t += 1.0 if fault != "hang" or i != FAULT else 3600.0
            ended = max(1, round(STEPS / columns["length"]))
            returns = _episodes(kind, columns["ret"], dice, ended)
            self._window.extend(returns)
            columns["ret"] = sum(self._window) / len(self._window)
            stalled = fault == "outcomes"
            self.records.append(_row(i, self._attempt, self._t, columns, returns, stalled=stalled))

    def _resume(self, i: int) -> None:
        self._attempt = 2
        mean, was = self._kind.start, self._before["ret"]
        played = Resumed(
            mean_before=was,
            std_before=abs(was - mean) / 20 + 0.01,
            episodes_before=100,
            mean=mean,
            std=0.01,
            episodes=20,
        )
        self.records.append(TrainingStarted(i + 2, self._attempt, self._t, i, resumed=played))


def _episodes(kind: Kind, mean: float, dice: random.Random, count: int) -> list[float]:
    """The returns of so many episodes; of a kind without a spread each is a success or none."""
    # Ten million of them are drawn for one page.
    draw, uniform, spread = dice.gauss, dice.random, kind.spread
    if spread < 0.0:
        return [float(uniform() < mean) for _ in range(count)]
    return [draw(mean, spread) for _ in range(count)]


def _row(i: int, attempt: int, t: float, columns: Columns, returns: list[float], *, stalled: bool) -> UpdateDone:
    rollout_s = columns["rollout_s"] * (1.0 + 0.03 * math.sin(i))
    metrics = {tag: columns[name] for name, tag in _TAGS.items()}
    metrics |= {"policy/std_max_ratio": columns["std"], "train/n_epochs_done": 4.0, "train/ratio_max": 1.3}
    ended, shown = len(returns), tuple(returns[:16])
    outcomes = {"stalled": ended} if stalled else {}
    return UpdateDone(
        seq=i + 10,
        attempt=attempt,
        update=i + 1,
        timesteps=(i + 1) * STEPS,
        t=t,
        rollout_s=rollout_s,
        update_s=0.25,
        steps_per_s=STEPS / (rollout_s + 0.25),
        metrics={tag: value if math.isfinite(value) else str(value) for tag, value in metrics.items()},
        episodes=Episodes(ended, shown, (round(columns["length"]),) * len(shown), outcomes),
    )


def _with_entropy(row: UpdateDone, left_out: str) -> UpdateDone:
    metrics = dict(row.metrics)
    entropy, std = float(metrics["policy/entropy_ratio"]), float(metrics["policy/std_min_ratio"])
    if left_out == "train/std":
        metrics["train/entropy_loss"] = -entropy * math.log(4.0)
    else:
        metrics |= {"train/std": std, "train/entropy_loss": -(math.log(std) + 1.4189)}
    metrics["train/n_updates"] = 4.0 * row.update
    return UpdateDone(
        **{name: getattr(row, name) for name in row.__struct_fields__ if name != "metrics"}, metrics=metrics
    )
