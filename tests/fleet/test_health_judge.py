"""The judge: deterministic, replayable, never raising, and silent on healthy runs."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.fleet.findings import Finding
from mission_tui.fleet.health import Judge, is_news, judge_of
from mission_tui.fleet.metrics import Episodes, UpdateDone, spoken
from mission_tui.fleet.spec import EnvSpec, Spec
from tests.fleet.recorded import SPEC, update

TRACES = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces"


def judge() -> Judge:
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
    assert len([finding for row in rows for finding in one.update(row)]) == 1
    assert [finding for row in rows for finding in one.update(row)] == []
    one.update(update(5, attempt=2))
    assert one.update(update(9, attempt=1, loss="nan")) == []


def test_an_open_incident_lasts_until_the_last_update() -> None:
    """The list of incidents shows how long an open one has lasted."""
    one = judge()
    for number in range(1, 30):
        one.update(update(number, approx_kl=0.1, clip_range=0.2))
    [finding] = one.findings
    assert (finding.first_update, finding.last_update, finding.state) == (5, 29, "open")


absurd: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.sampled_from(["nan", "inf", "-inf", "1e999", "x", ""])
    | st.lists(st.floats(), max_size=2)
)
tags = st.sampled_from(
    ["train/approx_kl", "train/clip_range", "train/learning_rate", "train/n_epochs_done", "rollout/ep_rew_mean"]
) | st.text(max_size=20)


@given(
    st.lists(
        st.tuples(
            st.integers(-2, 3), st.integers(), st.dictionaries(tags, absurd, max_size=5), st.lists(absurd, max_size=3)
        ),
        max_size=40,
    )
)
def test_nothing_a_trainer_says_makes_it_raise(said: list[tuple[int, int, dict[str, Any], list[Any]]]) -> None:
    """Missing, blank and absurd values of any type are judged or ignored, and what comes out can be written down."""
    spec = Spec(preset="p", env=EnvSpec(id="X"))
    one = judge_of(spec)
    for attempt, number, metrics, returns in said:
        row = UpdateDone(
            1, attempt, number, number, 0.0, 0.0, 0.0, 0.0, metrics, Episodes(len(returns), tuple(returns))
        )
        for finding in one.update(row):
            assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding


@given(st.lists(st.floats(), min_size=8, max_size=60), st.floats())
def test_absurd_values_where_rules_look(kls: list[float], clip: float) -> None:
    """Any KL, clip range and return of float type is survived, overflow included."""
    one = judge()
    for number, kl in enumerate(kls, start=1):
        for finding in one.update(update(number, approx_kl=spoken(kl), clip_range=spoken(clip), ret=spoken(kl))):
            assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding


@pytest.mark.skipif(not TRACES.is_dir(), reason="the healthy traces are not on this machine")
def test_healthy_runs_of_others_raise_nothing() -> None:
    """None of the healthy traces from outside this project opens an incident."""
    spec = Spec(preset="p", env=EnvSpec(id="X"))
    with (TRACES.parent / "labels.csv").open() as file:
        labels = {row["trace"]: row["run_label"] for row in csv.DictReader(file)}
    judged = 0
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
        assert one.findings == (), trace
    assert judged > 20_000
