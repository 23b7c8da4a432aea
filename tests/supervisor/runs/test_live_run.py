"""A live run's state has one owner: `LiveRun`, and what it holds, change their own, and nobody else does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from msgspec.structs import fields

import mission_tui.supervisor
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.thresholds import Limits
from mission_tui.supervisor.runs.live_metrics import LogFollower, RunJudging
from mission_tui.supervisor.runs.live_run import LiveRun
from tests.supervisor.conftest import stub_spec

OWNERS = {"mission_tui.supervisor.runs.live_run", "mission_tui.supervisor.runs.live_metrics"}
FIELDS = {field.name for owner in (LiveRun, RunJudging, LogFollower) for field in fields(owner)}


def changes(source: str) -> list[str]:
    """The assignments in a module that imports a live run, or what it holds, which change a field of another object."""
    tree = ast.parse(source)
    if not any(isinstance(node, ast.ImportFrom) and node.module in OWNERS for node in ast.walk(tree)):
        return []
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and not isinstance(node.ctx, ast.Load)
        and node.attr in FIELDS
        and ast.unparse(node.value) != "self"
    ]


def test_only_its_own_methods_assign_the_fields_of_a_live_run() -> None:
    """Whoever wants to know what can happen to a live run reads one class."""
    folder = Path(mission_tui.supervisor.__file__).parent
    found = {str(file.relative_to(folder)): changes(file.read_text("utf-8")) for file in folder.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("line", ["run.handle = None", "run.gpu, rest = x", "run.judging.news_at += 1", "del run.link"])
def test_an_assignment_from_outside_is_found(line: str) -> None:
    """Plain, unpacked, augmented and deleted."""
    assert changes(f"from {LiveRun.__module__} import LiveRun\n{line}\n")


def test_with_every_rule_off_nothing_is_kept_to_be_judged() -> None:
    """One rule that is on is enough."""
    off = [f"keep.health.{rule}.act=off" for rule in Limits.__struct_encode_fields__]
    row = UpdateDone(1, 1, 1, 64, 0.0, rollout_s=1.0, update_s=1.0, steps_per_s=1.0)
    for words, waiting in ((off, 0), (off[1:], 1)):
        judging = RunJudging()
        judging.begin(change(stub_spec(), words))
        judging.add(row)
        assert len(judging.unjudged) == waiting
