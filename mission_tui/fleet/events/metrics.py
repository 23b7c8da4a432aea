"""The lines of `metrics.jsonl`: what a trainer says, one record per update. The trainer is the only writer.

Absent means not known. Non-finite numbers travel as the strings "nan", "inf" and "-inf", because JSON has no others
and null means absent. `seq` rises by one per line and never restarts; `update` and `timesteps` go on across attempts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct, field, structs

from mission_tui.fleet.ranges import Bytes, Count, Rate, Seconds, UnixTime

RETURN = "rollout/ep_rew_mean"
"""SB3's tag of the mean return of the newest episodes, which everything about learning is about."""
EVAL_RETURN, EVAL_SUCCESS = "eval/mean_reward", "eval/success_rate"
"""What periodic evaluations come to, by the names that SB3's `EvalCallback` gives it."""

Metric = float | Annotated[str, Meta(pattern="^(nan|-?inf)$")]


def spoken(value: float) -> Metric:
    """`value` as it is written: finite numbers as they are, others by name."""
    if math.isfinite(value):
        return float(value)
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def mean_value(values: Iterable[float]) -> float:
    """The mean of at least one value; nan for infinities of both signs, infinite where their sum is beyond floats."""
    known = list(values)
    try:
        return math.fsum(known) / len(known)
    except (ValueError, OverflowError):
        return sum(known) / len(known)


def plain(value: object) -> float | None:
    """The number that `value` is, nan and infinity included; None for what is no number: a truth, text, a list, or an
    integer beyond every float.
    """
    if isinstance(value, bool | str | bytes) or type(value).__name__ in ("bool_", "bool"):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def number(metric: Metric | None) -> float | None:
    """The float behind a written metric; None stays None."""
    return None if metric is None else float(metric)


class Episodes(Struct, frozen=True, omit_defaults=True):
    """Episodes that ended in this update: exact count and outcomes; at most 256 sampled raw returns and lengths."""

    n: Count = 0
    r: tuple[Metric, ...] = ()
    l: tuple[Count, ...] = ()  # noqa: E741 - the name Monitor files have used for years
    outcomes: dict[str, Count] = field(default_factory=dict)


class PolicyStep(Struct, frozen=True, array_like=True):
    """How far one update moved the policy: KL, share of the transitions that were clipped, clip range; None where not
    known.
    """

    kl: Metric | None = None
    clip_fraction: Metric | None = None
    clip_range: Metric | None = None


class Resumed(Struct, frozen=True, omit_defaults=True):
    """What was recorded with the checkpoint of a resume (its last episodes, the entropy loss of its last update, the
    steps of its last updates, oldest first), and what the policy scored when it was played before training went on;
    None where nothing was.
    """

    exact: bool = False
    mean_before: Metric | None = None
    std_before: Metric | None = None
    episodes_before: Count = 0
    entropy_before: float | None = None
    steps_before: tuple[PolicyStep, ...] = ()
    mean: Metric | None = None
    std: Metric | None = None
    episodes: Count = 0


class TrainingStarted(Struct, frozen=True, tag="start", tag_field="kind", omit_defaults=True):
    """An attempt begins to learn. Readers drop rows of earlier attempts later than `from_update`.

    `reward_threshold` and `max_episode_steps` are what the environment's registration says; None where it says nothing.
    `vec` and `device` are how environments are stepped and where the policy computes, once "auto" has been decided.
    `moved` says what of the machine is another one than that of the checkpoint, a line each.
    """

    seq: Count
    attempt: Count
    t: UnixTime
    from_update: Count = 0
    from_timesteps: Count = 0
    checkpoint: str | None = None
    exact: bool = False
    reward_threshold: float | None = None
    max_episode_steps: Count | None = None
    resumed: Resumed | None = None
    vec: str = ""
    device: str = ""
    moved: tuple[str, ...] = ()


class UpdateDone(Struct, frozen=True, tag="update", tag_field="kind", omit_defaults=True):
    """One PPO update: `metrics` by SB3's tags plus ours, seconds of its two phases, steps per second of this update.

    `total_timesteps` are those that a command said it means to reach. `env_s` are the seconds of the rollout in which
    environments were stepped; the rest chose actions and kept books. None where the two were not timed apart.
    `trained_s` are the seconds that the run has trained in all its attempts, with what lies between updates and without
    pauses, as its budget counts them; None where the trainer does not say it.
    """

    seq: Count
    attempt: Count
    update: Count
    timesteps: Count
    t: UnixTime
    rollout_s: Seconds
    update_s: Seconds
    steps_per_s: Rate
    metrics: dict[str, Metric] = field(default_factory=dict)
    episodes: Episodes = Episodes()
    total_timesteps: Count | None = None
    env_s: Seconds | None = None
    trained_s: Seconds | None = None


