"""The report as one file: the whole page, made smaller until it fits, and written so that it is there whole or not."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mission_tui import __version__
from mission_tui.cli.html.charts import chart
from mission_tui.cli.html.contents import Report
from mission_tui.cli.html.markup import GENERATOR, Html, data_block, join, page, tag
from mission_tui.cli.html.sections import Room, about_run, differences, section, summary
from mission_tui.errors import UsageError
from mission_tui.plain_files import read_given
from mission_tui.records.files.atomic import write_atomic

MOST_BYTES = 2_000_000
FILM_BYTES = 1_000_000
_HEAD_BYTES = 4096
_KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
ROOMS = (Room(60, 200, lists=True), Room(20, 40, lists=False), Room(3, 0, lists=False))
"""What is said of each run, from much to little: the first is taken with which the page is small enough."""

_HERE = Path(__file__).parent


def check_target(path: Path, replace: bool) -> None:
    """Raise `UsageError` for a file that cannot be written, or that is there and is no report of ours."""
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--html {path}: there is no folder {path.absolute().parent}")
    if path.is_dir():
        raise UsageError(f"--html {path} is a folder: name a file in it, such as {path / 'report.html'}")
    if replace or not path.exists():
        return
    known = b""
    with suppress(OSError):  # what cannot be read, or is longer than any report, is none
        known = read_given(path, MOST_BYTES)[:_HEAD_BYTES]
    if f'name="generator" content="{GENERATOR}"'.encode() not in known:
        raise UsageError(f"--html {path} is there and is no report of mission-tui: --replace replaces it")


def film_of(path: Path) -> Html:
    """The picture or film in the file at `path`, inside the page. Raises `UsageError` for what a page cannot show."""
    try:
        data = read_given(path, FILM_BYTES)
    except OSError as error:
        raise UsageError(f"--film {path}: {error.strerror or error} (at most {FILM_BYTES:,} bytes)") from error
    kind = next((kind for head, kind in _KINDS.items() if data.startswith(head)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    source = f"base64,{base64.b64encode(data).decode()}"
    if kind is not None:
        return tag("img", src=f"data:{kind};{source}", alt="film of the policy at play", class_="film")
    if data[4:8] == b"ftyp":
        return tag("video", src=f"data:video/mp4;{source}", controls=True, class_="film", aria_label="film")
    raise UsageError(f"--film {path}: no GIF, PNG, JPEG, WebP or MP4")


def write_report(path: Path, report: Report, command: str, film: Html | None) -> int:
    """Write the page, and say of how many bytes it is. Raises `UsageError` where it cannot be made small enough."""
    for room in ROOMS:
        data = page_of(report, command, room, film).encode()
        if len(data) <= MOST_BYTES:
            write_atomic(path, data)
            return len(data)
    raise UsageError(
        f"{path} would have {len(data):,} bytes and {MOST_BYTES:,} are the most: name fewer runs or metrics"
    )


def page_of(report: Report, command: str, room: Room, film: Html | None = None, now: float | None = None) -> str:
    """The whole page with so much of each run, made at unix time `now`."""
    made = time.time() if now is None else now
    names = [run.details.view.name for run in report.runs]
    title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    alone = len(report.runs) == 1
    figures = [chart(report.found, drawing, at, report.marks) for at, drawing in enumerate(report.drawings)]
    parts = [
        summary(report),
        section("film", "At play", film) if film is not None else None,
        section("curves", "Curves", _curves([figure for figure, _ in figures], report)),
        differences(report),
        tag(
            "div",
            (about_run(run, room, alone=alone) for run in report.runs),
            id="runs",
            class_="alone" if alone else None,
        ),
    ]
    body = join(
        tag("a", "Skip to the summary", href="#summary", class_="skip"),
        _head(title, report, made),
        tag("main", parts),
        _foot(command, room),
        data_block("chart-data", [facts for _, facts in figures]),
    )
    css, script = (read_given(_HERE / name, MOST_BYTES).decode() for name in ("report.css", "report.js"))
    return page(f"{title}: report", body, css, script)


def _curves(figures: Sequence[Html], report: Report) -> Html:
    if not figures:
        return tag("p", "No update has ended yet, so there is no curve.")
    signs = "▲ a finding   ◆ a setting changed   ↻ an attempt begins" if report.marks else ""
    hint = tag("p", "Point at a curve, or focus a chart and use the arrow keys, for its values.", class_="quiet hint")
    legend = tag("p", signs, class_="quiet") if signs else None
    return join(hint, legend, tag("div", figures, class_="figures"))


def _head(title: str, report: Report, made: float) -> Html:
    links = [("#summary", "Summary"), ("#curves", "Curves"), ("#runs", "Findings, settings, provenance")]
    views = [run.details.view for run in report.runs]
    groups = {view.group for view in views}
    said = f"{len(views)} runs" if len(views) > 1 else f"run {views[0].id}"
    said += f" of group {groups.pop()}" if len(groups) == 1 and views[0].group else ""
    day = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(made))
    nav = tag("nav", tag("ul", (tag("li", tag("a", words, href=href)) for href, words in links)), aria_label="parts")
    return tag("header", tag("h1", title), tag("p", f"{said}, as of {day}", class_="quiet"), nav)


def _foot(command: str, room: Room) -> Html:
    less = None if room == ROOMS[0] else tag("p", "So many runs that lists of settings and packages were left out.")
    return tag("footer", less, tag("p", f"Made by mission-tui {__version__} with ", tag("code", command)))
