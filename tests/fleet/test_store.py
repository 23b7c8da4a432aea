"""The store: states, rewind, idempotence, and that a rebuilt fleet equals the one that was watched."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.events.findings import METRICS, Finding, FindingState, Severity, in_order, stories
from mission_tui.fleet.events.journal import (
    Asked,
    AttemptEnded,
    AttemptStarting,
    ClockStepped,
    DutyDoneSeen,
    DutyFailureSeen,
    FindingChanged,
    GainMeasured,
    HealthActed,
    KeeperLost,
    RunCreated,
    RunFrozen,
    RunParked,
    RunPaused,
    RunResumed,
    RunThawed,
)
from mission_tui.fleet.events.marginal_gain import MarginalGain
from mission_tui.fleet.events.metrics import (
    CheckpointSaved,
    Episodes,
    EvaluationDone,
    Metric,
    MetricRecord,
    TrainingStarted,
)
from mission_tui.fleet.events.outcome import Failed, Finished
from mission_tui.fleet.events.processes import FlagSeen, ForeignSeen, HeartbeatSeen, LinkSeen, PhaseSeen, Pids, PidsSeen
from mission_tui.fleet.history.journal_state import MOST_EVIDENCE, MOST_FINDINGS
from mission_tui.fleet.history.run import Fact
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import DRIVER, EnvSpec, RunSpec, Spec
from mission_tui.fleet.store import SNAPSHOT_ENDED, Store
from mission_tui.fleet.views.run import SHOWN_FINDINGS
from mission_tui.fleet.views.snapshot import HostMeters, RunGain, RunView
from tests.fleet.recorded import SPEC, STEPS, empty_store, stopped_and_resumed, update

RUN = "20261121-104207-demo-3f9a"


def store_of(*facts: Fact, spec: Spec | None = SPEC) -> Store:
    """A store with one run that was told `facts`."""
    store = empty_store()
    store.add_run(RUN, f"/lab/runs/{RUN}", spec)
    for fact in facts:
        store.apply(RUN, fact)
    return store


def running(*facts: Fact, spec: Spec = SPEC) -> Store:
    """A store with one running run that was then told `facts`."""
    return store_of(
        RunCreated(1, 90.0, "first", "demo"),
        AttemptStarting(2, 91.0, 1),
        TrainingStarted(1, 1, 92.0),
        *facts,
        spec=spec,
    )


def test_a_search_has_no_pace_and_no_time_left() -> None:
    """What it counts are whole trainings, several of which end at once: four of four were "<1s left" for minutes."""
    begun: list[Fact] = [
        AttemptStarting(2, 91.0, 1),
        TrainingStarted(1, 1, 92.0),
        *(update(number) for number in range(1, 6)),
    ]
    for preset, known in (("demo", True), (f"{DRIVER}demo", False)):
        (view,) = store_of(RunCreated(1, 90.0, "first", preset), *begun).snapshot(100.0).runs
        assert [it is not None for it in (view.pace, view.eta_s, view.eta_low_s, view.eta_high_s)] == [known] * 4


def test_a_foreign_folder_without_any_time_has_ended_at_none() -> None:
    """What was half written was `lost 20784d ago`: at the beginning of unix time."""
    for facts, ended_t in (((), None), ((RunCreated(1, 90.0, "first", "demo"),), 90.0)):
        (view,) = store_of(*facts, ForeignSeen("nothing says who launched it")).snapshot(100.0).runs
        assert (view.outcome, view.ended_t) == ("lost", ended_t)


def test_a_run_is_found_by_its_id_without_a_look_at_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request of a screen names its runs so; among twenty thousand a look at all of them takes 50 ms."""
    store = running()
    older = ended_run(store, 1)
    monkeypatch.setattr("mission_tui.fleet.store.resolve", None)
    assert (store.resolve(RUN), store.resolve(older)) == ((RUN,), (older,))


def test_a_page_costs_no_view_of_a_run_that_is_not_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand live runs a page of fifty makes fifty views; what it says beside them is the snapshot's."""
    store = running()
    older = [ended_run(store, number) for number in range(3)]
    assert store.page(0, 9, ("running",)) == ([RUN], 1)
    assert store.page(0, 2, ("finished", "lost")) == (older[:0:-1], 3)
    assert store.page(0, 9, ("ended",))[1] == 3
    assert store.page(0, 9, ("failed",)) == ([], 0)
    with monkeypatch.context() as patched:
        patched.setattr("mission_tui.fleet.store.view_of", None)
        header = store.header(100.0)
    snapshot = store.snapshot(100.0)
    assert header == structs.replace(snapshot, runs=())
    assert store.header(200.0) == header
    assert len(snapshot.runs) == 4