class CheckpointSaved(Struct, frozen=True, tag="checkpoint", tag_field="kind", omit_defaults=True):
    """A verified checkpoint directory `name` exists; `reason` says why it was taken. One that a command `reported` is
    its own: `name` is then the path of its file or folder, and nobody here has read it.
    """

    seq: Count
    attempt: Count
    update: Count
    timesteps: Count
    t: UnixTime
    name: str
    reason: Literal["time", "steps", "asked", "stop", "end", "finding", "reported"]
    size_bytes: Bytes = 0
    seconds: Seconds = 0.0


class DutyFailed(Struct, frozen=True, tag="duty_failed", tag_field="kind", omit_defaults=True):
    """The trainer could not do `duty` (such as "checkpoint" or "retention") because of `why`, and trains on.

    `number` counts its failures in this attempt, from 1: the word on the socket about it carries the same. `over`: it
    can do it again, after as many failures; `why` says how it goes on.
    """

    seq: Count
    attempt: Count
    update: Count
    timesteps: Count
    t: UnixTime
    duty: str
    why: str
    number: Count = 0
    over: bool = False


class EvaluationDone(Struct, frozen=True, tag="evaluation", tag_field="kind", omit_defaults=True):
    """A periodic evaluation of the policy at `timesteps`.

    `won` is the share of its episodes that were won; None where the environment knows no winning. `put_off_from` are
    the timesteps at which it was due, if it was put off because evaluations had taken their share of the time.
    """

    seq: Count
    attempt: Count
    update: Count
    timesteps: Count
    t: UnixTime
    mean: Metric
    std: Metric
    episodes: Count
    won: float | None = None
    put_off_from: Count | None = None


class SettingsChanged(Struct, frozen=True, tag="set", tag_field="kind", omit_defaults=True):
    """Between update `update` and the next one the trainer took over `assignments`, which are `--set` words.

    `number` is the `seq` of the `set` line in `events.jsonl` that asked for it; `diff` has a line per changed setting.
    """

    seq: Count
    attempt: Count
    update: Count
    timesteps: Count
    t: UnixTime
    number: Count
    assignments: tuple[str, ...]
    diff: tuple[str, ...] = ()


class TrainingEnded(Struct, frozen=True, tag="end", tag_field="kind", omit_defaults=True):
    """The trainer's own last word. `failure` names the kind when `how` is failed; `cause` is a sentence.

    `unsaved` says why its last boundary is not what `checkpoint` holds, and how old that is. `from_env`: what was not
    finite, and ended it, came from the environment.
    """

    seq: Count
    attempt: Count
    update: Count
    timesteps: Count
    t: UnixTime
    how: Literal["finished", "stopped", "failed"]
    failure: Literal["config", "env", "callback", "nan", "oom", "gpu_lost", "gpu_fault", "unknown"] | None = None
    cause: str = ""
    checkpoint: str | None = None
    unsaved: str = ""
    from_env: bool = False


MetricRecord = (
    TrainingStarted | UpdateDone | CheckpointSaved | DutyFailed | EvaluationDone | SettingsChanged | TrainingEnded
)


def finite_returns(rows: Iterable[UpdateDone]) -> list[float]:
    """The mean return of each update that has one; what is not finite is none."""
    values = (number(row.metrics.get(RETURN)) for row in rows)
    return [value for value in values if value is not None and math.isfinite(value)]


def counted_records(records: Iterable[MetricRecord]) -> tuple[list[MetricRecord], list[int]]:
    """What counts of `records`, in file order, and the `seq` of the rows that later attempts took back."""
    kept: list[MetricRecord] = []
    rewound: list[int] = []
    for record in records:
        if isinstance(record, TrainingStarted):
            ahead = {it.seq for it in kept if not isinstance(it, TrainingStarted) and it.update > record.from_update}
            rewound += ahead
            kept = [it for it in kept if it.seq not in ahead]
        kept.append(record)
    return kept, sorted(rewound)


def evaluated(record: EvaluationDone) -> dict[str, Metric]:
    """What an evaluation came to, by the tags of its curves."""
    return {EVAL_RETURN: record.mean} | ({} if record.won is None else {EVAL_SUCCESS: record.won})


def evaluated_updates(records: Iterable[MetricRecord]) -> list[UpdateDone]:
    """The updates of `records`, which are those that count in file order, each with what an evaluation of its policy
    came to among its metrics. An evaluation of which no update is there is left out.
    """
    updates: list[UpdateDone] = []
    places: dict[int, int] = {}
    for record in records:
        if isinstance(record, UpdateDone):
            places[record.update] = len(updates)
            updates.append(record)
        elif isinstance(record, EvaluationDone) and (at := places.get(record.update)) is not None:
            updates[at] = structs.replace(updates[at], metrics=updates[at].metrics | evaluated(record))
    return updates
