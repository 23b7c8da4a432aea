"""The root command: global options, the table of verbs, and the screen when no verb is given.

A verb's module is imported when that verb is asked for, so that `status` does not pay for `doctor`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from mission_tui import __version__
from mission_tui.cli.errors import EX_INTERRUPTED, exit_code_of, print_error
from mission_tui.cli.session import Session
from mission_tui.errors import EX_USAGE, nearest

MODULES = {
    "launch": "launch",
    "status": "status",
    "top": "monitoring",
    "replay": "monitoring",
    "logs": "run_output",
    "metrics": "run_output",
    "resume": "run_control",
    "set": "run_control",
    "clone": "clone",
    "adopt": "bookkeeping",
    "rename": "bookkeeping",
    "note": "bookkeeping",
    "label": "bookkeeping",
    "checkpoint": "run_control",
    "wait": "run_control",
    "findings": "findings",
    "judge": "judge",
    "evaluate": "evaluate",
    "compare": "compare",
    "bench": "bench",
    "tune": "tune",
    "export": "import_export",
    "import-checkpoint": "import_export",
    "import-run": "import_export",
    "clean": "cleanup",
    "rm": "cleanup",
    "prune": "cleanup",
    "presets": "presets",
    "check": "presets",
    "paths": "doctor",
    "doctor": "doctor",
    "supervisor": "supervisor",
    "service": "service",
}
"""The module in `mission_tui.cli.verbs` of every verb with options of its own; verb `x-y` is `x_y_command` there.

The others are those of `fleet.commands` that need only to know which runs: `pause`, `stop` and their like. That
catalogue is left alone where a verb is found here: it would double what every verb loads.
"""


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

        if word not in WORDS:
            return None
        from mission_tui.cli.verbs.run_control import order_command

        return order_command(WORDS[word])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            raise click.UsageError(f"there is no verb {word!r}{nearest(word, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--runs-dir",
    metavar="DIR",
    help="Runs root; else MISSION_TUI_RUNS, ./runs beside presets/, or the user's state folder.",
)
@click.option("--readonly", is_flag=True, help="Show everything, change nothing; verbs then read the files alone.")
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
        print_error(ctx.obj.what_was_received)
    if readonly and ctx.invoked_subcommand not in looking():
        verbs = ", ".join(looking())
        raise click.UsageError(f"--readonly changes nothing: it is for the screen (no verb), {verbs}", ctx)
    return None


def looking() -> tuple[str, ...]:
    """The verbs that change nothing, and are answered from the files alone with `--readonly`."""
    from mission_tui.fleet.commands import WORDS

    return tuple(word for word, command in WORDS.items() if command.offline)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line on `words` (default: those of this process) and return the exit code."""

    given = sys.argv[1:] if words is None else words
    return exit_code_of(lambda: _run(list(given)))


def _run(words: list[str]) -> int | None:
    """Prints its own help and completes for the shell; what click refuses is said in one line."""
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
