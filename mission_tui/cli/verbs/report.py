"""`mission-tui report`: runs as one HTML file that can be sent to anybody: it loads nothing, and reads on paper too."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mission_tui.cli.options import json_option, runs_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.errors import UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.compare import Axis
    from mission_tui.fleet.specs.spec import Spec
    from mission_tui.ipc.replies import DetailsReply


@click.command("report", epilog="Examples: mission-tui report @last --html run.html; report sweep --html sweep.html")
@runs_argument(required=True)
@click.option(
    "--html", "file", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The page to write."
)
@click.option("--metric", "metrics", metavar="TAG", multiple=True, help="Draw these instead of the usual curves.")
@click.option("--by", type=click.Choice(("step", "time")), default="step", help="The axis of curves and areas.")
@click.option(
    "--threshold", type=float, metavar="R", help="A return to reach (default: where the task counts as solved)."
)
@click.option(
    "--film", type=click.Path(path_type=Path), metavar="FILE", help="A GIF, PNG, JPEG, WebP or MP4 to show, up to 1 MB."
)
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
    replace: bool,
    as_json: bool,
) -> None:
    """Write runs as one HTML file.

    It has the numbers of `compare`, curves, findings with what was done about them, settings against the preset,
    evaluations, journal and provenance, and loads nothing from anywhere. A group's name stands for its runs.
    """
    from mission_tui.cli.html.contents import read_report
    from mission_tui.cli.html.report_file import check_target, film_of, write_report

    check_target(file, replace)
    shown = None if film is None else film_of(film)
    details = _details(session, runs)
    made = read_report(
        details, lambda name: _preset(session, name), print_error, tuple(dict.fromkeys(metrics)), by, threshold
    )
    size = write_report(file, made, shlex.join(["mission-tui", *sys.argv[1:]]), shown)
    if as_json:
        from mission_tui.cli.tables.documents import write_document

        ids = [each.view.id for each in details]
        write_document({"path": str(file.absolute()), "size_bytes": size, "runs": ids})
    else:
        write(str(file))


def _details(session: Session, refs: tuple[str, ...]) -> list[DetailsReply]:
    """Of each run once, in the order they were named. Raises `UsageError`."""
    from mission_tui.cli.follow_runs import details_of, views_of
    from mission_tui.fleet.compare import MOST

    with session.connect() as connection:
        views = views_of(connection, refs)
        if not views:
            raise UsageError("no run is meant: name runs or groups, as `mission-tui status` lists them")
        if len(views) > MOST:
            raise UsageError(f"a report shows {MOST} runs at most, and these are {len(views)}")
        return [details_of(connection, view.id) for view in views]


def _preset(session: Session, name: str) -> Spec:
    """The spec of a preset as it is now. Raises `MissionError`."""
    from mission_tui.fleet.specs.preset import resolve
    from mission_tui.records.preset_files import base_of, load_preset

    preset = load_preset(name, session.preset_dirs)
    return resolve(preset, lambda base: base_of(preset, base, session.preset_dirs), health=session.health())
