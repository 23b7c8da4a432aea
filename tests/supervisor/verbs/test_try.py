"""Trying other settings on branches of a run: what is made, what they say, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import FindingChanged, FleetEvent, RunCreated, TrialBegun, TrialJudged
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import RunView, TrialView
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Restore, Try, Undo
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.attempt import read_spec, read_terms
from tests.supervisor.conftest import Lab, RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until

BETTER = ("ppo.learning_rate=0.001",)


def try_(lab: RunsRoot, run: str, **words: Any) -> Accepted:
    """Ask for a trial, or for something about the newest one."""
    reply = lab.ask(lambda id_: Try(id=id_, run=run, **{"seeds": 3, **words}))
    assert isinstance(reply, Accepted)
    return reply


def saved(lab: RunsRoot, name: str = "tried", spec: Spec | None = None, update_s: float = 0.01) -> str:
    """An ended run with one checkpoint, at update 5 or later."""
    (run,) = lab.launch(1, spec=spec, name=name, STUB_UPDATE_S=str(update_s), STUB_RETURNS="1")
    lab.running(run, 5)
    lab.act("stop", run)
    lab.ended(run)
    return run


def newest(lab: RunsRoot, run: str) -> TrialView:
    return lab.view(run).trials[-1]


def judged(lab: RunsRoot, run: str) -> TrialView:
    return lab.wait(run, lambda view: view.trials and view.trials[-1].verdict, 60.0).trials[-1]


def events(lab: RunsRoot, run: str) -> list[FleetEvent]:
    return read_all(lab.dir(run).events, FleetEvent)[0]


def branches(lab: RunsRoot, run: str) -> list[RunView]:
    return [view for view in lab.snapshot().runs if view.branch_of is not None and view.branch_of.of == run]


@pytest.mark.slow
def test_two_branches_for_each_seed_say_whether_it_helps(lab: Lab) -> None:
    """They go on from the checkpoint with one seed a pair, end by themselves, and the run's journal has the answer."""
    run = saved(lab)
    begun = try_(lab, run, assignments=BETTER, budget="6u")
    assert len(begun.runs) == 6
    trial = judged(lab, run)
    assert trial.verdict is not None
    assert trial.verdict.says == "helps"
    assert trial.verdict.advised == pytest.approx(1003, abs=4)
    made = branches(lab, run)
    assert {view.group for view in made} == {"tried-try1"}
    assert {view.name for view in made} >= {"tried-try1-control-1", "tried-try1-advised-3"}
    assert {view.timesteps for view in made} == {view.total_timesteps for view in made} == {trial.plan.until_timesteps}
    assert {view.outcome for view in made} == {"finished"}
    specs = {view.name: read_spec(lab.dir(view.id).spec) for view in made}
    assert specs["tried-try1-control-2"].run.seed == specs["tried-try1-advised-2"].run.seed == trial.plan.seeds[1]
    assert len(set(trial.plan.seeds)) == 3
    assert specs["tried-try1-advised-1"].ppo.learning_rate == 0.001
    assert specs["tried-try1-control-1"].ppo.learning_rate == read_spec(lab.dir(run).spec).ppo.learning_rate
    assert specs["tried-try1-control-1"].keep.limits.priority == -1000
    origin = next(view for view in made if view.name == "tried-try1-advised-1").origins
    assert [(it.kind, it.run, it.checkpoint) for it in origin] == [("trial", run, trial.plan.checkpoint)]
    told = [type(event) for event in events(lab, run)]
    assert told.index(TrialBegun) < told.index(TrialJudged)


def test_where_all_checkpoints_are_of_the_trouble_branches_begin_at_the_start(sim: SimulatedLab) -> None:
    """Untrained, as far as the run has got, and it is said; they come to an answer as others do.

    Of another task there is none.
    """
    run = saved(sim)
    update = sim.view(run).update
    sim.kill_supervisor()
    journal = AppendLog(sim.dir(run).events)
    early = Finding("kl-spike-1-2", "kl-spike", "critical", 2, 2, "s", "c", "a lower rate", advice_set=BETTER)
    journal.append(lambda seq: FindingChanged(seq, 1.0, early))
    journal.close()
    sim.start()
    with pytest.raises(UsageError, match=r"env\.id: .*: another task"):
        try_(sim, run, assignments=("env.id=Acrobot-v1",))
    reply = try_(sim, run)
    assert any("where kl-spike began: the branches begin at the start" in warning for warning in reply.warnings)
    plan = newest(sim, run).plan
    assert (plan.checkpoint, plan.from_update, plan.from_timesteps) == ("", 0, 0)
    assert plan.updates >= max(20, update or 0)
    begun = branches(sim, run)
    assert len(begun) == 6
    assert all(not list(sim.dir(view.id).checkpoints.glob("0*")) or (view.update or 0) > 0 for view in begun)
    assert all("from the start" in view.origins[0].sentence for view in begun)
    assert judged(sim, run).verdict is not None