def ended_run(store: Store, number: int) -> str:
    """One more run in `store` that finished at time `number`."""
    run_id = f"20261121-{number:06d}-demo-0000"
    store.add_run(run_id, f"/lab/runs/{run_id}", SPEC)
    store.apply(run_id, RunCreated(1, float(number), f"run-{number}", "demo"))
    store.apply(run_id, AttemptStarting(2, float(number), 1))
    store.apply(run_id, AttemptEnded(3, number + 0.5, 1, Finished(checkpoint="000010240")))
    return run_id


def test_an_evaluation_that_is_played_makes_a_failed_one_good() -> None:
    """It is shown as failed until the next one has a result; what was not tried again stays."""
    failed = [
        DutyFailureSeen(3 + number, 100.0 + number, 1, duty, "why") for number, duty in enumerate(["evaluation", "x"])
    ]
    store = running(*failed)
    assert [each.duty for each in store.view(RUN).failed_duties] == ["evaluation", "x"]
    store.apply(RUN, EvaluationDone(2, 1, 1, 64, 110.0, 1.0, 0.0, 5))
    assert [each.duty for each in store.view(RUN).failed_duties] == ["x"]


def test_rows_that_could_not_be_written_are_said_before_other_duties_that_failed() -> None:
    """Where only one has room, that one is shown: without rows every number of the run stands still."""
    names = ["TensorBoard events", "checkpoint", METRICS]
    failed = [DutyFailureSeen(3 + number, 100.0 + number, 1, duty, "why") for number, duty in enumerate(names)]
    assert [each.duty for each in running(*failed).view(RUN).failed_duties] == [
        METRICS,
        "TensorBoard events",
        "checkpoint",
    ]


def test_while_rows_wait_pace_and_time_left_are_not_known() -> None:
    """The newest row is from before the disk was full; written rows make both known again."""
    store = running(*[update(number) for number in range(1, 6)])
    before = store.view(RUN)
    assert None not in (before.pace, before.eta_s, before.eta_low_s, before.eta_high_s)
    store.apply(RUN, DutyFailureSeen(9, 120.0, 1, METRICS, "no space left on device"))
    waiting = store.view(RUN)
    assert (waiting.pace, waiting.eta_s, waiting.eta_low_s, waiting.eta_high_s) == (None, None, None, None)
    assert waiting.timesteps == before.timesteps
    store.apply(RUN, DutyDoneSeen(10, 130.0, 1, METRICS, 1))
    assert store.view(RUN).eta_s == before.eta_s


def test_the_newest_evaluation_stays_in_sight_while_the_training_goes_on() -> None:
    """It ends after later updates: its place on the curve is the update that it played, its value the newest known."""
    played = EvaluationDone(5, 1, 1, STEPS, 110.0, 1.5, 0.0, 20, 0.25)
    store = running(update(1), update(2), update(3), played)
    metrics = store.view(RUN).metrics
    assert (metrics["eval/mean_reward"], metrics["eval/success_rate"]) == (1.5, 0.25)
    columns = store.run(RUN).metrics.columns
    assert columns.tail("eval/success_rate", 9) == (0.25, None, None)
    store.apply(RUN, AttemptStarting(9, 120.0, 2))
    store.apply(RUN, TrainingStarted(6, 2, 121.0, from_update=1, from_timesteps=STEPS))
    assert store.view(RUN).metrics["eval/success_rate"] == 0.25
    store.apply(RUN, TrainingStarted(7, 3, 122.0, from_update=0))
    assert "eval/success_rate" not in store.view(RUN).metrics


def test_states_follow_the_events() -> None:
    """Queued, starting, running, paused, running, stopping, ended, and starting again on resume."""
    events, records = stopped_and_resumed()
    store = store_of()
    states = [store.view(RUN).state]
    for event in events[:2]:
        store.apply(RUN, event)
        states.append(store.view(RUN).state)
    store.apply(RUN, records[0])
    states.append(store.view(RUN).state)
    for event in events[2:7]:
        store.apply(RUN, event)
        states.append(store.view(RUN).state)
    assert states == [
        "queued", "queued", "starting", "running", "paused", "running", "stopping", "ended", "starting",
    ]  # fmt: skip


def test_resume_clears_the_outcome_of_the_attempt_before() -> None:
    """A run that starts again has no outcome, no end time and nothing asked of it."""
    events, _ = stopped_and_resumed()
    store = store_of(*events[:6])
    assert store.view(RUN).outcome == "stopped"
    store.apply(RUN, events[6])
    view = store.view(RUN)
    assert (view.outcome, view.cause, view.ended_t, view.attempt) == (None, None, None, 2)
    assert store.run(RUN).journal.asked == set()


