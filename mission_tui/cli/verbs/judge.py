"""`mission-tui judge`: what the health rules say of any log: our runs, SB3's CSV and JSON, TensorBoard, monitors.

Nothing is started and nothing is written: the same rules that watch live runs read the file from its first row, with
the settings and limits of its own run, else of the log and of the command line. Of several logs each gets one line as
soon as it is judged, and is forgotten then.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from msgspec import structs
from msgspec.structs import replace

from mission_tui.cli.options import complete_presets, count_of, examples, finite, json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Colour, RowsProgress, Styled, print_error, shown_meanwhile, write
from mission_tui.errors import UsageError
from mission_tui.fleet.events.findings import GRAVITY, Finding
from mission_tui.fleet.events.metrics import RETURN, MetricRecord, UpdateDone, number
from mission_tui.fleet.health import HealthJudge, Settings, settings_of
from mission_tui.fleet.health.judge import ROUNDS, unfit
from mission_tui.fleet.health.replay import MissingRows, replay
from mission_tui.fleet.health.settings import (
    OF_ANY,
    PPO,
    RETURNS_ALONE,
    UNKNOWN,
    Algorithm,
    RecognizedAlgorithm,
    is_of_no_known_algorithm,
    other_called,
)
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
        from mission_tui.records.runs.attempt import read_spec

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
            return words, replay(specs, passing(log.records), log.events, log.died)
        words = _words(newest)
        if _is_of_command(log):
            told = recognize_in_rows(log.updates_done)
            if is_of_no_known_algorithm(tags := _tags(log)):
                words = f"{_no_known_algorithm_in_words(tags)}: judged by {', '.join(OF_ANY)}"
            elif told is not None and told.algorithm is not None:
                words = _other_in_words(told.algorithm, told.tag)
        return words, replay(specs, passing(log.records), log.events, log.died)
    log, told = by_row(log), recognize_in_rows(log.updates_done)
    settings = _settings(log, judge_settings)
    limits = _limits(settings, judge_settings)
    if is_of_no_known_algorithm(tags := _tags(log)):
        words = f"{_no_known_algorithm_in_words(tags)}: judged by {', '.join(OF_ANY)}"
        words = f"{words}{_anew_in_words(log)}{_unknown_steps_in_words(log)}{_unknown_return_in_words(log)}"
        return words, _judged_by(replace(settings, rollout=None), limits, passing(log.records), RETURNS_ALONE)
    if told is None or told.algorithm is None:
        words = (
            f"{_words(settings, _rates(log))}{_rows_in_words(log)}{_anew_in_words(log)}{_unknown_return_in_words(log)}"
        )
        return words, _judged_by(settings, limits, passing(log.records))
    other, settings = told.algorithm, replace(settings, rollout=None, n_epochs=None)
    return _other_in_words(other, told.tag), _judged_by(settings, limits, passing(log.records))


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


def _judged_by(
    settings: Settings, limits: HealthKeep, records: Iterable[MetricRecord], other: Algorithm | None = None
) -> tuple[Finding, ...]:
    judge, found = HealthJudge(settings, limits, other=other), dict[str, Finding]()
    missing = MissingRows(judge)
    for record in records:
        if isinstance(record, UpdateDone):
            missing.tell(record)
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


SHOWN = 40
"""Findings of one log that are printed whole; of more, `--full` prints all."""
LARGE_BYTES = 8 << 20
POSITIVE = click.FloatRange(min=0.0, min_open=True)
_NUMBERED = re.compile(r"\bupdate(?=s? \d)")
_COUNTED = re.compile(r"\bupdate(?=s? \d)|(?<=\d )update(?=s?\b)")
"""What rules call an update, by its number or as one of several, is a row where a log has no other."""
COLOURS: dict[str, Colour] = {"info": "cyan", "warning": "yellow", "critical": "red"}


@click.command(
    "judge",
    epilog=examples(
        "judge logs/progress.csv",
        "judge -r logs",
        "judge tb/PPO_1 --env-id CartPole-v1 --reward-threshold 475",
    ),
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-r", "--recursive", is_flag=True, help="A folder stands for all logs below it.")
@click.option("--full", is_flag=True, help=f"Print all findings whole, of several logs and of one with over {SHOWN}.")
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=complete_presets,
    help="The logs were trained with this preset (a name or a file).",
)
@click.option("--spec", "spec_file", metavar="FILE", type=click.Path(path_type=Path), help="Or with this spec.toml.")
@click.option("--health", "health", metavar="FILE", type=click.Path(path_type=Path), help="A health.toml to judge by.")
@click.option("--env-id", metavar="ID", help="The environment, named in explanations.")
@click.option(
    "--total-timesteps",
    type=count_of("--total-timesteps"),
    metavar="N",
    help="Planned steps (default: the last row's).",
)
@click.option(
    "--learning-rate", type=POSITIVE, callback=finite, metavar="X", help="Used where the log has no such column."
)
@click.option(
    "--clip-range",
    type=POSITIVE,
    callback=finite,
    metavar="X",
    help="Used where the log has no such column (default: 0.2).",
)
@click.option(
    "--n-epochs", type=count_of("--n-epochs"), metavar="N", help="Epochs per update (default: from train/n_updates)."
)
@click.option(
    "--batch-size",
    type=count_of("--batch-size"),
    metavar="N",
    help="Minibatch size, for the gradient steps of an update.",
)
@click.option("--target-kl", type=POSITIVE, callback=finite, metavar="X", help="KL at which updates were ended early.")
@click.option(
    "--max-episode-steps", type=count_of("--max-episode-steps"), metavar="N", help="The environment's step cap."
)
@click.option(
    "--reward-threshold",
    type=float,
    callback=finite,
    metavar="X",
    help="The return at which the task counts as solved.",
)
@json_option
@pass_session
def judge_command(
    session: Session,
    /,
    files: tuple[Path, ...],
    recursive: bool,
    full: bool,
    preset: str | None,
    spec_file: Path | None,
    health: Path | None,
    as_json: bool,
    **said: Any,
) -> int:
    """Judge training logs by the health rules.

    A FILE is a run directory, metrics.jsonl, SB3's progress.csv or progress.json, a monitor.csv, a TensorBoard event
    file, or a table with a column of steps and one of returns; a folder stands for the log in it, with -r for all logs
    below it. Of several logs each gets one line.
    """
    from mission_tui.cli.tables.documents import write_document

    judge_settings = JudgeSettings.of(
        session, preset, spec_file, health, {name: it for name, it in said.items() if it is not None}
    )
    if len(files) == 1 and not recursive:
        one = _judged(files[0], judge_settings)
        if as_json:
            write_document(one.document)
        else:
            one.say_all(None if full else SHOWN)
        return 0
    documents: list[dict[str, Any]] = []
    unread: list[dict[str, str]] = []
    named = 0
    counts = dict.fromkeys(("critical", "warning", "info", ""), 0)
    for path, found in _asked(files, recursive=recursive):
        try:
            if isinstance(found, UsageError):
                raise found
            one = _judged(found, judge_settings)
        except UsageError as error:
            named += path == found
            file = str(found) if isinstance(found, Path) else str(error).partition(": ")[0]
            unread.append({"file": file, "why": str(error)})
            print_error(str(error))
            continue
        counts[one.worst] += 1
        if as_json:
            documents.append(one.document)
        elif full:
            one.say_all()
        else:
            if sum(counts.values()) == 1:
                write(f"{'worst':<8} {'rows':>7} {'by':<7} log: rules")
            one.say_line()
    if as_json:
        write_document({"files": documents, "unread": unread})
    else:
        _write_sum(counts, len(unread))
    return UsageError.exit_code if named or not any(counts.values()) else 0


def _asked(files: Sequence[Path], *, recursive: bool) -> Iterator[tuple[Path, Path | UsageError]]:
    """Every log that is meant, with itself or the reason why it is none; where the first is the second it was named."""
    from mission_tui.records.logs.read import logs_below

    for path in files:
        if not recursive or not path.is_dir():
            yield path, path
            continue
        found: Path | UsageError | None = None
        for found in logs_below(path):
            yield path, found
        if found is None:
            yield path, UsageError(f"{path}: holds no log of a training")


@dataclass(frozen=True, slots=True)
class _Judged:
    """One log with what was found in it."""

    log: TrainingLog
    algorithm: str
    unfit: tuple[str, ...]
    settings: str
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> str:
        """The worst severity of its findings; empty without any."""
        return next((it for it in ("critical", "warning", "info") if any(f.severity == it for f in self.findings)), "")

    @property
    def document(self) -> dict[str, Any]:
        """It as scripts see it."""
        from mission_tui.cli.tables.documents import finding_facts

        return {
            "file": str(self.log.path),
            "updates": self.log.updates,
            "algorithm": self.algorithm,
            "unfit": list(self.unfit),
            "findings": [finding_facts(it) for it in self.findings],
        }

    def say_line(self) -> None:
        """Its line among several: the worst of it, its size, its algorithm, where it is, and which rules spoke."""
        from mission_tui.fleet.text import clean
        from mission_tui.present.numbers import count

        by = "-" if self.algorithm == UNKNOWN else self.algorithm
        rules = Counter(it.rule for it in self.findings if it.severity == self.worst or it.severity != "info")
        named = ", ".join(f"{rule} x{many}" if many > 1 else rule for rule, many in rules.items()) or "no findings"
        worst = Styled(f"{self.worst or '-':<8}", COLOURS.get(self.worst))
        write(worst, f" {count(self.log.updates):>7} {by:<7} {clean(str(self.log.path), 1000)}: {named}")

    def say_all(self, most: int | None = None) -> None:
        """All that is to be said of it; with `most`, of no more findings than that, and what the others are."""
        from mission_tui.present.numbers import count

        findings = self.findings
        many = f"{len(findings)} finding{'s' if len(findings) > 1 else ''}" if findings else "no findings"
        counted = "updates" if self.log.log_interval == 1 and self.algorithm == "PPO" else "rows"
        _say(f"{self.log.path}: {count(self.log.updates)} {counted}, {many}", 0)
        _say(self.settings, 2)
        rules = {it.id: it.rule for it in findings}
        steps: dict[int, int] = {}
        of_rows = None
        if counted == "rows":
            steps = {it.update: it.timesteps for it in by_row(self.log).updates_done}
            # Rules count the rows of a long log of another algorithm in rounds of several.
            of_rows = _COUNTED if self.algorithm == "PPO" or self.log.updates <= ROUNDS else _NUMBERED
        shown = findings if most is None else _of_each_rule(findings, most)
        for it in shown:
            write()
            part = f", part of {rules[it.part_of]}" if it.part_of in rules else ""
            which = f"{counted} {it.first_update:,} to {it.last_update:,}"
            if it.first_update in steps and it.last_update in steps:
                which += f" (steps {steps[it.first_update]:,} to {steps[it.last_update]:,})"
            where = f" {it.rule}, {which}, {it.state}{part}"
            write("  ", Styled(it.severity, COLOURS[it.severity]), where)
            for title, words in (("", it.sentence), ("cause: ", it.cause), ("advice: ", it.proposal)):
                if words:
                    _say(title + (of_rows.sub("row", words) if of_rows else words), 4)
        write()
        if len(shown) < len(findings):
            others = Counter(it.rule for it in findings) - Counter(it.rule for it in shown)
            named = ", ".join(f"{rule} {count(many)}" for rule, many in others.most_common())
            _say(f"{count(others.total())} more findings: {named}; --full prints all, and --json has them", 2)
            write()


def _of_each_rule(findings: Sequence[Finding], most: int) -> list[Finding]:
    """At most `most` of `findings`, in their order: the first of each rule and severity, then the second of each, the
    worst first.
    """

    seen: Counter[tuple[str, str]] = Counter()
    places = []
    for at, it in enumerate(findings):
        seen[it.rule, it.severity] += 1
        places.append((seen[it.rule, it.severity], -GRAVITY[it.severity], at))
    return [findings[at] for at in sorted(at for *_, at in sorted(places)[:most])]


def _say(words: str, indent: int) -> None:
    """`words` in lines of a terminal's width; a pipe or file gets one line, so that they can be searched."""
    from mission_tui.cli.answers import folded, width_of
    from mission_tui.fleet.text import clean

    if not sys.stdout.isatty():
        write(" " * indent + clean(words, 1000))
        return
    for line in folded(words, width_of(sys.stdout), indent, 2):
        write(line)


