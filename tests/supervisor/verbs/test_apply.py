"""Applying a finding's advice: back to the last good checkpoint and on with the change, through the verdict."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import Asked, AttemptStarting, FindingChanged, FleetEvent, HealthActed
from mission_tui.fleet.specs.spec import KeepSpec, Spec
from mission_tui.fleet.specs.thresholds import Act, HealthKeep, NanLimits
from mission_tui.ipc.replies import Accepted, OperatorReply, VerdictReply
from mission_tui.ipc.requests import Apply, Resume, Set
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.attempt import read_spec
from mission_tui.records.runs.checkpoint import CheckpointFacts, save_checkpoint
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.runs.targets import last_good
from tests.supervisor.conftest import Lab, RunsRoot, large_spec, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab


def apply(lab: RunsRoot, run: str, finding: str, **flags: Any) -> OperatorReply:
    """Ask to follow the advice of a finding."""
    return lab.ask(lambda id_: Apply(id=id_, run=run, finding=finding, **flags))


def events(lab: RunsRoot, run: str) -> list[FleetEvent]:
    """The run's journal."""
    return read_all(lab.dir(run).events, FleetEvent)[0]


def details(lab: RunsRoot, run: str) -> list[str]:
    """What the journal says of applied advice."""
    return [it.detail for it in events(lab, run) if isinstance(it, HealthActed) and it.act == "applied"]


def sick(lab: RunsRoot, act: Act = "notify", deaf: bool = False, base: Spec | None = None) -> tuple[str, str, str]:
    """A run with an early checkpoint and a finding after it, whose rule may `act`: run, finding, checkpoint."""
    spec = structs.replace(base or stub_spec(), keep=KeepSpec(health=HealthKeep(nan=NanLimits(act=act))))
    stub = {"STUB_NAN_FROM": "40", "STUB_UPDATE_S": "0.03"} | ({"STUB_DEAF": "1"} if deaf else {})
    (run,) = lab.launch(1, spec=spec, name=None, **stub)
    lab.running(run)
    lab.act("checkpoint", run)
    good = lab.wait(run, lambda view: view.last_checkpoint).last_checkpoint
    finding = lab.wait(run, lambda view: view.findings).findings[0].id
    assert good is not None
    return run, finding, good


def ended_sick(lab: RunsRoot) -> tuple[str, str, str]:
    """The same, ended: the finding has stopped it."""
    run, finding, good = sick(lab, "stop")
    lab.ended(run)
    return run, finding, good


def add_finding(lab: RunsRoot, run: str, **fields: Any) -> str:
    """Put a finding into the journal of an ended run, as a supervisor would have; its id."""
    facts: dict[str, Any] = {"first_update": 40, "last_update": 40, "severity": "warning", "advice": "do this"} | fields
    facts = {"rule": "stall"} | facts
    finding = Finding(id=f"{facts['rule']}-1-40", sentence="a stall", cause="a cause", **facts)
    lab.kill_supervisor()
    journal = AppendLog(lab.dir(run).events)
    journal.append(lambda seq: FindingChanged(seq, 1.0, finding))
    journal.close()
    lab.start()
    return finding.id


def test_an_ended_run_goes_back_and_on_with_the_change(sim: SimulatedLab) -> None:
    """Attempt 2 starts from the checkpoint before the finding, not from the stop's, with half the learning rate."""
    run, finding, good = ended_sick(sim)
    assert sim.view(run).last_checkpoint != good
    reply = apply(sim, run, finding)
    assert isinstance(reply, Accepted)
    assert any("ppo.learning_rate" in note for note in reply.notes)
    sim.wait(run, lambda view: view.attempt == 2)
    start = [event for event in events(sim, run) if isinstance(event, AttemptStarting)][1]
    assert start.checkpoint == good
    assert [change.name for change in start.changes if change.advised] == ["ppo.learning_rate"]
    assert read_spec(sim.dir(run).attempt(2).spec).ppo.learning_rate == pytest.approx(1.5e-4)
    assert details(sim, run) == [f"from {good} --set ppo.learning_rate=0.00015"]
    assert sim.view(run).findings[-1].state == "cleared"


