"""`mission-tui search`: begin a search for settings, go on with one, or say what has come of it."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli import options
from mission_tui.cli.follow_runs import exit_code, until_ended, view_of, views_of
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import EX_INTERRUPTED, Styled, print_error, write
from mission_tui.errors import EX_FAILED, UsageError, nearest
from mission_tui.fleet.events.outcome import OVER

if TYPE_CHECKING:
    from mission_tui.fleet.search import SearchResult
    from mission_tui.fleet.specs.spec import Spec
    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.search.plan import Pruning, SearchPlan


_SEED_LIMIT = 2**32 - 1
_CHANGEABLE = {"trials", "at_once", "confirm"}
_OF_ANY = {"go_on", "show", "wait", "as_json"}


class _Pruner(click.Choice[str]):
    """The word behind `--prune`, which may be left out, and then the next one is taken for it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises `UsageError`."""
        if value in self.choices:
            return value
        near = nearest(value, self.choices)
        alone = near or f"; --prune alone, which is median, stands behind the preset: search {value} --prune"
        raise UsageError(f"--prune {value} is none of {', '.join(self.choices)}{alone}")


@click.command("search", cls=options.WithCommand)
@options.preset_argument
@click.option("--preset", "files", multiple=True, metavar="FILE", help="A preset that is not in a presets folder.")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="KEY=RANGE",
    help="A setting and its values: log:1e-5..1e-2, 4..20, 0.1,0.2,0.3, or 1-log:1e-4..0.03.",
)
@click.option("--space", default="", metavar="zoo", help="Search the space of the RL zoo for PPO; --param changes it.")
@options.set_option
@options.timesteps_option
@options.duration_option
@click.option(
    "--trials",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="How many trials to make.",
)
@click.option(
    "-j", "at_once", type=click.IntRange(1, 4096), metavar="N", help="At most N runs at once (default: as cores allow)."
)
@click.option(
    "--metric",
    default="rollout/ep_rew_mean",
    metavar="TAG",
    help="The metric to maximize (default: return), such as eval/success.",
)
@click.option("--minimize", is_flag=True, help="Minimize the metric instead.")
@click.option(
    "--seed", type=click.IntRange(0, _SEED_LIMIT), metavar="S", help="The first seed (default: the preset's, or 1)."
)
@click.option(
    "--seeds", type=click.IntRange(1, 64), default=1, show_default=True, metavar="K", help="Judge a trial by K seeds."
)
@click.option(
    "--prune",
    is_flag=False,
    flag_value="median",
    default="none",
    type=_Pruner(("none", "median", "hyperband")),
    help="Stop what falls behind; --prune alone is median.",
)
@click.option(
    "--confirm",
    type=click.IntRange(0, 64),
    default=5,
    show_default=True,
    metavar="N",
    help="Train winner and preset with N fresh seeds each; 0 leaves it out.",
)
@click.option("--name", help="Name of the search, and of the group of its runs.")
@click.option(
    "--continue", "go_on", metavar="GROUP", shell_complete=options.complete_groups, help="Go on where it was left."
)
@click.option("--show", metavar="GROUP", shell_complete=options.complete_groups, help="Say what has come of it so far.")
@click.option("--wait", is_flag=True, help="Stay until it is over; Ctrl-C leaves it searching.")
@options.json_option
@pass_session
def search_command(
    session: Session,
    presets: tuple[str, ...],
    files: tuple[str, ...],
    params: tuple[str, ...],
    space: str,
    assignments: tuple[str, ...],
    timesteps: str | None,
    duration: str | None,
    trials: int,
    at_once: int | None,
    metric: str,
    minimize: bool,
    seed: int | None,
    seeds: int,
    prune: Pruning,
    confirm: int,
    name: str | None,
    go_on: str | None,
    show: str | None,
    wait: bool,
    as_json: bool,
) -> int:
    """Search for settings that learn better, with Optuna.

    Each trial is a run like any other, in one group, and so is the driver that begins them: it survives your terminal,
    the supervisor and itself. The winner is trained once more with fresh seeds, beside the preset as it is.

    \b
    mission-tui search cartpole --param ppo.learning_rate=log:1e-5..1e-2 --param ppo.n_epochs=4..20 --trials 40
    mission-tui search --param lr=log:1e-5..1e-2 --metric rollout/ep_rew_mean -- python train.py --lr {lr}
    mission-tui search --continue cartpole-3f9a --trials 60
    """
    words, assignments = options.command_words(), (*assignments, *options.lasting(timesteps, duration))
    if show is not None or go_on is not None:
        _check_alone(bool(show), bool(go_on), bool(presets or files or words is not None))
    if show is not None:
        driver = _driver(session, show)
        return _wait(session, driver, as_json=as_json) if wait else _tell(session, driver, as_json=as_json)
    from mission_tui.cli.plan import search_plan
    from mission_tui.search.study import check_installed

    check_installed()
    if go_on is not None:
        driver = _continued(session, go_on)
    else:
        base = _base(session, (*presets, *files), words, assignments, seed)
        found = _params(params, words, base)
        plan = search_plan(
            base, found, space, metric, (trials, at_once, seeds, confirm), minimize=minimize, prune=prune
        )
        if plan.confirm < confirm:
            print_error(
                "the command has no values of its own, so the winner will not be held against them: --set gives some, "
                "such as --set lr=3e-4"
            )
        driver = _begun(session, plan, name)
    if wait:
        return _wait(session, driver, as_json=as_json)
    if as_json:
        return _tell(session, driver, as_json=True)
    write(f"{driver.group}  {driver.name}  {driver.state}")
    print_error(f"`mission-tui search --show {driver.group}` says how far it is; `stop {driver.name}` ends it")
    return 0


def _check_alone(show: bool, go_on: bool, named: bool) -> None:
    """Raise `UsageError` for words that do not go with `--show` and `--continue`."""
    option = "--show" if show else "--continue"
    if show and go_on:
        raise UsageError("--show says how far a search is and --continue goes on with it: give one of the two")
    if named:
        raise UsageError(f"{option} is about a search that was begun: leave out the preset or command")
    context = click.get_current_context()
    kept = _OF_ANY | (set() if show else _CHANGEABLE)
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
        if given and parameter.name not in kept:
            what = "changes nothing" if show else "keeps what it began with but --trials, -j and --confirm"
            raise UsageError(f"{option} {what}: leave out {parameter.opts[0]}")


def _base(
    session: Session,
    presets: tuple[str, ...],
    words: tuple[str, ...] | None,
    assignments: tuple[str, ...],
    seed: int | None,
) -> Spec:
    """What every trial is but for its own settings. Raises `UsageError` and `PresetError`."""
    from mission_tui.cli.plan import LaunchArguments, planned_one

    if not presets and words is None:
        raise UsageError("name a preset to search for, or a command after --; mission-tui presets lists them")
    seeds = () if seed is None and words is None else (1 if seed is None else seed,)
    return planned_one(
        session, LaunchArguments(presets, assignments=assignments, seeds=seeds, command=words), "search"
    ).spec


def _params(params: tuple[str, ...], words: tuple[str, ...] | None, base: Spec) -> tuple[str, ...]:
    """`params` with `lr=...` of a command's `{lr}` as the setting it is. Raises `UsageError`."""
    if words is None:
        return params
    from mission_tui.cli.plan import placed

    try:
        return placed(params, words, (base.run.seed or 1,))
    except UsageError as error:
        raise UsageError(str(error).replace("--set", "--param", 1)) from None