def _judged(path: Path, judge_settings: JudgeSettings) -> _Judged:
    """The log at `path`, judged; what of it could not be used is said. Raises `UsageError`."""
    from mission_tui.records.logs.read import read_any

    if path.name == str(path) and not path.suffix and not path.exists():
        why = "there is no such file; `findings NAME --replay` judges the files of a run, or of each run of a group"
        raise UsageError(f"{path}: {why}")
    large = path.is_file() and path.stat().st_size > LARGE_BYTES
    with shown_meanwhile(f"reading {path.name}" if large else ""):
        log = read_any(path)
    for sentence in log.damage:
        print_error(f"{path}: {sentence}")
    progress = RowsProgress(f"judging {log.path.name}", len(log.records))
    return _Judged(log, *algorithm_of(log), *judge_log(log, judge_settings, progress.passing))


def _write_sum(counts: Mapping[str, int], unread: int) -> None:
    """How many logs there were, and how bad the worst of each is."""
    total = sum(counts.values())
    said = ", ".join(f"{many} {name or 'without findings'}" for name, many in counts.items() if many)
    rest = f"; {unread} file{'' if unread == 1 else 's'} could not be judged, as said above" if unread else ""
    write(f"{total} log{'' if total == 1 else 's'}{f': {said}' if said else ''}{rest}")
