"""Settings and limits by which `judge` judges a log: those of its own run, else of the log and of the command line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from mission_tui.cli.session import Session
from mission_tui.errors import UsageError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import RETURN, MetricRecord, number
from mission_tui.fleet.health import HealthJudge, Settings, settings_of
from mission_tui.fleet.health.algorithms import (
    OF_ANY,
    PPO,
    RETURNS_ALONE,
    UNKNOWN,
    Algorithm,
    RecognizedAlgorithm,
    is_of_no_known_algorithm,
    other_called,
)
from mission_tui.fleet.health.judge import unfit
from mission_tui.fleet.health.replay import replay
from mission_tui.fleet.specs.health_file import HealthFile, profile_for, profile_of, with_file_above, with_files_below
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.spec import Schedule, Spec
from mission_tui.fleet.specs.thresholds import HealthKeep
from mission_tui.records.logs.log import TrainingLog, by_row, recognize_in_rows

RATE = "train/learning_rate"
_NAMED = 3
"""Updates at which the steps of a log go back, or its tags, that are named at most."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What the command line says of the logs. `said` has the names of `Settings`; `files` are the usual limits, nearest
    first, and `health` lies over all of them.
    """

    spec: Spec | None = None
    said: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[HealthFile, ...] = ()
    health: HealthFile | None = None

    @classmethod
    def of(
        cls, session: Session, preset: str | None, spec_file: Path | None, health: Path | None, said: Mapping[str, Any]
    ) -> JudgeSettings:
        """What the options mean. Raises `UsageError` and `PresetError`."""
        from mission_tui.records.preset_files import load_health_file, resolved_preset
        from mission_tui.records.runs.spec_file import read_spec

        if preset is not None and spec_file is not None:
            raise UsageError("give --preset or --spec, not both")
        files = session.health()
        spec = read_spec(spec_file) if spec_file is not None else None
        if preset is not None:
            spec = resolved_preset(preset, session.preset_dirs, files)
        return cls(spec, said, files, load_health_file(health) if health is not None else None)


def judge_log(
    log: TrainingLog,
    judge_settings: JudgeSettings,
    passing: Callable[[Sequence[MetricRecord]], Iterable[MetricRecord]] = iter,
) -> tuple[str, tuple[Finding, ...]]:
    """The settings that `log` was judged by, in words, and every finding, oldest first.

    A log of another algorithm than PPO is judged only by the rules that fit it, and the words say so. `passing`
    sees each record just before it is judged.

    Raises `UsageError` when the command line sets what the run itself records, or settings of another rollout size.
    """
    if log.specs:
        if judge_settings.spec is not None or judge_settings.said:
            raise UsageError(
                f"{log.path}: is a run of mission-tui with its own settings: leave out --preset, --spec and the like"
            )
        specs = {attempt: _limited(spec, judge_settings) for attempt, spec in log.specs.items()}
        newest = settings_of(specs[max(specs)])
        if (other := _of_run(log)) is not None:
            words = f"a run of {specs[max(specs)].run.algo}: judged by {', '.join(other.rules)}"
            words = f"{words}; not for this algorithm: {', '.join(unfit(other))}"
            return words, replay(specs, log.records, log.events, log.died, passing)
        words = _words(newest)
        if _is_of_command(log):
            told = recognize_in_rows(log.updates_done)
            if is_of_no_known_algorithm(tags := _tags(log)):
                words = f"{_no_known_algorithm_in_words(tags)}: judged by {', '.join(OF_ANY)}"
            elif told is not None and told.algorithm is not None:
                words = _other_in_words(told.algorithm, told.tag)
        return words, replay(specs, log.records, log.events, log.died, passing)
    log, told = by_row(log), recognize_in_rows(log.updates_done)
    settings = _settings(log, judge_settings)
    limits = _limits(settings, judge_settings)
    if is_of_no_known_algorithm(tags := _tags(log)):
        words = f"{_no_known_algorithm_in_words(tags)}: judged by {', '.join(OF_ANY)}"
        words = f"{words}{_anew_in_words(log)}{_unknown_steps_in_words(log)}{_unknown_return_in_words(log)}"
        return words, _judged(replace(settings, rollout=None), limits, passing(log.records), RETURNS_ALONE)
    if told is None or told.algorithm is None:
        words = (
            f"{_words(settings, _rates(log))}{_rows_in_words(log)}{_anew_in_words(log)}{_unknown_return_in_words(log)}"
        )
        return words, _judged(settings, limits, passing(log.records))
    other, settings = told.algorithm, replace(settings, rollout=None, n_epochs=None)
    return _other_in_words(other, told.tag), _judged(settings, limits, passing(log.records))


def algorithm_of(log: TrainingLog) -> tuple[str, tuple[str, ...]]:
    """What `log` is of, and the rules that do not fit it."""
    if (other := _of_run(log)) is not None:
        return other.name, unfit(other)
    ours = log.specs and not _is_of_command(log)
    told = RecognizedAlgorithm(None, "") if ours else recognize_in_rows(log.updates_done)
    if told is None:
        return UNKNOWN, ()
    return (PPO, ()) if told.algorithm is None else (told.algorithm.name, unfit(told.algorithm))


def _is_of_command(log: TrainingLog) -> bool:
    """Whether it is a run of somebody's own program, whose algorithm only its rows may tell."""
    return bool(log.specs) and log.specs[max(log.specs)].run.command is not None


