"""Resume: another attempt from a checkpoint, after a verdict that is shown, accepted and journaled."""

from __future__ import annotations

import fcntl
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.events.journal import AttemptStarting, FleetEvent, RunCreated
from mission_tui.fleet.events.metrics import MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.resume.verdict import Terms
from mission_tui.fleet.specs.spec import EnvSpec, RunSpec, Spec
from mission_tui.ipc.replies import Accepted, OperatorReply, VerdictReply
from mission_tui.ipc.requests import Resume
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_spec, read_terms
from mission_tui.records.runs.checkpoint import verify_checkpoint
from mission_tui.records.runs.code_files import write_rules
from tests.supervisor.conftest import REPOSITORY, Lab, RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab


def resume(lab: RunsRoot, run: str, *assignments: str, **more: Any) -> OperatorReply:
    """Ask for a resume, without saying who asks."""
    return lab.ask(lambda id_: Resume(id=id_, run=run, assignments=assignments, **more))


def stopped(lab: RunsRoot) -> str:
    """A run that was stopped after a few updates."""
    (run,) = lab.launch()
    lab.running(run, 3)
    lab.act("stop", run)
    lab.ended(run)
    return run


@pytest.mark.slow
def test_a_stopped_run_goes_on_from_its_checkpoint(lab: Lab) -> None:
    """Attempt 2 begins at the stop's step; the file's rows before stay, updates and seq go on."""
    run = stopped(lab)
    before = lab.view(run)
    assert isinstance(resume(lab, run), Accepted)
    view = lab.running(run, (before.update or 0) + 2)
    assert view.attempt == 2
    records, damage = read_all(lab.dir(run).metrics, MetricRecord)
    assert not damage
    started = [record for record in records if isinstance(record, TrainingStarted)]
    assert [(r.attempt, r.from_timesteps) for r in started] == [(1, 0), (2, before.timesteps)]
    numbers = [record.update for record in records if isinstance(record, UpdateDone)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_grave_change_waits_for_a_word(sim: SimulatedLab) -> None:
    """A warning starts nothing without `accept`; with it the change is on disk, in the journal and in the view."""
    run = stopped(sim)
    warned = resume(sim, run, "env.n_envs=32")
    assert isinstance(warned, VerdictReply)
    assert warned.accept_needed
    assert sim.view(run).attempt == 1
    assert not sim.dir(run).attempt(2).path.exists()
    assert isinstance(resume(sim, run, "env.n_envs=32", accept=True), Accepted)
    assert sim.wait(run, lambda view: view.attempt == 2).n_envs == 32
    assert read_spec(sim.dir(run).attempt(2).spec).env.n_envs == 32
    assert read_spec(sim.dir(run).spec).env.n_envs == 4
    starts = [event for event in read_all(sim.dir(run).events, FleetEvent)[0] if isinstance(event, AttemptStarting)]
    assert "env.n_envs" in {change.name for change in starts[1].changes}


@pytest.mark.slow
def test_a_refused_change_starts_nothing_even_when_accepted(lab: Lab) -> None:
    """Another environment is another task."""
    run = stopped(lab)
    refused = resume(lab, run, "env.id=Acrobot-v1", accept=True)
    assert isinstance(refused, VerdictReply)
    assert (refused.verdict.grade, refused.accept_needed) == ("refuse", False)
    assert lab.view(run).state == "ended"


def test_what_the_machine_cannot_carry_is_refused_with_numbers(sim: SimulatedLab) -> None:
    """A rollout beyond the memory: how much is needed and free; asked, accepted or as a branch, nothing starts."""
    run = stopped(sim)
    words, why = (
        ("ppo.n_steps=500000000", "ppo.batch_size=64"),
        "cannot go on now: .* MiB of memory and .* MiB are free",
    )
    for how in ({"accept": True}, {"branch": True}):
        with pytest.raises(PresetError, match=why):
            resume(sim, run, *words, **how)
    assert (sim.view(run).attempt, len(sim.snapshot().runs)) == (1, 1)


def test_a_verdict_can_be_had_where_the_machine_lacks_room(sim: SimulatedLab) -> None:
    """What would change is said, and beside it what is missing; of a branch, and where nothing was accepted, too."""
    run = stopped(sim)
    words = ("ppo.n_steps=500000000", "ppo.batch_size=64")
    for how in ({"check_only": True}, {"check_only": True, "branch": True}, {}):
        reply = resume(sim, run, *words, **how)
        assert isinstance(reply, VerdictReply)
        assert "ppo.n_steps" in {change.name for change in reply.verdict.changes}
        assert re.search(r"cannot go on now: .* MiB of memory and .* MiB are free", reply.not_now)
    fits = resume(sim, run, "env.n_envs=32", check_only=True)
    assert isinstance(fits, VerdictReply)
    assert fits.not_now == ""
    assert (sim.view(run).attempt, len(sim.snapshot().runs)) == (1, 1)


def test_a_verdict_can_be_had_of_a_run_whose_name_was_taken(sim: SimulatedLab) -> None:
    """It says which run has the name; a branch does not need it."""
    run = stopped(sim)
    (other,) = sim.launch(name=sim.view(run).name)
    reply, branch = (resume(sim, run, check_only=True, branch=branch) for branch in (False, True))
    assert isinstance(reply, VerdictReply)
    assert isinstance(branch, VerdictReply)
    assert f"is taken by a live run ({other})" in reply.not_now
    assert branch.not_now == ""


def test_check_only_starts_nothing(sim: SimulatedLab) -> None:
    """Asking what a resume would change is free."""
    run = stopped(sim)
    reply = resume(sim, run, check_only=True)
    assert isinstance(reply, VerdictReply)
    assert (reply.verdict.grade, sim.view(run).state) == ("safe", "ended")


def test_check_only_leaves_a_paused_run_paused(sim: SimulatedLab) -> None:
    """Nothing would change, and it stays held until it is resumed in earnest."""
    (run,) = sim.launch()
    sim.running(run)
    sim.act("pause", run)
    held = sim.wait(run, lambda view: view.state == "paused").update
    reply = resume(sim, run, check_only=True)
    assert isinstance(reply, VerdictReply)
    assert (reply.verdict.grade, sim.view(run).state) == ("safe", "paused")
    assert isinstance(resume(sim, run), Accepted)
    sim.running(run, (held or 0) + 1)


def test_a_finished_run_needs_a_larger_total(sim: SimulatedLab) -> None:
    """Refused as it is; with a larger total it goes on to that total."""
    (run,) = sim.launch(spec=stub_spec(64 * 3))
    sim.ended(run)
    refused = resume(sim, run, accept=True)
    assert isinstance(refused, VerdictReply)
    assert refused.verdict.grade == "refuse"
    assert isinstance(resume(sim, run, f"run.total_timesteps={64 * 6}", accept=True), Accepted)
    ended = sim.wait(run, lambda view: view.state == "ended" and view.attempt == 2)
    assert (ended.outcome, ended.timesteps) == ("finished", 64 * 6)


def test_a_run_that_a_callback_finished_early_goes_on_to_its_own_total(sim: SimulatedLab) -> None:
    """Its budget is not used up, so nothing needs to be raised."""
    (run,) = sim.launch(spec=stub_spec(64 * 6), STUB_ENDS_AT="3")
    assert (sim.ended(run).outcome, sim.view(run).timesteps) == ("finished", 64 * 3)
    assert isinstance(resume(sim, run), Accepted)
    ended = sim.wait(run, lambda view: view.state == "ended" and view.attempt == 2)
    assert (ended.outcome, ended.timesteps) == ("finished", 64 * 6)


def test_a_run_finds_its_own_code_from_whatever_folder_it_is_resumed(shared_lab: Lab, tmp_path: Path) -> None:
    """It goes on where that lies, and says so; a folder that has it too is the one that was meant."""
    lab, away, copied = shared_lab, tmp_path / "away", tmp_path / "copied"
    for folder in (away, copied):
        folder.mkdir()
    for folder in (lab.root, copied):
        (folder / "own_code.py").write_text("import os; print('in', os.getcwd())", encoding="ascii")
    (run,) = lab.launch(spec=Spec(preset="command", run=RunSpec(command=(sys.executable, "own_code.py"))))
    lab.ended(run)
    asked = {"python": sys.executable, "environ": {"PYTHONPATH": str(REPOSITORY)}, "accept": True}
    went_on = []
    for attempt, folder in ((2, away), (3, copied)):
        reply = resume(lab, run, cwd=str(folder), **asked)
        assert isinstance(reply, Accepted)
        lab.ended(run)
        said = lab.dir(run).attempt(attempt).output.read_text(encoding="utf-8")
        went_on.append((said.strip(), any("its own code lies" in note for note in reply.notes)))
    assert went_on == [(f"in {lab.root}", True), (f"in {copied}", False)]


def test_a_live_run_is_not_resumed(sim: SimulatedLab) -> None:
    """Resuming a running run is refused and says that it runs."""
    (run,) = sim.launch()
    sim.running(run)
    with pytest.raises(UsageError, match="running"):
        resume(sim, run)


def test_a_run_without_a_checkpoint_says_so(sim: SimulatedLab) -> None:
    """Killed before its first checkpoint, there is nothing to go on from: it begins anew, but not as another run."""
    (run,) = sim.launch()
    sim.running(run)
    sim.act("kill", run)
    sim.ended(run)
    with pytest.raises(MissionError, match="no checkpoint"):
        resume(sim, run, "ppo.n_epochs=5")
    reply = resume(sim, run)
    assert isinstance(reply, Accepted)
    assert "begins anew" in reply.notes[0]


def test_a_run_whose_lease_is_held_is_not_started_twice(lab: Lab) -> None:
    """A process of the earlier attempt still owns the run: the resume is refused, and there is no second trainer."""
    run = stopped(lab)
    with lab.dir(run).lease.open() as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="still alive"):
            resume(lab, run)
    assert isinstance(resume(lab, run), Accepted)


