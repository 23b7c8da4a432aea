"""Replay: from its files a run is judged as it was while it lived, however the supervisor came and went."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import FindingChanged, RunPaused
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.health import judge_of
from mission_tui.fleet.health.replay import replay
from tests.fleet.health.storms import REGIMES, Deed, Storm
from tests.fleet.recorded import SPEC, update

COMINGS = [Deed("away"), Deed("back"), Deed("look")]
deeds = st.lists(
    st.builds(
        Deed, st.just("update"), st.integers(1, 25), st.sampled_from([0.1, 1.0, 1.0, 3.0]), st.sampled_from([*REGIMES])
    )
    | st.builds(Deed, st.just("wait"), st.just(1), st.sampled_from([5.0, 100.0, 130.0, 1000.0]))
    | st.builds(Deed, st.just("pause"), st.just(1), st.sampled_from([5.0, 500.0]))
    | st.builds(Deed, st.sampled_from(["company", "evaluation", "checkpoint", "set"]), st.integers(0, 3))
    | st.builds(Deed, st.sampled_from(["hold", "go", "freeze", "thaw"]))
    | st.builds(Deed, st.just("unsaved"), st.integers(1, 4), st.sampled_from([0.1, 5.0]))
    | st.builds(Deed, st.just("clock"), st.just(1), st.sampled_from([0.5, 50.0, 5000.0]))
    | st.builds(Deed, st.just("attempt"), st.integers(1, 2), st.just(1.0), st.sampled_from(["calm", "hot"]))
    | st.sampled_from(COMINGS),
    max_size=25,
)
BAD_DAY = [
    Deed("update", 40),
    Deed("update", 12, regime="hot"),
    Deed("pause", seconds=500.0),
    Deed("update", 14, seconds=3.0),
    Deed("wait", seconds=1000.0),
    Deed("company", 1),
    Deed("update", 30, seconds=3.0),
    Deed("set", seconds=9.0),
    Deed("update", 12, regime="hot"),
    Deed("attempt", 1, regime="hot"),
    Deed("update", 20, regime="hot"),
    Deed("wait", seconds=200.0),
    Deed("attempt", 2),
    Deed("update", 10, regime="broken"),
]


def stormed(done: list[Deed], seed: int = 0) -> Storm:
    """A storm after these deeds, with its supervisor back and everything read."""
    storm = Storm(seed)
    for deed in [*done, Deed("back")]:
        storm.do(deed)
    return storm


def replayed(storm: Storm) -> dict[str, Finding]:
    return {finding.id: finding for finding in replay(storm.specs, storm.records, storm.events, storm.died)}


def journaled(storm: Storm, like: dict[str, Finding]) -> dict[str, Finding]:
    """The journal's last word on every finding; how long an open one lasts is no news, so it is taken from `like`."""
    found: dict[str, Finding] = {}
    for event in storm.events:
        if isinstance(event, FindingChanged):
            found[event.finding.id] = event.finding
    for id_, finding in found.items():
        if finding.state == "open" and id_ in like:
            found[id_] = structs.replace(finding, last_update=like[id_].last_update, last_t=like[id_].last_t)
    return found


def test_a_bad_day_is_found_again() -> None:
    """Hot updates, slow ones, two hangs, three attempts: the replay tells what the journal tells, word for word."""
    storm = stormed(BAD_DAY)
    again = replayed(storm)
    rules = {finding.rule for finding in again.values()}
    assert {"kl-persistent", "throughput", "hang", "nan"} <= rules
    assert journaled(storm, again) == again
    assert {finding.state for finding in again.values() if "-3-" not in finding.id} == {"cleared"}


@pytest.mark.parametrize("ended_by", ["hang", "nan"])
def test_an_incident_outlives_other_settings_until_a_row_ends_it(ended_by: str) -> None:
    """A silence, and a number that is not finite, are the same incident before and after a `set`, and open once."""
    rows = [Deed("update", 5), Deed("update", 1, regime="broken")] if ended_by == "nan" else [Deed("update", 5)]
    storm = stormed([*rows, Deed("wait", seconds=1000.0), Deed("set"), Deed("wait", seconds=1000.0), Deed("set")])
    told = [event.finding for event in storm.events if isinstance(event, FindingChanged)]
    assert [(finding.rule, finding.state) for finding in told if finding.rule == ended_by] == [(ended_by, "open")]
    storm.do(Deed("attempt", 2))
    again = replayed(storm)
    assert journaled(storm, again) == again
    assert {finding.state for finding in again.values()} == {"cleared"}