def test_what_was_asked_of_an_attempt_is_known_until_the_next() -> None:
    """Verbs asked of the present attempt are kept for the classification of its end; others are not."""
    store = running(Asked(3, 95.0, "stop", 1), Asked(4, 96.0, "kill", 2))
    assert store.run(RUN).journal.asked == {"stop"}


def test_failed_outcome_shows_kind_and_cause() -> None:
    """A failed run says which kind of failure and one cleaned sentence."""
    store = running(AttemptEnded(3, 99.0, 1, Failed("crash", "ended by \x1b[31mSIGSEGV\x1b[0m", signal=11)))
    view = store.view(RUN)
    assert (view.outcome, view.kind, view.cause) == ("failed", "crash", "ended by SIGSEGV")


def test_rewind_drops_rows_beyond_the_checkpoint() -> None:
    """Rows of attempt 1 later than where attempt 2 starts are gone from series, history, metrics and totals."""
    events, records = stopped_and_resumed()
    store = store_of(*events[:6], *records[:5], events[6], records[5])
    view = store.view(RUN)
    assert (view.update, view.timesteps, view.metrics["rollout/ep_rew_mean"]) == (2, 2 * STEPS, 2.0)
    assert view.series["rollout/ep_rew_mean"] == (1.0, 2.0)
    for record in records[6:]:
        store.apply(RUN, record)
    history = store.history(RUN, ["rollout/ep_rew_mean"])
    assert history.updates == tuple(range(1, 11))
    assert history.low["rollout/ep_rew_mean"] == (1.0, 2.0, *(100.0 + number for number in range(3, 11)))


def test_what_an_overtaken_attempt_wrote_late_hides_nothing_of_the_next() -> None:
    """Its rows stand before the start of attempt 2 and between its rows, under numbers that attempt 2 has too."""
    elder = [update(number) for number in range(1, 9)]
    start = TrainingStarted(5, 2, 9.0, from_update=2, from_timesteps=2 * STEPS)
    newer = [update(3, seq=6, attempt=2), update(9, seq=10), update(4, seq=7, attempt=2)]
    records: list[MetricRecord] = [*elder, start, *newer]
    watched, read = running(*records), running()
    read.load_history(RUN, records)
    for store in (watched, read):
        assert (store.view(RUN).update, store.run(RUN).metrics.attempt) == (4, 2)
        assert store.history(RUN, ["rollout/ep_rew_mean"]).updates == (1, 2, 3, 4)


def test_newest_checkpoint_is_the_one_of_the_timeline() -> None:
    """After a resume from an earlier checkpoint that one is the newest, until the next is saved."""
    saved = CheckpointSaved(seq=3, attempt=1, update=4, timesteps=4096, t=1.0, name="000004096", reason="asked")
    store = running(update(4, seq=2), saved)
    assert store.view(RUN).last_checkpoint == "000004096"
    store.apply(RUN, TrainingStarted(4, 2, 3.0, from_update=2, from_timesteps=2048, checkpoint="000002048"))
    assert store.view(RUN).last_checkpoint == "000002048"


def test_a_record_said_twice_counts_once() -> None:
    """Applying the same seq again changes neither the view nor the revision."""
    events, records = stopped_and_resumed()
    store = store_of(*events[:2], *records[:4])
    before = store.snapshot(now=1.0)
    assert not any(store.apply(RUN, fact) for fact in (*events[:2], *records[:4]))
    assert store.snapshot(now=2.0) is before


@given(st.data())
def test_interleaving_of_the_two_files_does_not_matter(data: st.DataObject) -> None:
    """However the lines of events.jsonl and metrics.jsonl are interleaved, the same run comes out."""
    events, records = stopped_and_resumed()
    expected = store_of(*events, *records).view(RUN)
    turns = data.draw(st.permutations([True] * len(events) + [False] * len(records)))
    rest = {True: iter(events), False: iter(records)}
    assert store_of(*(next(rest[turn]) for turn in turns)).view(RUN) == expected


def test_rebuilt_from_files_equals_never_restarted() -> None:
    """At every moment of a run's life, a store built from its files shows what the live one shows."""
    events, records = stopped_and_resumed()
    told: list[Fact] = [*events[:2], *records[:3], *events[2:4], *records[3:5], *events[4:7], *records[5:], events[7]]
    live = store_of()
    for moment, fact in enumerate(told):
        live.apply(RUN, fact)
        rebuilt = store_of(*(known for known in told[: moment + 1] if known in events))
        rebuilt.load_history(RUN, [record for record in records if record in told[: moment + 1]])
        assert rebuilt.view(RUN) == live.view(RUN)
        assert rebuilt.history(RUN, ["steps_per_s"]) == live.history(RUN, ["steps_per_s"])