def _other_in_words(other: Algorithm, tag: str) -> str:
    """That a log is not of PPO, which `tag` shows, and which rules judge it."""
    kin = f" ({', '.join(other.kin)})" if other.kin else ""
    words = f"a log of {other.name} or its kin{kin} and not of PPO ({tag}): judged by {', '.join(other.rules)}"
    return f"{words}; not for this algorithm: {', '.join(unfit(other))}"


def _of_run(log: TrainingLog) -> Algorithm | None:
    """The algorithm of a run of ours, which its spec names; None for PPO and for logs of others."""
    trained = other_algorithm(log.specs[max(log.specs)].run.algo) if log.specs else None
    return None if trained is None else other_called(trained.called)


def _judged(
    settings: Settings, limits: HealthKeep, records: Iterable[MetricRecord], other: Algorithm | None = None
) -> tuple[Finding, ...]:
    judge, found = HealthJudge(settings, limits, other=other), dict[str, Finding]()
    for record in records:
        found |= {finding.id: finding for finding in judge.feed(record)}
    return tuple((found | {finding.id: finding for finding in judge.findings if finding.state == "open"}).values())


def _no_known_algorithm_in_words(tags: Iterable[str]) -> str:
    """What a log is whose `tags` no algorithm of Stable-Baselines3 writes by itself."""
    named = sorted(tag for tag in tags if tag.startswith("train/"))
    more = ", ..." if len(named) > _NAMED else ""
    return (
        f"of no algorithm known here ({', '.join(named[:_NAMED])}{more})"
        if named
        else "returns alone, of any algorithm"
    )


def _rows_in_words(log: TrainingLog) -> str:
    """That rows tell of several updates each, and are counted in their stead."""
    if log.log_interval == 1:
        return ""
    many = "several updates, and does not say how many" if log.log_interval is None else f"{log.log_interval} updates"
    return f"; each row tells of {many}: rows are what is counted below"


def _unknown_return_in_words(log: TrainingLog) -> str:
    """That no row has a return, without which no finding means little."""
    if any(RETURN in row.metrics for row in log.updates_done):
        return ""
    why = "" if is_of_no_known_algorithm(_tags(log)) else ", because no episode ended or no Monitor was used"
    return f"; no row has {RETURN}{why}: most rules need it and say nothing"


def _unknown_steps_in_words(log: TrainingLog) -> str:
    return "; no row has time/total_timesteps" if log.settings.total_timesteps is None else ""