def test_an_explicit_or_older_checkpoint_rewinds(sim: SimulatedLab) -> None:
    """Resuming from the first of two checkpoints drops the rows in between from the view, not from the file."""
    (run,) = sim.launch(STUB_UPDATE_S="0.3")
    sim.running(run, 3)
    sim.act("checkpoint", run)
    first = sim.wait(run, lambda view: view.last_checkpoint).last_checkpoint
    sim.running(run, 12)
    sim.act("stop", run)
    sim.ended(run)
    with pytest.raises(UsageError, match="has no checkpoint"):
        sim.ask(lambda id_: Resume(id=id_, run=run, checkpoint="7"))
    sim.ask(lambda id_: Resume(id=id_, run=run, checkpoint=first))
    view = sim.wait(run, lambda view: view.attempt == 2 and view.state == "running")
    assert (view.timesteps or 0) < 12 * 64
    assert view.pids.trainer is not None
    sim.kill(view.pids.trainer, signal.SIGKILL)
    sim.ended(run)


def starts(lab: RunsRoot, run: str) -> list[AttemptStarting]:
    """The attempts that the run's journal says were started."""
    return [event for event in read_all(lab.dir(run).events, FleetEvent)[0] if isinstance(event, AttemptStarting)]


def test_a_remedy_that_answers_every_warning_needs_no_further_word(sim: SimulatedLab) -> None:
    """Half the minibatch with `reset-adam`: it goes on, on terms that are on disk and in the journal."""
    run = stopped(sim)
    warned = resume(sim, run, "ppo.batch_size=32")
    assert isinstance(warned, VerdictReply)
    (change,) = warned.verdict.changes
    assert "reset-adam" in {remedy.name for remedy in change.remedies}
    assert isinstance(resume(sim, run, "ppo.batch_size=32", remedies=("reset-adam",)), Accepted)
    sim.wait(run, lambda view: view.attempt == 2)
    expected = Terms(fresh_optimizer=True, warm_up_updates=10)
    assert read_terms(sim.dir(run).attempt(2).terms) == expected
    last = starts(sim, run)[-1]
    assert last.terms == expected
    assert [(it.grade, it.remedies) for it in last.changes] == [("note", ())]
    origin = sim.view(run).origins[0]
    assert (origin.kind, origin.diff) == ("resumed", ("ppo.batch_size 64 → 32",))