def test_revision_rises_only_with_a_change() -> None:
    """Without a change the snapshot is the same object; with one the revision rises by one."""
    store = running(update(1, seq=2))
    first = store.snapshot(now=1.0)
    store.apply(RUN, LinkSeen(connected=False))
    store.observe_machine(HostMeters(name="box", cores=2), [])
    assert store.snapshot(now=2.0) is first
    store.apply(RUN, LinkSeen(connected=True))
    second = store.snapshot(now=3.0)
    assert (second.revision, second.t) == (first.revision + 1, 3.0)


def test_unchanged_runs_keep_their_view() -> None:
    """A run that did not change is the very same view in the next snapshot, so that it need not be encoded again."""
    store = running()
    other = ended_run(store, 5)
    before = {view.id: view for view in store.snapshot(1.0).runs}
    store.apply(RUN, update(1, seq=2))
    after = {view.id: view for view in store.snapshot(2.0).runs}
    assert after[other] is before[other]
    assert after[RUN] is not before[RUN]


def test_observations_show_and_end_with_the_attempt() -> None:
    """Link, phase, heartbeat and pids are shown while the attempt lives and forgotten with it; a flag stays."""
    seen = (LinkSeen(connected=True), PhaseSeen("rollout", 5.0), HeartbeatSeen(6.0), PidsSeen(Pids(2, 3, (4,))))
    store = running(*seen, FlagSeen("unkillable", raised=True))
    view = store.view(RUN)
    assert (view.connected, view.phase, view.phase_t, view.heartbeat_t) == (True, "rollout", 5.0, 6.0)
    assert (view.pids, view.flags) == (Pids(2, 3, (4,)), ("unkillable",))
    store.apply(RUN, AttemptEnded(3, 99.0, 1, Finished(checkpoint="x")))
    store.apply(RUN, PhaseSeen("update", 7.0))
    view = store.view(RUN)
    assert (view.connected, view.phase, view.heartbeat_t, view.pids) == (False, None, None, Pids())
    assert view.flags == ("unkillable",)


def test_time_in_which_a_trainer_did_not_live_is_none_of_its_phase() -> None:
    """A rollout that was frozen for an hour, or whose machine slept, has not gone on for so long."""
    store = running(PhaseSeen("rollout", 5.0), HeartbeatSeen(6.0), RunFrozen(3, 10.0, 1))
    store.apply(RUN, RunThawed(4, 3600.0, 1))
    assert store.view(RUN).phase_t == 3600.0
    store.apply(RUN, HeartbeatSeen(3602.0))
    store.apply(RUN, PhaseSeen("update", 3603.0))
    store.apply(RUN, HeartbeatSeen(3604.0))
    assert store.view(RUN).phase_t == 3603.0
    store.apply(RUN, HeartbeatSeen(7204.0))
    assert store.view(RUN).phase_t == 7203.0


@pytest.mark.parametrize("by_s", [86_400.0, -86_400.0])
def test_a_clock_that_is_set_makes_no_phase_longer(by_s: float) -> None:
    """Neither before the next heartbeat nor after it, nor where that comes before the clock's step is noticed."""
    began = 1e6
    now = began + 20.0 + by_s
    for seen in ((), (HeartbeatSeen(began + 10.0),), (HeartbeatSeen(began + 10.0), HeartbeatSeen(now - 0.1))):
        store = running(PhaseSeen("rollout", began), *seen, ClockStepped(3, now, 1, by_s), HeartbeatSeen(now + 1.0))
        phase_t = store.view(RUN).phase_t
        assert phase_t is not None
        assert now - 20.0 <= phase_t <= now + 1.0


def test_a_callback_that_evaluates_is_no_rollout_that_hangs() -> None:
    """While heartbeats say that one of the user's goes on, nothing is said to take unusually long."""
    store = running(PhaseSeen("rollout", 5.0), HeartbeatSeen(6.0))
    for t in range(7, 300):
        store.apply(RUN, HeartbeatSeen(float(t), in_callback=True))
    assert store.view(RUN).phase_t == 5.0 + 293.0
    store.apply(RUN, HeartbeatSeen(310.0))
    assert store.view(RUN).phase_t == 298.0


def test_keeperless_is_a_flag_of_the_attempt() -> None:
    """A lost keeper flags the run until its attempt is over."""
    store = running(KeeperLost(3, 95.0, 1))
    assert store.view(RUN).flags == ("keeperless",)
    store.apply(RUN, AttemptEnded(4, 99.0, 1, Finished(checkpoint="x")))
    assert store.view(RUN).flags == ()