def test_a_resume_from_harmed_weights_says_what_would_go_back(sim: SimulatedLab) -> None:
    """It goes on as it was asked to, warns, and names the command; the checkpoint from before, asked for, does not."""
    run, finding, good = ended_sick(sim)
    reply = sim.ask(lambda id_: Resume(id=id_, run=run))
    assert isinstance(reply, Accepted)
    said = reply.warnings[0]
    command = f"`mission-tui findings {sim.view(run).name} --apply {finding}`"
    assert f": to go back to {good} with --set ppo.learning_rate=0.00015, {command}" in said
    assert said.startswith(f"{reply.checkpoint} is harmed (nan since update ")
    assert said in reply.notes
    sim.wait(run, lambda view: view.attempt == 2)
    sim.act("stop", run)
    sim.ended(run)
    reply = sim.ask(lambda id_: Resume(id=id_, run=run, checkpoint=good, accept=True))
    assert isinstance(reply, Accepted)
    assert not any("is harmed" in it for it in reply.notes)


def test_a_resume_from_harmed_weights_without_a_way_back_says_so(sim: SimulatedLab) -> None:
    """Where no checkpoint from before is left, the warning names the command that begins anew."""
    run, _, good = ended_sick(sim)
    shutil.rmtree(sim.dir(run).checkpoints / good)
    reply = sim.ask(lambda id_: Resume(id=id_, run=run))
    assert isinstance(reply, Accepted)
    said = reply.warnings[0]
    anew = f"`mission-tui clone {sim.view(run).name} --set ppo.learning_rate=0.00015` begins anew"
    assert f", and none from before is left: {anew}" in said


@pytest.mark.slow
def test_a_live_run_is_stopped_first(lab: Lab) -> None:
    """The answer comes at once; the run saves, ends, and goes on from before the finding; the journal tells it all."""
    run, finding, good = sick(lab)
    reply = apply(lab, run, finding)
    assert isinstance(reply, Accepted)
    assert "it stops first" in reply.notes[0]
    lab.wait(run, lambda view: view.attempt == 2 and view.state == "running")
    start = [event for event in events(lab, run) if isinstance(event, AttemptStarting)][1]
    assert start.checkpoint == good
    words = [type(event).__name__ for event in events(lab, run)]
    assert words.index("HealthActed") < words.index("Asked", words.index("HealthActed")) < words.index("AttemptEnded")
    assert [event.verb for event in events(lab, run) if isinstance(event, Asked)] == ["checkpoint", "stop"]


def test_what_the_ending_run_claims_is_free_for_its_next_attempt(sim: SimulatedLab) -> None:
    """A run that wants most of the memory does not stand in its own way; one like it that has just begun does."""
    large = large_spec()
    run, finding, _ = sick(sim, base=large)
    (other,) = sim.launch(spec=large, STUB_UPDATE_S="600")
    with pytest.raises(PresetError, match="MiB are free"):
        apply(sim, run, finding)
    asked = apply(sim, run, finding, check_only=True)
    assert isinstance(asked, VerdictReply)
    assert "MiB are free" in asked.not_now
    sim.act("kill", other)
    sim.ended(other)
    assert isinstance(apply(sim, run, finding), Accepted)
    sim.wait(run, lambda view: view.attempt == 2 and view.state == "running")


def test_only_the_checkpoint_that_was_agreed_to_will_do(sim: SimulatedLab) -> None:
    """Another one than the person was shown is refused, and the run trains on; the shown one is gone back to."""
    run, finding, good = sick(sim)
    with pytest.raises(MissionError, match="has no checkpoint 000000001 from before nan any more; look again"):
        apply(sim, run, finding, checkpoint="000000001")
    assert sim.running(run).attempt == 1
    shown = apply(sim, run, finding, check_only=True)
    assert isinstance(shown, VerdictReply)
    assert shown.checkpoint == good
    assert isinstance(apply(sim, run, finding, checkpoint=shown.checkpoint), Accepted)


def test_the_verdict_alone_changes_nothing(sim: SimulatedLab) -> None:
    """`check_only` on a live run: the verdict, and the run trains on."""
    run, finding, _ = sick(sim)
    reply = apply(sim, run, finding, check_only=True)
    assert isinstance(reply, VerdictReply)
    assert reply.verdict.changes
    sim.running(run, (sim.view(run).update or 0) + 5)
    assert details(sim, run) == []


