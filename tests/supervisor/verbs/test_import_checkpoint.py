"""Importing a foreign zip: refused without a word of trust, else an ended run that evaluates, branches and survives."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.ipc.replies import Accepted, Evaluated
from mission_tui.ipc.requests import Evaluate, ImportCheckpoint, Resume
from tests.faults.foreign_zips import members, written
from tests.supervisor.conftest import REPOSITORY, Lab
from tests.trainer.harness import spec_with

pytestmark = pytest.mark.slow


def ask(lab: Lab, file: Path, *, trusted: bool = True, net: int = 8) -> Accepted:
    """Import `file` as a run named `foreign`."""
    item = LaunchItem(spec=spec_with(ppo={"net_arch": [net]}), name="foreign")
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    reply = lab.ask(
        lambda id_: ImportCheckpoint(
            id=id_,
            path=str(file),
            item=item,
            trusted=trusted,
            cwd=str(lab.root),
            python=sys.executable,
            environ=environ,
        )
    )
    assert isinstance(reply, Accepted)
    return reply


def runs_on_disk(lab: Lab) -> list[str]:
    return [path.name for path in lab.root.iterdir() if not path.name.startswith(".")]


@pytest.mark.timeout(60)
def test_an_imported_file_is_an_ended_run_that_can_be_used(lab: Lab, tmp_path: Path) -> None:
    """It says where it came from, evaluates, begins a branch, and is the same run to the next supervisor."""
    (run,) = ask(lab, written(tmp_path / "foreign.zip", members())).runs
    view = lab.view(run)
    assert (view.name, view.state, view.outcome, view.last_checkpoint) == ("foreign", "ended", "stopped", "000000064")
    assert [origin.sentence for origin in view.origins] == ["imported from foreign.zip as 000000064"]
    evaluated = lab.ask(lambda id_: Evaluate(id=id_, run="foreign", episodes=2))
    assert isinstance(evaluated, Evaluated)
    assert evaluated.result["episodes"] == 2
    branched = lab.ask(lambda id_: Resume(id=id_, run="foreign", branch=True))
    assert isinstance(branched, Accepted)
    lab.act("kill", *branched.runs)
    lab.ended(branched.runs[0])
    lab.kill_supervisor()
    lab.start()
    again = lab.view(run)
    assert (again.state, again.outcome, again.last_checkpoint) == ("ended", "stopped", "000000064")


@pytest.mark.timeout(60)
def test_nothing_is_made_without_trust_or_of_a_file_that_does_not_fit(lab: Lab, tmp_path: Path) -> None:
    """One sentence says what importing means; a refused file leaves neither a run nor a half of one."""
    file = written(tmp_path / "foreign.zip", members())
    with pytest.raises(MissionError, match="give --trust if you know who made it"):
        ask(lab, file, trusted=False)
    with pytest.raises(MissionError, match="another policy than the preset asks for"):
        ask(lab, file, net=16)
    assert runs_on_disk(lab) == []
    assert [path.name for path in (lab.root / ".supervisor").iterdir() if path.name.startswith("making")] == []