def _begun(session: Session, plan: SearchPlan, name: str | None) -> RunView:
    """The driver, launched."""
    from mission_tui.fleet.launch_plan import check_name
    from mission_tui.ipc.requests import Launch
    from mission_tui.run_module import module_words
    from mission_tui.search.plan import MODULE, driver_item, group_name

    group = check_name(group_name(name, plan.base.preset, secrets.token_hex(2)), "name of a search")
    origin = session.origin
    with session.connect() as connection:
        _check_free(session, group)
        item = driver_item(plan, group, module_words(MODULE))
        launched = connection.ask(lambda id_: Launch(id=id_, items=(item,), **origin))
    for warning in launched.warnings:
        print_error(warning)
    seeds = "" if plan.seeds == 1 else f" of {plan.seeds} seeds each"
    trials = f"{plan.trials} trial{'s' * (plan.trials > 1)}"
    print_error(f"{trials}{seeds}, at most {plan.at_once} runs at once, judged by {plan.metric}")
    return launched.runs[0]


def _check_free(session: Session, group: str) -> None:
    """Raise `UsageError` for a group that has runs: the trials of two searches would be one table."""

    with session.connect() as connection:
        try:
            known = views_of(connection, (group,))
        except UsageError:
            return
    if any(view.group == group or view.name == group for view in known):
        raise UsageError(f"there are runs called {group} already: choose another --name, or --continue that search")


def _driver(session: Session, group: str) -> RunView:
    """The driver of the search `group`. Raises `UsageError` where there is none."""
    from mission_tui.fleet.specs.spec import is_driver

    with session.connect() as connection:
        views = views_of(connection, (group,))
    found = [view for view in views if is_driver(view.preset)]
    if not found:
        raise UsageError(f"{group} is no search: mission-tui status lists the groups, and a search has a driver in it")
    return found[-1]