def _tags(log: TrainingLog) -> set[str]:
    return {tag for row in log.updates_done for tag in row.metrics}


def _anew_in_words(log: TrainingLog) -> str:
    """Where its steps go back, as where two trainings stand in one file: rules begin anew there."""
    rows = log.updates_done
    begun = [later.update for earlier, later in pairwise(rows) if later.attempt > earlier.attempt]
    if not begun:
        return ""
    which = ", ".join(f"{update:,}" for update in begun[:_NAMED]) + (", ..." if len(begun) > _NAMED else "")
    counted = "update" if log.log_interval == 1 else "row"
    return f"; steps go back at {counted} {which}, as where another training begins: judged by itself from there"


def _limited(spec: Spec, judge_settings: JudgeSettings) -> Spec:
    """`spec` with the limits to judge it by: its own; for one that no launch resolved, the usual ones under them."""
    profile, keep = profile_of(spec), spec.keep.health
    if keep.profile == "auto":
        keep = with_files_below(keep, judge_settings.files, profile)
    if judge_settings.health is not None:
        keep = with_file_above(keep, judge_settings.health, profile)
    return structs.replace(spec, keep=structs.replace(spec.keep, health=keep))


def _settings(log: TrainingLog, judge_settings: JudgeSettings) -> Settings:
    """The log's own words, under those of the preset, under those of the options; but a column, which tells of each
    update (`train/learning_rate`), is truer than an option.
    """
    settings = log.settings
    if judge_settings.spec is not None:
        spec = settings_of(judge_settings.spec, settings.total_timesteps)
        if settings.rollout is not None and settings.rollout != spec.rollout:
            raise UsageError(
                f"{log.path}: has {settings.rollout:,} steps per update, but '{judge_settings.spec.preset}' has "
                f"{spec.rollout:,}: it was not trained with that preset"
            )
        settings = spec
    logged = _tags(log)
    settings = replace(
        settings, **{name: it for name, it in judge_settings.said.items() if f"train/{name}" not in logged}
    )
    if settings.rollout is None or settings.batch_size is None or settings.n_epochs is None:
        return settings
    return replace(settings, gradient_steps=math.ceil(settings.rollout / settings.batch_size) * settings.n_epochs)


def _limits(settings: Settings, judge_settings: JudgeSettings) -> HealthKeep:
    if judge_settings.spec is not None:
        return _limited(judge_settings.spec, judge_settings).keep.health
    profile = profile_for(settings.rollout, settings.clip_range)
    keep = with_files_below(HealthKeep(), judge_settings.files, profile)
    return keep if judge_settings.health is None else with_file_above(keep, judge_settings.health, profile)


def _rates(log: TrainingLog) -> str:
    """The first and the last learning rate of its rows, which need not lie on a line; "" where they have none."""
    rates = [rate for row in log.updates_done if (rate := number(row.metrics.get(RATE))) is not None]
    return f"{rates[0]:.3g} at first and {rates[-1]:.3g} at last" if rates else ""


def _words(settings: Settings, rates: str = "") -> str:
    """What is known of `settings`; `rates` stand for a learning rate that is neither one number nor a line."""
    rate = settings.learning_rate
    told = f"{rate.start:g} to {rate.end:g}" if isinstance(rate, Schedule) else rate
    settings_words = (
        ("steps", f"{settings.total_timesteps:,}" if settings.total_timesteps else None),
        ("rollout", f"{settings.rollout:,}" if settings.rollout else None),
        ("batch size", settings.batch_size),
        ("epochs", settings.n_epochs),
        ("learning rate", (rates or None) if told is None else told),
        ("clip range", settings.clip_range),
    )
    known = ", ".join(f"{name} {value}" for name, value in settings_words if value is not None)
    unknown = ", ".join(name for name, value in settings_words if value is None)
    return f"{known}{f'; not known: {unknown}' if unknown else ''}"
