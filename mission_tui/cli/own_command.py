"""A command of one's own on the command line: everything after a bare `--`, also what looks like an option."""

from __future__ import annotations

import click

_META = "mission_tui.own_command"


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
