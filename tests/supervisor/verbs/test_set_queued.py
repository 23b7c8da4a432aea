"""Set, on a run that waits in the queue: it begins as if it had been launched so, whatever happens in between."""

from __future__ import annotations

import re
import sys

import msgspec
import pytest
from msgspec import structs

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.journal import FleetEvent, SettingsAsked
from mission_tui.fleet.specs.spec import KeepSpec, LimitsKeep, RunSpec, Spec
from mission_tui.ipc.replies import Accepted, DetailsReply, VerdictReply
from mission_tui.ipc.requests import GetDetails, Set
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import LaunchOrder, read_attempt_spec, read_spec, spec_document
from tests.supervisor.conftest import Lab, RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab

NEVER = KeepSpec(limits=LimitsKeep(disk_free=10**18))
NOW = "keep.limits.disk_free=1"


def waiting(lab: RunsRoot, spec: Spec | None = None) -> str:
    """A run that waits for a disk that nobody has."""
    (run,) = lab.launch(spec=structs.replace(spec or stub_spec(), keep=NEVER), name="waiting")
    lab.wait(run, lambda view: view.state == "queued")
    return run


def set_(lab: RunsRoot, run: str, *words: str, check_only: bool = False) -> Accepted | VerdictReply:
    """Ask for it."""
    reply = lab.ask(lambda id_: Set(id=id_, run=run, assignments=words, check_only=check_only))
    assert isinstance(reply, Accepted | VerdictReply)
    return reply


def spec_of(lab: RunsRoot, run: str) -> Spec:
    """As everyone sees it."""
    details = lab.ask(lambda id_: GetDetails(id=id_, run=run))
    assert isinstance(details, DetailsReply)
    return details.spec


def order_of(lab: RunsRoot, run: str) -> LaunchOrder:
    return msgspec.json.decode(lab.dir(run).attempt(1).launch.read_bytes(), type=LaunchOrder)


def test_a_queued_run_begins_with_what_was_set(sim: SimulatedLab) -> None:
    """Any setting, also one that a training run cannot change; what it was launched as stays on record."""
    run = waiting(sim)
    shown = set_(sim, run, "ppo.learning_rate=1e-4", "env.n_envs=32", check_only=True)
    assert isinstance(shown, VerdictReply)
    assert {(it.name, it.now) for it in shown.verdict.changes} >= {
        ("ppo.learning_rate", "0.0001"),
        ("env.n_envs", "32"),
    }
    assert spec_of(sim, run).env.n_envs != 32
    done = set_(sim, run, "ppo.learning_rate=1e-4", "env.n_envs=32")
    assert isinstance(done, Accepted)
    assert "ppo.learning_rate: 0.0003 -> 0.0001 from its start on" in done.notes
    assert (spec_of(sim, run).ppo.learning_rate, sim.view(run).state) == (1e-4, "queued")
    set_(sim, run, NOW, "keep.limits.runs=8")
    sim.running(run)
    began = read_attempt_spec(sim.dir(run), 1)
    assert (began.ppo.learning_rate, began.env.n_envs, began.keep.limits.runs) == (1e-4, 32, 8)
    assert read_spec(sim.dir(run).spec).ppo.learning_rate == 3e-4
    asked = [event for event in read_all(sim.dir(run).events, FleetEvent)[0] if isinstance(event, SettingsAsked)]
    assert [event.assignments for event in asked] == [
        ("ppo.learning_rate=1e-4", "env.n_envs=32"),
        (NOW, "keep.limits.runs=8"),
    ]
    sim.kill_supervisor()
    sim.start()
    assert spec_of(sim, run).env.n_envs == 32
    assert {"foreign", "damaged"}.isdisjoint(sim.view(run).flags)


def test_what_was_set_outlives_the_supervisor_that_was_asked(sim: SimulatedLab) -> None:
    """Killed before the run begins: the next one knows of it, and starts it so."""
    run = waiting(sim)
    set_(sim, run, "ppo.ent_coef=0.01", "run.grace_s=7")
    sim.kill_supervisor()
    sim.start()
    sim.wait(run, lambda view: view.state == "queued")
    assert spec_of(sim, run).ppo.ent_coef == 0.01
    set_(sim, run, NOW)
    sim.running(run)
    assert read_attempt_spec(sim.dir(run), 1).ppo.ent_coef == 0.01
    assert order_of(sim, run).grace_s == 7


def test_a_crash_between_order_and_spec_leaves_a_run_of_ones_own(sim: SimulatedLab) -> None:
    """The order is sealed with the spec that comes next: without that file the run is as it was, not a stranger's."""
    run = waiting(sim)
    set_(sim, run, "ppo.ent_coef=0.01")
    sim.kill_supervisor()
    own = sim.dir(run).attempt(1).spec
    sim.seals.write_order(sim.dir(run), order_of(sim, run), coming={own: spec_document(stub_spec(8))})
    sim.start()
    view = sim.wait(run, lambda view: view.state == "queued")
    assert {"foreign", "damaged"}.isdisjoint(view.flags)
    assert spec_of(sim, run).ppo.ent_coef == 0.01


def test_threads_of_a_command_are_set_in_its_environment(lab: Lab) -> None:
    """What the advice about contending threads asks for works before it has begun, too."""
    spec = Spec(
        preset="command", run=RunSpec(command=(sys.executable, "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"))
    )
    run = waiting(lab, spec)
    set_(lab, run, "run.threads=3", NOW)
    lab.ended(run)
    assert order_of(lab, run).env["OMP_NUM_THREADS"] == "3"
    assert lab.dir(run).attempt(1).output.read_text().strip() == "3"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("ppo.learning_rte=1e-4", "did you mean 'learning_rate'"),
        ("ppo.learning_rate=1e-4,1e-5", "one value per --set key"),
        ("ppo.batch_size=100000", "ppo.batch_size"),
        ("env.n_envs=100000000", "MiB"),
        (
            "run.command=['true']",
            r"settled when waiting was launched: `clone waiting --set run.command=...`.*`kill waiting`",
        ),
        ("run.env.A=1", "settled when waiting was launched"),
        ("env.id=CartPole-v1", "settled when waiting was launched"),
        ("run.launcher=slurm", "settled when waiting was launched"),
    ],
)
def test_what_a_launch_would_refuse_is_refused(sim: SimulatedLab, word: str, said: str) -> None:
    """Nothing is changed, not even by the words beside it; what cannot be set says how it is had."""
    run = waiting(sim)
    with pytest.raises(MissionError, match=said):
        set_(sim, run, "ppo.ent_coef=0.01", word)
    assert spec_of(sim, run).ppo.ent_coef == 0.0
    assert isinstance(same := set_(sim, run, "ppo.ent_coef=0.0"), Accepted)
    assert "has these settings already" in same.notes[0]


@pytest.mark.parametrize("verb", ["pause", "freeze", "checkpoint"])
def test_a_queued_run_is_queued_and_not_a_trainer_that_does_not_answer(sim: SimulatedLab, verb: str) -> None:
    """What it cannot take yet is refused with its state: "not connected; try again" would help nobody."""
    run = waiting(sim)
    with pytest.raises(UsageError, match=re.escape(f"cannot {verb} waiting: it is queued")):
        sim.act(verb, run)