def test_eta_is_remaining_steps_at_the_pace_of_late() -> None:
    """One slow update does not spoil the estimate; a paused or ended run has none."""
    slow = update(3, seq=4)
    store = running(update(1, seq=2), update(2, seq=3))
    store.apply(
        RUN, type(slow)(**{name: getattr(slow, name) for name in slow.__struct_fields__} | {"steps_per_s": 1.0})
    )
    assert store.view(RUN).steps_per_s == 1.0
    assert store.view(RUN).eta_s == pytest.approx((10_240 - 3 * STEPS) / 1000.0, rel=0.3)
    store.apply(RUN, Asked(3, 99.0, "stop", 1))
    assert store.view(RUN).eta_s is None


def test_a_pace_of_zero_is_not_known() -> None:
    """A script may report twice within a tick of the clock."""
    row = update(1, seq=2)
    values = {name: getattr(row, name) for name in row.__struct_fields__}
    assert running(type(row)(**values | {"steps_per_s": 0.0})).view(RUN).steps_per_s is None


def test_a_command_that_was_started_again_has_no_eta_and_no_share_before_its_first_row() -> None:
    """It begins anew unless it says otherwise: what the attempt before had left was `<1s` for a whole training, and it
    was said to stand where that had ended.
    """
    run = structs.replace(SPEC.run, command=("python", "train.py"))
    there = PidsSeen(Pids(trainer=7))
    store = running(*(update(number) for number in range(1, 6)), there, spec=structs.replace(SPEC, run=run))
    assert store.view(RUN).eta_s is not None
    store.apply(RUN, AttemptEnded(3, 99.0, 1, Finished(checkpoint=None)))
    assert store.view(RUN).timesteps == 5 * STEPS
    for fact in (AttemptStarting(4, 100.0, 2), there):
        store.apply(RUN, fact)
    view = store.view(RUN)
    assert (view.state, view.eta_s, view.timesteps) == ("running", None, None)
    store.apply(RUN, TrainingStarted(8, 2, 101.0))
    for number in range(1, 4):
        store.apply(RUN, update(number, seq=8 + number, attempt=2))
    assert store.view(RUN).eta_s is not None


def test_eta_of_a_timed_run_counts_what_all_attempts_trained() -> None:
    """With a duration the rest is what rollouts and updates have not used, rewound ones left out."""
    timed = Spec(preset="demo", env=EnvSpec(id="CartPole-v1"), run=RunSpec(duration_s=60.0))
    store = running(*(update(number) for number in range(1, 5)), spec=timed)
    assert store.view(RUN).eta_s == 56.0
    store.apply(RUN, AttemptStarting(3, 99.0, 2))
    store.apply(RUN, TrainingStarted(6, 2, 100.0, from_update=2, from_timesteps=2048))
    assert store.view(RUN).eta_s == 58.0


def test_what_lies_between_updates_counts_as_training() -> None:
    """Of two seconds an update takes one: the time left and what is used of a timed budget follow the clock, also after
    a rewind."""
    timed = structs.replace(SPEC, run=RunSpec(duration_s=100.0))
    for spec, left_s in ((SPEC, 12.0 * STEPS / 1024), (timed, 92.0)):
        store = empty_store()
        store.add_run(RUN, f"/lab/runs/{RUN}", spec)
        store.apply(RUN, AttemptStarting(1, 91.0, 1))
        store.apply(RUN, TrainingStarted(1, 1, 92.0))
        for number in range(1, 7):
            store.apply(RUN, structs.replace(update(number), trained_s=2.0 * number))
        store.apply(RUN, AttemptStarting(2, 200.0, 2))
        store.apply(RUN, TrainingStarted(8, 2, 200.0, from_update=4))
        view = store.view(RUN)
        assert (view.trained_s, view.eta_s) == (8.0, left_s)
        assert view.steps_per_s == 1000.0


def test_a_restart_from_where_its_attempt_began_still_says_what_was_changed() -> None:
    """Nobody asked again, so the journal names no change; from a later checkpoint on there is none."""
    change = Change("ppo.batch_size", "64", "32", "warn", "why")
    store = running(AttemptStarting(3, 99.0, 2, "000000064", (change,)))
    asked = store.view(RUN).origins
    assert [origin.diff for origin in asked] == [("ppo.batch_size 64 → 32",)]
    store.apply(RUN, AttemptStarting(4, 100.0, 3, "000000064", restart=1))
    assert [origin.diff for origin in store.view(RUN).origins] == [origin.diff for origin in asked]
    store.apply(RUN, AttemptStarting(5, 101.0, 4, "000000128", restart=2))
    assert [(origin.checkpoint, origin.diff) for origin in store.view(RUN).origins] == [("000000128", ())]


