"""Runs compared from their files. `mission-tui compare`: as tables, a document, a report or a paper's figure.
`mission-tui report`: as one HTML file that can be sent to anybody: it loads nothing, and reads on paper too.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.options import examples, finite, json_option, runs_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.errors import MissionError, UsageError

if TYPE_CHECKING:
    from mission_tui.cli.html_markup import Html
    from mission_tui.fleet.comparison_sides import Axis, Edges, Side
    from mission_tui.ipc.replies import DetailsReply


@click.command(
    "compare",
    epilog=examples(
        "compare base slower --threshold 475",
        "compare sweep --figure fig.pdf",
    ),
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
    from mission_tui.fleet.comparison import compare, drawing_of, in_cohorts
    from mission_tui.fleet.events.metrics import RETURN
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


FILM_S = 40.0
"""So long whoever wants a report waits for its film."""
MOST_FILM_BYTES = 700_000
"""In a page its letters are a third more."""
_MOST_READ = 64 << 20
"""A film of 300 frames has less."""


@click.command(
    "report",
    epilog=examples(
        "report @last --html run.html",
        "report sweep --html sweep.html",
    ),
)
@runs_argument(required=True)
@click.option(
    "--html", "file", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The page to write."
)
@click.option("--metric", "metrics", metavar="TAG", multiple=True, help="Draw these instead of the usual curves.")
@click.option("--by", type=click.Choice(("step", "time")), default="step", help="The axis of curves and areas.")
@click.option(
    "--threshold",
    type=float,
    callback=finite,
    metavar="R",
    help="A return to reach (default: where the task counts as solved).",
)
@click.option(
    "--film", type=click.Path(path_type=Path), metavar="FILE", help="A GIF, PNG, JPEG, WebP or MP4 to show, up to 1 MB."
)
@click.option("--no-film", is_flag=True, help=f"Play nothing: by default up to {FILM_S:.0f} s are taken for a film.")
@click.option("--replace", is_flag=True, help="Replace FILE although it is no report of mission-tui.")
@json_option
@pass_session
def report_command(
    session: Session,
    runs: tuple[str, ...],
    file: Path,
    metrics: tuple[str, ...],
    by: Axis,
    threshold: float | None,
    film: Path | None,
    no_film: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Write runs as one HTML file.

    It has the numbers of `compare`, curves, findings with what was done about them, settings against the preset,
    evaluations, journal and provenance, a film of the best run's policy at play where that is made quickly, and loads
    nothing from anywhere. A group's name stands for its runs.
    """
    from mission_tui.cli.html_report import check_target, film_of, read_report, write_report
    from mission_tui.records.preset_files import resolved_preset
    from mission_tui.records.runs.comparison_sides import naming_left_out

    if film is not None and no_film:
        raise UsageError("--film names one and --no-film wants none: give one of them")
    check_target(file, replace)
    films: list[Html] = [] if film is None else [film_of(film)]
    details, folders = _details(session, runs)
    made = read_report(
        details,
        lambda name: resolved_preset(name, session.preset_dirs, session.health()),
        print_error,
        tuple(dict.fromkeys(metrics)),
        by,
        threshold,
    )
    made = dataclasses.replace(made, found=naming_left_out(made.found, folders))
    if film is None and not no_film:
        films += _films(session, details)
    size = write_report(file, made, shlex.join(["mission-tui", *sys.argv[1:]]), *films)
    if as_json:
        from mission_tui.cli.tables.documents import write_document

        ids = [run.id for run in made.found.runs]
        write_document({"path": str(file.absolute()), "size_bytes": size, "runs": ids})
    else:
        write(str(file))


def _details(session: Session, refs: tuple[str, ...]) -> tuple[list[DetailsReply], list[Path]]:
    """Of each run once, in the order they were named, and their folders; one of several that cannot be read is said and
    left out. Raises `MissionError`.
    """
    from mission_tui.cli.follow_runs import details_of, views_of
    from mission_tui.fleet.comparison import MOST

    with session.connect() as connection:
        views = views_of(connection, refs)
        if not views:
            raise UsageError("no run is meant: name runs or groups, as `mission-tui status` lists them")
        if len(views) > MOST:
            raise UsageError(f"a report shows {MOST} runs at most, and these are {len(views)}")
        details = []
        for view in views:
            try:
                details.append(details_of(connection, view.id))
            except MissionError as error:
                if view is views[-1] and not details:
                    raise
                print_error(f"{view.id} is left out: {error}")
        return details, [Path(view.run_dir) for view in views]


def _films(session: Session, details: Sequence[DetailsReply]) -> tuple[Html, ...]:
    """The best run's policy at play, and what is said in its place where there is none, or no room for it."""
    from mission_tui.cli.html_markup import tag
    from mission_tui.fleet.events.metrics import RETURN, number

    saved = [each.view for each in details if each.view.last_checkpoint is not None]
    returns = [number(view.metrics.get(RETURN)) for view in saved]
    best = max(range(len(saved)), key=lambda at: (returns[at] is not None, returns[at] or 0.0), default=None)
    trouble = "nothing was saved that could be played"
    if best is not None:
        try:
            film = _film(session, saved[best].id, saved[best].name)
        except MissionError as error:
            trouble = str(error)
        else:
            return film, tag("p", "No film: the page would be too large with it.")
    print_error(f"no film: {trouble}")
    return (tag("p", f"No film: {trouble}."),)


def _film(session: Session, run: str, name: str) -> Html:
    """The first and the newest policy of `run` in the same episode. Raises `MissionError` with why there is none."""
    from mission_tui.cli.html_markup import join, tag
    from mission_tui.cli.html_report import film_in
    from mission_tui.ipc.requests import Film
    from mission_tui.ipc.sockets import ConnectionLostError
    from mission_tui.plain_files import read_given
    from mission_tui.present.numbers import count, measure, size

    if session.readonly:
        raise UsageError("--readonly starts no process that could play")
    with tempfile.TemporaryDirectory(prefix="mission-tui-film-") as folder, session.connect() as connection:
        path = Path(folder) / "film.gif"
        begun_s, timer = time.monotonic(), threading.Timer(FILM_S, connection.hang_up)
        timer.start()
        try:
            result: Mapping[str, Any] = connection.ask(
                lambda id_: Film(id=id_, run=run, path=str(path), environ=session.origin["environ"], spread=2)
            ).result
        except ConnectionLostError as error:
            if time.monotonic() - begun_s < FILM_S:
                raise  # the supervisor went away; it was not us who hung up
            # Whoever plays it ends with this connection.
            raise MissionError(
                f"the episodes were not filmed within {FILM_S:.0f} s; "
                f"`mission-tui film {run} --out play.gif` takes its time, and --film play.gif shows it"
            ) from error
        finally:
            timer.cancel()
        data = read_given(path, _MOST_READ)
    if len(data) > MOST_FILM_BYTES:
        raise MissionError(
            f"a film of these episodes has {size(len(data))}, and {size(MOST_FILM_BYTES)} are the most in a report; "
            f"`mission-tui film {run} --out play.mp4` makes a smaller one, and --film play.mp4 shows it"
        )
    takes = [
        f"after {count(take['timesteps'])} timesteps return {measure(take['episode_return'])} "
        f"in {count(take['steps'])} steps"
        for take in result["episodes"]
    ]
    words = f"{name}, the episode of seed {result['episodes'][0]['seed']}: {'; '.join(takes)}."
    return join(film_in(data), tag("p", words, class_="quiet"))
