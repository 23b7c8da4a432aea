"""`mission-tui screenshot`: the screen as a picture, without a terminal: the list of runs, or one run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import write
from mission_tui.errors import UsageError

_LEAST, _MOST = (40, 10), (500, 200)


@click.command(
    "screenshot",
    epilog="Examples: mission-tui screenshot --out all.svg; screenshot @last --out run.png --size 120x40",
)
@run_argument(required=False)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ends in .svg, or .png (extra `report`).",
)
@click.option(
    "--size", default="160x50", show_default=True, metavar="COLSxROWS", help="Of the terminal it would be in."
)
@json_option
@pass_session
def screenshot_command(session: Session, run: str | None, out: Path, size: str, as_json: bool) -> None:
    """Save a picture of the screen: of all runs, or of one.

    What was there under that name is replaced. On the screen itself F12 does the same.
    """
    from mission_tui.cli.screen import picture
    from mission_tui.records.files.atomic import write_atomic

    cells, kind = _cells(size), _kind(out)
    if not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}")
    data = picture(session, kind, cells, run)
    write_atomic(out, data)
    if as_json:
        from mission_tui.cli.tables.documents import write_document

        write_document({"path": str(out.absolute()), "size_bytes": len(data), "columns": cells[0], "rows": cells[1]})
    else:
        write(str(out))


def _cells(size: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,4})x(\d{1,4})", size)
    cells = (int(found[1]), int(found[2])) if found else (0, 0)
    if not all(least <= it <= most for it, least, most in zip(cells, _LEAST, _MOST, strict=True)):
        raise UsageError(f"--size {size}: columns x rows from 40x10 to 500x200, such as 160x50")
    return cells


def _kind(out: Path) -> Literal["svg", "png"]:
    match out.suffix.lower():
        case ".svg":
            return "svg"
        case ".png":
            return "png"
    raise UsageError(f"--out {out}: the name has to end in .svg or .png")