def test_live_runs_come_first_and_ended_ones_newest_first() -> None:
    """Live runs oldest first, then at most 200 ended ones newest first; all ended ones are counted and paged."""
    store = empty_store()
    ids = [ended_run(store, number) for number in range(SNAPSHOT_ENDED + 5)]
    for number in (2, 1):
        run_id = f"20261121-99000{number}-live-0000"
        store.add_run(run_id, "/lab", SPEC)
        store.apply(run_id, RunCreated(1, 1000.0 + number, f"live-{number}", "demo"))
    snapshot = store.snapshot(now=1.0)
    assert [view.name for view in snapshot.runs[:2]] == ["live-1", "live-2"]
    assert [view.id for view in snapshot.runs[2:]] == ids[:4:-1]
    assert snapshot.ended_total == SNAPSHOT_ENDED + 5
    store.apply(ids[0], RunParked(4, 1.0, 1, "failed within seconds 5 times in a row"))
    assert (store.snapshot(2.0).parked_total, store.snapshot(2.0).ended_total) == (1, SNAPSHOT_ENDED + 5)
    page, total = store.ended(offset=SNAPSHOT_ENDED, limit=50)
    assert ([view.id for view in page], total) == (ids[4::-1], SNAPSHOT_ENDED + 5)
    store.remove_run(ids[0])
    assert store.snapshot(3.0).parked_total == 0


def test_removed_run_is_gone() -> None:
    """A run whose launch was undone is in no snapshot and under no name."""
    store = running()
    store.remove_run(RUN)
    assert store.snapshot(1.0).runs == ()
    with pytest.raises(UsageError, match="holds no runs"):
        store.resolve("first")


def test_a_run_is_shown_once_it_was_read_to_the_end() -> None:
    """Before that it would seem to run, or to be ours; how many are missing is said beside the others."""
    store = running()
    other = ended_run(store, 1)
    with store.half_read(RUN):
        assert [view.id for view in store.snapshot(1.0).runs] == [other]
    assert {view.id for view in store.snapshot(1.0).runs} == {RUN, other}


def test_open_finding_lasts_until_now() -> None:
    """An open incident's last update is the run's; a cleared one keeps its own, and open ones come first."""
    old = Finding("kl-1-1", "kl-persistent", "warning", 1, 1, "s", "c", "a")
    store = running(*(update(number) for number in range(1, 4)), FindingChanged(3, 95.0, old))
    assert store.view(RUN).findings[0].last_update == 3
    new = Finding("nan-1-3", "nan", "critical", 3, 3, "s", "c", "a")
    cleared = Finding("kl-1-1", "kl-persistent", "warning", 1, 2, "s", "c", "a", state="cleared")
    store.apply(RUN, FindingChanged(4, 96.0, cleared))
    store.apply(RUN, FindingChanged(5, 97.0, new))
    assert [(finding.id, finding.last_update) for finding in store.view(RUN).findings] == [
        ("nan-1-3", 3),
        ("kl-1-1", 2),
    ]


def night(incidents: int) -> list[FindingChanged]:
    """So many incidents with their evidence, all of them over but the last, the first critical."""
    told = []
    for number in range(incidents):
        severity: Severity = "warning" if number else "critical"
        state: FindingState = "cleared" if number < incidents - 1 else "open"
        rows: tuple[dict[str, Metric], ...] = ({"update": float(number)},)
        finding = Finding(f"kl-1-{number}", "kl", severity, number, number, "s", "c", "a", state=state, evidence=rows)
        told.append(FindingChanged(3 + number, 95.0, finding))
    return told


def test_after_a_long_night_evidence_is_held_of_what_is_shown() -> None:
    """Of a rule that speaks up all night every incident is known, with evidence those that somebody can see."""
    store = running(*night(600))
    shown, known = store.view(RUN).findings, store.run(RUN).journal.findings
    assert [finding.id for finding in shown[:3]] == ["kl-1-599", "kl-1-0", "kl-1-598"]
    assert all(finding.evidence for finding in shown)
    assert sum(bool(finding.evidence) for finding in known.values()) <= 2 * MOST_EVIDENCE


def test_after_weeks_the_gravest_and_the_newest_findings_are_known() -> None:
    """And what is shown is the same. Of the others their number is known, and that there was such an incident, so that
    who judges the run anew tells nothing twice."""
    told = night(3000)
    store = running(*told)
    known = store.run(RUN).journal
    assert len(known.findings) <= MOST_FINDINGS
    assert known.findings.keys() >= {"kl-1-0", *(f"kl-1-{number}" for number in range(2990, 3000))}
    shown = islice(in_order([event.finding for event in told]), SHOWN_FINDINGS)
    assert [it.id for it in store.view(RUN).findings] == [it.id for it in shown]
    assert len(known.findings) + sum(known.forgotten.values()) == 3000
    assert all(event.finding.id in known.findings or known.was_forgotten(event.finding) for event in told)
    assert not known.was_forgotten(structs.replace(told[-1].finding, id="kl-1-3000", first_update=3000))
    assert not known.was_forgotten(structs.replace(told[-1].finding, id="kl-2-5", first_update=5))


