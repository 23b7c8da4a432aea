"""Evaluate: what the supervisor looks at before anything is played."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.ipc.replies import Launched
from mission_tui.ipc.requests import Evaluate, Launch
from mission_tui.records.jsonl import encode_line
from mission_tui.records.runs.checkpoint import list_checkpoints
from mission_tui.supervisor.runs.targets import _those_there, meant
from tests.supervisor.conftest import REPOSITORY, Lab, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_another_source_of_the_environment_needs_a_word(lab: Lab, tmp_path: Path) -> None:
    """Edited a moment after the launch: refused with the module's name and `--accept`, and nothing is played."""
    (tmp_path / "grid.py").write_text("STEP = 1\n")
    spec = stub_spec(640)
    item = LaunchItem(spec=structs.replace(spec, env=structs.replace(spec.env, imports=("grid",))))
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": f"{REPOSITORY}:{tmp_path}"}
    reply = lab.ask(
        lambda id_: Launch(id=id_, items=(item,), cwd=str(tmp_path), python=sys.executable, environ=environ)
    )
    assert isinstance(reply, Launched)
    run = reply.runs[0].id
    lab.ended(run)
    record = lab.dir(run).attempt(1).provenance
    until(record.is_file, 20, "the provenance is recorded")
    (was,) = json.loads(record.read_bytes())["sources"].values()
    # What verdicts saw holds for five seconds; who evaluates has just been editing.
    (tmp_path / "grid.py").write_text("STEP = 2\n")
    with pytest.raises(UsageError, match=rf"source of module grid is \w+ now and was {was[:7]} .*--accept"):
        lab.ask(lambda id_: Evaluate(id=id_, run=run))
    assert not lab.dir(run).evaluations.exists()


def test_no_older_checkpoint_is_taken_for_a_damaged_one(sim: SimulatedLab) -> None:
    """The newest is damaged: refused, with its member and the newest that is whole; that one has to be asked for."""
    (run,) = sim.launch(spec=stub_spec(640))
    sim.ended(run)
    checkpoints = sim.dir(run).checkpoints
    (only,) = list_checkpoints(checkpoints)
    older = structs.replace(only, update=only.update - 1, name="000000001")
    shutil.copytree(checkpoints / only.name, checkpoints / older.name)
    (checkpoints / older.name / "manifest.json").write_bytes(encode_line(older))
    for file in sorted((checkpoints / only.name).iterdir()):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1])
        with pytest.raises(MissionError, match=rf"{only.name} .*{file.name}.*; 000000001 is the newest undamaged one"):
            sim.ask(lambda id_: Evaluate(id=id_, run=run))
        file.write_bytes(whole)
    (checkpoints / older.name / "manifest.json").unlink()
    (checkpoints / only.name / "manifest.json").write_bytes(b"")
    with pytest.raises(MissionError, match="there is no undamaged one"):
        sim.ask(lambda id_: Evaluate(id=id_, run=run, checkpoint="latest"))
    assert not sim.dir(run).evaluations.exists()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("000210800", "000210800"), ("211200", "000211200"), ("211.2k", "000211200"), ("212k", "000212000"),
        ("211k", None), ("209k", None), ("212100", None), ("0.2M", "000212000"), ("best", None), ("0k", None),
    ],
)  # fmt: skip
def test_a_checkpoint_may_be_named_as_it_is_shown(name: str, found: str | None) -> None:
    """`212k` means 000212000 where no other rounds to it; a number that is written out means itself alone."""
    names = ["000210800", "000211200", "000212000"] if "M" not in name else ["000212000", "000400000"]
    assert meant(name, names) == found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("5k", "; of its 200 the nearest are 000004608, 000004864, 000005120, 000005376"),
        ("nine", "; it has 200, from 000000256 to 000051200"),
    ],
)
def test_of_many_checkpoints_the_nearest_are_named(name: str, said: str) -> None:
    """A list of two hundred is cut before it comes to the one that was meant."""
    names = [f"{256 * number:09}" for number in range(1, 201)]
    assert _those_there(name, names) == said


def test_a_checkpoint_that_nobody_can_call_best(sim: SimulatedLab) -> None:
    """`best` is refused without a checkpoint, and a step that is not there is answered with those that are."""
    (run,) = sim.launch(spec=stub_spec(640))
    sim.ended(run)
    with pytest.raises(UsageError, match=r"has no checkpoint '7'.*000000640"):
        sim.ask(lambda id_: Evaluate(id=id_, run=run, checkpoint="7"))
    sim.dir(run).metrics.write_bytes(b"")
    with pytest.raises(UsageError, match="no return is known of any checkpoint"):
        sim.ask(lambda id_: Evaluate(id=id_, run=run, checkpoint="best"))
