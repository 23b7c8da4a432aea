"""`mission-tui presets`: which presets there are and where from, and what one of them says."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.errors import print_error
from mission_tui.cli.options import json_option, set_option
from mission_tui.cli.preset_origins import NamedPreset, named, own_code_facts, say_origins
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import write, write_lines
from mission_tui.errors import MissionError, UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.specs.preset import PresetFile


@click.group("presets", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the presets, or show one."""
    if ctx.invoked_subcommand is None:
        _list(ctx.ensure_object(Session), as_json)


def _list(session: Session, as_json: bool) -> None:
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.tables.table import Table
    from mission_tui.records.preset_files import find_presets, preset_on_key

    presets, broken = find_presets(session.preset_dirs)
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
    return named(preset, specs, session.preset_dirs)


@command.command("show")
@click.argument("name", metavar="NAME")
@click.option("--resolved", is_flag=True, help="The spec a run would get: base, defaults and --set filled in.")
@set_option
@json_option
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
    from mission_tui.cli.plan import resolved
    from mission_tui.fleet.specs.preset import as_tables, expand

    runs = expand(assignments)
    if len(runs) > 1:
        raise UsageError("--set names several values here, and one preset is shown: give one value per key")
    return as_tables(resolved(preset, runs[0], None, session.preset_dirs, session.health(), session.profile_dir))


@command.command("save")
@click.argument("source", metavar="PRESET")
@click.argument("name", metavar="NAME")
@set_option
@click.option("--key", metavar="DIGIT", help="The digit that launches it on the screen.")
@click.option("--description", metavar="TEXT", help="What it is, for lists.")
@click.option("--replace", is_flag=True, help="Write over a preset that has the name, or hide it.")
@json_option
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
    from mission_tui.cli.preset_saving import save_preset
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.fleet.specs.preset_file import Saving

    saved = save_preset(session, Saving(source, name, assignments, key, description), replace=replace)
    if saved.there:
        raise UsageError(f"{saved.there}; nothing was written, --replace does it all the same")
    if as_json:
        write_document({"name": saved.name, "path": saved.path})
    else:
        write(f"{saved.name}  {saved.path}")
