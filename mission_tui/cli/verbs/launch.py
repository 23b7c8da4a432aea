"""`mission-tui launch`: make and start runs; with `--wait` show their settings and progress until they have ended.
`mission-tui clone`: a new run like another one, with changes, with its weights, or exactly as that one began.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import mission_tui
from mission_tui.cli import options
from mission_tui.cli.answers import answer_facts, merged, print_accepted, print_changes
from mission_tui.cli.follow_runs import (
    ask_engines,
    details_of,
    exit_code,
    say_answers,
    until_answered,
    until_ended,
    views_of,
)
from mission_tui.cli.options import duration_option, json_option, lasting, runs_argument, set_option, timesteps_option
from mission_tui.cli.plan import LaunchArguments, Planned, own_code_facts, planned, say_origins
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import EX_INTERRUPTED, confirm, print_error, write
from mission_tui.errors import EX_USAGE, UsageError
from mission_tui.fleet.launch_plan import LONGEST_NAME, check_name, counted_seeds

if TYPE_CHECKING:
    from mission_tui.fleet.specs.spec import LaunchItem
    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.ipc.replies import Accepted, Launched, VerdictReply

_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_TAKING = ("-X", "-W", "--check-hash-based-pycs")
"""Options of Python that are two words."""
SEED_LIMIT = 2**32 - 1


@click.command(
    "launch",
    cls=options.WithCommand,
    epilog=options.examples(
        "launch demo --wait",
        "launch cartpole --seeds 3",
        "launch heavy --set ppo.learning_rate=1e-4,3e-4 --dry-run",
        "launch --name mine -- python train.py",
    ),
)
@options.preset_argument
@click.option("--preset", "files", multiple=True, metavar="FILE", help="A preset that is not in a presets folder.")
@click.option("-n", "copies", type=click.IntRange(1, 64), default=1, metavar="N", help="N runs of each.")
@click.option("--name", help="Name of the run; several runs become NAME-1, NAME-2, ...")
@click.option(
    "--group",
    shell_complete=options.complete_groups,
    help="Group for listing and comparing; several runs always get one.",
)
@options.set_option
@click.option("--seed", "seed", multiple=True, type=click.IntRange(0, SEED_LIMIT), help="Seed; given twice, two runs.")
@click.option("--seeds", type=click.IntRange(1, 64), metavar="N", help="N runs, seeds counting up from --seed (or 1).")
@click.option(
    "-j", "at_once", type=click.IntRange(1, 4096), metavar="N", help="At most N of these runs at once; the others wait."
)
@options.timesteps_option
@options.duration_option
@click.option("--dry-run", "dry", is_flag=True, help="Only show what would be launched.")
@click.option(
    "--priority",
    type=click.IntRange(-1000, 1000),
    metavar="N",
    help="Higher starts first; one step counts as an hour of waiting.",
)
@click.option("--after", "after", multiple=True, metavar="RUN", help="Begin once RUN has ended, however it ends.")
@click.option("--profile", metavar="auto|none|FILE", help="Tuned settings of this machine (docs/tuning.md).")
@click.option("--launcher", metavar="NAME", help="What carries it out: local, slurm or ray (docs/clusters.md).")
@click.option("--hook", "hook", is_flag=True, help="Have the SB3 script after -- reported, in any environment.")
@click.option("--wait", "wait", is_flag=True, help="Stay until the runs have ended; Ctrl-C leaves them running.")
@options.json_option
@pass_session
def launch_command(
    session: Session,
    presets: tuple[str, ...],
    files: tuple[str, ...],
    copies: int,
    name: str | None,
    group: str | None,
    assignments: tuple[str, ...],
    seed: tuple[int, ...],
    seeds: int | None,
    at_once: int | None,
    timesteps: str | None,
    duration: str | None,
    dry: bool,
    priority: int | None,
    after: tuple[str, ...],
    profile: str | None,
    launcher: str | None,
    hook: bool,
    wait: bool,
    as_json: bool,
) -> int:
    """Start runs from presets, or of any command."""
    many, own_command = _seeds(seed, seeds), options.command_words()
    if hook:
        own_command = hooked(own_command)
    if launcher is not None:
        assignments = (*assignments, f"run.launcher={launcher}")
    assignments = (*assignments, *options.lasting(timesteps, duration))
    wish = LaunchArguments(
        (*presets, *files), copies, name, assignments, many, own_command, after, profile, group, priority, at_once
    )
    plan = planned(wish, session.preset_dirs, session.health(), session.profile_dir)
    items = plan.items
    say_origins(plan.foreign)
    if dry or len(items) > 1:
        _show(session, plan, dry=dry, as_json=dry and as_json)
    from mission_tui.cli.launch_price import show_scaling

    show_scaling(items)
    if dry:
        return 0
    launched = _launch(session, items)
    for warning in launched.warnings:
        print_error(warning)
    if wait:
        return _wait(session, launched, plan, as_json)
    runs, code = _answered(session, launched)
    if as_json:
        _write(runs, launched.warnings, plan)
    else:
        for view in runs:
            write(f"{view.id}  {view.name}  {view.outcome or view.state}")
    return code


def hooked(words: tuple[str, ...] | None) -> tuple[str, ...]:
    """The Python command `words` with `hook.py` before its script, by its path: its Python need not have mission-tui.

    Raises `UsageError` where there is no script.
    """
    python = next((at for at, word in enumerate(words or ()) if _PYTHON.fullmatch(Path(word).name)), None)
    if words is None or python is None:
        raise UsageError("--hook is for a Python script: launch --hook -- python train.py")
    at = python + 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-m":
        if words[at] in ("-", "-c"):
            raise UsageError(f"--hook needs a script or a module, and Python {words[at]} is given none")
        at += 2 if words[at] in _TAKING else 1
    if at + (words[at : at + 1] == ("-m",)) >= len(words):
        raise UsageError("--hook needs a script: launch --hook -- python train.py")
    if words[at : at + 2] == ("-m", "mission_tui.hook"):
        return words
    return (*words[:at], str(Path(mission_tui.__file__).with_name("hook.py")), *words[at:])


def _show(session: Session, plan: Planned, *, dry: bool, as_json: bool) -> None:
    """What is about to be launched, and if it is not going to be, what it would cost."""
    from mission_tui.cli.launch_price import launch_price, price_facts, show_plan, show_price

    items = plan.items
    if not dry:
        show_plan(items)
        return
    quoted = launch_price(session, items)
    if as_json:
        from mission_tui.cli.tables.documents import write_document

        write_document(price_facts(items, quoted) | {"own_code": own_code_facts(plan.foreign)})
    else:
        show_plan(items)
        show_price(items, quoted)


def _seeds(seed: tuple[int, ...], count: int | None) -> tuple[int, ...]:
    if len(set(seed)) < len(seed):
        raise UsageError("--seed is given twice with the same seed; -n 2 makes two runs of each")
    if count is None:
        return seed
    if len(seed) > 1:
        raise UsageError("--seeds N counts up from one --seed: give --seed once, or leave --seeds out")

    return counted_seeds(count, seed[0] if seed else None)


def _launch(session: Session, items: tuple[LaunchItem, ...]) -> Launched:
    """The whole wish was understood; only now is a supervisor started or asked."""
    from mission_tui.ipc.requests import Launch

    origin = session.origin
    with session.connect() as connection:
        return connection.ask(lambda id_: Launch(id=id_, items=items, **origin))


def _write(runs: tuple[RunView, ...], warnings: tuple[str, ...], plan: Planned) -> None:
    from mission_tui.cli.tables.documents import run_facts, write_document

    code = own_code_facts(plan.foreign)
    write_document({"runs": [run_facts(view) for view in runs], "warnings": list(warnings), "own_code": code})


def _answered(session: Session, launched: Launched) -> tuple[tuple[RunView, ...], int]:
    """The runs, those of an engine as they stand once it has said whether it takes them, and the exit code."""
    from mission_tui.fleet.specs.spec import LAUNCHERS

    elsewhere = [view.id for view in launched.runs if view.launcher != LAUNCHERS[0]]
    if not elsewhere:
        return launched.runs, 0

    try:
        answered = {view.id: view for view in until_answered(session, elsewhere)}
    except KeyboardInterrupt:
        return launched.runs, EX_INTERRUPTED
    return tuple(answered.get(view.id, view) for view in launched.runs), say_answers(tuple(answered.values()))


def _wait(session: Session, launched: Launched, plan: Planned, as_json: bool) -> int:
    """Show the runs until they have ended. What is shown goes to stderr when stdout is to hold a document."""
    from mission_tui.cli.tables.progress import board_on
    from mission_tui.cli.tables.runs import fleet_table, settings_table

    stream = sys.stderr if as_json else sys.stdout
    untold = {view.id for view in launched.runs}
    board = board_on(stream)

    def seen(views: tuple[RunView, ...], t: float) -> None:
        for view in views:
            if view.id in untold and (view.update is not None or view.phase in ("rollout", "update")):
                untold.discard(view.id)
                with session.connect() as connection:
                    settings = settings_table(details_of(connection, view.id))
                # Of a command nothing is known but the logs that are followed.
                if settings.rows:
                    board.print_table(f"effective settings of {view.name}", settings)
        board.show(views, t)

    try:
        with board:
            ended = until_ended(session, [view.id for view in launched.runs], seen)
    except KeyboardInterrupt:
        runs, them = ("the run goes", "it") if len(launched.runs) == 1 else ("the runs go", "them")
        print_error(f"{runs} on: see {them} with `mission-tui status`, end {them} with `stop`")
        return EX_INTERRUPTED
    if as_json:
        _write(ended, launched.warnings, plan)
    else:
        fleet_table(ended).write(stream)
    return exit_code(ended)


@click.command("clone")
@runs_argument(required=True)
@set_option
@timesteps_option
@duration_option
@click.option("--weights", is_flag=True, help="Begin with what RUN has learned (resume --branch does the same).")
@click.option("--checkpoint", metavar="NAME", help="With --weights: those of this checkpoint (default: the newest).")
@click.option("--exact", is_flag=True, help="As RUN began: its settings, seed, Python, folder and variables.")
@click.option("--yes", is_flag=True, help="With --exact: start it even if something has changed.")
@click.option("--name", metavar="NAME", help="What the new run is called.")
@json_option
@pass_session
def clone_command(
    session: Session,
    runs: tuple[str, ...],
    assignments: tuple[str, ...],
    timesteps: str | None,
    duration: str | None,
    weights: bool,
    checkpoint: str | None,
    exact: bool,
    yes: bool,
    name: str | None,
    as_json: bool,
) -> int:
    """Start a new run like another one, or one like each of several, which are a group then.

    It has the settings, rules and seed of RUN, but for what is changed; RUN may be live. With --exact what is no longer
    the same as when RUN began (code, packages, machine, settings) is listed first.

    \b
    mission-tui clone @last --set ppo.learning_rate=1e-4 --name slower
    mission-tui clone heavy-3f9a --weights --set env.kwargs.shaping=two_way
    mission-tui clone heavy-3f9a --exact
    mission-tui clone cartpole-3f9a --set ppo.gamma=0.98 --name longer
    """
    assignments = (*assignments, *lasting(timesteps, duration))
    if checkpoint is not None and not weights:
        raise UsageError("--checkpoint says where --weights come from: give both, or neither to start from scratch")
    if exact and (assignments or weights):
        raise UsageError(
            "--exact is RUN as it began: leave out --set, --timesteps, --duration and --weights, or --exact"
        )
    if yes and not exact:
        raise UsageError("--yes belongs to --exact; nothing else is asked")
    with session.connect() as connection:
        views = views_of(connection, runs)
    if len(views) > 1:
        if checkpoint is not None:
            raise UsageError(f"--checkpoint belongs to one run, and these are {len(views)}")
        stem, tag = name or views[0].group or views[0].name, secrets.token_hex(2)
        group = check_name(f"{stem[: LONGEST_NAME - 1 - len(tag)]}-{tag}", "group name")
        names = [None if name is None else f"{name}-{number}" for number in range(1, len(views) + 1)]
        print_error(f"{len(views)} runs, group {group}")
    else:
        group, names = None, [name]
    answers = []
    for view, called in zip(views, names, strict=True):
        ask = partial(_ask, session, view.id, assignments, checkpoint, called, group, weights=weights, exact=exact)
        answer = ask(accept=yes)
        if _refused(answer) and not as_json and sys.stdin.isatty():
            answer = ask(accept=True) if _agreed(answer) else answer
            if _refused(answer):
                return EX_USAGE
        answers.append(answer)
    code = _say(answers, as_json)
    said = ask_engines(session, answers)
    return code or said


def _refused(answer: Accepted | VerdictReply) -> bool:
    from mission_tui.ipc.replies import VerdictReply

    return isinstance(answer, VerdictReply)


def _agreed(answer: Accepted | VerdictReply) -> bool:
    """The differences, and a person's answer to them."""
    _print_differences(answer)
    return confirm("Start it anyway?", stderr=True)


