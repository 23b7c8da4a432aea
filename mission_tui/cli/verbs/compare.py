"""`mission-tui compare`: runs compared from their files, as tables, a document or a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mission_tui.cli.errors import print_error
from mission_tui.cli.options import json_option, runs_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.errors import UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.compare import Axis


@click.command(
    "compare", epilog="Examples: mission-tui compare base slower --threshold 475; compare @last base --by time"
)
@runs_argument(required=True)
@click.option("--by", type=click.Choice(("step", "time")), default="step", help="The axis of curves and areas.")
@click.option(
    "--threshold", type=float, metavar="R", help="A return to reach (default: where the task counts as solved)."
)
@click.option("--metric", metavar="TAG", help="Compare another metric than rollout/ep_rew_mean.")
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="DIR", help="Write Markdown, CSV, JSON and SVG there."
)
@json_option
@pass_session
def compare_command(
    session: Session,
    runs: tuple[str, ...],
    by: Axis,
    threshold: float | None,
    metric: str | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Compare results and settings of runs.

    The name of a group (status --json has it) stands for all runs of that launch.

    Runs that differ in nothing but the seed stand together: median, least and greatest, from three seeds on with a
    95 % interval of the mean.
    """
    from mission_tui.fleet.compare import RETURN
    from mission_tui.records.runs.comparison_sides import compare_runs

    found = compare_runs(_folders(session, runs), print_error, metric or RETURN, by, threshold)
    if report is not None:
        from mission_tui.cli.tables.comparison_report import write_report

        write_report(report, found)
        print_error(f"the report is {report / 'comparison.md'}, with CSV, JSON and SVG beside it")
    if as_json:
        from mission_tui.cli.tables.comparison import comparison_facts
        from mission_tui.cli.tables.documents import write_document

        write_document(comparison_facts(found))
        return
    from mission_tui.cli.tables.comparison import write_comparison

    write_comparison(found)


def _folders(session: Session, runs: tuple[str, ...]) -> list[Path]:
    """The directories of the runs, in the order they were named, each once; a group's name stands for its runs."""
    from mission_tui.cli.follow_runs import views_of

    with session.connect() as connection:
        folders = [Path(view.run_dir) for view in views_of(connection, runs)]
    if len(folders) < 2:
        raise UsageError(
            "compare takes two runs or more, each an id, a unique prefix, a name, or @last; or a group's name"
        )
    return folders
