"""The report as a file: the page made smaller until it fits, a film in it where there is room, and written so that it
is there whole or not; no other file is replaced unasked.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from pathlib import Path

from mission_tui.cli.html.markup import GENERATOR, Html, tag
from mission_tui.cli.html.report_data import Report
from mission_tui.cli.html.report_page import ROOMS, page_of
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
        return film_in(read_given(path, FILM_BYTES))
    except OSError as error:
        raise UsageError(f"--film {path}: {error.strerror or error} (at most {FILM_BYTES:,} bytes)") from error
    except ValueError as error:
        raise UsageError(f"--film {path}: {error}") from error


def film_in(data: bytes) -> Html:
    """The picture or film whose file has these bytes. Raises `ValueError` for what a page cannot show."""
    kind = next((kind for head, kind in _KINDS.items() if data.startswith(head)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    source = f"base64,{base64.b64encode(data).decode()}"
    if kind is not None:
        return tag("img", src=f"data:{kind};{source}", alt="film of the policy at play", class_="film")
    if data[4:8] == b"ftyp":
        return tag("video", src=f"data:video/mp4;{source}", controls=True, class_="film", aria_label="film")
    raise ValueError("no GIF, PNG, JPEG, WebP or MP4")


def write_report(path: Path, report: Report, command: str, *films: Html | None) -> int:
    """Write the page with the first of `films` with which it is small enough, and say of how many bytes it is.

    What is said of each run goes before a film. Raises `UsageError` where it cannot be made small enough.
    """
    data = b""
    for room in ROOMS:
        for film in films or (None,):
            data = page_of(report, command, room, film).encode()
            if len(data) <= MOST_BYTES:
                write_atomic(path, data)
                return len(data)
    raise UsageError(
        f"{path} would have {len(data):,} bytes and {MOST_BYTES:,} are the most: name fewer runs or metrics"
    )
