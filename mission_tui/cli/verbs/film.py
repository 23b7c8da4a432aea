"""`mission-tui film`: what a run's policy does, or how it came to do that, as a GIF, WebP or MP4."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import write
from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.views.episode_picture import FILM_SUFFIXES, MOST_FILMED
from mission_tui.present.numbers import DASH, count, measure, size

if TYPE_CHECKING:
    from collections.abc import Mapping

FILM_FACTS = ("run", "path", "bytes", "frames", "fps", "steps_a_frame", "episodes")
"""What its JSON document has."""


@click.command(
    "film",
    epilog="Examples: mission-tui film @last --out play.gif; mission-tui film cart --out growth.mp4 --checkpoints 4",
)
@run_argument()
@click.option(
    "--out", metavar="FILE", required=True, type=click.Path(path_type=Path), help="Ends in .gif, .mp4 or .webp."
)
@click.option(
    "--checkpoints",
    metavar="WHICH",
    default="latest",
    show_default=True,
    help=f"Side by side: `all`, how many (2 to {MOST_FILMED}, first to last), or steps, `latest`, `best` with commas.",
)
@click.option(
    "--episodes", type=click.IntRange(1, 100), default=1, show_default=True, help="How many, one after another."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=10_000, show_default=True, help="Seed of the first episode."
)
@click.option("--fps", type=click.IntRange(1, 50), help="Frames a second (default: 20, fewer for few steps).")
@click.option("--accept", is_flag=True, help="Play although the environment's source has changed.")
@json_option
@pass_session
def film_command(
    session: Session,
    run: str,
    out: Path,
    checkpoints: str,
    episodes: int,
    seed: int,
    fps: int | None,
    accept: bool,
    as_json: bool,
) -> None:
    """Film episodes of a run's policy, of several checkpoints side by side.

    Needs the extra `film`. An environment that draws no pixels is filmed as the characters that show it.
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.tables.progress import TaskBar
    from mission_tui.cli.tables.timed_runs import check_output
    from mission_tui.ipc.requests import Film

    path = (session.cwd / out).absolute()
    if path.suffix not in FILM_SUFFIXES:
        kinds = ", ".join(FILM_SUFFIXES)
        raise UsageError(f"--out {out.name}: a film ends in one of {kinds}{nearest(path.suffix, FILM_SUFFIXES)}")
    check_output("--out", path)
    names, spread = chosen(checkpoints)

    def request(id_: int) -> Film:
        return Film(
            id=id_,
            run=run,
            path=str(path),
            environ=session.origin["environ"],
            checkpoints=names,
            spread=spread,
            episodes=episodes,
            seed=seed,
            fps=fps,
            accept=accept,
        )

    with session.connect() as connection, TaskBar("film", sys.stderr) as bar:
        result = bar.follow(connection.stream(request)).result
    if as_json:
        write_document({name: result[name] for name in FILM_FACTS if name in result})
    else:
        _print(result)


def chosen(word: str) -> tuple[tuple[str, ...], int]:
    """The checkpoints that are named, or how many of them are to be spread from the first to the last; 0: all.

    Raises `UsageError`. A small number is how many: no checkpoint is saved after so few steps.
    """
    if word == "all":
        return (), 0
    if word.isascii() and word.isdigit() and int(word) <= MOST_FILMED:
        if int(word) == 0:
            raise UsageError(f"--checkpoints 0: say how many, from 1 to {MOST_FILMED}")
        return (), int(word)
    names = tuple(dict.fromkeys(part.strip() for part in word.split(",") if part.strip()))
    if not names:
        raise UsageError(f"--checkpoints '{word}' names none: say `all`, how many, or steps with commas between them")
    return (() if names == ("latest",) else names), 1


def _print(result: Mapping[str, Any]) -> None:
    write(f"{result['path']}: {size(result['bytes'])}, {count(result['frames'])} frames at {result['fps']} a second")
    for take in result["episodes"]:
        outcome = take.get("outcome") or DASH
        write(
            f"checkpoint {take['checkpoint']}  seed {take['seed']}  return {measure(take['episode_return'])}"
            f" in {count(take['steps'])} steps, outcome {outcome}"
        )
