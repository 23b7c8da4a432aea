"""`mission-tui presets`: which presets there are and where from, and what one of them says; `check`: a smoke run of
presets before anything is launched, of which nothing is left.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli import options
from mission_tui.cli.plan import (
    LaunchArguments,
    NamedPreset,
    named_preset,
    own_code_facts,
    planned,
    resolved,
    save_preset,
    say_origins,
)
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Colour, Styled, print_error, write, write_lines, write_over
from mission_tui.errors import MissionError, UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.specs.preset import PresetFile
    from mission_tui.fleet.specs.spec import Spec
    from mission_tui.ipc.replies import Checked, CheckFigures

COLOURS: dict[str, Colour] = {"ok": "green", "note": "yellow", "failed": "red", "skipped": "bright_black"}
INDENT = 20


class _Presets(click.Group):
    """Whoever names a preset where the verb stands learns how one is shown."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in self.commands and not word.startswith("-"):
            shown = shlex.join(("mission-tui", "presets", "show", word))
            verbs = " nor ".join(self.list_commands(ctx))
            raise click.UsageError(f"{word!r} is neither {verbs}; `{shown}` prints the preset of that name", ctx)
        return super().resolve_command(ctx, args)


@click.group("presets", cls=_Presets, invoke_without_command=True)
@click.option("--zoo", is_flag=True, help="Those of the RL zoo's whole table instead (docs/zoo.md).")
@options.json_option
@click.pass_context
def presets_command(ctx: click.Context, zoo: bool, as_json: bool) -> None:
    """List the presets, or show one."""
    if ctx.invoked_subcommand is None:
        _list(ctx.ensure_object(Session), as_json, zoo=zoo)


def _list(session: Session, as_json: bool, *, zoo: bool) -> None:
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.terminal_output import Table
    from mission_tui.records.preset_files import find_presets, find_zoo_presets, preset_on_key

    of_the_zoo = find_zoo_presets(session.preset_dirs)
    presets, broken = (of_the_zoo, {}) if zoo else find_presets(session.preset_dirs)
    for error in broken.values():
        print_error(str(error))
    if as_json:
        write_document({"presets": [_facts(session, preset) for preset in presets.values()]})
        return
    table = Table(("key", "preset", "launches", "from", "what it is"))
    for name, preset in presets.items():
        key = preset.key if preset.key and preset_on_key(preset.key, presets) is preset else ""
        whose = "./presets" if preset.origin == "here" else preset.origin
        table.add(key, name, " ".join(preset.launch) or "1 run", whose, preset.description)
    table.write(sys.stdout)
    if not zoo and of_the_zoo:
        write(f"and {len(of_the_zoo)} of the RL zoo's table, such as zoo-halfcheetah: mission-tui presets --zoo")
    say_origins(it for preset in presets.values() if (it := _origin(session, preset)) is not None)


def _facts(session: Session, preset: PresetFile) -> dict[str, Any]:
    origin = _origin(session, preset)
    return {
        "name": preset.name,
        "description": preset.description,
        "key": preset.key,
        "launch": list(preset.launch),
        "path": str(preset.path),
        "origin": preset.origin,
        "own_code": [] if origin is None else own_code_facts([origin]),
    }


def _origin(session: Session, preset: PresetFile) -> NamedPreset | None:
    """What a preset of the working folder names; what is wrong with one that cannot be resolved is said elsewhere."""
    from mission_tui.fleet.specs.preset import resolve
    from mission_tui.records.preset_files import base_of

    if preset.origin != "here":
        return None
    try:
        specs = () if preset.launch else (resolve(preset, lambda base: base_of(preset, base, session.preset_dirs)),)
    except MissionError:
        specs = ()
    return named_preset(preset, specs, session.preset_dirs)


@presets_command.command("show")
@click.argument("name", metavar="NAME", shell_complete=options.complete_presets)
@click.option("--resolved", is_flag=True, help="The spec a run would get: base, defaults and --set filled in.")
@options.set_option
@options.json_option
@pass_session
def show(session: Session, name: str, resolved: bool, assignments: tuple[str, ...], as_json: bool) -> None:
    """Print the TOML of a preset, as written or resolved."""
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.records.preset_files import load_preset

    preset = load_preset(name, session.preset_dirs)
    if assignments and not resolved:
        raise UsageError("--set changes the resolved spec: add --resolved")
    if not as_json and (origin := _origin(session, preset)) is not None:
        say_origins([origin])
    if as_json:
        tables = (
            _resolved(session, preset, assignments) if resolved else {key: dict(it) for key, it in preset.table.items()}
        )
        write_document(_facts(session, preset) | {"resolved": resolved, "tables": tables})
    elif resolved:
        import tomli_w

        write_lines(tomli_w.dumps(_resolved(session, preset, assignments)))
    else:
        write_lines(preset.path.read_text(encoding="utf-8"))


def _resolved(session: Session, preset: PresetFile, assignments: tuple[str, ...]) -> dict[str, Any]:
    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.fleet.specs.preset import as_tables

    runs = expand(assignments)
    if len(runs) > 1:
        raise UsageError("--set makes several runs, but one preset is shown: give one value per key")
    return as_tables(resolved(preset, runs[0], None, session.preset_dirs, session.health(), session.profile_dir))


