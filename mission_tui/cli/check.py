"""`mission-tui check`: a smoke run of presets, before anything is launched; nothing of it is left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mission_tui.cli.options import json_option, preset_argument, set_option
from mission_tui.cli.own_command import WithCommand, command_words
from mission_tui.cli.plan import Wish, launch_items
from mission_tui.cli.session import Session, pass_session

if TYPE_CHECKING:
    from mission_tui.fleet.checking import CheckFigures
    from mission_tui.fleet.spec import Spec
    from mission_tui.ipc.replies import Checked

COLOURS = {"ok": "green", "note": "yellow", "failed": "red", "skipped": "bright_black"}
LONGEST_STEP_S = 120.0


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
    from mission_tui.cli.documents import check_facts, write_document

    items = launch_items(
        Wish((*presets, *files), 1, None, assignments, (), command_words()), session.preset_dirs, session.health()
    )
    code, documents = 0, []
    for item in items:
        checked = _checked(session, item.spec, limit_s, quiet=as_json)
        code = code or next((step.exit_code for step in checked.steps if step.exit_code), 0)
        documents.append(check_facts(item.spec.preset, checked))
        if not as_json:
            _show(item.spec.preset, checked)
    if as_json:
        write_document({"ok": code == 0, "checks": documents})
    return code


def _checked(session: Session, spec: Spec, limit_s: float, *, quiet: bool) -> Checked:
    from mission_tui.ipc.replies import Progress
    from mission_tui.ipc.requests import Check
    from mission_tui.ipc.start import captured_environ

    cwd, environ = str(session.cwd), captured_environ(session.environ)

    def request(id_: int) -> Check:
        return Check(id=id_, spec=spec, cwd=cwd, python=sys.executable, environ=environ, limit_s=limit_s)

    with session.connect() as connection:
        for reply in connection.stream(request):
            if not isinstance(reply, Progress):
                return reply
            if not quiet and sys.stderr.isatty():
                click.echo(f"\r\x1b[K{reply.note}", nl=False, err=True)
    raise AssertionError("a stream ends with an answer or an error")


def _show(preset: str, checked: Checked) -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    click.echo(click.style(preset, bold=True))
    for step in checked.steps:
        level = click.style(step.level.ljust(7), COLOURS[step.level])
        click.echo(f"{level}  {step.name:10} {step.detail}".rstrip())
    if checked.figures is not None:
        for name, value in _figures(checked.figures):
            click.echo(f"{'':7}  {name:10} {value}")


def _figures(figures: CheckFigures) -> Iterator[tuple[str, str]]:
    from mission_tui.cli.words import count, duration, size

    after = f"after {figures.updates} update{'s' if figures.updates > 1 else ''}"
    workers = f", {figures.n_workers} workers of {size(figures.worker_bytes)} in it" if figures.n_workers else ""
    yield "memory", f"{size(figures.memory_bytes)} {after}{workers}"
    if figures.vram_bytes is not None:
        yield "VRAM", f"{size(figures.vram_bytes)} of torch's, and the CUDA context"
    yield "speed", f"{count(figures.steps_per_s)} steps/s on this machine as busy as it is now"
    if figures.hours is not None:
        yield "time", f"{duration(figures.hours * 3600)} for the whole run at this speed"
