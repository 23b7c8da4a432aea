"""What is no longer the same between two launches is said, one note each, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.events.provenance import Provenance, Repository, differences, noted, sources_of
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.specs.spec import EnvSpec, RunSpec, Spec

TREE = Repository(name="", path="/lab", commit="a" * 40)
WAS = Provenance(
    t=1.0,
    cwd="/lab",
    python="/venv/bin/python",
    python_version="3.12.1",
    packages={"torch": "2.4.0", "numpy": "1.26.4"},
    repositories=(TREE,),
    machine={"host": "box", "cpu": "EPYC", "gpu_driver": "550.54"},
)


def said(**changes: Any) -> list[tuple[str, str, str]]:
    """Name, before and after of each difference to a launch with `changes`."""
    return [(it.name, it.was, it.now) for it in differences(WAS, structs.replace(WAS, **changes))]


def test_the_same_is_silent() -> None:
    """Also at another time, and with files that git does not know: they change with every run."""
    assert said(t=9.0, repositories=(structs.replace(TREE, untracked=4),)) == []


@pytest.mark.parametrize(
    ("tree", "now"),
    [
        (structs.replace(TREE, commit="b" * 40), "bbbbbbb"),
        (structs.replace(TREE, changed=1, diff_sha256="x"), "aaaaaaa+1"),
        (structs.replace(TREE, changed=2, diff_sha256="x"), "aaaaaaa+2"),
    ],
)
def test_other_code_is_named(tree: Repository, now: str) -> None:
    """By commit and number of changed files."""
    assert said(repositories=(tree,)) == [("code", "aaaaaaa", now)]


def test_other_changes_on_the_same_commit_are_told_apart() -> None:
    """The same words on both sides would say nothing."""
    dirty = structs.replace(WAS, repositories=(structs.replace(TREE, changed=1, diff_sha256="x"),))
    other = structs.replace(WAS, repositories=(structs.replace(TREE, changed=1, diff_sha256="y"),))
    (change,) = differences(dirty, other)
    assert change.was == "aaaaaaa+1"
    assert change.now == "aaaaaaa+1 otherwise"


def test_an_editable_package_that_came_or_went_is_named() -> None:
    """With its own name."""
    package = Repository(name="gridworld", path="/code", commit="c" * 40)
    assert said(repositories=(TREE, package)) == [("code of gridworld", "not there", "ccccccc")]


def test_packages_interpreter_and_machine_are_named() -> None:
    """Only what differs; many packages are counted."""
    assert said(packages={"torch": "2.5.0", "numpy": "1.26.4"}) == [("packages", "torch 2.4.0", "torch 2.5.0")]
    assert said(python_version="3.13.0") == [("Python", "3.12.1", "3.13.0")]
    assert said(machine={"host": "box", "cpu": "EPYC"}) == [("GPU driver", "550.54", "not there")]
    many = WAS.packages | {f"package{number:02d}": "1" for number in range(30)}
    ((_, _, now),) = said(packages=many)
    assert now.endswith("package02 1 and 27 more")


def test_foreign_text_is_made_harmless() -> None:
    """Names and versions come from files that anybody may have written."""
    ((_, _, now),) = said(packages=WAS.packages | {"evil\x1b[2J": "1\n2"})
    assert not set(now) & {"\x1b", "\n"}


def test_notes_never_lighten_a_verdict() -> None:
    """Safe becomes a note; a warning stays one; without notes nothing changes."""
    note = Change("Python", "3.12", "3.13", "note", "why")
    assert noted(ResumeVerdict("safe"), ()) == ResumeVerdict("safe")
    assert noted(ResumeVerdict("safe"), (note,)) == ResumeVerdict("note", (note,))
    assert noted(ResumeVerdict("refuse"), (note,)).grade == "refuse"


def test_every_package_is_named_on_demand() -> None:
    """A line each, and cores and system too: who wants the same again wants to know all of it."""
    later = structs.replace(
        WAS, packages={"torch": "2.5.0", "numpy": "2.0.0"}, machine=WAS.machine | {"cores": "4", "host": "box"}
    )
    packages = [(it.was, it.now) for it in differences(WAS, later, every=True) if it.name == "package"]
    assert packages == [("numpy 1.26.4", "numpy 2.0.0"), ("torch 2.4.0", "torch 2.5.0")]
    assert [it.name for it in differences(WAS, later)] == ["packages"]
    assert "cores" in [it.name for it in differences(WAS, later, every=True)]


def test_other_source_of_the_task_is_named_where_both_are_known() -> None:
    """A record from before digests were taken says nothing."""
    was, now = ({"module:grid": digest, "file:train.py": "e" * 64} for digest in ("a" * 64, "b" * 64))
    (change,) = differences(structs.replace(WAS, sources=was), structs.replace(WAS, sources=now))
    assert (change.name, change.was, change.now) == ("source of module grid", "aaaaaaa", "bbbbbbb")
    assert differences(WAS, structs.replace(WAS, sources=now)) == ()


def test_sources_are_those_of_the_tasks_own_code() -> None:
    """Modules by their topmost package, once; of a command its words; of a Gymnasium id nothing: its package has a
    version."""
    env = EnvSpec(id="grid.envs:Grid-v0", wrappers=("grid.wrap:Slow", "shaping:Best"), imports=("registering",))
    assert sources_of(Spec(preset="x", env=env)) == ("module:grid", "module:shaping", "module:registering")
    assert sources_of(Spec(preset="x", env=EnvSpec(id="CartPole-v1"))) == ()
    command = RunSpec(command=("python", "-m", "lab.train", "conf.py"))
    assert sources_of(Spec(preset="x", run=command)) == ("file:python", "file:-m", "module:lab.train", "file:conf.py")