def test_a_remedy_by_words_changes_the_spec(sim: SimulatedLab) -> None:
    """`nearest` makes an impossible request possible; nothing is left to be accepted then."""
    run = stopped(sim)
    refused = resume(sim, run, "ppo.batch_size=1000", accept=True)
    assert isinstance(refused, VerdictReply)
    assert (refused.verdict.grade, refused.accept_needed) == ("refuse", False)
    assert isinstance(resume(sim, run, "ppo.batch_size=1000", remedies=("nearest",)), Accepted)
    sim.wait(run, lambda view: view.attempt == 2)
    assert read_terms(sim.dir(run).attempt(2).terms) == Terms()


def test_an_unknown_remedy_starts_nothing(sim: SimulatedLab) -> None:
    """It is refused with what is offered."""
    run = stopped(sim)
    with pytest.raises(UsageError, match="no remedy 'hope' is offered"):
        resume(sim, run, "ppo.batch_size=32", remedies=("hope",), accept=True)
    assert sim.view(run).attempt == 1


def test_a_refusal_needs_its_own_name(sim: SimulatedLab) -> None:
    """`accept` does not carry a normalizer that appears; its override does, and is journaled."""
    run = stopped(sim)
    words = ("env.normalize=true",)
    assert isinstance(resume(sim, run, *words, accept=True), VerdictReply)
    warned = resume(sim, run, *words, overrides=("env.normalize",))
    assert isinstance(warned, VerdictReply)
    assert (warned.verdict.grade, warned.accept_needed) == ("warn", True)
    assert isinstance(resume(sim, run, *words, overrides=("env.normalize",), accept=True), Accepted)
    sim.wait(run, lambda view: view.attempt == 2)
    assert starts(sim, run)[-1].terms == Terms(overridden=("env.normalize",), fresh_normalizer=True)