def test_advice_that_warns_needs_a_word(sim: SimulatedLab) -> None:
    """As with any resume: nothing starts without `accept`."""
    run, _, _ = ended_sick(sim)
    finding = add_finding(sim, run, advice_set=("env.n_envs=32",))
    reply = apply(sim, run, finding)
    assert isinstance(reply, VerdictReply)
    assert (reply.accept_needed, sim.view(run).attempt) == (True, 1)
    assert isinstance(apply(sim, run, finding, accept=True), Accepted)
    assert sim.wait(run, lambda view: view.attempt == 2).n_envs == 32


def test_advice_without_a_change_goes_back(sim: SimulatedLab) -> None:
    """The same spec again, from before."""
    run, _, good = ended_sick(sim)
    assert isinstance(apply(sim, run, add_finding(sim, run)), Accepted)
    sim.wait(run, lambda view: view.attempt == 2)
    assert details(sim, run) == [f"from {good}"]
    assert not sim.dir(run).attempt(2).spec.exists()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"advice_set": ("ppo.lerning_rate=1e-4",)}, "a resume cannot follow the advice.*learning_rate"),
        (
            {"severity": "info"},
            "is only information, and there is nothing to apply; a resume cannot follow its advice: do this",
        ),
        ({"first_update": 1}, "has no checkpoint from before update 1"),
    ],
)
def test_what_cannot_be_applied_is_refused_with_the_reason(
    sim: SimulatedLab, fields: dict[str, Any], sentence: str
) -> None:
    """Advice that is no setting, advice of mere information, and a finding older than every checkpoint."""
    run, _, _ = ended_sick(sim)
    finding = add_finding(sim, run, **fields)
    with pytest.raises(MissionError, match=sentence):
        apply(sim, run, finding)
    assert sim.view(run).attempt == 1


def test_an_unknown_finding_names_the_nearest(sim: SimulatedLab) -> None:
    """A typing slip is answered with what was meant."""
    run, finding, _ = ended_sick(sim)
    with pytest.raises(UsageError, match=f"did you mean '{finding}'"):
        apply(sim, run, f"{finding}0")


def test_a_run_killed_on_its_way_is_not_resumed(sim: SimulatedLab) -> None:
    """Whoever kills it means it: the journal says why it did not go on. Meanwhile a second application is refused."""
    run, finding, _ = sick(sim, deaf=True)
    assert isinstance(apply(sim, run, finding), Accepted)
    with pytest.raises(UsageError, match="is ending to follow the advice"):
        apply(sim, run, finding)
    sim.act("kill", run)
    sim.ended(run)
    sim.until(lambda: details(sim, run)[-1] == "could not go on: it was killed meanwhile")
    assert sim.view(run).attempt == 1


def test_a_stop_on_the_way_is_for_good(sim: SimulatedLab) -> None:
    """Asked to stop while it ends to go on: it stays stopped."""
    run, finding, _ = sick(sim, deaf=True)
    apply(sim, run, finding)
    sim.act("stop", run)
    sim.kill(sim.view(run).pids.trainer)
    sim.ended(run)
    sim.until(lambda: details(sim, run)[-1] == "could not go on: it was asked to stop for good meanwhile")


def test_a_checkpoint_that_is_gone_by_then_is_said(sim: SimulatedLab) -> None:
    """The run has stopped, and the journal says why it did not go on."""
    run, finding, _ = sick(sim, deaf=True)
    apply(sim, run, finding)
    for folder in sim.dir(run).checkpoints.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    sim.kill(sim.view(run).pids.trainer)
    sim.ended(run)
    sim.until(lambda: details(sim, run)[-1].startswith("could not go on: "))
    assert sim.view(run).attempt == 1


def starting(attempt: int, checkpoint: str | None, seq: int) -> AttemptStarting:
    """An attempt in the journal."""
    return AttemptStarting(seq, float(attempt), attempt, checkpoint)