def test_an_incident_that_begins_again_within_an_update_is_journaled_again() -> None:
    """Failed, saved, failed three times, without a row between: open, over, open, and critical."""
    unsaved = [Deed("unsaved", 1, 5.0), Deed("checkpoint"), Deed("unsaved", 3, 5.0), Deed("set")]
    storm = stormed([Deed("update", 5), *unsaved])
    told = [event.finding for event in storm.events if isinstance(event, FindingChanged)]
    assert [(finding.severity, finding.state) for finding in told] == [
        ("warning", "open"),
        ("warning", "cleared"),
        ("warning", "open"),
        ("critical", "open"),
    ]
    again = replayed(storm)
    assert journaled(storm, again) == again


def test_a_pause_right_after_a_resume_is_a_pause() -> None:
    """Declared breaks of one instant count in the order in which they were declared: a run held again is no hang."""
    held = [Deed("update", 5), Deed("hold"), Deed("wait", seconds=50.0), Deed("go"), Deed("hold")]
    storm = stormed([*held, Deed("wait", seconds=5000.0)])
    assert replayed(storm) == {}
    assert not any(isinstance(event, FindingChanged) for event in storm.events)


def test_a_silence_after_a_clock_was_set_back_is_measured_on_that_clock() -> None:
    """A pause that ends before the last row, as its time says, does not begin it there; nor does it wait for the clock
    to show the last row's time again.
    """
    back = [Deed("update", 5), Deed("look"), Deed("clock", seconds=-900.0), Deed("pause", seconds=500.0)]
    storm = stormed([*back, Deed("wait", seconds=115.0)])
    assert not any(isinstance(event, FindingChanged) for event in storm.events)
    assert replayed(storm) == {}
    storm.do(Deed("wait", seconds=50.0))
    again = replayed(storm)
    assert [finding.rule for finding in again.values()] == ["hang"]
    assert journaled(storm, again) == again


@pytest.mark.parametrize(
    "later",
    [
        [Deed("clock", seconds=3600.0), Deed("update", 5)],
        [Deed("pause", seconds=1000.0), Deed("update", 5)],
        [Deed("clock", seconds=-50.0), Deed("pause", seconds=1000.0), Deed("update", 5)],
        [Deed("hold"), Deed("wait", seconds=500.0), Deed("clock", seconds=-900.0), Deed("go"), Deed("update", 5)],
    ],
)
def test_what_is_declared_after_a_clock_was_set_back_is_not_mixed_with_what_was_before(later: list[Deed]) -> None:
    """Set forward and back, and then again or paused: no silence, live, after a restart and in a replay."""
    set_twice = [Deed("update", 9), Deed("clock", seconds=3600.0), Deed("update", 9), Deed("clock", seconds=-3600.0)]
    storm = stormed([*set_twice, Deed("update", 9), *later, Deed("away")])
    assert replayed(storm) == {}
    assert not any(isinstance(event, FindingChanged) for event in storm.events)


@pytest.mark.timeout(120)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example([Deed("wait", 1, 1000.0), Deed("set", 0)], 0)
@example(
    [Deed("update", 3, 0.1), Deed("away"), Deed("wait", 1, 130.0), Deed("update", 1, 0.1), Deed("wait", 1, 130.0)], 0
)
@given(deeds, st.integers(0, 9))
def test_the_journal_and_the_replay_agree(done: list[Deed], seed: int) -> None:
    """Whatever happens, and whenever supervisors come and go: the same incidents, severities, moments and words."""
    storm = stormed(done, seed)
    again = replayed(storm)
    assert journaled(storm, again) == again


