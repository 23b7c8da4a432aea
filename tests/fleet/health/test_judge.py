"""The judge: deterministic, replayable, never raising, and silent on healthy runs."""

from __future__ import annotations

import csv
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mission_tui.fleet import health
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import (
    Episodes,
    EvaluationDone,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
    spoken,
)
from mission_tui.fleet.health import HealthJudge, is_news, judge_of
from mission_tui.fleet.health.rule import Hysteresis, NumbersByTag, row_of
from mission_tui.fleet.health.rules import RULES
from mission_tui.fleet.specs.spec import EnvSpec, RunSpec, Spec
from mission_tui.fleet.specs.thresholds import Limits
from tests.fleet.recorded import SPEC, update

TRACES = Path(__file__).resolve().parents[4] / "shared" / "data" / "traces"


def judge() -> HealthJudge:
    """A fresh judge of `SPEC`."""
    return judge_of(SPEC)


def stormy(seed: int) -> list[UpdateDone]:
    """Two attempts of a run that has it all: persistent KL, calm, NaNs, blanks, flat and rising returns."""
    dice = random.Random(seed)
    rows: list[UpdateDone] = []
    for attempt, first in ((1, 1), (2, 60)):
        level = 1.0
        for number in range(first, first + 80):
            if dice.random() < 0.1:
                level = dice.choice([0.5, 1.0, 3.0, 8.0])
            kl = level * 0.02 * dice.uniform(0.8, 1.2)
            row = update(number, attempt=attempt, approx_kl=kl, clip_range=0.2, ret=dice.choice([1.0, float(number)]))
            if dice.random() < 0.02:
                row = update(number, attempt=attempt, loss="nan")
            rows.append(row)
    return rows


def test_findings_of_one_update_stand_in_the_order_of_the_limits() -> None:
    """Whatever the names of the rules' files: a document of the same run reads the same in each version."""
    fields = list(Limits.__struct_fields__)
    places = [fields.index(rule.id.replace("-", "_")) for rule in RULES]
    assert places == sorted(places)


@pytest.mark.parametrize("seed", range(5))
def test_judging_again_gives_the_same_incidents(seed: int) -> None:
    """Two judges that read the same rows agree in every id, severity, sentence and row of evidence."""
    rows = stormy(seed)
    first, second = judge(), judge()
    changes = [[finding for row in rows for finding in one.update(row)] for one in (first, second)]
    assert changes[0]
    assert changes[0] == changes[1]
    assert first.findings == second.findings


@pytest.mark.parametrize("seed", range(5))
def test_a_restart_in_mid_stream_adds_no_news(seed: int) -> None:
    """After a restart the rows are judged from the first again: what is journaled already is not news, the rest is."""
    rows = stormy(seed)
    straight = judge()
    told = [finding for row in rows for finding in straight.update(row)]
    for cut in (1, 50, 81, 120):
        journal: dict[str, Finding] = {}
        written: list[Finding] = []
        for one, part in ((judge(), rows[:cut]), (judge(), rows)):
            for row in part:
                for finding in one.update(row):
                    if is_news(finding, journal.get(finding.id)):
                        journal[finding.id] = finding
                        written.append(finding)
        assert written == told


def test_a_row_judged_twice_changes_nothing() -> None:
    """Rows that come again, or late from an earlier attempt, are passed over."""
    one = judge()
    rows = [update(number, approx_kl=0.1, clip_range=0.2) for number in range(1, 9)]
    assert [finding.severity for row in rows for finding in one.update(row)] == ["info", "warning"]
    assert [finding for row in rows for finding in one.update(row)] == []
    one.update(update(5, attempt=2))
    assert one.update(update(9, attempt=1, loss="nan")) == []


def test_a_row_that_was_judged_is_packed() -> None:
    """Rules keep rows as evidence: its numbers are the same, and take a third of the memory."""
    one, record = judge(), update(1, approx_kl=0.01, loss="nan", ret=3.0)
    one.update(record)
    assert one._row is not None
    packed, plain = one._row.metrics, row_of(record).metrics
    assert isinstance(packed, NumbersByTag)
    assert repr(dict(packed)) == repr(dict(plain))