def run_with(path: Path, starts: list[str | None], saves: list[tuple[int, int]]) -> RunDir:
    """A run directory whose attempts began at `starts`, with checkpoints at (attempt, update)."""
    run = RunDir(path)
    run.path.mkdir()
    journal = AppendLog(run.events)
    for attempt, checkpoint in enumerate(starts, start=1):
        journal.append(partial(starting, attempt, checkpoint))
    journal.close()
    for attempt, update in saves:
        facts = CheckpointFacts(
            run="run", attempt=attempt, update=update, timesteps=update, t=1.0, reason="time", spec_sha256=""
        )
        save_checkpoint(run.checkpoints, f"{update:09d}", lambda folder: None, facts)
    return run


def found(run: RunDir, attempt: int, update: int) -> str | None:
    """The name of the last good checkpoint before a finding of `attempt` at `update`."""
    finding = Finding(f"nan-{attempt}-{update}", "nan", "critical", update, update, "", "", "")
    manifest = last_good(run, finding)
    return None if manifest is None else manifest.name


def test_the_last_good_checkpoint_is_strictly_before_the_finding(tmp_path: Path) -> None:
    """Of the finding's attempt, the newest whose update is smaller; none before the first."""
    run = run_with(tmp_path / "run", [None], [(1, 10), (1, 20), (1, 30)])
    assert [found(run, 1, update) for update in (10, 11, 20, 21, 99)] == [
        None,
        "000000010",
        "000000010",
        "000000020",
        "000000030",
    ]


def test_a_checkpoint_of_a_policy_that_stood_still_already_is_no_way_back(tmp_path: Path) -> None:
    """It is called frozen after ten updates in which it did not move: none of those is good."""
    run = run_with(tmp_path / "run", [None], [(1, 10), (1, 20), (1, 30)])
    still = Finding("policy-frozen-1-25", "policy-frozen", "critical", 25, 25, "", "", "", window=10)
    good = [last_good(run, structs.replace(still, first_update=at)) for at in (25, 29, 30)]
    assert [manifest and manifest.name for manifest in good] == ["000000010", "000000010", "000000020"]


def test_a_checkpoint_from_after_a_spike_is_no_way_back_from_its_fall(tmp_path: Path) -> None:
    """The return fell for updates before the spike was told of: the advice is to go back to before the spike."""
    run = run_with(tmp_path / "run", [None], [(1, 10), (1, 20), (1, 30)])
    fall = Finding("kl-spike-1-31", "kl-spike", "critical", 31, 40, "", "", "", evidence=({"update": 20.0},))
    manifest = last_good(run, fall)
    assert manifest is not None
    assert manifest.name == "000000010"


def test_a_checkpoint_from_within_other_open_trouble_is_no_way_back(tmp_path: Path) -> None:
    """A later finding goes back to before the earliest that is open and says that the policy was harmed."""
    run = run_with(tmp_path / "run", [None], [(1, 10), (1, 20), (1, 30)])
    late = Finding("kl-spike-1-35", "kl-spike", "critical", 35, 35, "", "", "")
    dead = Finding("entropy-collapse-1-15", "entropy-collapse", "warning", 15, 15, "", "", "")
    slow = Finding("throughput-1-5", "throughput", "critical", 5, 5, "", "", "")
    large = Finding("kl-persistent-1-5", "kl-persistent", "warning", 5, 5, "", "", "")
    over = structs.replace(dead, state="cleared")
    good = [last_good(run, late, others) for others in ((), (late, dead, slow, large), (over,))]
    assert [manifest and manifest.name for manifest in good] == ["000000030", "000000010", "000000030"]


def test_lack_of_memory_harms_no_checkpoint(tmp_path: Path) -> None:
    """What is saved as a run fails for it is gone on from, unless the policy was harmed before."""
    run = run_with(tmp_path / "run", [None], [(1, 10), (1, 15)])
    full = Finding("out-of-memory-1-15", "out-of-memory", "critical", 15, 15, "", "", "")
    dead = Finding("entropy-collapse-1-12", "entropy-collapse", "critical", 12, 14, "", "", "")
    good = [last_good(run, full, others) for others in ((full,), (full, dead))]
    assert [manifest and manifest.name for manifest in good] == ["000000015", "000000010"]


