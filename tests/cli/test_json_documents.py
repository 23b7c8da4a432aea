"""Every document that the command line prints has the names and types that docs/json.md shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from mission_tui.cli.tables.documents import run_facts
from mission_tui.fleet.events.processes import RunFlag
from mission_tui.fleet.views.snapshot import HeldResources, Restart, RunView
from tests.shell import Shell

REFERENCE = Path(__file__).parents[2] / "docs" / "json.md"
OPEN = {"varied", "metrics", "outcomes", "tables", "evidence", "records", "gpus"}
"""Names whose content depends on the run or the machine."""


def examples() -> dict[str, Any]:
    """The example of each command in the reference, and of options that print another document."""
    sections = re.findall(r"^###? (.+?)$(.+?)(?=^###? |\Z)", REFERENCE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = {}
    for titles, text in sections:
        (block,) = re.findall(r"```json\n(.+?)```", text, re.DOTALL)
        found |= dict.fromkeys(titles.split(", "), json.loads(block))
    return found


def differences(shown: Any, real: Any, where: str = "") -> Iterator[str]:
    """Where `real` has other names or types than `shown`. Null fits everything, an empty list every list."""
    if shown is None or real is None:
        return
    if isinstance(shown, bool) or isinstance(real, bool) or isinstance(shown, str) != isinstance(real, str):
        if type(shown) is not type(real):
            yield f"{where}: {shown!r} shown, {real!r} printed"
    elif isinstance(shown, dict) and isinstance(real, dict):
        if shown.keys() != real.keys():
            yield f"{where}: only one side has {sorted(shown.keys() ^ real.keys())}"
        for name in (shown.keys() & real.keys()) - OPEN:
            yield from differences(shown[name], real[name], f"{where}.{name}")
    elif isinstance(shown, list) and isinstance(real, list):
        for item in real if shown else ():
            fits = [list(differences(example, item, f"{where}[]")) for example in shown]
            yield from min(fits, key=len)
    elif isinstance(shown, dict | list) or isinstance(real, dict | list):
        yield f"{where}: {shown!r} shown, {real!r} printed"


def check(words: str, real: Any) -> None:
    """Fail with every difference to the reference's section for `words`."""
    assert list(differences(examples()[words], real)) == []
    assert real["schema"] == 1


def test_the_reference_can_tell_documents_apart() -> None:
    """The comparison notices a missing name, a wrong type and a wrong nesting."""
    shown = {"a": 1, "b": {"c": "x"}, "d": [{"e": 1.5}], "f": None}
    assert list(differences(shown, {"a": 2, "b": {"c": "y"}, "d": [], "f": {"any": 1}})) == []
    assert list(differences(shown, {"a": "2", "b": {}, "d": [{"g": 1}], "f": None})) != []
    assert list(differences(shown, {"a": 1, "b": "x", "d": [{"e": True}], "f": None})) != []


def test_a_run_says_what_it_holds_and_when_it_starts_again() -> None:
    """By the names that the reference gives; a run in the reference has every name that is printed."""
    view = RunView(
        id="a",
        name="a",
        preset="tiny",
        run_dir="/a",
        state="frozen",
        created_t=1.0,
        held=HeldResources(5, gpu=True, vram_bytes=7),
        restart=Restart(due_t=9.0, number=2, most=3),
    )
    facts = run_facts(view)
    assert facts["held"] == {"memory_bytes": 5, "gpu": True, "vram_bytes": 7}
    assert facts["restart"] == {"due_t": 9.0, "number": 2, "most": 3, "after": "failure"}
    assert facts.keys() == examples()["status"]["runs"][0].keys()
    for name in (*facts["held"], *facts["restart"], *get_args(RunFlag)):
        assert re.search(rf"\b{name}\b", REFERENCE.read_text("utf-8"))


@pytest.mark.slow
def test_documents_without_a_supervisor(shell: Shell) -> None:
    """presets, paths, doctor and supervisor print what the reference shows."""
    check("presets", shell.json("presets"))
    check("presets show", shell.json("presets", "show", "tiny"))
    check("presets show", shell.json("presets", "show", "tiny", "--resolved"))
    check("paths", shell.json("paths"))
    check("doctor", shell.json("doctor"))
    check("supervisor status", shell.json("supervisor", "status", code=69))
    check("supervisor stop", shell.json("supervisor", "stop"))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_documents_about_a_run(shell: Shell) -> None:
    """From launch to export, each document of a real run is the one in the reference."""
    launched = shell.preloaded().json("launch", "tiny", "--name", "first", "--seed", "1")
    check("launch", launched)
    run = launched["runs"][0]["id"]
    shell.advancing(run)
    status = shell.json("status")
    check("status", status)
    assert [view["id"] for view in status["runs"]] == [run]
    check("supervisor status", shell.json("supervisor", "status"))
    for verb in ("checkpoint", "pause"):
        check(verb, shell.json(verb, run))
    check("resume", shell.json("resume", run))
    check("stop", shell.json("stop", run))
    check("wait", shell.json("wait", run, code=75))
    check("resume", shell.json("resume", run, "--set", "env.n_envs=16", code=2))
    check("findings", shell.json("findings", run))
    assert [entry["run"] for entry in shell.json("findings")["runs"]] == [run]
    metrics = shell.json("metrics", run)
    check("metrics", metrics)
    assert [record["seq"] for record in metrics["records"]] == list(range(1, len(metrics["records"]) + 1))
    check("evaluate", shell.json("evaluate", run, "--episodes", "3", timeout_s=60))
    check("export", shell.json("export", run, "policy.zip", timeout_s=60))
    check("clean", shell.json("clean"))
    check("prune", shell.json("prune", "--older", "0m"))
    check("rm", shell.json("rm", run))
    for line in shell.typed("logs", run, "--json").stdout.splitlines():
        check("logs", json.loads(line))
    check("kill", shell.json("kill", *shell.launch("tiny")))
    check("supervisor stop", shell.json("supervisor", "stop"))
