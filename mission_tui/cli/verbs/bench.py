"""Timed runs. `mission-tui bench`: of a preset, alone, in turns with another, or with every combination of settings
that are swept; a verdict on their speed, a picture, and of a sweep the fastest as a host profile. `mission-tui tune`:
the fastest way to train a preset on this machine, written as a host profile; with `--fleet N`, how many runs of it at
once are worth it, measured as they join one by one.
"""

from __future__ import annotations

import math
import re
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from mission_tui.cli.options import (
    complete_presets,
    complete_settings,
    examples,
    json_option,
    preset_argument,
    set_option,
)
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Styled, Table, print_error, write
from mission_tui.errors import EX_FAILED, MissionError, UsageError
from mission_tui.fleet.specs.quantity import parse_span_s
from mission_tui.present.numbers import DASH, count, duration

if TYPE_CHECKING:
    from mission_tui.fleet.specs.spec import LaunchItem
    from mission_tui.fleet.timed_runs import Side
    from mission_tui.fleet.tuning.record import Knob, TunePlan
    from mission_tui.ipc.replies import Benched, FleetTuned, Progress, Tuned

METRICS = "benchmark_metrics.json"
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)\s*%?")


@click.command(
    "bench",
    epilog=examples(
        "bench modes-sequential --vs modes-workers",
        "bench heavy --set run.threads=2 --vs heavy --fail-if-slower 5%",
        "bench heavy --vs benchmark_metrics.json",
        "bench heavy --sweep env.n_envs=16,32 --sweep env.n_workers=1,2,4",
    ),
)
@preset_argument
@click.option("--preset", "files", multiple=True, metavar="FILE", help="A preset that is not in a presets folder.")
@set_option
@click.option(
    "--duration", default="60s", show_default=True, metavar="TIME", help="How long each run is timed: 30s, 10m, 1h."
)
@click.option(
    "--repeat", "repeats", type=click.IntRange(1, 50), default=3, show_default=True, help="Runs of each preset."
)
@click.option(
    "--vs",
    metavar="PRESET|FILE",
    shell_complete=complete_presets,
    help=f"Compare with this preset, or with an earlier {METRICS}.",
)
@click.option(
    "--vs-set",
    "vs_assignments",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_settings,
    help="As --set, for the other preset.",
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="KEY=V,V,...",
    shell_complete=complete_settings,
    help="Time every combination beside the preset's own settings; again for another key.",
)
@click.option("--fail-if-slower", "margin", metavar="5%", help="Exit 1 if it is certainly slower by more than this.")
@click.option("--keep", is_flag=True, help="Keep the runs; otherwise they are removed at the end.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help=f"Where {METRICS} goes.")
@click.option(
    "--figure",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where its picture goes: .svg, or .png.  [default: beside the metrics]",
)
@json_option
@pass_session
def bench_command(
    session: Session,
    presets: tuple[str, ...],
    files: tuple[str, ...],
    assignments: tuple[str, ...],
    duration: str,
    repeats: int,
    vs: str | None,
    vs_assignments: tuple[str, ...],
    sweeps: tuple[str, ...],
    margin: str | None,
    keep: bool,
    out: Path | None,
    figure: Path | None,
    as_json: bool,
) -> int:
    """Measure the speed of a preset in timed runs, and say whether it is faster, the same or slower than another.

    The first updates of each run are warm-up and do not count. With --vs the runs take turns: A B, B A, A B. So do the
    combinations of a --sweep, of which the fastest becomes a host profile if it is certainly faster.
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.tables.timed_runs import (
        bench_bars,
        bench_facts,
        bench_result,
        check_output,
        check_picture,
        side_names,
        write_bench,
        write_picture,
    )

    share = _share(margin)
    if out is not None:
        check_output("--out", out)
    if figure is not None:
        check_picture(figure)
    if sweeps and (vs is not None or share is not None):
        raise UsageError("--sweep is held against the preset's own settings: leave --vs and --fail-if-slower out")
    if share is not None and vs is None:
        raise UsageError("--fail-if-slower needs something to compare with: give --vs PRESET or FILE")
    seconds, words = parse_span_s(duration, "--duration", 1.0, 86400.0), (*presets, *files)
    if len(words) != 1:
        raise UsageError(f"bench times one preset, not {len(words)}; the other one goes after --vs")
    recorded = _recorded(vs) if vs is not None and vs.endswith(".json") else None
    if vs_assignments and (vs is None or recorded is not None):
        raise UsageError("--vs-set changes the preset that --vs names, and there is none")
    group = f"bench-{Path(words[0]).stem}-{secrets.token_hex(2)}"
    places = _Files.of(session, group, out, figure)
    if sweeps:
        item = _timed(session, words[0], assignments, seconds, group, profile="none")
        return _sweep(session, item, (sweeps, assignments), (seconds, repeats, keep), places, as_json=as_json)
    items = [_timed(session, words[0], assignments, seconds, group)]
    if vs is not None and recorded is None:
        items.append(_timed(session, vs, vs_assignments, seconds, group))
    benched = _measured(session, items, seconds, repeats, keep=keep)
    found = bench_result(benched, recorded)
    places.store(bench_facts(found))
    write_picture(places.figure, f"bench {words[0]}", *bench_bars(found, side_names(found.sides)))
    if as_json:
        write_document({**bench_facts(found), **places.facts})
    else:
        write_bench(found)
        print_error(places.sentence)
    return EX_FAILED if share is not None and found.ratio is not None and found.ratio.is_slower_by(share) else 0


@dataclass(frozen=True, slots=True)
class _Files:
    """Where the results of a bench go."""

    metrics: Path
    figure: Path

    @staticmethod
    def of(session: Session, group: str, out: Path | None, figure: Path | None) -> _Files:
        """Those asked for, the others in the runs root, or beside `out`."""
        metrics = out or session.root / "benchmarks" / group / METRICS
        return _Files(metrics, figure or (metrics.with_name("bench.svg") if out is None else out.with_suffix(".svg")))

    def store(self, facts: dict[str, Any]) -> None:
        """Write the metrics whole or not at all. Raises `StorageError`."""
        from mission_tui.cli.tables.documents import SCHEMA
        from mission_tui.records.atomic import write_atomic_group

        document = msgspec.json.encode({"schema": SCHEMA, **facts})
        data = msgspec.json.format(document, indent=1) + b"\n"
        write_atomic_group(self.metrics.parent, {self.metrics.name: data})

    @property
    def facts(self) -> dict[str, str]:
        return {"file": str(self.metrics), "figure": str(self.figure)}

    @property
    def sentence(self) -> str:
        return f"all results are in {self.metrics}, the picture is {self.figure}"


def _sweep(
    session: Session,
    item: LaunchItem,
    words: tuple[tuple[str, ...], tuple[str, ...]],
    how: tuple[float, int, bool],
    places: _Files,
    *,
    as_json: bool,
) -> int:
    """Time every combination of the `--sweep` words, the first of `words`; the others are those of `--set`."""
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.tables.timed_runs import left_out, sweep_bars, sweep_facts, write_picture, write_sweep
    from mission_tui.fleet.timed_runs import Side
    from mission_tui.fleet.tuning.sweep import plan_sweep, sweep_result
    from mission_tui.fleet.tuning.tune_state import label_of
    from mission_tui.records.tuning_files import load_profile, profile_path, write_profile

    (sweeps, given), (seconds, repeats, keep) = words, how
    plan = plan_sweep(item.spec, sweeps, given)
    for line in left_out((label_of(refused.words), refused.why) for refused in plan.refused):
        print_error(line)
    for note in plan.notes:
        print_error(note)
    entrants = len(plan.entrants)
    print_error(
        f"{entrants - 1} combination{'' if entrants == 2 else 's'} and the preset's own settings, {repeats} x "
        f"{duration(seconds)} of each: about {duration(entrants * repeats * seconds)}"
    )
    items = [msgspec.structs.replace(item, spec=each.spec) for each in plan.entrants]
    benched = _measured(session, items, seconds, repeats, keep=keep, sweep=True)
    sides = [msgspec.convert(side, Side) for side in benched.sides]
    swept = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    found = sweep_result(plan, sides, benched.dropped, benched.host, swept)
    facts = sweep_facts(found, benched, sweeps)
    places.store(facts)
    write_picture(places.figure, f"bench {item.spec.preset}: {', '.join(plan.keys)}", *sweep_bars(found))
    target, replaced = None, ""
    if found.profile is not None:
        target = profile_path(session.profile_dir, found.profile.preset, found.profile.host.get("host", ""))
        with suppress(MissionError):
            replaced = f", in place of that of {load_profile(target).tuned}"
        write_profile(target, found.profile)
    if as_json:
        write_document({**facts, **places.facts, "profile": None if target is None else str(target)})
        return 0
    write_sweep(found, benched)
    print_error(places.sentence)
    if target is not None:
        print_error(f"the host profile is {target}{replaced}; `launch {item.spec.preset} --profile auto` uses it")
    return 0


def _share(word: str | None) -> float | None:
    """`5%` as a share. Raises `UsageError`."""
    if word is None:
        return None
    match = _SHARE.fullmatch(word.strip())
    if match is None or float(match[1]) >= 100.0:
        raise UsageError(f"--fail-if-slower {word!r} is not a percentage below 100: give one such as 5%")
    return float(match[1]) / 100.0


def _timed(
    session: Session,
    word: str,
    assignments: tuple[str, ...],
    seconds: float,
    group: str,
    profile: str | None = None,
) -> LaunchItem:
    """The one run that the words make, for so many seconds. Raises `UsageError`."""
    from mission_tui.cli.plan import LaunchArguments, planned_one

    timed = (*assignments, "run.total_timesteps=none", f"run.duration_s={seconds:g}")
    item = planned_one(session, LaunchArguments((word,), assignments=timed, profile=profile), "bench")
    if item.spec.run.command is not None:
        raise UsageError(f"{word} runs a command, which cannot be asked to train for {seconds:g} s")
    return msgspec.structs.replace(item, name=group, group=group)


def _recorded(word: str) -> Side:
    """The preset of an earlier measurement. Raises `UsageError` for a file that holds none."""
    from mission_tui.fleet.timed_runs import Side

    try:
        sides = msgspec.convert(msgspec.json.decode(Path(word).read_bytes())["sides"], tuple[Side, ...])
    except OSError as error:
        raise UsageError(f"--vs {word}: cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise UsageError(f"--vs {word}: not a {METRICS} of mission-tui bench ({error})") from None
    if not sides or not sides[0].repeats or not all(0.0 < rate < math.inf for rate in sides[0].rates):
        raise UsageError(f"--vs {word}: holds no measured preset")
    return sides[0]


def _measured(
    session: Session, items: list[LaunchItem], seconds: float, repeats: int, *, keep: bool, sweep: bool = False
) -> Benched:
    from mission_tui.cli.tables.progress import TaskBar
    from mission_tui.ipc.requests import Bench

    origin = session.origin

    def request(id_: int) -> Bench:
        return Bench(id=id_, items=tuple(items), duration_s=seconds, repeats=repeats, keep=keep, sweep=sweep, **origin)

    with session.connect() as connection, TaskBar("seconds", sys.stderr) as bar:
        return bar.follow(connection.stream(request))


USUAL = ("vec", "threads", "compile")
PLANNED = ("knobs", "probe", "rounds", "repeats", "budget", "start", "allow_precision", "allow_shape")
"""The options that are the plan of a tune, which its journal holds."""


@click.command(
    "tune",
    epilog=examples(
        "tune heavy",
        "tune heavy --continue",
        "tune cartpole --probe 5s --knob vec",
        "tune demo --fleet 4",
        "launch heavy --profile auto  # trains with what was found",
    ),
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
