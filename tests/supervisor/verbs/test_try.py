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
from mission_tui.records.files.append import AppendLog
from mission_tui.records.files.tail import read_all
from mission_tui.records.runs.spec_file import read_spec, read_terms
from tests.supervisor.conftest import Lab, stub_spec
from tests.waiting import until

BETTER = ("ppo.learning_rate=0.001",)


def try_(lab: Lab, run: str, **words: Any) -> Accepted:
    """Ask for a trial, or for something about the newest one."""
    reply = lab.ask(lambda id_: Try(id=id_, run=run, **words))
    assert isinstance(reply, Accepted)
    return reply


def saved(lab: Lab, name: str = "tried", spec: Spec | None = None, update_s: float = 0.01) -> str:
    """An ended run with one checkpoint, at update 5 or later."""
    (run,) = lab.launch(1, spec=spec, name=name, STUB_UPDATE_S=str(update_s), STUB_RETURNS="1")
    lab.running(run, 5)
    lab.act("stop", run)
    lab.ended(run)
    return run


def newest(lab: Lab, run: str) -> TrialView:
    return lab.view(run).trials[-1]


def judged(lab: Lab, run: str) -> TrialView:
    return lab.wait(run, lambda view: view.trials and view.trials[-1].verdict, 60.0).trials[-1]


def events(lab: Lab, run: str) -> list[FleetEvent]:
    return read_all(lab.dir(run).events, FleetEvent)[0]


def branches(lab: Lab, run: str) -> list[RunView]:
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
    assert {view.timesteps for view in made} == {trial.plan.until_timesteps}
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


@pytest.mark.slow
def test_where_all_checkpoints_are_of_the_trouble_branches_begin_at_the_start(lab: Lab) -> None:
    """Untrained, as far as the run has got, and it is said; they come to an answer as others do."""
    run = saved(lab)
    update = lab.view(run).update
    lab.kill_supervisor()
    journal = AppendLog(lab.dir(run).events)
    early = Finding("kl-spike-1-2", "kl-spike", "critical", 2, 2, "s", "c", "a lower rate", advice_set=BETTER)
    journal.append(lambda seq: FindingChanged(seq, 1.0, early))
    journal.close()
    lab.start()
    reply = try_(lab, run)
    assert any("where kl-spike began: the branches begin at the start" in warning for warning in reply.warnings)
    plan = newest(lab, run).plan
    assert (plan.checkpoint, plan.from_update, plan.from_timesteps) == ("", 0, 0)
    assert plan.updates >= max(20, update or 0)
    begun = branches(lab, run)
    assert len(begun) == 6
    assert all(not list(lab.dir(view.id).checkpoints.glob("0*")) or (view.update or 0) > 0 for view in begun)
    assert all("from the start" in view.origins[0].sentence for view in begun)
    assert judged(lab, run).verdict is not None


@pytest.mark.slow
def test_settings_that_change_nothing_make_no_difference(lab: Lab) -> None:
    """The branches of a pair are then the same to the last bit, and it is said before."""
    run = saved(lab)
    notes = try_(lab, run, assignments=("ppo.gamma=0.99",), budget="4u").notes
    assert "these settings are those that the run has already" in notes
    verdict = judged(lab, run).verdict
    assert verdict is not None
    assert (verdict.says, verdict.identical) == ("no difference", True)


@pytest.mark.slow
def test_a_supervisor_started_anew_goes_on_with_a_trial(lab: Lab) -> None:
    """One dies while branches train and others wait; the next one begins what waits, and journals what they say."""
    run = saved(lab, update_s=0.1)
    try_(lab, run, assignments=BETTER, budget="12u")
    lab.kill_supervisor()
    lab.start()
    assert judged(lab, run).verdict is not None
    assert all(read_terms(lab.dir(view.id).attempt(1).terms).until_timesteps for view in branches(lab, run))


@pytest.mark.slow
def test_a_verdict_is_reached_although_all_ended_while_nobody_looked(lab: Lab) -> None:
    """Run and branches are over when the next supervisor comes; what was left to do is in the run's journal."""
    run = saved(lab)
    made = try_(lab, run, assignments=BETTER, budget="4u").runs
    judged(lab, run)
    lab.kill_supervisor()
    path = lab.dir(run).events
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"kind":"trial_judged"')))
    lab.start()
    trial = judged(lab, run)
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