def test_an_older_checkpoint_is_judged_by_the_spec_it_was_made_under(sim: SimulatedLab) -> None:
    """Attempt 2 ran with half the minibatch; going back to attempt 1's checkpoint is a change again."""
    run = stopped(sim)
    first, before = sim.view(run).last_checkpoint, sim.view(run).update or 0
    assert isinstance(resume(sim, run, "ppo.batch_size=32", accept=True), Accepted)
    sim.wait(run, lambda view: view.attempt == 2 and (view.update or 0) > before + 2)
    sim.act("stop", run)
    sim.ended(run)
    for checkpoint, told in ((None, []), (first, [("ppo.batch_size", "64", "32")])):
        again = resume(sim, run, check_only=True, checkpoint=checkpoint)
        assert isinstance(again, VerdictReply)
        assert [(it.name, it.was, it.now) for it in again.verdict.changes] == told


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_going_back_to_an_older_mission_brings_its_rules_back(lab: Lab) -> None:
    """The snapshot holds those of the newest attempt: a checkpoint from before goes on, or branches, under its own."""
    for name in ("old", "new"):
        shutil.copytree(REPOSITORY / "mission_tui" / "envs" / "missions" / "standard", lab.root.parent / name)
        with (lab.root.parent / name / "world.toml").open("a", encoding="utf-8") as file:
            file.write(f"# {name}\n")
    spec = stub_spec()
    spec = structs.replace(spec, env=EnvSpec(id="MissionGym-v0", config="../old", n_envs=4))
    (run,) = lab.launch(spec=spec)
    lab.running(run, 2)
    lab.act("stop", run)
    first = lab.ended(run).last_checkpoint

    def rules(run: str) -> str:
        return (lab.dir(run).snapshot / "world.toml").read_text(encoding="utf-8").split("# ")[-1].strip()

    assert rules(run) == "old"
    assert isinstance(resume(lab, run, "env.config=../new", accept=True), Accepted)
    assert rules(run) == "new"
    lab.act("kill", run)
    lab.ended(run)
    made = resume(lab, run, "env.config=../old", checkpoint=first, branch=True)
    assert isinstance(made, Accepted)
    assert rules(made.runs[0]) == "old"
    assert isinstance(resume(lab, run, "env.config=../old", checkpoint=first, accept=True), Accepted)
    assert rules(run) == "old"