def test_settings_that_change_nothing_make_no_difference(sim: SimulatedLab) -> None:
    """The branches of a pair are then the same to the last bit, and it is said before."""
    run = saved(sim)
    notes = try_(sim, run, assignments=("ppo.gamma=0.99",), budget="4u").notes
    assert "these settings are those that the run has already" in notes
    verdict = judged(sim, run).verdict
    assert verdict is not None
    assert (verdict.says, verdict.identical) == ("no difference", True)


def test_a_supervisor_started_anew_goes_on_with_a_trial(sim: SimulatedLab) -> None:
    """One dies while branches train and others wait; the next one begins what waits, and journals what they say."""
    run = saved(sim, update_s=0.1)
    begun = try_(sim, run, assignments=BETTER, budget="12u").runs
    sim.wait(begun[0], lambda view: view.state == "running" and view.eta_s is not None)
    sim.kill_supervisor()
    sim.start()
    trains = sim.wait(begun[0], lambda view: view.state == "running" and view.eta_s is not None)
    # What is left is that of the branch, not the million million steps of the run.
    assert trains.total_timesteps == newest(sim, run).plan.until_timesteps
    assert trains.eta_s is not None
    assert trains.eta_s < 60
    assert judged(sim, run).verdict is not None
    assert all(read_terms(sim.dir(view.id).attempt(1).terms).until_timesteps for view in branches(sim, run))


def test_a_verdict_is_reached_although_all_ended_while_nobody_looked(sim: SimulatedLab) -> None:
    """Run and branches are over when the next supervisor comes; what was left to do is in the run's journal."""
    run = saved(sim)
    made = try_(sim, run, assignments=BETTER, budget="4u").runs
    judged(sim, run)
    sim.kill_supervisor()
    path = sim.dir(run).events
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"kind":"trial_judged"')))
    sim.start()
    trial = judged(sim, run)
    assert trial.verdict is not None
    assert (trial.verdict.says, len(made)) == ("helps", 6)


@pytest.mark.slow
def test_the_best_branch_takes_the_place_of_a_run_and_gives_it_back(lab: Lab) -> None:
    """The run ends and is renamed, the branch has its name and trains on to its budget; undone, both are as before."""
    (run,) = lab.launch(1, name="tried", STUB_UPDATE_S="0.05", STUB_RETURNS="1")
    lab.running(run, 5)
    lab.act("checkpoint", run)
    lab.wait(run, lambda view: view.last_checkpoint)
    try_(lab, run, assignments=BETTER, budget="6u")
    best = getattr(judged(lab, run).verdict, "best", "")
    taken = try_(lab, run, do="take")
    assert taken.runs == (best, run)
    lab.wait(run, lambda view: view.trials[-1].closed == "taken")
    assert (lab.view(run).name, lab.view(run).state) == ("tried-before1", "ended")
    winner = lab.wait(best, lambda view: view.state == "running" and view.attempt == 2)
    assert winner.name == "tried"
    assert [it.kind for it in winner.origins] == ["trial", "resumed"]
    assert read_spec(lab.dir(best).attempt(2).spec).keep == stub_spec().keep
    until(lambda: [view.id for view in branches(lab, run)] == [best], 20.0, "the others are in the trash")
    try_(lab, "tried", do="return")
    lab.wait(run, lambda view: view.trials[-1].closed == "")
    back = lab.wait(run, lambda view: view.state == "running" and view.name == "tried")
    assert back.attempt == 2
    assert lab.wait(best, lambda view: view.state == "ended").name.startswith("tried-try1-advised-")


def test_branches_are_discarded_together_and_come_back(sim: SimulatedLab) -> None:
    """Also while they train; what was tried stays in the run's journal."""
    run = saved(sim, update_s=0.1)
    try_(sim, run, assignments=BETTER, budget="500u")
    gone = try_(sim, run, do="discard")
    assert len(gone.runs) == 6
    assert branches(sim, run) == []
    assert newest(sim, run).closed == "discarded"
    sim.ask(lambda id_: Restore(id=id_, runs=gone.runs))
    assert len(branches(sim, run)) == 6
    try_(sim, run, assignments=BETTER, budget="500u")
    try_(sim, run, do="discard")
    with pytest.raises(MissionError, match=r"earlier trials have: `mission-tui rm tried-try1`"):
        try_(sim, run, do="discard")


def test_an_undone_trial_is_given_up(sim: SimulatedLab) -> None:
    """`u` takes the branches back as it does launches; nothing waits for them then."""
    run = saved(sim, update_s=0.1)
    made = try_(sim, run, assignments=BETTER, budget="500u").runs
    sim.ask(lambda id_: Undo(id=id_, runs=made))
    sim.wait(run, lambda view: view.trials[-1].closed == "discarded")


