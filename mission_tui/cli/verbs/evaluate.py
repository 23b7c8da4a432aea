"""`mission-tui evaluate`: play episodes with a run's policy, from the run's own snapshot, and say how well it does."""

from __future__ import annotations

import sys
from typing import Any

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.show_episode import canvas_of, show
from mission_tui.cli.terminal_output import write
from mission_tui.errors import UsageError

EVALUATION_FACTS = (
    "run",
    "checkpoint",
    "episodes",
    "mean",
    "std",
    "median",
    "ci95",
    "outcomes",
    "won",
    "lengths",
    "deterministic",
    "seed",
    "by_seed",
    "policy",
    "seconds",
)


@click.command("evaluate")
@run_argument()
@click.option("--checkpoint", metavar="NAME", help="A step, `latest` or `best` (default: the newest).")
@click.option("--episodes", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many to play.")
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=10_000, show_default=True, help="Seed of the episodes."
)
@click.option(
    "--seeds", type=click.IntRange(1, 100), default=1, metavar="N", help="How many seeds, each with its episodes."
)
@click.option("--accept", is_flag=True, help="Play although the environment's source has changed.")
@click.option("--stochastic", is_flag=True, help="Sample actions instead of taking the most probable.")
@click.option("--random", "random", is_flag=True, help="A random policy instead, for comparison.")
@click.option(
    "--render", type=click.Choice(("ansi",)), help="Show one episode in the terminal instead; nothing is recorded."
)
@click.option("--fps", type=click.FloatRange(0.1, 60), help="With --render: pictures a second (default: 8).")
@json_option
@pass_session
def command(
    session: Session,
    run: str,
    checkpoint: str | None,
    episodes: int,
    seed: int,
    seeds: int,
    accept: bool,
    stochastic: bool,
    random: bool,
    render: str | None,
    fps: float | None,
    as_json: bool,
) -> None:
    """Play episodes with a run's policy."""
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.tables.progress import TaskBar
    from mission_tui.ipc.replies import Progress
    from mission_tui.ipc.requests import Evaluate
    from mission_tui.ipc.start import captured_environ

    if fps is not None and render is None:
        raise UsageError("--fps belongs to --render ansi")
    if render is not None and (as_json or seeds > 1):
        raise UsageError("--render shows one episode, of one seed, to a person: leave out --json and --seeds")
    canvas = None if render is None else canvas_of(session.environ, fps, sys.stdout)

    def request(id_: int) -> Evaluate:
        return Evaluate(
            id=id_,
            run=run,
            environ=captured_environ(session.environ),
            checkpoint=checkpoint,
            episodes=episodes,
            deterministic=not stochastic,
            seed=seed,
            seeds=seeds,
            accept=accept,
            policy="random" if random else "trained",
            render=canvas,
        )

    if canvas is not None:
        with session.connect() as connection:
            show(connection.stream(request), sys.stdout)
        return

    with session.connect() as connection, TaskBar("episodes", sys.stderr) as bar:
        for reply in connection.stream(request):
            if isinstance(reply, Progress):
                bar.advance(reply.done, reply.total)
            else:
                result = reply.result
    if as_json:
        write_document({name: result[name] for name in EVALUATION_FACTS if name in result})
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    """The result as a person reads it: how good, how sure, and how the episodes ended."""
    from mission_tui.cli.tables.numbers import measure, percent

    who = "a random policy" if result.get("policy") == "random" else f"checkpoint {result['checkpoint']}"
    write(f"{who} of {result['run']}: {result['episodes']} episode{'' if result['episodes'] == 1 else 's'}")
    write(f"return {measure(result['mean'])} ± {measure(result['std'])}, median {measure(result['median'])}")
    if result["ci95"] is None:
        write("no interval: one episode says nothing of how others end")
    else:
        write(f"95 % interval of the mean {' to '.join(map(measure, result['ci95']))}")
    if len(result.get("by_seed", ())) > 1:
        means = "  ".join(f"{it['seed']}: {measure(it['mean'])}" for it in result["by_seed"])
        write(f"mean by seed {means}")
    write(f"length {measure(result['lengths']['mean'])}")
    if result["outcomes"]:
        counts = "  ".join(f"{name} {number}" for name, number in sorted(result["outcomes"].items()))
        write(f"outcomes {counts}")
    if result["won"] is not None:
        write(f"won {percent(result['won'])}")
