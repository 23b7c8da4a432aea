"""What the documents promise exists, and what exists is in the documents."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import click
import msgspec
import pytest

from mission_tui.cli.root import cli
from mission_tui.fleet.commands import WORDS
from mission_tui.fleet.specs.spec import (
    CheckpointKeep,
    EnvSpec,
    EvaluateSpec,
    LimitsKeep,
    PpoSpec,
    RaySpec,
    RestartKeep,
    RunSpec,
    SlurmSpec,
)
from mission_tui.fleet.specs.thresholds import Limits
from mission_tui.tui.actions import ACTIONS, key_label

ROOT = Path(__file__).parents[2]


def commands() -> dict[str, click.Command]:
    """Every command by its words, those of groups included."""
    context = click.Context(cli)
    found: dict[str, click.Command] = {}
    for verb in WORDS:
        command = cli.get_command(context, verb)
        assert command is not None
        if isinstance(command, click.Group):
            found |= {f"{verb} {name}": part for name, part in command.commands.items()}
        found[verb] = command
    return found


@pytest.mark.parametrize("verb", WORDS)
def test_the_readme_shows_every_verb(verb: str) -> None:
    """A verb that README does not mention does not exist for a newcomer."""
    assert re.search(rf"(?<![\w-]){verb}(?![\w-])", (ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_readme_shows_every_preset() -> None:
    """Each shipped preset is named in README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    names = {path.stem for path in (ROOT / "presets").glob("*.toml")}
    assert {name for name in names if f"`{name}`" not in readme} == set()
    assert len(names) >= 12


def test_the_readme_counts_the_health_rules() -> None:
    """The sentence that says how many there are has a new one counted."""
    ones = ("", "-one", "-two", "-three", "-four", "-five", "-six", "-seven", "-eight", "-nine")
    words = [ten + one for ten in ("twenty", "thirty", "forty") for one in ones]
    said = re.search(r"^([\w-]+) rules watch every run", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert said is not None
    assert 20 + words.index(said[1].lower()) == len(msgspec.structs.fields(Limits))


def test_shipped_presets_have_keys_of_their_own() -> None:
    """No preset takes its launch key from another one, which would go unsaid."""
    presets = [tomllib.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "presets").glob("*.toml")]
    keys = [preset["key"] for preset in presets if "key" in preset]
    assert len(keys) == len(set(keys)) >= 6


def test_the_key_reference_shows_every_key() -> None:
    """docs/keys.md has a row for each action, with all of its keys as the screen writes them."""
    page = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    wanted = [" ".join(f"`{key_label(key)}`" for key in action.keys) for action in ACTIONS]
    assert [keys for keys in wanted if keys not in rows] == []
    assert len(rows) == len(wanted)


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


def shown_in(document: str) -> list[str]:
    """The calls of the command line in a document, without `mission-tui`: in fenced blocks, and in spans of a line."""
    fences = re.findall(r"^```[^\n]*\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    lines = [line for text in fences for line in text.replace("\\\n", " ").splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", document, flags=re.MULTILINE | re.DOTALL))
    verbs = [f"mission-tui {span}" for span in spans if " " in span and span.split()[0] in WORDS]
    calls = [call for line in (*lines, *spans, *verbs) for call in re.split(r";| #|  +", line)]
    ours = [call.split(" -- ")[0] for call in calls if re.match(r" *\$? ?mission-tui \S", call)]
    return [call.partition("mission-tui ")[2] for call in ours]