@pytest.mark.slow
def test_branches_are_discarded_together_and_come_back(lab: Lab) -> None:
    """Also while they train; what was tried stays in the run's journal."""
    run = saved(lab, update_s=0.1)
    try_(lab, run, assignments=BETTER, budget="500u")
    gone = try_(lab, run, do="discard")
    assert len(gone.runs) == 6
    assert branches(lab, run) == []
    assert newest(lab, run).closed == "discarded"
    lab.ask(lambda id_: Restore(id=id_, runs=gone.runs))
    assert len(branches(lab, run)) == 6


@pytest.mark.slow
def test_an_undone_trial_is_given_up(lab: Lab) -> None:
    """`u` takes the branches back as it does launches; nothing waits for them then."""
    run = saved(lab, update_s=0.1)
    made = try_(lab, run, assignments=BETTER, budget="500u").runs
    lab.ask(lambda id_: Undo(id=id_, runs=made))
    lab.wait(run, lambda view: view.trials[-1].closed == "discarded")


@pytest.mark.slow
def test_branches_leave_the_cores_to_others(lab: Lab) -> None:
    """With every core kept busy by runs of the user's, one branch at a time trains beside them."""
    run = saved(lab)
    cores = len(lab.snapshot().host.cpu_cores) or lab.snapshot().host.cores
    others = [lab.launch(1, STUB_UPDATE_S="0.2")[0] for _ in range(cores)]
    for other in others:
        lab.running(other)
    try_(lab, run, assignments=BETTER, budget="4u")
    waits = [view for view in branches(lab, run) if view.state == "queued"]
    assert len(waits) == 5
    assert all("waits for a core" in (view.cause or "") for view in waits)
    assert judged(lab, run).verdict is not None
    assert all(lab.view(other).state == "running" for other in others)


@pytest.mark.slow
def test_what_cannot_be_tried_says_why_and_starts_nothing(lab: Lab) -> None:
    """One error each: a finding that is not there or advises nothing, settings that no branch can have, no budget."""
    run = saved(lab)
    lab.kill_supervisor()
    journal = AppendLog(lab.dir(run).events)
    bare = Finding("stall-1-4", "stall", "warning", 4, 4, "a stall", "a cause", "look at the rewards")
    journal.append(lambda seq: FindingChanged(seq, 1.0, bare))
    journal.close()
    lab.start()
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
            try_(lab, run, **words)
    (fresh,) = lab.launch(1, name="fresh")
    with pytest.raises(MissionError, match="cannot try fresh: it has no checkpoint to branch from"):
        try_(lab, fresh, assignments=BETTER)
    assert not any(isinstance(event, TrialBegun) for event in events(lab, run))
    assert {view.name for view in lab.snapshot().runs} == {"tried", "fresh"}


@pytest.mark.slow
def test_a_second_trial_waits_for_the_first(lab: Lab) -> None:
    """It says which one is under way; two would only disturb one another."""
    run = saved(lab, update_s=0.1)
    try_(lab, run, assignments=BETTER, budget="500u")
    with pytest.raises(UsageError, match="tried is being tried already"):
        try_(lab, run, assignments=BETTER)


@pytest.mark.slow
def test_branches_of_a_trial_that_was_never_begun_are_removed(lab: Lab) -> None:
    """A supervisor died after it had made them, and before the run's journal said so: nobody was told of them."""
    run = saved(lab, update_s=0.1)
    try_(lab, run, assignments=BETTER, budget="500u")
    lab.kill_supervisor()
    path = lab.dir(run).events
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"kind":"trial"')))
    lab.start()
    until(lambda: not branches(lab, run), 30.0, "the branches are gone")
    assert not any(isinstance(event, RunCreated) and event.trial for event in events(lab, run))


@pytest.mark.slow
def test_a_branch_that_fails_by_itself_is_no_answer(lab: Lab) -> None:
    """With a pair that says nothing three do not remain, and the sentence says why."""
    spec = structs.replace(stub_spec(), run=structs.replace(stub_spec().run, total_timesteps=10**9))
    run = saved(lab, spec=spec, update_s=0.1)
    made = try_(lab, run, assignments=BETTER, budget="20u").runs
    lab.wait(made[0], lambda view: view.state == "running")
    lab.act("kill", made[0])
    verdict = judged(lab, run).verdict
    assert verdict is not None
    assert verdict.says == "failed"
    assert "control 1 killed" in verdict.why
