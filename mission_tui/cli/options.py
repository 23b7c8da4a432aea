"""Arguments and options that several verbs share, so that they read and behave alike everywhere."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mission_tui.errors import UsageError
from mission_tui.paths import preset_dirs, runs_root, shipped_presets

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mission_tui.records.runs.layout import RunDir


F = TypeVar("F", bound=Callable[..., Any])
LIVE = "@live"
_NAMED_RUNS = 100
"""So many of the newest are looked into for their names and groups."""

_JOURNAL_BYTES = 1 << 20
_PLAIN = re.compile(r"[\w@%+=:,./-]+")


def complete_runs(context: click.Context, _parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """Ids, names and groups on disk, newest first, then the words for several: no supervisor is started for it."""
    runs = _runs_on_disk(context)
    names, groups = _names_and_groups(runs)
    return _items(word, _harmless((*(run.id for run in runs), *names, *groups, LIVE)))


def complete_groups(context: click.Context, _parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """Groups of the newest runs on disk."""
    return _items(word, _harmless(_names_and_groups(_runs_on_disk(context))[1]))


def complete_presets(_context: click.Context, _parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """Names of presets, of every folder; those of the RL zoo once the word begins so."""
    dirs = preset_dirs(Path.cwd(), os.environ)
    files = [file for folder in dirs for file in folder.glob("*.toml")]
    if word.startswith("zoo"):
        files += (shipped_presets() / "zoo").glob("*.toml")
    return _items(word, _harmless(sorted(file.stem for file in files)))


def complete_settings(_context: click.Context, _parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """Keys of a spec, and values where only some are possible."""
    from mission_tui.fleet.specs.assignment import complete
    from mission_tui.fleet.specs.schema import TABLES

    found = [word[: it.start] + it.text for it in complete(word)] if word else [f"{table}." for table in TABLES]
    return _items(word, found)


def _harmless(names: Iterable[str]) -> Iterator[str]:
    """Those that mean themselves in a shell, which puts them into the line as they are: runs and presets may be
    somebody else's, and be called `$(...)`.
    """
    return (name for name in names if _PLAIN.fullmatch(name) and not name.startswith("-"))


def _items(word: str, choices: Iterable[str]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    # A shell takes them as they come.
    return [CompletionItem(it) for it in dict.fromkeys(choices) if it.startswith(word) and it.isprintable()]


def _runs_on_disk(context: click.Context) -> list[RunDir]:
    """Newest first."""
    from mission_tui.records.runs.layout import run_dirs

    with suppress(UsageError):
        return list(run_dirs(runs_root(context.find_root().params.get("runs_dir"), Path.cwd(), os.environ)))[::-1]
    return []


def _names_and_groups(runs: Iterable[RunDir]) -> tuple[list[str], list[str]]:
    """What the newest of `runs` are called. One whose journal is long, or cannot be read, is passed over."""
    from mission_tui.fleet.events.journal import FleetEvent, RunCreated, RunRenamed
    from mission_tui.records.jsonl import read_all

    names: list[str] = []
    groups: list[str] = []
    for run in islice(runs, _NAMED_RUNS):
        with suppress(OSError):
            events, _ = read_all(run.events, FleetEvent, most=_JOURNAL_BYTES)
            names += [event.name for event in events if isinstance(event, RunCreated | RunRenamed)][-1:]
            groups += [event.group for event in events if isinstance(event, RunCreated) and event.group]
    return names, groups


def text_of(word: str) -> str:
    """What a person wrote as a `word` of the call. With a locale without UTF-8 Python takes each byte by itself, as it
    has to for the names of files; a terminal sends UTF-8 all the same.
    """
    return os.fsencode(word).decode("utf-8", "surrogateescape")


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document (docs/json.md).")
all_option = click.option("--all", "every", is_flag=True, help="Every live run.")
set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    callback=lambda _context, _option, words: tuple(map(text_of, words)),
    shell_complete=complete_settings,
    help="Change a setting, e.g. ppo.n_steps=512.",
)
timesteps_option = click.option("--timesteps", metavar="N", help="Train for N steps: 500k, 2M (run.total_timesteps).")
duration_option = click.option(
    "--duration", metavar="TIME", help="Train for so long instead: 90s, 10m, 1h (run.duration_s)."
)
_META = "mission_tui.own_command"


def count_of(flag: str, most: int | None = None) -> Callable[[str], int]:
    """The type of the option `flag`: a whole number from 1 to `most`, as people write it, such as 2048, 500k or 2M."""

    def count(word: str) -> int:
        from mission_tui.fleet.specs.quantity import format_quantity, parse_whole

        number = parse_whole(word)
        if number is None or number < 1:
            raise UsageError(
                f"{flag} {format_quantity(word)} is not a whole number from 1 on, such as 2048, 500k or 2M"
            )
        if most is not None and number > most:
            raise UsageError(f"{flag} {format_quantity(word)} is more than {most:,}, which is the most")
        return number

    return count


def finite(context: click.Context, option: click.Parameter, number: float | None) -> float | None:
    """The callback of an option that takes a number: refuses infinities, and nan, which no limit keeps out."""
    if number is not None and not math.isfinite(number):
        raise click.BadParameter(f"{number} is not a finite number", context, option)
    return number


def examples(*calls: str) -> str:
    """The end of a verb's help: calls that can be pasted, without `mission-tui`, a line each."""
    return "\n".join(("\b", "Examples:", *(f"  mission-tui {call}" for call in calls)))


def run_argument(*, required: bool = True) -> Callable[[F], F]:
    """One RUN: an id, a unique prefix, a name, or `@last`."""
    return click.argument("run", metavar="RUN", required=required, shell_complete=complete_runs)


def runs_argument(*, required: bool = False) -> Callable[[F], F]:
    """Any number of RUNs."""
    return click.argument("runs", metavar="RUN...", nargs=-1, required=required, shell_complete=complete_runs)


preset_argument = click.argument("presets", metavar="PRESET...", nargs=-1, shell_complete=complete_presets)


def chosen(runs: tuple[str, ...], every: bool) -> tuple[str, ...]:
    """The runs a request is about: those named, or with `--all` every live one. Raises `UsageError` for
    both and for neither.
    """
    if runs and every:
        raise UsageError("name runs or give --all, not both")
    if not runs and not every:
        raise UsageError("name at least one run (an id, a unique prefix, a name, or @last), or give --all")
    return (LIVE,) if every else runs


def lasting(timesteps: str | None, duration: str | None) -> tuple[str, ...]:
    """The settings that `--timesteps` or `--duration` stand for. Raises `UsageError` for both."""
    if timesteps is not None and duration is not None:
        raise UsageError("--timesteps and --duration both say when a run is over: give one of them")
    if timesteps is not None:
        return f"run.total_timesteps={timesteps}", "run.duration_s=none"
    if duration is not None:
        return f"run.duration_s={duration}", "run.total_timesteps=none"
    return ()


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