def _print_differences(answer: Accepted | VerdictReply) -> None:
    from mission_tui.ipc.replies import VerdictReply

    assert isinstance(answer, VerdictReply)
    changes = answer.verdict.changes
    write(f"{len(changes)} changed since {answer.run} began:", stream=sys.stderr)
    print_changes(changes)


def _say(answers: Sequence[Accepted | VerdictReply], as_json: bool) -> int:
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.ipc.replies import Accepted

    accepted = [answer for answer in answers if isinstance(answer, Accepted)]
    refused = [answer for answer in answers if not isinstance(answer, Accepted)]
    if not refused:
        print_accepted(merged(accepted), as_json)
        return 0
    if as_json:
        write_document({"runs": [answer_facts(answer) for answer in answers]})
        return EX_USAGE
    if accepted:
        print_accepted(merged(accepted), as_json)
    for answer in refused:
        _print_differences(answer)
        print_error(f"nothing like {answer.run} was started: add --yes to start it anyway")
    return EX_USAGE


def _ask(
    session: Session,
    run: str,
    assignments: tuple[str, ...],
    checkpoint: str | None,
    name: str | None,
    group: str | None,
    *,
    weights: bool,
    exact: bool,
    accept: bool,
) -> Accepted | VerdictReply:
    from mission_tui.ipc.requests import Clone, Resume

    origin: dict[str, Any] = {**session.origin, "name": name, "group": group}

    def resume(id_: int) -> Resume:
        return Resume(id=id_, run=run, assignments=assignments, checkpoint=checkpoint, branch=True, **origin)

    def clone(id_: int) -> Clone:
        return Clone(id=id_, run=run, assignments=assignments, exact=exact, accept=accept, **origin)

    with session.connect() as connection:
        return connection.ask(resume) if weights else connection.ask(clone)