@pytest.mark.timeout(120)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(deeds, st.integers(0, 9), st.data())
def test_a_restart_anywhere_changes_nothing(done: list[Deed], seed: int, data: st.DataObject) -> None:
    """A supervisor that is replaced between any two deeds journals the findings of one that never was."""
    calm = [deed for deed in done if deed not in COMINGS]
    cut = data.draw(st.integers(0, len(calm)))
    straight, restarted = stormed(calm, seed), stormed([*calm[:cut], Deed("away"), Deed("back"), *calm[cut:]], seed)
    told = [
        [event.finding for event in storm.events if isinstance(event, FindingChanged)]
        for storm in (straight, restarted)
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_reading_does_not_matter(seed: int) -> None:
    """Records and events in any order, some of them twice, are judged as in the order they were written."""
    storm = stormed(BAD_DAY)
    dice = random.Random(seed)
    records, events = [*storm.records, *storm.records[5:9]], [*storm.events]
    dice.shuffle(records)
    dice.shuffle(events)
    assert replay(storm.specs, records, events, storm.died) == tuple(replayed(storm).values())


def test_rows_that_were_judged_are_kept_by_nobody() -> None:
    """A run of any length is judged in the memory of a short one, with the findings of all of its rows at once."""
    storm = stormed([Deed("update", 60), Deed("update", 20, regime="hot"), Deed("attempt", 2), Deed("update", 40)])
    held: list[int] = []

    def coming() -> Iterator[MetricRecord]:
        given = []
        for record in storm.records:
            given.append(structs.replace(record))
            yield given[-1]
            # Its list's own reference, and that of the count.
            held[:] = [at for at in range(len(given) - 1) if sys.getrefcount(given[at]) > 2]

    assert replay(storm.specs, coming(), storm.events, storm.died) == tuple(replayed(storm).values())
    assert held == []


def test_each_attempt_is_judged_by_its_own_spec() -> None:
    """The second attempt's limit of u is 3, so its u of 2.5 is nothing, and what the first had is over."""
    storm = Storm()
    hot = [update(number, seq=number + 1, approx_kl=0.05, clip_range=0.2) for number in range(1, 9)]
    again = [structs.replace(row, attempt=2, seq=row.seq + 20, update=row.update + 8) for row in hot]
    strict = structs.replace(SPEC, preset="first")
    specs = {1: strict, 2: storm.specs[1]}
    (finding,) = replay(specs, [*hot, *again], [])
    assert (finding.id, finding.state, finding.last_update) == ("kl-persistent-1-5", "cleared", 8)
    assert [finding.id for finding in replay({1: strict, 2: strict}, [*hot, *again], [])] == [
        "kl-persistent-1-5",
        "kl-persistent-2-13",
    ]
    assert [finding.id for finding in replay({2: strict}, [*hot, *again], [])] == ["kl-persistent-2-13"]


def test_breaks_belong_to_their_attempt() -> None:
    """A pause of another attempt's number is none of this attempt's silence."""
    storm = stormed([Deed("update", 10), Deed("wait", seconds=1000.0), Deed("update", 1)])
    assert [finding.rule for finding in replayed(storm).values()] == ["hang"]
    alien = RunPaused(len(storm.events) + 1, 1012.0, attempt=7)
    assert [finding.rule for finding in replay(storm.specs, storm.records, [*storm.events, alien])] == ["hang"]
    ours = structs.replace(alien, attempt=1)
    assert replay(storm.specs, storm.records, [*storm.events, ours]) == ()


def test_a_hang_needs_proof_that_the_trainer_lived() -> None:
    """Silence after the last row is a hang up to the keeper's record or the journal's word, and nothing beyond."""
    storm = stormed([Deed("update", 10)])
    last_t = storm.t
    assert replay(storm.specs, storm.records, storm.events) == ()
    assert replay(storm.specs, storm.records, storm.events, {1: last_t + 60.0}) == ()
    (finding,) = replay(storm.specs, storm.records, storm.events, {1: last_t + 600.0})
    assert finding.rule == "hang"
    told = FindingChanged(len(storm.events) + 1, last_t + 125.0, finding)
    assert replay(storm.specs, storm.records, [*storm.events, told]) == (finding,)


def test_replaying_is_judging() -> None:
    """What a judge that hears every record concludes is what a replay says."""
    storm = stormed([Deed("update", 60), Deed("update", 20, regime="hot")])
    judge = judge_of(storm.specs[1])
    for record in storm.records:
        judge.feed(record)
    assert judge.findings
    assert replay(storm.specs, storm.records, storm.events) == judge.findings