@given(st.integers(1, 5), st.integers(1, 8), st.lists(st.sampled_from(("over", "between", "calm"))))
def test_hysteresis_counts_looks(needed: int, window: int, looks: list[str]) -> None:
    """On after enough looks of the window that were over, off after a whole window of calm ones."""
    state, on = Hysteresis(needed, window), False
    for count in range(1, len(looks) + 1):
        newest = looks[max(0, count - window) : count]
        if newest.count("over") >= needed:
            on = True
        elif newest == ["calm"] * window:
            on = False
        assert state.update(over=looks[count - 1] == "over", calm=looks[count - 1] == "calm") is on
        assert (state.on, state.count, state.looks) == (on, newest.count("over"), len(newest))


def test_an_open_incident_lasts_until_the_last_update() -> None:
    """The list of incidents shows how long an open one has lasted."""
    one = judge()
    for number in range(1, 30):
        one.update(update(number, approx_kl=0.1, clip_range=0.2))
    [finding] = one.findings
    assert (finding.first_update, finding.last_update, finding.state) == (5, 29, "open")


def test_evidence_of_what_is_over_is_told_and_not_held() -> None:
    """A judge that lives for days does not hold the rows that it has shown, only those of what is open."""
    one, told = judge(), list[Finding]()
    for number, level in enumerate([0.1] * 20 + [0.01] * 40 + [0.1] * 20, start=1):
        told += one.update(update(number, approx_kl=level, clip_range=0.2))
    assert [(finding.state, bool(finding.evidence)) for finding in one.findings] == [("cleared", False), ("open", True)]
    assert all(finding.evidence for finding in told)


absurd: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.sampled_from(["nan", "inf", "-inf", "1e999", "x", ""])
    | st.lists(st.floats(), max_size=2)
)
ROOM = Path(health.__file__).parent
READ = sorted(
    {tag for file in ROOM.glob("*.py") for tag in re.findall(r'"((?:train|policy|rollout)/\w+)"', file.read_text())}
)
"""Every tag that any rule reads."""
tags = st.sampled_from(READ) | st.text(max_size=20)
numbers = st.floats() | st.sampled_from([0.0, 1.0, -1.0, 1e300, -1e300, 1e-300])
counts = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 30)
rows = st.builds(
    UpdateDone,
    seq=counts,
    attempt=st.integers(-2, 3),
    update=counts,
    timesteps=counts,
    t=numbers,
    rollout_s=numbers,
    update_s=numbers,
    steps_per_s=numbers,
    metrics=st.dictionaries(tags, absurd, max_size=8),
    episodes=st.builds(
        Episodes,
        n=counts,
        r=st.lists(absurd, max_size=4).map(tuple),
        l=st.lists(counts, max_size=4).map(tuple),
        outcomes=st.dictionaries(st.sampled_from(["captured", "timeout", "stalled", ""]), counts, max_size=3),
    ),
)
others = (
    st.builds(TrainingStarted, counts, st.integers(-2, 3), numbers, counts, counts, max_episode_steps=counts)
    | st.builds(
        TrainingEnded, counts, st.integers(-2, 3), counts, counts, numbers, st.just("failed"), st.sampled_from(["nan"])
    )
    | st.builds(EvaluationDone, counts, st.integers(-2, 3), counts, counts, numbers, numbers, numbers, counts)
    | st.tuples(numbers, st.sampled_from(["pause", "unpause", "company", "evaluation"]))
    | numbers
)


def readable(fact: Any) -> bool:
    """Whether a reader of rows takes it: what holds numbers that nobody can mean is a damaged line."""
    try:
        msgspec.json.decode(msgspec.json.encode(fact), type=type(fact))
    except msgspec.ValidationError:
        return False
    return True


def sayable(finding: Finding) -> bool:
    """Whether a finding can be written down and is read back as it was."""
    return msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding


def said_to(one: HealthJudge, fact: Any) -> list[Finding]:
    """Let the judge hear a record, a break (a pair) or the clock (a number)."""
    if isinstance(fact, tuple):
        one.broken(*fact)
        return []
    return one.silence(fact) if isinstance(fact, float) else one.feed(fact)


def test_the_tags_that_rules_read_are_found() -> None:
    """The source of the rules names what they read, so that every one of them is tried."""
    assert {"train/approx_kl", "train/clip_range", "rollout/ep_rew_mean"} <= set(READ)


