"""What a run's policy does: `mission-tui evaluate` plays episodes from the run's own snapshot and says how well it
does; `mission-tui film` shows it, or how it came to do that, as a GIF, WebP or MP4.

With `--render` an episode is shown picture by picture on a screen of its own; `q` or Ctrl-C leaves at any time. Into a
pipe or a file the pictures go one below the other, without colours.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from mission_tui.cli.options import count_of, examples, finite, json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Table, enter_screen, leave_screen, print_error, write, write_picture
from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.views.played_frame import FILM_SUFFIXES, MOST_FILMED, Canvas, Colours
from mission_tui.present.numbers import (
    DASH,
    count,
    measure,
    no_interval_words,
    percent,
    share_words,
    size,
    spread_words,
)

if TYPE_CHECKING:
    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.ipc.replies import Evaluated, Progress


# fmt: off
EVALUATION_FACTS = (
    "run", "checkpoint", "episodes", "mean", "std", "median", "ci95", "outcomes", "won", "won_ci95", "lengths",
    "deterministic", "seed", "by_seed", "policy", "reel", "seconds",
)
# fmt: on
WATCHED_FPS, FASTEST_FPS = 8.0, 60.0
_LEAVING = frozenset(("q", "Q", "\x1b"))
_FULL = frozenset(("truecolor", "24bit"))

FILM_FACTS = ("run", "path", "bytes", "frames", "fps", "steps_a_frame", "episodes")
"""What its JSON document has."""


@click.command(
    "evaluate",
    epilog=examples(
        "evaluate @last",
        "evaluate @last --checkpoint best --episodes 200",
        "evaluate @last --render ansi",
    ),
)
@run_argument()
@click.option("--checkpoint", metavar="NAME", help="A step, `latest` or `best` (default: the newest).")
@click.option(
    "--episodes",
    type=count_of("--episodes", 100_000),
    default="100",
    show_default=True,
    metavar="N",
    help="How many to play, such as 1k.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=10_000, show_default=True, help="Seed of the episodes."
)
@click.option(
    "--seeds", type=click.IntRange(1, 100), default=1, metavar="N", help="How many seeds, each with its episodes."
)
@click.option("--accept", is_flag=True, help="Play although the environment's source has changed.")
@click.option("--stochastic", is_flag=True, help="Sample actions instead of taking the most probable.")
@click.option(
    "--reel", is_flag=True, help="Say the best, median and worst episode, and the seed that plays each again."
)
@click.option("--random", "random", is_flag=True, help="A random policy instead, for comparison.")
@click.option(
    "--render", type=click.Choice(("ansi",)), help="Show one episode in the terminal instead; nothing is recorded."
)
@click.option(
    "--fps", type=click.FloatRange(0.1, 60), callback=finite, help="With --render: pictures a second (default: 8)."
)
@json_option
@pass_session
def evaluate_command(
    session: Session,
    run: str,
    checkpoint: str | None,
    episodes: int,
    seed: int,
    seeds: int,
    accept: bool,
    stochastic: bool,
    reel: bool,
    random: bool,
    render: str | None,
    fps: float | None,
    as_json: bool,
) -> int:
    """Play episodes with a run's policy, or with that of each run of a group.

    Of a group those without a checkpoint are passed over, and one that cannot be played leaves the others their
    results; the exit code is 1 then, and where none could be played.
    """
    from mission_tui.cli.follow_runs import of_each_saved, views_of
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.tables.progress import TaskBar
    from mission_tui.ipc.requests import Evaluate

    if fps is not None and render is None:
        raise UsageError("--fps belongs to --render ansi")
    if render is not None and (as_json or seeds > 1):
        raise UsageError("--render shows one episode, of one seed, to a person: leave out --json and --seeds")
    if reel and (stochastic or random or seeds > 1 or render is not None):
        raise UsageError(
            "--reel names episodes that play alike again: leave out --stochastic, --random, --seeds, --render"
        )
    canvas = None if render is None else canvas_of(session.environ, fps, sys.stdout)

    def request(id_: int, run: str = run) -> Evaluate:
        return Evaluate(
            id=id_,
            run=run,
            environ=session.origin["environ"],
            checkpoint=checkpoint,
            episodes=episodes,
            deterministic=not stochastic,
            seed=seed,
            seeds=seeds,
            accept=accept,
            policy="random" if random else "trained",
            reel=reel,
            render=canvas,
        )

    if canvas is not None:
        with session.connect() as connection:
            show(connection.stream(request), sys.stdout)
        return 0

    with session.connect() as connection:
        views = views_of(connection, (run,))
    results = []

    def play(view: RunView) -> None:
        with session.connect() as connection, TaskBar("episodes", sys.stderr) as bar:
            results.append(bar.follow(connection.stream(lambda id_: request(id_, view.id))).result)

    code = of_each_saved(views, play, "evaluated")
    facts = [{name: it[name] for name in EVALUATION_FACTS if name in it} for it in results]
    if as_json:
        write_document(facts[0] if len(views) == 1 else {"evaluations": facts})
    elif len(views) == 1:
        _print(results[0])
    else:
        names = {view.id: view.name for view in views}
        if results:
            _print_each([(names[it["run"]], it) for it in results])
    return code


def _print(result: dict[str, Any]) -> None:
    """The result as a person reads it: how good, how sure, and how the episodes ended."""
    who = "a random policy" if result.get("policy") == "random" else f"checkpoint {result['checkpoint']}"
    write(f"{who} of {result['run']}: {result['episodes']} episode{'' if result['episodes'] == 1 else 's'}")
    spread = spread_words(measure(result["mean"]), measure(result["std"]), result["episodes"])
    write(f"return {spread}, median {measure(result['median'])}")
    if result["ci95"] is None:
        write(no_interval_words(result["episodes"]))
    else:
        policy = "deterministic policy, " if result.get("deterministic", True) else "stochastic policy, "
        policy = "" if result.get("policy") == "random" else policy
        write(f"{policy}95 % CI of the mean {' to '.join(map(measure, result['ci95']))}")
    if len(result.get("by_seed", ())) > 1:
        means = "  ".join(f"{it['seed']}: {measure(it['mean'])}" for it in result["by_seed"])
        write(f"mean by seed {means}")
    write(f"length {measure(result['lengths']['mean'])}")
    if result["outcomes"]:
        counts = "  ".join(f"{name} {number}" for name, number in sorted(result["outcomes"].items()))
        write(f"outcomes {counts}")
    if result["won"] is not None:
        between = share_words(result.get("won_ci95"))
        write(f"won {percent(result['won'])}{f', 95 % CI {between}' if between else ''}")
    _print_reel(result)


def _print_each(results: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """A line for each run of a group; what is said of one alone is in `--json`."""
    heads = ("run", "checkpoint", "episodes", "return", "std", "95 % CI of the mean", "won", "95 % CI of won")
    table = Table(heads, numbers=frozenset(heads[2:5]) | {"won"})
    for name, it in results:
        interval = DASH if it["ci95"] is None else " to ".join(map(measure, it["ci95"]))
        std = DASH if it["episodes"] == 1 else measure(it["std"])
        facts = (count(it["episodes"]), measure(it["mean"]), std, interval)
        won = [] if it["won"] is None else [percent(it["won"]), share_words(it.get("won_ci95"))]
        table.add(name, str(it["checkpoint"] or DASH), *facts, *(word or DASH for word in won or (DASH, DASH)))
    table.write(sys.stdout)


def _print_reel(result: Mapping[str, Any]) -> None:
    reel = result.get("reel")
    if not isinstance(reel, dict):
        return
    for name, it in reel.items():
        outcome = it.get("outcome") or DASH
        write(f"{name:<7} seed {it['seed']}  return {measure(it['return'])} in {it['steps']} steps, outcome {outcome}")
    again = f"--checkpoint {result['checkpoint']} --seed {reel['best']['seed']}"
    write(f"again: mission-tui evaluate {result['run']} --render ansi {again}; film takes --checkpoints and --seed")


def canvas_of(environ: Mapping[str, str], fps: float | None, out: TextIO) -> Canvas:
    """What pictures have to fit to be shown on `out`: a line is left for how far the episode is."""

    size = shutil.get_terminal_size()
    # Nobody watches a file being written.
    rate = fps or (WATCHED_FPS if out.isatty() else FASTEST_FPS)
    return Canvas(columns=size.columns, lines=max(1, size.lines - 1), colours=_colours(environ, out), fps=rate)


def show(replies: Iterable[Evaluated | Progress], out: TextIO) -> None:
    """Draw the pictures as they come, and say how it ended; what is left then is the last picture."""
    from mission_tui.ipc.replies import Progress

    last, step, result = "", 0, None
    with _screen(out) as on_screen:
        for reply in replies:
            if not isinstance(reply, Progress):
                result = reply.result
                break
            last, step = reply.note, reply.done
            if not on_screen:
                write_picture(last, out, below=f"step {reply.done}")
                write(stream=out)
                continue
            write_picture(last, out, below=f"step {reply.done}   q leaves", home=True)
            if _left():
                break
    if on_screen:
        write_picture(last, out)
    if result is None:
        write(f"left at step {step}")
    else:
        _say(result)


def _say(result: Mapping[str, Any]) -> None:
    outcome = result.get("outcome") or DASH
    write(f"checkpoint {result['checkpoint']} of {result['run']}, seed {result['seed']}: one episode")
    write(f"return {measure(result['return'])} in {result['steps']} steps, outcome {outcome}")


def _colours(environ: Mapping[str, str], out: TextIO) -> Colours:
    blocks = (out.encoding or "").lower().replace("-", "") == "utf8"
    if environ.get("NO_COLOR") or not out.isatty() or not blocks or environ.get("TERM", "dumb") == "dumb":
        return "none"
    return "full" if environ.get("COLORTERM", "").lower() in _FULL else "256"


@contextmanager
def _screen(out: TextIO) -> Iterator[bool]:
    """A screen of its own, and keys at once, if this is a terminal at both ends; everything is put back."""
    if not (out.isatty() and sys.stdin.isatty()):
        yield False
        return
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    try:
        tty.setcbreak(keys)
        enter_screen(out)
        yield True
    finally:
        leave_screen(out)
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _left() -> bool:
    """Whether a key that leaves was pressed."""
    while select.select([sys.stdin], [], [], 0.0)[0]:
        pressed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
        if not pressed or not _LEAVING.isdisjoint(pressed):
            return True
    return False


@click.command(
    "film",
    epilog=examples(
        "film @last --out play.gif",
        "film @last --out growth.mp4 --checkpoints 4",
    ),
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
        _print_film(result)
        if said := alone(spread, result):
            print_error(said)


def alone(spread: int, result: Mapping[str, Any]) -> str:
    """That a growth was asked for and only one checkpoint is there to show; "" where that is not so."""
    filmed = {take["checkpoint"] for take in result["episodes"]}
    if spread == 1 or len(filmed) != 1:
        return ""
    return (
        f"only one checkpoint was kept, {filmed.pop()}, so there is no growth to see; "
        "--set keep.checkpoint.every_steps=N at the launch saves more often, keep.checkpoint.last=N keeps more"
    )


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


def _print_film(result: Mapping[str, Any]) -> None:
    write(f"{result['path']}: {size(result['bytes'])}, {count(result['frames'])} frames at {result['fps']} a second")
    for take in result["episodes"]:
        outcome = take.get("outcome") or DASH
        write(
            f"checkpoint {take['checkpoint']}  seed {take['seed']}  return {measure(take['episode_return'])}"
            f" in {count(take['steps'])} steps, outcome {outcome}"
        )