@presets_command.command(
    "save",
    epilog=options.examples(
        "presets save heavy calm --set ppo.n_epochs=5",
    ),
)
@click.argument("source", metavar="PRESET", shell_complete=options.complete_presets)
@click.argument("name", metavar="NAME")
@options.set_option
@click.option("--key", metavar="DIGIT", help="The digit that launches it on the screen.")
@click.option("--description", metavar="TEXT", help="What it is, for lists.")
@click.option("--replace", is_flag=True, help="Overwrite or hide an existing preset of that name.")
@options.json_option
@pass_session
def save(
    session: Session,
    source: str,
    name: str,
    assignments: tuple[str, ...],
    key: str | None,
    description: str | None,
    replace: bool,
    as_json: bool,
) -> None:
    """Save PRESET with changes as the preset NAME, in your own folder of presets."""
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.fleet.specs.preset import Saving

    said = None if description is None else options.text_of(description)
    saved = save_preset(session, Saving(source, name, assignments, key, said), replace=replace)
    if saved.there:
        raise UsageError(f"{saved.there}; nothing was written: add --replace to do it anyway")
    if as_json:
        write_document({"name": saved.name, "path": saved.path})
    else:
        write(f"{saved.name}  {saved.path}")


def _limit(word: str) -> float:
    """A length of time in seconds, such as 90, 90s, 10m or 1h."""
    from mission_tui.fleet.specs.quantity import parse_span_s

    return parse_span_s(word, "--limit", 1.0, 3600.0)


@click.command(
    "check",
    cls=options.WithCommand,
    epilog=options.examples(
        "check heavy",
        "check heavy --set env.n_envs=64",
        "check -- python train.py",
    ),
)
@options.preset_argument
@click.option("--preset", "files", multiple=True, metavar="FILE", help="A preset that is not in a presets folder.")
@options.set_option
@click.option(
    "--limit",
    "limit_s",
    type=_limit,
    default="2m",
    show_default=True,
    metavar="TIME",
    help="How long one step may take before it counts as hung.",
)
@options.json_option
@pass_session
def check_command(
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

    wish = LaunchArguments((*presets, *files), 1, None, assignments, (), options.command_words())
    plan = planned(wish, session.preset_dirs, session.health(), session.profile_dir)
    say_origins(plan.foreign)
    items = plan.items
    files_by_name = _files_by_preset((*presets, *files), session)
    code, documents = 0, []
    for item in items:
        checked = _checked(session, item.spec, limit_s, quiet=as_json)
        code = code or next((step.exit_code for step in checked.steps if step.exit_code), 0)
        documents.append(check_facts(item.spec.preset, checked))
        if not as_json:
            _show_check(item.spec, checked, files_by_name.get(item.spec.preset, ""))
    if as_json:
        write_document({"ok": code == 0, "checks": documents})
    return code


def _checked(session: Session, spec: Spec, limit_s: float, *, quiet: bool) -> Checked:
    from mission_tui.ipc.replies import Progress
    from mission_tui.ipc.requests import Check

    origin = session.origin

    def request(id_: int) -> Check:
        return Check(id=id_, spec=spec, limit_s=limit_s, **origin)

    with session.connect() as connection:
        for reply in connection.stream(request):
            if not isinstance(reply, Progress):
                return reply
            if not quiet and sys.stderr.isatty():
                write_over(reply.note, sys.stderr)
    raise AssertionError("a stream ends with an answer or an error")


def _files_by_preset(words: tuple[str, ...], session: Session) -> dict[str, str]:
    """The files of the named presets and of the members of sets, by preset."""
    from mission_tui.records.preset_files import launched_by, load_preset

    named = [load_preset(word, session.preset_dirs) for word in words]
    members = [member for preset in named for member in launched_by(preset, session.preset_dirs)]
    return {preset.name: str(preset.path) for preset in members}


def _show_check(spec: Spec, checked: Checked, file: str) -> None:
    if sys.stderr.isatty():
        write_over("", sys.stderr)
    words = file if spec.run.command is None else shlex.join(spec.run.command)
    write(Styled(spec.preset, bold=True), f"  {words}")
    for step in checked.steps:
        first, *more = _folded(step.detail)
        write(Styled(step.level.ljust(7), COLOURS[step.level]), f"  {step.name:10} {first}".rstrip())
        for words in more:
            write(" " * INDENT + words)
    if checked.figures is not None:
        for name, value in _figures(checked.figures):
            write(f"{'':7}  {name:10} {value}")


def _folded(detail: str) -> list[str]:
    """The lines of `detail` beside the names of the steps; one line where the output is no terminal."""
    if not sys.stdout.isatty():
        return [detail]
    return textwrap.wrap(detail, max(20, shutil.get_terminal_size().columns - INDENT), break_on_hyphens=False) or [""]


def _figures(figures: CheckFigures) -> Iterator[tuple[str, str]]:
    from mission_tui.present.numbers import count, duration, size

    after = f"after {figures.updates} update{'s' if figures.updates > 1 else ''}"
    memory = f"{size(figures.memory_bytes)} {after}"
    if figures.n_workers:
        several = "s" if figures.n_workers > 1 else ""
        memory += f", {figures.n_workers} worker{several} of {size(figures.worker_bytes)} in it"
    yield "memory", memory
    if figures.vram_bytes is not None:
        yield "VRAM", f"{size(figures.vram_bytes)} for torch, plus the CUDA context"
    yield "speed", f"{count(figures.steps_per_s)} steps/s on this machine under its present load"
    if figures.hours is not None:
        yield "time", f"{duration(figures.hours * 3600)} for the whole run at this speed"
