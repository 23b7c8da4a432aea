"""Arguments and options that several verbs share, so that they read and behave alike everywhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mission_tui.errors import UsageError
from mission_tui.paths import preset_dirs, runs_root

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


F = TypeVar("F", bound=Callable[..., Any])
LIVE = "@live"

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document (docs/json.md).")
all_option = click.option("--all", "every", is_flag=True, help="Every live run.")
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change a setting, e.g. ppo.n_steps=512."
)
_META = "mission_tui.own_command"


def _complete_runs(context: click.Context, _parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """Run ids on disk, newest first: completion must not start a supervisor."""
    from click.shell_completion import CompletionItem

    from mission_tui.records.runs.layout import run_dirs

    given = context.find_root().params.get("runs_dir")
    ids: list[str] = []
    with suppress(UsageError):
        ids = [run.id for run in run_dirs(runs_root(given, Path.cwd(), os.environ))]
    return [CompletionItem(run) for run in reversed(ids) if run.startswith(word)]


def _complete_presets(_context: click.Context, _parameter: click.Parameter, word: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    names = {file.stem for folder in preset_dirs(Path.cwd(), os.environ) for file in folder.glob("*.toml")}
    names = {name for name in names if name.isprintable()}  # a shell takes them as they come
    return [CompletionItem(name) for name in sorted(names) if name.startswith(word)]


def run_argument(*, required: bool = True) -> Callable[[F], F]:
    """One RUN: an id, a unique prefix, a name, or `@last`."""
    return click.argument("run", metavar="RUN", required=required, shell_complete=_complete_runs)


def runs_argument(*, required: bool = False) -> Callable[[F], F]:
    """Any number of RUNs."""
    return click.argument("runs", metavar="RUN...", nargs=-1, required=required, shell_complete=_complete_runs)


preset_argument = click.argument("presets", metavar="PRESET...", nargs=-1, shell_complete=_complete_presets)


def chosen(runs: tuple[str, ...], every: bool) -> tuple[str, ...]:
    """The runs a request is about: those named, or with `--all` every live one. Exactly one of the two is needed."""
    if runs and every:
        raise UsageError("name runs or give --all, not both")
    if not runs and not every:
        raise UsageError("name at least one run (an id, a unique prefix, a name, or @last), or give --all")
    return (LIVE,) if every else runs


class WithCommand(click.Command):
    """Everything after a bare `--` is a command, also what looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the command's words in `ctx.meta` away from click."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_META] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Name the command in the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- CMD ARGS...]"]


def command_words() -> tuple[str, ...] | None:
    """The words after `--` of the call that is being carried out; None where there was no `--`."""
    words: tuple[str, ...] | None = click.get_current_context().meta.get(_META)
    return words
