"""`mission-tui compare`: runs compared from their files, as tables, a document, a report or a paper's figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mission_tui.cli.options import finite, json_option, runs_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error
from mission_tui.errors import UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.compare import Axis, Edges, Side


@click.command(
    "compare", epilog="Examples: mission-tui compare base slower --threshold 475; compare sweep --figure fig.pdf"
)
@runs_argument(required=True)
@click.option("--by", type=click.Choice(("step", "time")), default="step", help="The axis of curves and areas.")
@click.option(
    "--threshold",
    type=float,
    callback=finite,
    metavar="R",
    help="A return to reach (default: where the task counts as solved).",
)
@click.option(
    "--metric",
    "metrics",
    metavar="TAG",
    multiple=True,
    help="Compare another metric than rollout/ep_rew_mean; several are panels of a figure.",
)
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="DIR", help="Write Markdown, CSV, JSON and SVG there."
)
@click.option(
    "--figure", type=click.Path(path_type=Path), metavar="FILE", help="Draw a paper's figure: .pdf, .svg or .png."
)
@click.option(
    "--columns", type=click.IntRange(1, 2), default=1, help="Width of the figure: one or both columns of a page."
)
@click.option(
    "--size", metavar="WIDTH[xHEIGHT]", help="Size of the figure instead: 8.5cm, 18x6cm, 5in; in cm, mm or in."
)
@click.option(
    "--band",
    type=click.Choice(("quartiles", "range", "mean", "iqm")),
    default="quartiles",
    help="Median with interquartile range, or least and greatest; mean, or interquartile mean, with a 95 % interval.",
)
@click.option("--seed-lines", is_flag=True, help="Draw every run into the figure too, thinly.")
@json_option
@pass_session
def compare_command(
    session: Session,
    runs: tuple[str, ...],
    by: Axis,
    threshold: float | None,
    metrics: tuple[str, ...],
    report: Path | None,
    figure: Path | None,
    columns: int,
    size: str | None,
    band: Edges,
    seed_lines: bool,
    as_json: bool,
) -> None:
    """Compare results and settings of runs.

    The name of a group (status --json has it) stands for all runs of that launch. A run of another machine is named
    with it: gpu1:base.

    Runs that differ in nothing but the seed stand together: median, interquartile range, n, least and greatest, from
    three seeds on with a 95 % interval of the mean. Settings are ranked at the budget that all runs have reached.
    """
    from mission_tui.fleet.compare import RETURN, compare, drawing_of, in_cohorts
    from mission_tui.records.runs.comparison_sides import naming_left_out, read_sides

    metrics = tuple(dict.fromkeys(metrics)) or (RETURN,)
    inches = _check_options(metrics, figure, columns, size)
    folders: list[Path] = []
    if (sides := _elsewhere(session, runs, metrics)) is None:
        folders = _folders(session, runs)
        sides = read_sides(folders, print_error, metrics, least=2)
    if len(sides[metrics[0]]) > len(runs):  # a group's name says nothing of the order of its runs
        sides = {metric: in_cohorts(its) for metric, its in sides.items()}
    found = naming_left_out(compare(sides[metrics[0]], metrics[0], by, threshold), folders)
    if figure is not None and inches is not None:
        from mission_tui.cli.tables.comparison_figure import write_figure

        drawings = [
            drawing_of(its, metric, by, found.threshold if metric == found.metric else None, band)
            for metric, its in sides.items()
        ]
        said = write_figure(figure, found, drawings, inches=inches, edges=band, seed_lines=seed_lines)
        print_error(f"the figure is {figure}; a caption for it: {said}")
    if report is not None:
        from mission_tui.cli.tables.comparison import write_report

        write_report(report, found)
        print_error(f"the report is {report / 'comparison.md'}, with CSV, JSON and SVG beside it")
    if as_json:
        from mission_tui.cli.tables.comparison import comparison_facts
        from mission_tui.cli.tables.documents import write_document

        write_document(comparison_facts(found))
        return
    from mission_tui.cli.tables.comparison import write_comparison

    write_comparison(found)


def _check_options(
    metrics: tuple[str, ...], figure: Path | None, columns: int, size: str | None
) -> tuple[float, float | None] | None:
    """Before any run is asked for; width and height of a figure. Raises `UsageError`."""
    context = click.get_current_context()
    given = {it for it in context.params if context.get_parameter_source(it) is click.core.ParameterSource.COMMANDLINE}
    if figure is not None:
        from mission_tui.cli.tables.comparison_figure import COLUMN_INCHES, check_figure, figure_inches

        check_figure(figure)
        if size is None:
            return COLUMN_INCHES[columns], None
        if "columns" in given:
            raise UsageError("give --columns or --size, not both")
        return figure_inches(size)
    if len(metrics) > 1:
        raise UsageError("tables compare one --metric; several are panels of a --figure")
    for option in ("columns", "size", "band", "seed_lines"):
        if option in given:
            raise UsageError(f"--{option.replace('_', '-')} belongs to --figure FILE")
    return None


def _elsewhere(session: Session, runs: tuple[str, ...], metrics: tuple[str, ...]) -> dict[str, list[Side]] | None:
    """The sides where a run is named with its machine; None where all are of this one."""
    from mission_tui.cli.hosts import names_machine, sides_of_machines

    if not names_machine(runs):
        return None
    sides = sides_of_machines(session, runs, metrics)
    _require_two(len(sides[metrics[0]]))
    return sides


def _require_two(many: int) -> None:
    if many < 2:
        raise UsageError(
            "compare takes two runs or more, each an id, a unique prefix, a name, or @last; or a group's name"
        )


def _folders(session: Session, runs: tuple[str, ...]) -> list[Path]:
    """The directories of the runs, in the order they were named, each once; a group's name stands for its runs."""
    from mission_tui.cli.follow_runs import views_of
    from mission_tui.fleet.specs.spec import is_driver

    with session.connect() as connection:
        folders = [Path(view.run_dir) for view in views_of(connection, runs) if not is_driver(view.preset)]
    _require_two(len(folders))
    return folders