def test_a_run_goes_on_under_the_mission_it_began_with(sim: SimulatedLab) -> None:
    """A shipped mission that has changed since changes no earlier run: resumed or branched, it keeps its own."""
    spec = structs.replace(stub_spec(), env=EnvSpec(id="MissionGym-v0", config="standard", n_envs=4))
    (run,) = sim.launch(spec=spec)
    sim.running(run, 2)
    sim.act("stop", run)
    sim.ended(run)
    snapshot = sim.dir(run).snapshot
    as_it_was = {file.name: file.read_bytes() + b"# of 2025\n" for file in snapshot.glob("*.toml")}
    write_rules(snapshot, as_it_was)
    shown = resume(sim, run, check_only=True)
    assert isinstance(shown, VerdictReply)
    assert shown.verdict.changes == ()
    made = resume(sim, run, branch=True)
    assert isinstance(made, Accepted)
    assert isinstance(resume(sim, run), Accepted)
    for each in (run, *made.runs):
        assert {file.name: file.read_bytes() for file in sim.dir(each).snapshot.glob("*.toml")} == as_it_was


def test_rules_that_were_edited_since_are_neither_trained_on_nor_branched_from(sim: SimulatedLab) -> None:
    """The refusal names the file and nothing starts; put back, it goes on."""
    (run,) = sim.launch(spec=structs.replace(stub_spec(), env=EnvSpec(id="MissionGym-v0", config="standard", n_envs=4)))
    sim.running(run, 2)
    sim.act("stop", run)
    sim.ended(run)
    world = sim.dir(run).snapshot / "world.toml"
    was = world.read_bytes()
    world.write_bytes(was + b"# other\n")
    for branch in (False, True):
        with pytest.raises(MissionError, match=re.escape(str(world))):
            resume(sim, run, branch=branch)
    assert (sim.view(run).attempt, len(sim.snapshot().runs)) == (1, 1)
    world.write_bytes(was)
    assert isinstance(resume(sim, run), Accepted)


def test_a_branch_is_a_new_run_with_the_checkpoint_it_began_with(sim: SimulatedLab) -> None:
    """The source stays as it is, even with a change that no resume could make; the new one says where it is from."""
    run = stopped(sim)
    shown = resume(sim, run, "ppo.net_arch=[64,8]", branch=True, check_only=True)
    assert isinstance(shown, VerdictReply)
    assert shown.accept_needed
    made = resume(sim, run, "ppo.net_arch=[64,8]", branch=True, name="smaller")
    assert isinstance(made, Accepted)
    (new,) = made.runs
    view = sim.running(new, 2)
    assert (view.name, view.attempt, sim.view(run).attempt) == ("smaller", 1, 1)
    checkpoint = sim.view(run).last_checkpoint
    assert checkpoint is not None
    assert verify_checkpoint(sim.dir(new).origin / checkpoint).run == run
    assert read_terms(sim.dir(new).attempt(1).terms) == Terms(weights_from=checkpoint)
    (origin,) = view.origins
    assert (origin.kind, origin.run, origin.checkpoint) == ("branch", run, checkpoint)
    assert origin.diff == ("ppo.net_arch not set → 64-8",)
    created = read_all(sim.dir(new).events, FleetEvent)[0][0]
    assert isinstance(created, RunCreated)
    assert created.origin == origin
    assert read_spec(sim.dir(new).spec).run.seed != read_spec(sim.dir(run).spec).run.seed


