"""What the documents promise exists, and what exists is in the documents."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from mission_tui.cli.root import VERBS, cli

ROOT = Path(__file__).parents[2]


def commands() -> dict[str, click.Command]:
    """Every command by its words, those of groups included."""
    context = click.Context(cli)
    found: dict[str, click.Command] = {}
    for verb in VERBS:
        command = cli.get_command(context, verb)
        assert command is not None
        if isinstance(command, click.Group):
            found |= {f"{verb} {name}": part for name, part in command.commands.items()}
        found[verb] = command
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_the_readme_shows_every_verb(verb: str) -> None:
    """A verb that README does not mention does not exist for a newcomer."""
    assert re.search(rf"(?<![\w-]){verb}(?![\w-])", (ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_readme_shows_every_preset() -> None:
    """Each shipped preset is named in README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    names = {path.stem for path in (ROOT / "presets").glob("*.toml")}
    assert {name for name in names if f"`{name}`" not in readme} == set()
    assert len(names) >= 12


def test_the_command_reference_shows_every_option() -> None:
    """docs/cli.md has a line per command with each of its options."""
    reference = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    lines = re.findall(r"^mission-tui(?: .*)?$", reference, re.MULTILINE)
    missing = []
    for words, command in commands().items():
        own = " ".join(line for line in lines if line.startswith(f"mission-tui {words}"))
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        if not (isinstance(command, click.Group) and not command.invoke_without_command):
            missing += [f"{words} {it.opts}" for it in options if not any(name in own for name in it.opts)]
            missing += [] if own else [words]
    assert missing == []


def test_every_verb_speaks_json() -> None:
    """Each command has --json; groups leave it to their commands."""
    silent = [
        words
        for words, command in commands().items()
        if not any("--json" in parameter.opts for parameter in command.params)
        and not (isinstance(command, click.Group) and not command.invoke_without_command)
    ]
    assert silent == []


def test_the_json_reference_has_a_section_per_command() -> None:
    """docs/json.md shows an example for every command that prints a document."""
    reference = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    titles = {title for line in re.findall(r"^## (.+)$", reference, re.MULTILINE) for title in line.split(", ")}
    speaking = {words for words in commands() if words not in ("supervisor", "service")}
    assert titles == speaking


def test_the_readme_names_make_targets_that_exist() -> None:
    """`make x` in README or ARCHITECTURE.md is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert targets >= {"run", "test", "check", "fmt", "lint", "types", "fast", "slow"}
    named = {
        word
        for name in ("README.md", "ARCHITECTURE.md")
        for word in re.findall(r"(?<=[`\n ])make ([a-z]+)", (ROOT / name).read_text(encoding="utf-8"))
    }
    assert named <= targets
    assert {"run", "test"} <= named


def test_links_between_documents_lead_somewhere() -> None:
    """Every relative link in the documents points to a file of the checkout."""
    dead = [
        f"{document.name}: {target}"
        for document in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
        if not (document.parent / target).exists()
    ]
    assert dead == []