def test_every_call_that_a_document_shows_has_its_verb_and_its_options() -> None:
    """README and docs/ show no option that its command does not take; the changelog may, of earlier days."""
    known = commands()
    everywhere = {name for option in cli.params for name in option.opts} | {"-h", "--help"}
    strange, options = [], 0
    for document in (ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")):
        for call in shown_in(document.read_text(encoding="utf-8")):
            words = re.findall(r"[^\s\[\](){}|=,…]+", call)
            verb = next((word for word in words if word in WORDS), None)
            pair = " ".join(words[words.index(verb) :][:2]) if verb else ""
            command = known.get(pair) or (known[verb] if verb else cli)
            taken = everywhere.union(*((*it.opts, *it.secondary_opts) for it in command.params))
            asked = [word for word in words if re.fullmatch(r"--[a-z][\w-]*|-[a-z]", word)]
            strange += [f"{document.name}: {call}: {word}" for word in asked if word not in taken]
            if verb is None and not words[0].startswith(("-", "VERB")):
                strange.append(f"{document.name}: {call}: no such verb")
            options += len(asked)
    assert strange == []
    assert options > 250


def test_every_example_of_a_help_page_can_be_pasted() -> None:
    """A line each, as it is typed: `compare sweep` behind a semicolon starts another program."""
    known, shown = commands(), 0
    for words, command in known.items():
        page = command.get_help(click.Context(command, info_name=words))
        calls = [line.strip() for line in page.splitlines() if re.match(r" +mission-tui ", line)]
        _, _, examples = page.partition("Examples:\n")
        assert [line.strip() for line in examples.partition("\n\n")[0].splitlines() if line.strip() not in calls] == []
        assert not re.search(r"Examples?: *\w", page), words
        for call in calls:
            typed = call.partition(" -- ")[0].split()
            verb = next(word for word in typed if word in WORDS)
            taken = {name for it in (*known[verb].params, *cli.params) for name in it.opts}
            if isinstance(group := known[verb], click.Group):
                taken |= {name for part in group.commands.values() for it in part.params for name in it.opts}
            strange = [word for word in typed if re.fullmatch(r"--[a-z][\w-]*|-[a-z]", word) and word not in taken]
            assert (call, strange) == (call, [])
            shown += 1
    assert shown > 50


def test_every_verb_speaks_json() -> None:
    """Each command has --json; groups leave it to their commands, and `bridge` says nothing else."""
    silent = [
        words
        for words, command in commands().items()
        if words != "bridge"
        and not any("--json" in parameter.opts for parameter in command.params)
        and not (isinstance(command, click.Group) and not command.invoke_without_command)
    ]
    assert silent == []


def test_the_json_reference_has_a_section_per_command() -> None:
    """docs/json.md shows an example for every command that prints a document."""
    reference = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    titles = {title for line in re.findall(r"^## (.+)$", reference, re.MULTILINE) for title in line.split(", ")}
    speaking = {words for words in commands() if words not in ("supervisor", "service", "bridge")}
    assert titles == speaking


def test_the_readme_is_soon_there_with_its_pictures() -> None:
    """No picture of it has a megabyte, and the film of `make film` is one of them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sizes = {name: (ROOT / name).stat().st_size for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)}
    assert "docs/growth.gif" in sizes
    assert max(sizes.values()) < 1_000_000


def test_the_readme_leads_to_other_machines_as_their_page_does() -> None:
    """The commands of docs/clusters.md, which are carried out by tests/hosts, tests/slurm and tests/ray."""

    def blocks(text: str) -> list[str]:
        return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)

    page = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    starts = [blocks(part)[0] for part in page.split("\n## ") if part.startswith("From nothing to")]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = blocks(readme.partition("## On more than one machine")[2].partition("\n## ")[0])
    assert shown == starts
    assert len(starts) == 3


def test_the_readme_names_make_targets_that_exist() -> None:
    """`make x` in README, ARCHITECTURE.md or CONTRIBUTING.md is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert targets >= {"run", "test", "check", "fmt", "lint", "types", "fast", "test-slow", "test-all"}
    named = {
        word
        for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
        for word in re.findall(r"(?<=[`\n ])make ([a-z-]+)", (ROOT / name).read_text(encoding="utf-8"))
    }
    assert {word for word in named if not word.startswith("bench-")} <= targets  # that is a pattern
    assert {"run", "test"} <= named


def test_the_architecture_names_every_room() -> None:
    """Each top room has its row in ARCHITECTURE.md; what a room within it is for stands in its own `__init__`."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE))
    packages = [path.parent for path in (ROOT / "mission_tui").rglob("__init__.py")]
    assert rows == {package.name for package in packages if package.parent.name == "mission_tui"}
    said = {package: ast.get_docstring(ast.parse((package / "__init__.py").read_text())) for package in packages}
    assert [package for package, sentence in said.items() if len((sentence or "").split()) < 5] == []


def test_the_architecture_is_one_page() -> None:
    """At most 1,300 words: reasons belong into docs/decisions/, and details beside the code."""
    assert 600 < len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split()) <= 1300


TREES = "mission_tui|tests|docs|benchmarks|presets"
NOT_HERE = {"benchmarks/results/", "health.toml", "limits.toml", "spec.toml", "effective.toml"}
"""What runs, users and benchmarks make, and the checkout does not have."""


def paths_named_in(document: Path) -> set[str]:
    """Files and folders of the checkout that a document names in backticks, `*` and `NAME` in them left open."""
    named = re.findall(rf"`((?:{TREES})/[^`\s]*|\w+\.(?:md|toml|txt))`", document.read_text(encoding="utf-8"))
    return {re.sub(r"\bNAME\b", "*", path.partition("::")[0]) for path in named}


@pytest.mark.parametrize(
    "document",
    [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "decisions").glob("0*.md"))],
    ids=lambda document: document.stem,
)
def test_paths_in_the_documents_of_the_code_exist(document: Path) -> None:
    """Who follows ARCHITECTURE.md, CONTRIBUTING.md or a decision into the code finds the file."""
    named = paths_named_in(document)
    assert [path for path in sorted(named) if path not in NOT_HERE and not any(ROOT.glob(path.rstrip("/")))] == []
    assert named


def test_the_index_of_the_documents_lists_every_page() -> None:
    """docs/README.md leads to every page, and docs/decisions/README.md to every record, by its title."""
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in docs.glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"]({page})" not in index} == set()
    records = {path.name for path in (docs / "decisions").glob("*.md")} - {"README.md"}
    listed = re.findall(r"^- \[(\d{4})\]\((.+?)\) (.+)$", (docs / "decisions/README.md").read_text(), re.MULTILINE)
    assert [name for _, name, _ in listed] == sorted(records)
    for number, name, title in listed:
        assert name.startswith(f"{number}-")
        assert (docs / "decisions" / name).read_text(encoding="utf-8").startswith(f"# {int(number)}. {title}\n")
    assert [int(number) for number, *_ in listed] == list(range(1, len(listed) + 1))


def test_a_decision_says_what_why_and_what_follows() -> None:
    """Each record has its context, the decision, the consequence, and where it is in the code; and is short."""
    for record in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        text = record.read_text(encoding="utf-8")
        parts = re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE)
        assert re.fullmatch("(Context Decision Consequence )+(Figure )?In the code", " ".join(parts)), record.name
        assert len(text.split()) < 500, record.name


def headings_of(document: Path) -> set[str]:
    """The fragments that links into a document may name: its headings, as GitHub writes them."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_between_documents_lead_somewhere() -> None:
    """Every relative link in the documents points to a file of the checkout, and its fragment to a heading there."""
    dead = [
        f"{document.name}: {target}#{fragment}"
        for document in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
        for target, fragment in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", document.read_text(encoding="utf-8"))
        for file in (document.parent / target if target else document,)
        if not file.exists() or (fragment and fragment not in headings_of(file))
    ]
    assert dead == []


def keys_of(table: type[msgspec.Struct]) -> dict[str, str]:
    """The keys of a table of a preset with their defaults as docs/presets.md writes them, tables within it left out."""
    said = {}
    for field in msgspec.structs.fields(table):
        default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        if not isinstance(default, msgspec.Struct):
            said[field.name] = msgspec.json.encode(default).decode()
    return said


@pytest.mark.parametrize(
    ("title", "table"),
    [
        ("env", EnvSpec),
        ("ppo", PpoSpec),
        ("run", RunSpec),
        ("keep.checkpoint", CheckpointKeep),
        ("keep.restart", RestartKeep),
        ("keep.limits", LimitsKeep),
        ("evaluate", EvaluateSpec),
        ("slurm", SlurmSpec),
        ("ray", RaySpec),
    ],
)
def test_the_preset_reference_has_every_key_with_its_default(title: str, table: type[msgspec.Struct]) -> None:
    """docs/presets.md and the types of the specs say the same of each table."""
    page = (ROOT / "docs" / "presets.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \| \S", section, re.MULTILINE)) == keys_of(table)
