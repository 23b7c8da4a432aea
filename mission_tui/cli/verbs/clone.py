"""`mission-tui clone`: a new run like another one, with changes, with its weights, or exactly as that one began."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.answers import answer_facts, merged, print_accepted, print_changes
from mission_tui.cli.follow_runs import ask_engines, views_of
from mission_tui.cli.options import duration_option, json_option, lasting, runs_argument, set_option, timesteps_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import confirm, print_error, write
from mission_tui.errors import EX_USAGE, UsageError
from mission_tui.fleet.launch_plan import LONGEST_NAME, check_name

if TYPE_CHECKING:
    from mission_tui.ipc.replies import Accepted, VerdictReply


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
