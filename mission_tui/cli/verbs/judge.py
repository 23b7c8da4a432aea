"""`mission-tui judge`: what the health rules say of any log: our runs, SB3's CSV and JSON, TensorBoard, monitors.

Nothing is started and nothing is written: the same rules that watch live runs read the file from its first row. Of
several logs each gets one line as soon as it is judged, and is forgotten then.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.options import complete_presets, count_of, finite, json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Colour, RowsProgress, Styled, print_error, shown_meanwhile, write
from mission_tui.errors import UsageError

if TYPE_CHECKING:
    from mission_tui.cli.judge_settings import JudgeSettings
    from mission_tui.fleet.events.findings import Finding
    from mission_tui.records.logs.log import TrainingLog

SHOWN = 40
"""Findings of one log that are printed whole; of more, `--full` prints all."""
LARGE_BYTES = 8 << 20
POSITIVE = click.FloatRange(min=0.0, min_open=True)
_NUMBERED = re.compile(r"\bupdate(?=s? \d)")
_COUNTED = re.compile(r"\bupdate(?=s? \d)|(?<=\d )update(?=s?\b)")
"""What rules call an update, by its number or as one of several, is a row where a log has no other."""
COLOURS: dict[str, Colour] = {"info": "cyan", "warning": "yellow", "critical": "red"}


@click.command("judge")
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
    from mission_tui.cli.judge_settings import JudgeSettings
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
    from mission_tui.records.logs.find import logs_below

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
        from mission_tui.fleet.health.algorithms import UNKNOWN
        from mission_tui.fleet.text import clean
        from mission_tui.present.numbers import count

        by = "-" if self.algorithm == UNKNOWN else self.algorithm
        rules = Counter(it.rule for it in self.findings if it.severity == self.worst or it.severity != "info")
        named = ", ".join(f"{rule} x{many}" if many > 1 else rule for rule, many in rules.items()) or "no findings"
        worst = Styled(f"{self.worst or '-':<8}", COLOURS.get(self.worst))
        write(worst, f" {count(self.log.updates):>7} {by:<7} {clean(str(self.log.path), 1000)}: {named}")

    def say_all(self, most: int | None = None) -> None:
        """All that is to be said of it; with `most`, of no more findings than that, and what the others are."""
        from mission_tui.fleet.health.judge import ROUNDS
        from mission_tui.present.numbers import count
        from mission_tui.records.logs.log import by_row

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
    from mission_tui.fleet.events.findings import GRAVITY

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
    from mission_tui.cli.judge_settings import algorithm_of, judge_log
    from mission_tui.records.logs.find import read_any

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