def test_a_finding_that_is_open_still_says_of_the_newest_checkpoint_that_the_policy_is_gone(sim: SimulatedLab) -> None:
    """The journal's word on how long it lasted is from when it was last told, long before that checkpoint."""
    run, _, _ = ended_sick(sim)
    add_finding(sim, run, rule="entropy-collapse", first_update=5, last_update=6, severity="critical")
    answer = sim.ask(lambda id_: Resume(id=id_, run=run, check_only=True))
    assert isinstance(answer, VerdictReply)
    assert answer.verdict.grade == "refuse"


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    """The one before it is taken."""
    run = run_with(tmp_path / "run", [None], [(1, 10), (1, 20)])
    (run.checkpoints / "000000020" / "stray").touch()
    assert found(run, 1, 25) == "000000010"


def test_an_abandoned_branch_is_not_the_past(tmp_path: Path) -> None:
    """Attempt 2 went back to 10: what attempt 1 saved after that is not where this policy was."""
    run = run_with(tmp_path / "run", [None, "000000010"], [(1, 10), (1, 20), (2, 40)])
    assert [found(run, 2, update) for update in (30, 41, 10)] == ["000000010", "000000040", None]
    assert found(run, 1, 30) == "000000020"


def test_without_its_start_the_search_ends(tmp_path: Path) -> None:
    """The checkpoint that an attempt went on from was removed by hand: nothing before it is guessed."""
    run = run_with(tmp_path / "run", [None, "000000015"], [(1, 10)])
    assert found(run, 2, 30) is None


def test_what_a_change_did_is_mended_by_undoing_it_whichever_symptom_is_meant(sim: SimulatedLab) -> None:
    """NaN after a learning rate x 100: attempt 2 begins before the change, with the rate of then."""
    stub = {"STUB_NAN_FROM": "40", "STUB_UPDATE_S": "0.03"}
    spec = structs.replace(stub_spec(), keep=KeepSpec(health=HealthKeep(nan=NanLimits(act="stop"))))
    (run,) = sim.launch(1, spec=spec, name=None, **stub)
    sim.running(run)
    sim.act("checkpoint", run)
    good = sim.wait(run, lambda view: view.last_checkpoint).last_checkpoint
    sim.ask(lambda id_: Set(id=id_, run=run, assignments=("ppo.learning_rate=0.03",), accept=True))
    sim.ended(run)
    story, symptom = sim.view(run).findings[:2]
    assert (story.rule, story.undo, symptom.rule, symptom.part_of) == ("after-change", "back", "nan", story.id)
    assert isinstance(apply(sim, run, symptom.id), Accepted)
    sim.wait(run, lambda view: view.attempt == 2)
    start = [event for event in events(sim, run) if isinstance(event, AttemptStarting)][1]
    assert start.checkpoint == good
    assert read_spec(sim.dir(run).attempt(2).spec if start.changes else sim.dir(run).spec).ppo.learning_rate == 3e-4


def test_a_change_that_did_no_harm_is_undone_while_the_run_trains(sim: SimulatedLab) -> None:
    """No attempt ends: the old value is set, also where a symptom with its own advice is meant."""
    (run,) = sim.launch(1, name=None, STUB_UPDATE_S="0.03")
    sim.running(run)
    sim.ask(lambda id_: Set(id=id_, run=run, assignments=("ppo.learning_rate=0.03",), accept=True))
    words = ("ppo.learning_rate=3e-4",)
    story = Finding("after-change-1-9", "after-change", "warning", 9, 9, "you set", "", "undo", words)
    undoing = structs.replace(story, undo="set")
    sim.core.record_observed(sim.core.live[run], lambda seq, t: FindingChanged(seq, t, undoing))
    asked = apply(sim, run, story.id, check_only=True)
    assert isinstance(asked, VerdictReply)
    assert [it.now for it in asked.verdict.changes] == ["0.0003"]
    symptom = Finding("kl-1-12", "kl-persistent", "warning", 12, 12, "too much", "", "fewer", ("ppo.n_epochs=2",))
    came_of_it = structs.replace(symptom, part_of=story.id)
    sim.core.record_observed(sim.core.live[run], lambda seq, t: FindingChanged(seq, t, came_of_it))
    assert isinstance(apply(sim, run, symptom.id, accept=True), Accepted)
    sim.wait(run, lambda view: any("0.03 → 0.0003" in line for it in view.changes for line in it.diff))
    assert sim.view(run).attempt == 1
    assert details(sim, run) == ["--set ppo.learning_rate=3e-4"]