@pytest.mark.parametrize("check_only", [True, False])
def test_a_branch_that_no_weight_fits_is_refused_before_anything_is_made(sim: SimulatedLab, check_only: bool) -> None:
    """Not late, by the trainer; the verdict on the resume does not offer it either."""
    run = stopped(sim)
    with pytest.raises(UsageError, match=r"no weight of \S+ fits a network of these layers; clone starts"):
        resume(sim, run, "ppo.net_arch=[8]", branch=True, check_only=check_only)
    shown = resume(sim, run, "ppo.net_arch=[8]", check_only=True)
    assert isinstance(shown, VerdictReply)
    (change,) = shown.verdict.changes
    assert [remedy.name for remedy in change.remedies] == ["restore"]
    assert len(sim.snapshot().runs) == 1


def test_a_live_run_can_be_branched_from(sim: SimulatedLab) -> None:
    """Its newest checkpoint is copied while it trains on; a contradiction makes nothing."""
    (run,) = sim.launch()
    sim.running(run, 3)
    with pytest.raises(MissionError, match="no checkpoint yet"):
        resume(sim, run, branch=True)
    sim.act("checkpoint", run)
    sim.wait(run, lambda view: view.last_checkpoint)
    with pytest.raises(UsageError, match="larger than the rollout"):
        resume(sim, run, "ppo.batch_size=1000", branch=True)
    made = resume(sim, run, branch=True)
    assert isinstance(made, Accepted)
    sim.running(made.runs[0], 1)
    assert sim.view(run).state == "running"


def test_a_run_that_trains_stops_for_other_settings_once_that_is_accepted(sim: SimulatedLab) -> None:
    """Without a checkpoint it saves one first. The verdict says that it stops; accepted, it saves, ends, and attempt 2
    goes on from there with the settings.
    """
    (run,) = sim.launch(1, name=None, STUB_UPDATE_S="0.03")
    sim.running(run)
    assert sim.view(run).last_checkpoint is None
    shown = resume(sim, run, "ppo.gamma=0.95")
    assert isinstance(shown, VerdictReply)
    first = sim.wait(run, lambda view: view.last_checkpoint).last_checkpoint
    assert {"run", "ppo.gamma"} <= {change.name for change in shown.verdict.changes}
    assert sim.view(run).state == "running"
    assert isinstance(resume(sim, run, "ppo.gamma=0.95", accept=True), Accepted)
    sim.wait(run, lambda view: view.attempt == 2 and view.state == "running")
    start = [event for event in read_all(sim.dir(run).events, FleetEvent)[0] if isinstance(event, AttemptStarting)][1]
    assert start.checkpoint not in (None, first)
    assert read_spec(sim.dir(run).attempt(2).spec).ppo.gamma == 0.95


def test_a_run_that_is_killed_while_it_stops_for_other_settings_stays_ended(sim: SimulatedLab) -> None:
    """The resume is called off, and said to have failed."""
    (run,) = sim.launch(1, name=None, STUB_UPDATE_S="0.03", STUB_DEAF="1")
    sim.running(run)
    sim.act("checkpoint", run)
    sim.wait(run, lambda view: view.last_checkpoint)
    assert isinstance(resume(sim, run, "ppo.gamma=0.95", accept=True), Accepted)
    sim.act("kill", run)
    sim.ended(run)
    sim.wait(run, lambda view: any("could not go on" in failed.sentence for failed in view.failed_duties))
    assert sim.view(run).attempt == 1
