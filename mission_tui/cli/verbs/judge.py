"""`mission-tui judge`: what the health rules say of any PPO log: our runs, SB3's CSV and JSON, TensorBoard event files.

Nothing is started and nothing is written: the same rules that watch live runs read the file from its first row.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.options import complete_presets, json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Colour, Styled, print_error, write
from mission_tui.errors import UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.events.findings import Finding
    from mission_tui.records.logs.log import TrainingLog

POSITIVE = click.FloatRange(min=0.0, min_open=True)
COUNT = click.IntRange(min=1)
COLOURS: dict[str, Colour] = {"info": "cyan", "warning": "yellow", "critical": "red"}


@click.command("judge")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=complete_presets,
    help="The logs were trained with this preset (a name or a file).",
)
@click.option("--spec", "spec_file", metavar="FILE", type=click.Path(path_type=Path), help="Or with this spec.toml.")
@click.option("--health", "health", metavar="FILE", type=click.Path(path_type=Path), help="A health.toml to judge by.")
@click.option("--env-id", metavar="ID", help="The environment, named in explanations.")
@click.option("--total-timesteps", type=COUNT, metavar="N", help="Planned steps (default: the last row's).")
@click.option("--learning-rate", type=POSITIVE, metavar="X", help="Used where the log has no such column.")
@click.option("--clip-range", type=POSITIVE, metavar="X", help="Used where the log has no such column (default: 0.2).")
@click.option("--n-epochs", type=COUNT, metavar="N", help="Epochs per update (default: from train/n_updates).")
@click.option("--batch-size", type=COUNT, metavar="N", help="Minibatch size, for the gradient steps of an update.")
@click.option("--target-kl", type=POSITIVE, metavar="X", help="KL at which updates were ended early.")
@click.option("--max-episode-steps", type=COUNT, metavar="N", help="The environment's step cap.")
@click.option("--reward-threshold", type=float, metavar="X", help="The return at which the task counts as solved.")
@json_option
@pass_session
def judge_command(
    session: Session,
    /,
    files: tuple[Path, ...],
    preset: str | None,
    spec_file: Path | None,
    health: Path | None,
    as_json: bool,
    **said: Any,
) -> None:
    """Judge training logs by the health rules.

    A FILE is a run directory, metrics.jsonl, SB3's progress.csv or progress.json, or a TensorBoard event file; a folder
    stands for the log in it.
    """
    from mission_tui.cli.judge_settings import JudgeSettings, judge_log
    from mission_tui.cli.tables.documents import finding_facts, write_document

    judge_settings = JudgeSettings.of(
        session, preset, spec_file, health, {name: it for name, it in said.items() if it is not None}
    )
    logs = [_read(path) for path in files]
    found = [(log, *judge_log(log, judge_settings)) for log in logs]
    if as_json:
        documents = [
            {
                "file": str(log.path),
                "updates": log.updates,
                "algorithm": _algorithm(log),
                "findings": [finding_facts(it) for it in findings],
            }
            for log, _, findings in found
        ]
        write_document(documents[0] if len(files) == 1 else {"files": documents})
        return
    for log, settings, findings in found:
        _print(log, settings, findings)


def _read(path: Path) -> TrainingLog:
    """The log at `path`; what of it could not be used is said."""
    from mission_tui.records.logs.log import LogError
    from mission_tui.records.logs.read import read_log

    try:
        log = read_log(path)
    except LogError:
        from mission_tui.records.logs.event_files import event_files, read_events

        events = event_files(path)
        if not events:
            raise
        log = read_events(path, events)
        if not log.updates:
            raise UsageError(f"{path}: contains no update yet") from None
    for sentence in log.damage:
        print_error(f"{path}: {sentence}")
    return log


def _algorithm(log: TrainingLog) -> str:
    from mission_tui.records.logs.log import other_algorithm

    other = None if log.specs else other_algorithm(log.updates_done)
    return "PPO" if other is None else other[0]


def _print(log: TrainingLog, settings: str, findings: tuple[Finding, ...]) -> None:
    from mission_tui.fleet.text import clean
    from mission_tui.present.numbers import count

    many = f"{len(findings)} finding{'s' if len(findings) > 1 else ''}" if findings else "no findings"
    counted = "updates" if log.log_interval == 1 and _algorithm(log) == "PPO" else "rows"
    write(f"{clean(str(log.path), 1000)}: {count(log.updates)} {counted}, {many}")
    write(f"  {settings}")
    for it in findings:
        write()
        where = f" {it.rule}, {counted} {it.first_update:,} to {it.last_update:,}, {it.state}"
        write("  ", Styled(it.severity, COLOURS[it.severity]), where)
        for title, words in (("", it.sentence), ("cause: ", it.cause), ("advice: ", it.proposal)):
            if words:
                write(f"    {title}{clean(words, 1000)}")
    write()