def test_branches_leave_the_cores_to_others(sim: SimulatedLab) -> None:
    """With every core kept busy by runs of the user's, one branch at a time trains beside them; `try` has no `-j`."""
    run = saved(sim)
    cores = len(sim.snapshot().host.cpu_cores) or sim.snapshot().host.cores
    others = [sim.launch(1, STUB_UPDATE_S="0.2")[0] for _ in range(cores)]
    for other in others:
        sim.running(other)
    notes = try_(sim, run, assignments=BETTER, budget="4u").notes
    assert [it.partition(" ")[0] for it in notes if " cores and you have " in it] == [str(cores + 1)]
    assert not any("launch -j" in note for note in notes)
    waits = [view for view in branches(sim, run) if view.state == "queued"]
    assert len(waits) == 5
    assert all("waits for a core" in (view.cause or "") for view in waits)
    assert judged(sim, run).verdict is not None
    assert all(sim.view(other).state == "running" for other in others)


def test_what_cannot_be_tried_says_why_and_starts_nothing(sim: SimulatedLab) -> None:
    """One error each: a finding that is not there or advises nothing, settings that no branch can have, no budget."""
    run = saved(sim)
    sim.kill_supervisor()
    journal = AppendLog(sim.dir(run).events)
    bare = Finding("stall-1-4", "stall", "warning", 4, 4, "a stall", "a cause", "look at the rewards")
    journal.append(lambda seq: FindingChanged(seq, 1.0, bare))
    journal.close()
    sim.start()
    refusals: list[tuple[dict[str, Any], str]] = [
        ({}, "has no open finding that advises a setting: say with --set"),
        ({"finding": "7"}, "has no finding 7: it has 1 to 1"),
        ({"finding": "stal-1-4"}, "has no finding 'stal-1-4', did you mean 'stall-1-4'|no finding 'stal-1-4'"),
        ({"finding": "1"}, "advises no setting .look at the rewards.: say with --set"),
        ({"assignments": ("ppo.learning_rat=1",)}, "learning_rat"),
        ({"assignments": ("run.seed=3",)}, "run.seed cannot be tried"),
        ({"assignments": ("ppo.policy=CnnPolicy",)}, "cannot try this on tried"),
        ({"assignments": BETTER, "budget": "0u"}, "--budget 0u"),
        ({"assignments": BETTER, "budget": "soon"}, "--budget 'soon' is no budget"),
        ({"assignments": BETTER, "seeds": 2}, "--seeds 2 must be 3 to 16"),
        ({"do": "take"}, "nothing was tried on tried"),
        ({"do": "discard"}, "nothing was tried on tried"),
    ]
    for words, why in refusals:
        with pytest.raises(MissionError, match=why):
            try_(sim, run, **words)
    (fresh,) = sim.launch(1, name="fresh")
    with pytest.raises(MissionError, match="learning_rat"):
        try_(sim, fresh, assignments=("ppo.learning_rat=1",))
    with pytest.raises(MissionError, match="cannot try fresh: it has no checkpoint to branch from"):
        try_(sim, fresh, assignments=BETTER)
    assert not any(isinstance(event, TrialBegun) for event in events(sim, run))
    assert {view.name for view in sim.snapshot().runs} == {"tried", "fresh"}


def test_a_second_trial_waits_for_the_first(sim: SimulatedLab) -> None:
    """It says which one is under way; two would only disturb one another."""
    run = saved(sim, update_s=0.1)
    try_(sim, run, assignments=BETTER, budget="500u")
    with pytest.raises(UsageError, match="tried is being tried already"):
        try_(sim, run, assignments=BETTER)


def test_branches_of_a_trial_that_was_never_begun_are_removed(sim: SimulatedLab) -> None:
    """A supervisor died after it had made them, and before the run's journal said so: nobody was told of them."""
    run = saved(sim, update_s=0.1)
    try_(sim, run, assignments=BETTER, budget="500u")
    sim.until(lambda: {view.state for view in branches(sim, run)} <= {"running", "queued"})
    sim.kill_supervisor()
    path = sim.dir(run).events
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"kind":"trial"')))
    sim.start()
    sim.until(lambda: not branches(sim, run), what="the branches are gone")
    assert not any(isinstance(event, RunCreated) and event.trial for event in events(sim, run))


def test_a_branch_that_fails_by_itself_is_no_answer(sim: SimulatedLab) -> None:
    """With a pair that says nothing three do not remain, and the sentence says why."""
    spec = structs.replace(stub_spec(), run=structs.replace(stub_spec().run, total_timesteps=10**9))
    run = saved(sim, spec=spec, update_s=0.1)
    made = try_(sim, run, assignments=BETTER, budget="20u").runs
    sim.wait(made[0], lambda view: view.state == "running")
    sim.act("kill", made[0])
    verdict = judged(sim, run).verdict
    assert verdict is not None
    assert verdict.says == "failed"
    assert "control 1 killed" in verdict.why