def test_what_stopped_a_run_and_the_symptoms_of_what_lasts_are_never_forgotten() -> None:
    """However many came after them."""
    cause = Finding("grad-1-1", "grad-norm", "warning", 1, 1, "s", "c", "a")
    part = structs.replace(cause, id="kl-1-2", rule="kl", first_update=2, state="cleared", part_of=cause.id)
    stop = structs.replace(cause, id="stall-1-3", rule="stall", first_update=3)
    over = structs.replace(stop, state="cleared")
    first = [FindingChanged(3 + at, 95.0, it) for at, it in enumerate((cause, part, stop))]
    acted = HealthActed(6, 95.0, stop.id, "stop")
    later = (structs.replace(it, seq=it.seq + 5) for it in night(900)[3:])
    store = running(*first, acted, FindingChanged(7, 95.0, over), *later)
    known = store.run(RUN).journal
    assert known.findings.keys() >= {cause.id, part.id, stop.id}
    assert known.stopped_by == over
    assert len(known.findings) <= MOST_FINDINGS


def test_symptoms_of_what_became_a_symptom_itself_are_told_below_it() -> None:
    """None is lost from the list, and what stands above all of them is as severe as the worst."""
    story = Finding("swing-1-9", "reward-oscillation", "warning", 9, 9, "s", "c", "a")
    fall = structs.replace(story, id="fall-1-3", rule="drawdown", first_update=3, part_of=story.id)
    late = structs.replace(fall, id="std-1-5", rule="policy-std", severity="critical", first_update=5, part_of=fall.id)
    assert [it.id for it in in_order([fall, late, story])] == [story.id, fall.id, late.id]
    assert [(it.id, it.severity) for it in stories([fall, late, story])] == [(story.id, "critical")]
    deep = [structs.replace(fall, id=f"f{n}", part_of=f"f{n - 1}" if n else "") for n in range(5000)]
    assert list(in_order(deep)) == deep


class Counted(list[Finding]):
    """Findings that count how often they are gone through."""

    walks = 0

    def __iter__(self) -> Iterator[Finding]:
        self.walks += 1
        return super().__iter__()


def test_findings_of_a_long_night_are_put_in_order_in_one_go() -> None:
    """Every new row makes a view: ten times the findings take ten times the time, not a hundred times."""
    findings = Counted(event.finding for event in night(300))
    assert len(list(in_order(findings))) == 300
    assert findings.walks < 10


def test_foreign_text_is_cleaned_on_its_way_in() -> None:
    """Names, outcomes of episodes and metric tags reach the view without escapes, controls and bidi overrides."""
    hostile = "a\x1b]52;c;x\x07b\u202ec\x00"
    row = update(1, seq=2)
    row = type(row)(
        **{name: getattr(row, name) for name in row.__struct_fields__}
        | {"metrics": {f"train/{hostile}": 1.0}, "episodes": Episodes(n=1, outcomes={hostile: 2})}
    )
    spec = Spec(preset=hostile, env=EnvSpec(id=hostile), description=hostile)
    store = store_of(RunCreated(1, 1.0, hostile, hostile, hostile), AttemptStarting(2, 2.0, 1), row, spec=spec)
    view = store.view(RUN)
    assert {view.name, view.preset, view.group, view.env_id, view.description} == {"abc"}
    assert (view.outcomes, view.metrics) == ({"abc": 2}, {"train/abc": 1.0})


def test_run_without_a_readable_spec_is_still_shown() -> None:
    """A damaged spec.toml leaves unknowns, not a crash."""
    view = store_of(RunCreated(1, 1.0, "first", "demo"), AttemptStarting(2, 2.0, 1), spec=None).view(RUN)
    assert (view.name, view.preset, view.env_id, view.total_timesteps) == ("first", "demo", "", None)
    assert isinstance(view, RunView)


def test_full_histories_of_ended_runs_are_let_go() -> None:
    """Only the few ended runs loaded last keep every row; the others keep what a snapshot shows."""
    store = empty_store()
    ids = [ended_run(store, number) for number in range(10)]
    for run_id in ids:
        assert not store.run(run_id).metrics.complete
        store.load_history(run_id, [update(number, seq=number) for number in range(1, 101)])
        assert store.run(run_id).metrics.complete
    assert [store.run(run_id).metrics.complete for run_id in ids] == [False] * 2 + [True] * 8
    assert len(store.history(ids[0], []).updates) == 60
    assert store.view(ids[0]).update == 100


