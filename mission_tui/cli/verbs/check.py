"""`mission-tui check`: a smoke run of presets, before anything is launched; nothing of it is left."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mission_tui.cli.options import json_option, preset_argument, set_option
from mission_tui.cli.own_command import WithCommand, command_words
from mission_tui.cli.plan import LaunchWish, planned
from mission_tui.cli.preset_origins import say_origins
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Colour, styled, write, write_over

if TYPE_CHECKING:
    from mission_tui.fleet.specs.checking import CheckFigures
    from mission_tui.fleet.specs.spec import Spec
    from mission_tui.ipc.replies import Checked

COLOURS: dict[str, Colour] = {"ok": "green", "note": "yellow", "failed": "red", "skipped": "bright_black"}
LONGEST_STEP_S = 120.0
INDENT = 20


@click.command("check", cls=WithCommand)
@preset_argument
@click.option("--preset", "files", multiple=True, metavar="FILE", help="A preset that is not in a presets folder.")
@set_option
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(1, 3600),
    default=LONGEST_STEP_S,
    show_default=True,
    metavar="SECONDS",
    help="How long one step may take before it counts as hung.",
)
@json_option
@pass_session
def command(
    session: Session,
    presets: tuple[str, ...],
    files: tuple[str, ...],
    assignments: tuple[str, ...],
    limit_s: float,
    as_json: bool,
) -> int:
    """Try presets, or a command, without launching them.

    Imports, versions, device, environment, one rollout, one update, one checkpoint; then memory and hours.
    """
    from mission_tui.cli.tables.documents import check_facts, write_document

    wish = LaunchWish((*presets, *files), 1, None, assignments, (), command_words())
    plan = planned(wish, session.preset_dirs, session.health(), session.profile_dir)
    say_origins(plan.foreign)
    items = plan.items
    files_by_name = _files((*presets, *files), session)
    code, documents = 0, []
    for item in items:
        checked = _checked(session, item.spec, limit_s, quiet=as_json)
        code = code or next((step.exit_code for step in checked.steps if step.exit_code), 0)
        documents.append(check_facts(item.spec.preset, checked))
        if not as_json:
            _show(item.spec, checked, files_by_name.get(item.spec.preset, ""))
    if as_json:
        write_document({"ok": code == 0, "checks": documents})
    return code


def _checked(session: Session, spec: Spec, limit_s: float, *, quiet: bool) -> Checked:
    from mission_tui.ipc.own_limits import captured_limits
    from mission_tui.ipc.replies import Progress
    from mission_tui.ipc.requests import Check
    from mission_tui.ipc.start import captured_environ

    cwd, environ, limits = str(session.cwd), captured_environ(session.environ), captured_limits()

    def request(id_: int) -> Check:
        return Check(id=id_, spec=spec, cwd=cwd, python=sys.executable, environ=environ, limits=limits, limit_s=limit_s)

    with session.connect() as connection:
        for reply in connection.stream(request):
            if not isinstance(reply, Progress):
                return reply
            if not quiet and sys.stderr.isatty():
                write_over(reply.note, sys.stderr)
    raise AssertionError("a stream ends with an answer or an error")


def _files(words: tuple[str, ...], session: Session) -> dict[str, str]:
    """The files of the named presets and of the members of sets, by preset."""
    from mission_tui.records.preset_files import launched_by, load_preset

    named = [load_preset(word, session.preset_dirs) for word in words]
    members = [member for preset in named for member in launched_by(preset, session.preset_dirs)]
    return {preset.name: str(preset.path) for preset in members}


def _show(spec: Spec, checked: Checked, file: str) -> None:
    if sys.stderr.isatty():
        write_over("", sys.stderr)
    words = file if spec.run.command is None else shlex.join(spec.run.command)
    write(styled(spec.preset, bold=True), f"  {words}")
    for step in checked.steps:
        first, *more = _folded(step.detail)
        write(styled(step.level.ljust(7), COLOURS[step.level]), f"  {step.name:10} {first}".rstrip())
        for words in more:
            write(" " * INDENT + words)
    if checked.figures is not None:
        for name, value in _figures(checked.figures):
            write(f"{'':7}  {name:10} {value}")


def _folded(detail: str) -> list[str]:
    """The lines of `detail` beside the names of the steps; one line where nobody sees a terminal."""
    if not sys.stdout.isatty():
        return [detail]
    return textwrap.wrap(detail, max(20, shutil.get_terminal_size().columns - INDENT), break_on_hyphens=False) or [""]


def _figures(figures: CheckFigures) -> Iterator[tuple[str, str]]:
    from mission_tui.cli.tables.numbers import count, duration, size

    after = f"after {figures.updates} update{'s' if figures.updates > 1 else ''}"
    workers = f", {figures.n_workers} workers of {size(figures.worker_bytes)} in it" if figures.n_workers else ""
    yield "memory", f"{size(figures.memory_bytes)} {after}{workers}"
    if figures.vram_bytes is not None:
        yield "VRAM", f"{size(figures.vram_bytes)} of torch's, and the CUDA context"
    yield "speed", f"{count(figures.steps_per_s)} steps/s on this machine as busy as it is now"
    if figures.hours is not None:
        yield "time", f"{duration(figures.hours * 3600)} for the whole run at this speed"