@pytest.mark.slow
@pytest.mark.timeout(120)
@settings(max_examples=100, deadline=None)
@given(st.lists(rows | others, max_size=40))
def test_nothing_a_trainer_says_makes_it_raise(facts: list[Any]) -> None:
    """Missing, blank, absurd, repeated and reordered: all is judged or ignored, and what comes out can be written."""
    one = judge_of(Spec(preset="p", env=EnvSpec(id="X")))
    for fact in facts:
        if isinstance(fact, float) or readable(fact):
            assert all(sayable(finding) for finding in said_to(one, fact))
    assert all(sayable(finding) for finding in one.findings)


@pytest.mark.slow
@pytest.mark.timeout(120)
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(READ), numbers, min_size=1, max_size=6), min_size=1, max_size=4),
    st.lists(numbers, min_size=1, max_size=5),
)
def test_absurd_values_that_stay_for_long(columns: list[dict[str, float]], moments: list[float]) -> None:
    """Any float in any signal, held for hundreds of updates in turn: windows fill, rules speak, none raises."""
    one = judge_of(Spec(preset="p", env=EnvSpec(id="X"), run=RunSpec(total_timesteps=2_000_000)))
    for number in range(1, 400):
        said = columns[(number // 40) % len(columns)]
        metrics = {tag: spoken(value) for tag, value in said.items()}
        second = moments[number % len(moments)]
        values = tuple(metrics.values())
        episodes = Episodes(number % 300, values, (number,) * len(values), {"captured": number % 7, "timeout": 3})
        row = UpdateDone(number, 1, number, number * 2048, second, second, second, second, metrics, episodes)
        if readable(row):
            assert all(sayable(finding) for finding in one.update(row))


@pytest.mark.timeout(120)
@pytest.mark.skipif(not TRACES.is_dir(), reason="the healthy traces are not on this machine")
def test_healthy_runs_of_others_raise_almost_nothing() -> None:
    """On the healthy traces from outside this project: at most 0.05 critical and 0.5 warnings per 1,000 updates.

    What lies in an event that the labels name (a blow-up that the run recovered from) is no false alarm.
    """
    spec = Spec(preset="p", env=EnvSpec(id="X"))
    with (TRACES.parent / "labels.csv").open() as file:
        labels = {row["trace"]: row["run_label"] for row in csv.DictReader(file)}
    with (TRACES.parent / "events.csv").open() as file:
        events = [(it["trace"], int(it["onset_iteration"]), int(it["end_iteration"])) for it in csv.DictReader(file)]
    judged = 0
    alarms: list[tuple[str, str, str]] = []
    for trace, label in labels.items():
        if label != "healthy":
            continue
        one = judge_of(spec)
        with (TRACES / f"{trace}.csv").open() as file:
            for number, cells in enumerate(csv.DictReader(file), start=1):
                metrics = {
                    tag: spoken(float(cell)) for tag, cell in cells.items() if cell and not tag.startswith("time/")
                }
                one.update(UpdateDone(number, 1, number, number, 0.0, 0.0, 0.0, 0.0, metrics))
                judged += 1
        known = [(onset, end) for of, onset, end in events if of == trace]
        alarms += [
            (it.severity, trace, it.id)
            for it in one.findings
            if not any(onset <= it.first_update <= end for onset, end in known)
        ]
    assert judged > 20_000
    for severity, most in (("critical", 0.05), ("warning", 0.5)):
        of_it = [alarm for alarm in alarms if alarm[0] == severity]
        assert 1000.0 * len(of_it) / judged <= most, of_it


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("python", "ppo.py", "--learning-rate", "3e-4"), "(run it with --learning-rate 0.00015)"),
        (("python", "ppo.py", "--lr=3e-4"), "(run it with --lr 0.00015)"),
        (("python", "train.py"), "(in your script: learning_rate 0.00015)"),
    ],
)
def test_advice_for_a_command_speaks_of_its_own_flags(command: tuple[str, ...], words: str) -> None:
    """Of its flags where it has one for the setting, else of the script; `--set` reaches neither."""
    spec = Spec(preset="-", env=EnvSpec(), run=RunSpec(command=command))
    rows_ = [update(n, approx_kl=0.2, clip_range=0.2, learning_rate=3e-4, ret=1.0) for n in range(1, 60)]
    worst = [update(n, approx_kl="nan", learning_rate=3e-4) for n in range(60, 62)]
    theirs = judge_of(spec)
    found = {finding.rule: finding for row in (*rows_, *worst) for finding in theirs.update(row)}
    assert all(finding.advice_set == () for finding in found.values())
    assert found["nan"].advice.endswith(words)