def test_end_of_a_file_alone_gives_the_newest_rows() -> None:
    """An ended run fed only the tail of its metrics shows its last rows and knows that earlier ones are missing."""
    tail = [update(number, seq=number + 500) for number in range(500, 530)]
    store = store_of(RunCreated(1, 1.0, "first", "demo"), *tail)
    assert store.view(RUN).update == 529
    assert not store.run(RUN).metrics.complete
    store.load_history(RUN, [update(number, seq=number + 500) for number in range(1, 530)])
    assert store.run(RUN).metrics.complete
    assert len(store.history(RUN, []).updates) == 500


def test_a_run_is_pausing_from_the_asking_until_its_update_ends() -> None:
    """An update may take minutes: until it is over everybody sees that it was asked, or that this was taken back."""
    asked = running(Asked(3, 93.0, "pause", 1))
    view = asked.snapshot(100.0).runs[0]
    assert (view.state, view.pausing) == ("running", True)
    asked.apply(RUN, Asked(4, 94.0, "resume", 1))
    assert not asked.snapshot(100.0).runs[0].pausing
    paused = running(Asked(3, 93.0, "pause", 1), RunPaused(4, 94.0, 1))
    assert (paused.snapshot(100.0).runs[0].state, paused.snapshot(100.0).runs[0].pausing) == ("paused", False)
    paused.apply(RUN, RunResumed(5, 95.0, 1))
    assert not paused.snapshot(100.0).runs[0].pausing


def test_an_unloaded_run_has_its_place_and_end_and_nothing_more() -> None:
    """What was read of an older run is let go again; lists, names and pages are as before it was read."""
    store = empty_store()
    made, over = RunCreated(1, 5.0, "old", "demo"), AttemptEnded(3, 6.0, 1, Finished("000000064"))
    store.add_ended(RUN, f"/lab/runs/{RUN}", made, over)
    newer = ended_run(store, 9)
    before = store.view(RUN), store.ended(0, 9)
    store.add_run(RUN, f"/lab/runs/{RUN}", SPEC)
    for fact in (made, AttemptStarting(2, 5.5, 1), update(1, 1), over):
        store.apply(RUN, fact)
    assert store.view(RUN).timesteps == STEPS
    store.unload(RUN, f"/lab/runs/{RUN}", made, over)
    assert (store.view(RUN), store.ended(0, 9)) == before
    assert store.ends_of(RUN) == (made, over)
    assert (store.resolve("old"), store.run_ids(), store.ends_of(newer)) == ((RUN,), [newer, RUN], None)


def test_what_an_unloaded_run_brought_the_others_is_still_told() -> None:
    """The newest gain may be that of a run after which hundreds ended by themselves."""
    store = empty_store()
    made, over = RunCreated(1, 5.0, "old", "demo"), AttemptEnded(4, 6.0, 1, Finished("000000064"))
    gain = MarginalGain(5.6, "joined", "pays", 1)
    store.add_run(RUN, f"/lab/runs/{RUN}", SPEC)
    for fact in (made, AttemptStarting(2, 5.5, 1), GainMeasured(3, 5.7, gain), over):
        store.apply(RUN, fact)
    store.unload(RUN, f"/lab/runs/{RUN}", made, over)
    assert store.snapshot(10.0).paid == (RunGain(RUN, "old", gain),)


def test_what_varies_within_a_launch_stands_with_each_of_its_runs() -> None:
    """Numbers and words by short names, without seeds and limits; also for those that came before the others."""
    store = empty_store()
    for number, (rate, seed) in enumerate(((1e-3, 1), (3e-3, 2), (3e-3, 3))):
        words = [f"ppo.learning_rate={rate}", f"run.seed={seed}", f"keep.limits.runs={seed}"]
        store.add_run(f"r{number}", f"/lab/r{number}", change(SPEC, words))
        store.apply(f"r{number}", RunCreated(1, 90.0 + number, f"r{number}", "demo", group="sweep"))
        if number == 0:
            assert [view.varied for view in store.snapshot(100.0).runs] == [{}]
    assert [view.varied for view in store.snapshot(100.0).runs] == [{"lr": 1e-3}, {"lr": 3e-3}, {"lr": 3e-3}]
    store.remove_run("r0")
    assert [view.varied for view in store.snapshot(100.0).runs] == [{}, {}]


def test_an_id_means_its_run_whatever_others_are_called() -> None:
    """Also where another run bears that id as its name, and for an older run of which only its end was read."""
    store = running()
    other, named = ended_run(store, 1), f"20260101-000000-named-{7:04x}"
    made, over = RunCreated(1, 5.0, RUN, "demo"), AttemptEnded(3, 6.0, 1, Finished("000000064"))
    store.add_ended(named, f"/lab/runs/{named}", made, over)
    assert (store.resolve(RUN), store.resolve(other), store.resolve(named)) == ((RUN,), (other,), (named,))
