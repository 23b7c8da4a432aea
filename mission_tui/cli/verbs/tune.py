"""`mission-tui tune`: the fastest way to train a preset on this machine, written as a host profile; with `--fleet N`,
how many runs of it at once are worth it, measured as they join one by one.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from click.core import ParameterSource

from mission_tui.cli.options import json_option, preset_argument, set_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Styled, Table, print_error, write
from mission_tui.errors import UsageError
from mission_tui.fleet.specs.quantity import parse_span_s
from mission_tui.present.numbers import DASH, count

if TYPE_CHECKING:
    from mission_tui.fleet.specs.spec import LaunchItem
    from mission_tui.fleet.tuning.record import Knob, TunePlan
    from mission_tui.ipc.replies import FleetTuned, Progress, Tuned

USUAL = ("vec", "threads", "compile")
PLANNED = ("knobs", "probe", "rounds", "repeats", "budget", "start", "allow_precision", "allow_shape")
"""The options that are the plan of a tune, which its journal holds."""


@click.command(
    "tune",
    epilog="Examples: mission-tui tune heavy; tune heavy --continue; tune cartpole --probe 5s --knob vec; "
    "tune demo --fleet 4. Use what was found: launch heavy --profile auto",
)
@preset_argument
@click.option("--preset", "files", multiple=True, metavar="FILE", help="A preset that is not in a presets folder.")
@set_option
@click.option(
    "--knob",
    "knobs",
    multiple=True,
    type=click.Choice(USUAL),
    help="Try only this (vec is n_workers too); again for more.  [default: all three]",
)
@click.option("--probe", default="10s", show_default=True, metavar="TIME", help="Length of a probe: 5s, 1m.")
@click.option(
    "--rounds",
    type=click.IntRange(2, 20),
    default=3,
    show_default=True,
    help="Most probes of one candidate.",
)
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(2, 50),
    default=4,
    show_default=True,
    help="Pairs in the final comparison.",
)
@click.option("--budget", default="30m", show_default=True, metavar="TIME", help="Start no new round after this time.")
@click.option(
    "--start",
    default="180s",
    show_default=True,
    metavar="TIME",
    help="Longest wait for a first update, compiling included.",
)
@click.option("--allow-precision", is_flag=True, help="Try bf16 too; its numbers differ from Stable-Baselines3's.")
@click.option("--allow-shape", is_flag=True, help="Try n_envs, n_steps, batch_size too, within limits.")
@click.option("--continue", "go_on", is_flag=True, help="Go on with the last tune of this preset.")
@click.option(
    "--fleet",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Instead measure how many runs at once are worth it, up to N.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Where the host profile goes.")
@json_option
@pass_session
@click.pass_context
def tune_command(
    context: click.Context,
    session: Session,
    presets: tuple[str, ...],
    files: tuple[str, ...],
    assignments: tuple[str, ...],
    knobs: tuple[str, ...],
    probe: str,
    rounds: int,
    repeats: int,
    budget: str,
    start: str,
    allow_precision: bool,
    allow_shape: bool,
    go_on: bool,
    fleet: int | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Search for the fastest way to train a preset on this machine, without changing what is learned.

    Candidates are measured in short probes; certainly slower ones are dropped, and the winner is compared with the
    preset in new pairs of probes.
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.tables.timed_runs import tune_facts, tune_result_of, write_tune
    from mission_tui.fleet.tuning.record import TunePlan
    from mission_tui.records.tuning_files import profile_path, write_profile

    words = (*presets, *files)
    if len(words) != 1:
        raise UsageError(f"tune takes one preset, not {len(words)}")
    if fleet is not None:
        if go_on or out is not None:
            raise UsageError("--fleet stores nothing: leave out --continue and --out")
        budget_s = parse_span_s(budget, "--budget", 1.0, 7 * 86400.0)
        return tune_fleet(session, _item(session, words[0], assignments), fleet, budget_s, as_json=as_json)
    _check_words(context, out, go_on=go_on)
    asked = (*knobs, *(("precision",) if allow_precision else ()), *(("shape",) if allow_shape else ()))
    plan = TunePlan(
        knobs=_knobs(asked),
        probe_s=parse_span_s(probe, "--probe", 1.0, 3600.0),
        rounds=rounds,
        repeats=repeats,
        budget_s=parse_span_s(budget, "--budget", 1.0, 7 * 86400.0),
        start_s=parse_span_s(start, "--start", 1.0, 86400.0),
    )
    item = _item(session, words[0], assignments)
    tuned = _tuned(session, item, plan, go_on=go_on)
    found = tune_result_of(tuned)
    target = out or profile_path(session.profile_dir, found.profile.preset, found.profile.host.get("host", ""))
    write_profile(target, found.profile)
    if as_json:
        write_document({**tune_facts(found), "journal": str(session.root / "tuning" / tuned.name), "file": str(target)})
    else:
        write_tune(found)
        print_error(f"the host profile is in {target}; use it with `launch {words[0]} --profile auto`")
    return 0


def _check_words(context: click.Context, out: Path | None, *, go_on: bool) -> None:
    """Raise `UsageError` for options that a continued tune would ignore, and for an `--out` that cannot be written."""
    from mission_tui.cli.tables.timed_runs import check_output

    if out is not None:
        check_output("--out", out)
    for parameter in context.command.params if go_on else ():
        name = parameter.name or ""
        if name in PLANNED and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"--continue keeps the settings the tune began with: leave out {parameter.opts[0]}, or --continue"
            )


def _knobs(asked: Sequence[str]) -> tuple[Knob, ...]:
    """Those asked for in their usual order; where none of the usual ones was, all of them."""
    from mission_tui.fleet.tuning.record import KNOBS

    usual = [word for word in USUAL if word in asked] or USUAL
    return tuple(knob for knob in KNOBS if knob in usual or knob in asked)


def _item(session: Session, word: str, assignments: tuple[str, ...]) -> LaunchItem:
    """The one run that the words make, with nothing of an earlier profile. Raises `UsageError`."""
    from mission_tui.cli.plan import LaunchArguments, planned_one
    from mission_tui.fleet.specs.sb3_algorithms import other_algorithm

    item = planned_one(session, LaunchArguments((word,), assignments=assignments, profile="none"), "tune")
    if item.spec.run.command is not None:
        raise UsageError(f"{word} runs a command, whose settings tune does not know")
    if other_algorithm(item.spec.run.algo) is not None:
        raise UsageError(f"{word} trains with {item.spec.run.algo}; tune searches for rollouts and minibatches of PPO")
    return item


def _tuned(session: Session, item: LaunchItem, plan: TunePlan, *, go_on: bool) -> Tuned:
    from mission_tui.cli.tables.progress import TaskBar
    from mission_tui.cli.tables.timed_runs import probe_line
    from mission_tui.ipc.requests import Tune

    name = f"tune-{item.spec.preset[:40]}-{secrets.token_hex(2)}"
    origin = session.origin
    with session.connect() as connection, TaskBar("probes", sys.stderr) as bar:
        return bar.follow(
            connection.stream(lambda id_: Tune(id=id_, item=item, plan=plan, name=name, go_on=go_on, **origin)),
            probe_line,
        )


def tune_fleet(session: Session, item: LaunchItem, most: int, budget_s: float, *, as_json: bool) -> int:
    """Have up to `most` runs join, and say how many pay."""
    from mission_tui.cli.tables.documents import payoff_facts, write_document
    from mission_tui.cli.tables.timed_runs import write_bars
    from mission_tui.fleet.events.marginal_gain import MarginalGain

    tuned = _measured_fleet(session, item, most, budget_s)
    payoffs = [msgspec.convert(each, MarginalGain) for each in tuned.payoffs]
    if as_json:
        facts = {"preset": item.spec.preset, **tuned.said, "asked": most, "host": tuned.host}
        write_document({**facts, "payoffs": [payoff_facts(each) for each in payoffs]})
        return 0
    table = Table(
        ("runs", "steps/s in all", "more", "95 %", "what it brought"), frozenset({"runs", "steps/s in all", "more"})
    )
    for number, each in enumerate(payoffs, 1):
        between = DASH if each.low is None or each.high is None else f"{each.low:+.0%} to {each.high:+.0%}"
        more = DASH if each.gain is None else f"{each.gain:+.0%}"
        table.add(str(number), count(each.more_per_s), more, between, each.verdict)
    table.write(sys.stdout)
    write_bars([(f"{number:2}", each.more_per_s or 0.0) for number, each in enumerate(payoffs, 1)])
    write(Styled(str(tuned.said["sentence"]), bold=True))
    return 0


def _measured_fleet(session: Session, item: LaunchItem, most: int, budget_s: float) -> FleetTuned:
    from mission_tui.cli.tables.progress import TaskBar
    from mission_tui.fleet.events.marginal_gain import MarginalGain, gain_sentence
    from mission_tui.ipc.requests import TuneFleet

    group = f"fleet-{item.spec.preset[:40]}-{secrets.token_hex(2)}"
    item, origin = msgspec.structs.replace(item, name=group, group=group), session.origin

    def joined(progress: Progress) -> str:
        return gain_sentence(msgspec.convert(progress.fact, MarginalGain), f"run {progress.done}")

    with session.connect() as connection, TaskBar("runs", sys.stderr) as bar:
        return bar.follow(
            connection.stream(lambda id_: TuneFleet(id=id_, item=item, most=most, budget_s=budget_s, **origin)), joined
        )
