"""The root command: global options, the table of verbs, and the screen when no verb is given.

A verb's module is imported when that verb is asked for, so that `status` does not pay for `doctor`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from mission_tui import __version__
from mission_tui.cli.session import Session
from mission_tui.cli.terminal_output import EX_INTERRUPTED, exit_code_of, print_error
from mission_tui.errors import EX_USAGE, UsageError, nearest

VERBS = {
    "launch": "launch clone",
    "monitoring": "status top replay",
    "run_output": "logs metrics",
    "run_control": "resume set checkpoint wait",
    "bookkeeping": "adopt rename note label clean rm prune",
    "findings": "findings try",
    "judge": "judge",
    "playing": "evaluate film",
    "compare": "compare report",
    "screen_views": "screenshot serve",
    "bench": "bench tune",
    "search": "search",
    "import_export": "export import-checkpoint import-run track",
    "presets": "presets check",
    "doctor": "paths doctor",
    "supervisor": "supervisor bridge service",
}
"""By module of `mission_tui.cli.verbs` its verbs that have options of their own; verb `x-y` is `x_y_command` there.

The others are the orders of `fleet.commands`, which need only to know which runs: `pause`, `stop` and so on. That
catalogue is not loaded for a verb that is found here: it would double what each verb loads.
"""
MODULES = {verb: module for module, verbs in VERBS.items() for verb in verbs.split()}

INSTEAD = {
    "archive": "`rm RUN` puts it into the trash for a day, `prune` all old ones",
    "branch": "`resume RUN --branch` makes one",
    "fork": "`resume RUN --branch` makes one",
    "delete": "`rm RUN` does that",
    "remove": "`rm RUN` does that",
    "undo": "`rm --undo RUN` takes a run back from the trash, `try RUN --undo` a trial's",
    "list": "`status` does that",
    "ls": "`status` does that",
    "ps": "`status` does that",
    "show": "`status RUN`, `metrics RUN` and `findings RUN` do",
    "tail": "`logs RUN -f` does that",
    "run": "`launch` does that",
    "start": "`launch` does that",
    "train": "`launch` does that",
    "continue": "`resume` does that",
    "restart": "`resume RUN` goes on, `clone RUN` begins anew",
    "sweep": "`launch PRESET --set KEY=A,B` makes one",
    "watch": "`status --watch` follows numbers, `evaluate RUN --render ansi` shows it play",
    "history": "`replay` shows what was, `metrics RUN` every update",
    "timeline": "`replay` shows what was, `top --csv` the machine as a series",
}
"""What does what other programs have a verb for, or people try first."""


_READ_NO_RUN = ("judge", "presets")
_NEED_NO_ROOT = ("bridge", "paths", *_READ_NO_RUN)
"""Of the verbs that change nothing those that do not read the runs root, or serve somebody who will make it."""


class Verbs(click.Group):
    """A group whose commands are imported as they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from mission_tui.fleet.commands import WORDS

        return list(WORDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MODULES:
            return self._order(cmd_name)
        module = importlib.import_module(f"mission_tui.cli.verbs.{MODULES[cmd_name]}")
        command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        return command

    def _order(self, word: str) -> click.Command | None:
        from mission_tui.fleet.commands import WORDS

        if word not in WORDS or not WORDS[word].order:
            return None
        from mission_tui.cli.verbs.run_control import order_command

        return order_command(WORDS[word])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            raise click.UsageError(_no_verb(word, self.list_commands(ctx)), ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--runs-dir",
    metavar="DIR",
    help="Folder of the runs; else MISSION_TUI_RUNS, ./runs beside presets/, or your state folder.",
)
@click.option("--readonly", is_flag=True, help="Show everything, change nothing; read only the run files.")
@click.option(
    "--host",
    metavar="HOST",
    multiple=True,
    expose_value=False,
    help="Another machine: its name in hosts.toml or as ssh knows it. The screen and status take several, or all.",
)
@click.version_option(__version__, prog_name="mission-tui", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, runs_dir: str | None, readonly: bool) -> int | None:
    """Start, watch, judge and resume PPO trainings. Without a verb: the screen."""
    ctx.obj = Session.begin(runs_dir, readonly=readonly)
    if ctx.invoked_subcommand is None:
        from mission_tui.cli.screen import open_screen

        return open_screen(ctx.obj)
    if ctx.obj.received and not readonly and ctx.invoked_subcommand in looking():
        ctx.obj = ctx.obj._replace(readonly=True)
        if ctx.invoked_subcommand not in _READ_NO_RUN:
            print_error(ctx.obj.what_was_received)
    if not ctx.obj.readonly and ctx.invoked_subcommand not in _NEED_NO_ROOT and (whose := ctx.obj.whose_it_is):
        print_error(whose)
    if readonly and ctx.invoked_subcommand not in looking():
        verbs = ", ".join(looking())
        raise click.UsageError(f"--readonly works only with the screen (no verb) and with {verbs}", ctx)
    if runs_dir and ctx.invoked_subcommand in looking() and ctx.invoked_subcommand not in _NEED_NO_ROOT:
        ctx.obj.require_root()
    return None


def looking() -> tuple[str, ...]:
    """The verbs that change nothing; with `--readonly` they read only the run files."""
    from mission_tui.fleet.commands import WORDS

    return tuple(word for word, command in WORDS.items() if command.offline)


def _no_verb(word: str, verbs: Sequence[str]) -> str:
    instead = INSTEAD.get(word.casefold())
    return f"there is no verb {word!r}{f': {instead}' if instead else nearest(word, verbs)}"


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line on `words` (default: those of this process) and return the exit code."""

    given = sys.argv[1:] if words is None else words
    return exit_code_of(lambda: _run(list(given)))


def _run(words: list[str]) -> int | None:
    """Click prints its own help and completes for the shell; its errors become one line."""
    if any(word == "--host" or word.startswith("--host=") for word in words):
        from mission_tui.cli.hosts import on_hosts, taken_out

        names, words = taken_out(words)
        if names and not {"-h", "--help"}.intersection(words):
            return on_hosts(names, words, _verb(words))
    try:
        code: int | None = cli.main(args=words, prog_name="mission-tui", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EX_USAGE
    except click.UsageError as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        print_error(f"{error.format_message().rstrip('.')}{where}")
        return EX_USAGE
    except click.Abort:
        return EX_INTERRUPTED
    except click.ClickException as error:
        print_error(error.format_message())
        return error.exit_code
    return code


def _verb(words: Sequence[str]) -> str | None:
    """The verb among `words`; None for the screen. Raises `UsageError` for one that does not exist."""
    verbs = cli.list_commands(click.Context(cli))
    left = iter(words)
    for word in left:
        if word == "--runs-dir":
            next(left, None)
        elif not word.startswith("-"):
            if word not in verbs:
                raise UsageError(f"{_no_verb(word, verbs)} (see mission-tui --help)")
            return word
    return None