def _continued(session: Session, group: str) -> RunView:
    """The driver, which goes on with its search, with other numbers where they are given."""
    from mission_tui.ipc.requests import Resume
    from mission_tui.search.plan import changed_values

    driver, context = _driver(session, group), click.get_current_context()
    numbers: dict[str, Any] = {
        name: context.params[name]
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        else None
        for name in _CHANGEABLE
    }
    words = changed_values(**numbers)
    if driver.state not in OVER:
        if words:
            raise UsageError(
                f"{driver.group} is searching: `mission-tui stop {driver.name}` first, then go on with these"
            )
        print_error(f"{driver.group} is searching already")
        return driver
    with session.connect() as connection:
        connection.ask(lambda id_: Resume(id=id_, run=driver.id, assignments=words, accept=True))
        return view_of(connection, driver.id)


def _result(driver: RunView) -> SearchResult | None:
    """What the driver has written last; None before it has."""
    from mission_tui.fleet.search import SearchResult
    from mission_tui.records.atomic import read_json
    from mission_tui.records.runs.layout import RunDir

    return read_json(RunDir(Path(driver.run_dir)).search, SearchResult)


def _wait(session: Session, driver: RunView, *, as_json: bool) -> int:
    """Say how far it is on stderr until it is over, then what came of it."""
    from mission_tui.present.comparisons import progress_words

    told = ""

    def seen(_views: tuple[RunView, ...], _t: float) -> None:
        nonlocal told
        result = _result(driver)
        if result is not None and (said := progress_words(result)) != told:
            told = said
            print_error(said)

    try:
        (ended,) = until_ended(session, [driver.id], seen)
    except KeyboardInterrupt:
        print_error(f"it goes on; `mission-tui search --show {driver.group}` says how far it is")
        return EX_INTERRUPTED
    return _tell(session, ended, as_json=as_json)


def _tell(session: Session, driver: RunView, *, as_json: bool) -> int:
    """Print what has come of it; the exit code of its driver."""
    from mission_tui.cli.tables.documents import write_document

    result = _result(driver)
    if as_json:
        write_document(_search_facts(driver, result))
    elif result is None:
        write(f"{driver.group}: no trial was begun yet; the driver {driver.name} is {driver.state}")
    else:
        _write_search(driver, result)
    if driver.state not in OVER:
        return 0
    return EX_FAILED if result is not None and result.why else exit_code((driver,))


def _write_search(driver: RunView, result: SearchResult) -> None:
    """The table, then a sentence each for progress, importance, the fresh seeds, and what keeps the winner."""
    from mission_tui.cli.terminal_output import Table
    from mission_tui.fleet.search import ranked_trials
    from mission_tui.present import comparisons
    from mission_tui.present.numbers import DASH

    shown = [key.rpartition(".")[2] for key in result.keys]
    names = shown if len(set(shown)) == len(shown) else list(result.keys)
    numbers = frozenset({"trial", result.metric, *names})
    table = Table(("trial", "state", *names, result.metric), numbers)
    for trial in ranked_trials(result):
        settings = (trial.settings.get(key, DASH) for key in result.keys)
        table.add(str(trial.number), comparisons.state_word(trial), *settings, comparisons.value_word(trial.value))
    table.write(sys.stdout)
    failed = next((trial for trial in reversed(result.trials) if trial.state == "failed"), None)
    if failed is not None:
        write(f"trial {failed.number} failed: {failed.why}")
    for sentence in (comparisons.progress_words(result), comparisons.importance_words(result)):
        if sentence:
            write(sentence)
    if result.confirmation is not None:
        write(Styled(comparisons.confirmation_words(result.confirmation), bold=result.ended))
    if not result.ended and driver.state == "ended":
        write(f"it is not over: `mission-tui search --continue {result.group}` goes on")
    elif result.ended and (saved := comparisons.save_words(result)):
        write(saved)


def _search_facts(driver: RunView, result: SearchResult | None) -> dict[str, Any]:
    """Every name of it there; what is not known yet is null."""
    from msgspec import to_builtins

    from mission_tui.present import comparisons

    facts: dict[str, Any] = {"driver": {"id": driver.id, "name": driver.name, "state": driver.state}}
    if result is None:
        return facts | {"group": driver.group, "search": None}
    said = None if result.confirmation is None else comparisons.confirmation_words(result.confirmation)
    return facts | {
        "group": result.group,
        "search": to_builtins(result) | {"sentence": comparisons.progress_words(result), "confirmation_sentence": said},
    }
