"""Run names under simultaneous requests: a name means one live run, whichever requests ask for it at the same time."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.specs.spec import LaunchItem, RestartKeep
from mission_tui.ipc.replies import OperatorReply
from mission_tui.ipc.requests import Clone, ImportCheckpoint, Rename, Resume
from mission_tui.supervisor.runs.registry import RunNames
from tests.supervisor.conftest import REPOSITORY, RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.trainer.harness import spec_with


def check_one_each(lab: RunsRoot, answers: list[OperatorReply | MissionError], name: str) -> None:
    """One of `answers` made the run `name`, the others were refused because of that name, and no two runs share one."""
    refused = [answer for answer in answers if isinstance(answer, MissionError)]
    assert len(refused) == len(answers) - 1
    assert all(f"the name '{name}' is taken" in str(error) for error in refused)
    live = Counter(view.name for view in lab.snapshot().runs if view.state != "ended")
    assert max(live.values()) == 1
    assert live[name] == 1


def a_source(lab: RunsRoot, name: str = "source") -> str:
    """A run with a checkpoint, ended."""
    (run,) = lab.launch(name=name)
    lab.running(run, 2)
    lab.act("stop", run)
    lab.ended(run)
    return run


def test_three_clones_at_once_are_one_run_of_the_name(sim: SimulatedLab) -> None:
    """Round after round: one clone is made, the two others say whose name it is, and nothing of them stays."""
    source = a_source(sim)
    for number in range(3):
        name = f"twin-{number}"
        check_one_each(sim, sim.ask_at_once(*[lambda id_: Clone(id=id_, run=source, name=name)] * 3), name)  # noqa: B023
    assert len(sim.snapshot().runs) == 4


def test_three_branches_at_once_are_one_run_of_the_name(sim: SimulatedLab) -> None:
    """The same for branches, which also copy a checkpoint between the check and the start."""
    source = a_source(sim)
    for number in range(3):
        name = f"branch-{number}"
        ask = partial(Resume, run=source, branch=True, name=name)
        check_one_each(sim, sim.ask_at_once(*[lambda id_: ask(id=id_)] * 3), name)  # noqa: B023
    assert len(sim.snapshot().runs) == 4


def test_a_clone_a_branch_and_a_rename_at_once_share_no_name(sim: SimulatedLab) -> None:
    """Whatever asks first has the name."""
    source = a_source(sim)
    (other,) = sim.launch(name="other")
    sim.running(other)
    asked = (
        lambda id_: Clone(id=id_, run=source, name="same"),
        lambda id_: Resume(id=id_, run=source, branch=True, name="same"),
        lambda id_: Rename(id=id_, run="other", name="same"),
    )
    check_one_each(sim, sim.ask_at_once(*asked), "same")


def test_a_clone_that_fails_gives_its_name_back(sim: SimulatedLab) -> None:
    """A clone that is refused after its name was checked leaves the name to the next one."""
    source = a_source(sim)
    with pytest.raises(MissionError):
        sim.ask(lambda id_: Clone(id=id_, run=source, name="free", assignments=("run.command=['/no/such/program']",)))
    sim.ask(lambda id_: Clone(id=id_, run=source, name="free"))
    assert "free" in {view.name for view in sim.snapshot().runs}


def test_an_ended_run_whose_name_was_taken_resumes_under_another(sim: SimulatedLab) -> None:
    """Another live run has the name: the refusal names that run and the command that renames this one."""
    first = a_source(sim, "alpha")
    (second,) = sim.launch(name="alpha")
    with pytest.raises(UsageError, match=rf"'alpha' is taken by a live run \({second}\); `mission-tui rename {first}"):
        sim.ask(lambda id_: Resume(id=id_, run=first))
    assert sim.view(first).attempt == 1
    sim.ask(lambda id_: Rename(id=id_, run=first, name="beta"))
    sim.ask(lambda id_: Resume(id=id_, run=first))
    assert sim.running(first).name == "beta"


def test_a_run_that_waits_for_its_restart_keeps_its_name(sim: SimulatedLab) -> None:
    """It is live as long as it is to go on by itself; neither a launch nor a rename takes its name meanwhile."""
    spec = stub_spec()
    keep = structs.replace(spec.keep, restart=RestartKeep(most=3, wait_s=60.0))
    (run,) = sim.launch(spec=structs.replace(spec, keep=keep), name="night", STUB_CRASHES_AFTER="3")
    sim.wait(run, lambda view: view.restart)
    with pytest.raises(UsageError, match="'night' is taken by a live run"):
        sim.launch(name="night")
    (other,) = sim.launch(name="day")
    with pytest.raises(UsageError, match="'night' is taken by a live run"):
        sim.ask(lambda id_: Rename(id=id_, run=other, name="night"))


def test_an_import_takes_no_live_runs_name(sim: SimulatedLab, tmp_path: Path) -> None:
    """It is refused before the file is read."""
    sim.launch(name="foreign")
    item = LaunchItem(spec=spec_with(ppo={"net_arch": [8]}), name="foreign")
    file = tmp_path / "foreign.zip"
    file.write_bytes(b"no checkpoint of anybody")
    environ = {"PATH": sim.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    ask = partial(ImportCheckpoint, path=str(file), item=item, trusted=True, environ=environ)
    with pytest.raises(UsageError, match="'foreign' is taken by a live run"):
        sim.ask(lambda id_: ask(id=id_, cwd=str(sim.root), python=sys.executable))
    assert len(sim.snapshot().runs) == 1


def test_a_name_is_held_by_one_run_and_given_back() -> None:
    """The run itself may ask again while it holds its name; an error in between gives it back."""
    live = {"id-1": "alpha"}
    names = RunNames(lambda: live)
    names.check("alpha", "id-1")
    failing = ExitStack()
    failing.enter_context(names.held("beta", "id-2"))
    names.check("beta", "id-2")
    with pytest.raises(UsageError, match="a run that is being started"):
        names.check("beta", "id-3")
    failing.__exit__(OSError, OSError(), None)
    names.check("beta", "id-3")
    with pytest.raises(UsageError, match="cannot be used"):
        names.check("../x")
