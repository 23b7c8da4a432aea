"""What a run that joins or leaves brings: known gains are found, and noise is never taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from mission_tui.fleet.events.marginal_gain import MarginalGain, gain_sentence
from mission_tui.fleet.marginal_gain import PATIENCE_S, MeasuredGains, Span, TrainingSpan, measure_gains, steady_periods
from mission_tui.fleet.views.snapshot import RunGain, recent_gains
from tests.fleet.companies import Company
from tests.tui.fleets import NOW, a_fleet


def after(company: Company, now: float, known: frozenset[tuple[str, float]] = frozenset()) -> dict[str, MarginalGain]:
    """What is said of each run at `now`, the last word of each."""
    return dict(seen(company, now, known).gains)


def seen(company: Company, now: float, known: frozenset[tuple[str, float]] = frozenset()) -> MeasuredGains:
    """The whole look at `now`."""
    return measure_gains(company.stays, company.records(now), now, known)


def joined(gain: float, until: float = 400.0, **noise: float) -> MarginalGain | None:
    """A second run joins at 200 s and brings `gain`."""
    company = Company((0.0, 10_000.0, 10_000.0 * (1.0 + gain)), **noise)  # type: ignore[arg-type]
    company.comes("a", 0.0)
    company.comes("b", 200.0)
    return after(company, until).get("b")


@pytest.mark.parametrize(
    ("gain", "verdict"), [(0.9, "pays"), (0.31, "pays"), (0.05, "little"), (0.0, "little"), (-0.06, "costs")]
)
def test_a_known_gain_is_found(gain: float, verdict: str) -> None:
    """On a calm machine: the truth lies in the interval, and the verdict is the true one."""
    found = joined(gain, sd=0.02)
    assert found is not None
    assert found.verdict == verdict
    assert found.low is not None
    assert found.high is not None
    assert found.low <= gain <= found.high


@settings(max_examples=20, deadline=None)
@given(st.floats(-0.4, 1.2), st.floats(0.0, 0.1), st.integers(0, 2**30), st.floats(0.1, 3.0))
def test_the_estimate_is_near_the_truth(gain: float, sd: float, seed: int, update_s: float) -> None:
    """Whatever the gain, the noise and how long updates take: within what independent noise allows."""
    found = joined(gain, until=1200.0, sd=sd, seed=seed, update_s=update_s)
    assert found is not None
    assert found.gain == pytest.approx(gain, abs=0.02 + 2.0 * sd * (1.0 + gain))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_noise_is_seldom_taken_for_a_gain() -> None:
    """Of 400 fleets that a run adds nothing to, at 8 % noise an update, at most 2 % are called a gain or a loss."""
    false = 0
    for seed in range(400):
        company = Company((0.0, 10_000.0, 10_000.0), sd=0.08, memory=0.3 * (seed % 2), seed=seed, update_s=2.0)
        company.comes("a", 0.0)
        company.comes("b", 80.0)
        found = after(company, 290.0).get("b")
        false += found is not None and (found.verdict in ("pays", "costs") or (found.low or 0.0) > 0.0)
    assert false <= 8


def test_each_of_four_is_judged_as_it_joins() -> None:
    """One by one: alone, worth it, a little, harm; each against the fleet that it joined."""
    company = Company((0.0, 10_000.0, 15_000.0, 15_750.0, 14_500.0), sd=0.01)
    for number, run in enumerate("abcd"):
        company.comes(run, 100.0 * number)
    found = after(company, 400.0)
    assert [found[run].verdict for run in "abcd"] == ["first", "pays", "little", "costs"]
    assert [found[run].others for run in "abcd"] == [0, 1, 2, 3]


def test_what_leaves_is_judged_as_what_had_come() -> None:
    """The gain is that of the fleet with it over that without it, whichever came first."""
    company = Company((0.0, 10_000.0, 13_000.0), sd=0.01)
    company.comes("a", 0.0)
    company.comes("b", 0.0, until=100.0)
    found = after(company, 200.0)["b"]
    assert (found.change, found.verdict, found.t) == ("left", "pays", 100.0)
    assert found.gain == pytest.approx(0.3, abs=0.02)
    assert gain_sentence(found, "b").startswith("b left: +30 %: that was worth it (+")
    assert found.more_per_s == pytest.approx(13_000.0, rel=0.01)


def test_runs_that_come_together_are_judged_together() -> None:
    """What lies between them is too short to measure; nobody is told apart who cannot be."""
    company = Company((0.0, 10_000.0, 11_000.0, 15_000.0), sd=0.01)
    company.comes("a", 0.0)
    company.comes("b", 100.0)
    company.comes("c", 112.0)
    found = after(company, 200.0)
    assert (found["b"].together, found["c"].together, found["b"].others) == (2, 2, 1)
    assert found["b"].gain == pytest.approx(0.5, abs=0.02)
    assert gain_sentence(found["b"], "b").startswith("b and 1 more joined: +50 %: worth it ")


def test_one_that_comes_as_another_goes_is_not_judged() -> None:
    """What it brought cannot be told from what the other took away."""
    company = Company((0.0, 10_000.0, 13_000.0), sd=0.01)
    company.comes("a", 0.0)
    company.comes("b", 0.0, until=100.0)
    company.comes("c", 100.0)
    found = after(company, 200.0)
    assert {found[run].verdict for run in "bc"} == {"swapped"}
    assert found["c"].gain is None


def test_steps_of_unlike_runs_are_not_added_up() -> None:
    """Beside a run of another kind the others are compared with themselves, and nobody is told to stop one."""
    company = Company((0.0, 10_000.0, 10_000.0), sd=0.01)
    company.comes("a", 0.0)
    company.comes("heavy", 100.0, kind="heavy")
    found = after(company, 200.0)["heavy"]
    assert found.verdict == "unlike"
    assert found.gain == pytest.approx(-0.5, abs=0.02)
    sentence = gain_sentence(found, "heavy")
    assert sentence.startswith("heavy joined: the others make -50 %")
    assert "stop" not in sentence
    noisy = structs.replace(found, gain=0.41, low=-1.0, high=4140.0)
    assert "too noisy to say" in gain_sentence(noisy, "heavy")
    assert "%" not in gain_sentence(noisy, "heavy"), "a figure from -100 to +414000 % says nothing"
    alike = structs.replace(noisy, verdict="noisy", elsewhere=None, less_per_s=6864.0, more_per_s=5619.0)
    said = "heavy joined: effect on total speed too noisy to say (6,864 -> 5,619 steps/s in all)"
    assert gain_sentence(alike, "heavy") == said
    narrow = structs.replace(alike, gain=0.03, low=-0.09, high=0.16)
    assert "+3 %: too noisy to say (-9 to +16; " in gain_sentence(narrow, "heavy")


def test_other_programs_spoil_a_comparison() -> None:
    """Two cores more of other programs are no effect of the run: it is said, and no verdict is given."""
    company = Company((0.0, 10_000.0, 5_000.0), sd=0.01)
    company.comes("a", 0.0)
    company.comes("b", 200.0)
    company.elsewhere = [(float(t), 0.1 if t < 205 else 2.1) for t in range(0, 600, 2)]
    assert "b" not in after(company, 300.0)
    found = after(company, 500.0)["b"]
    assert found.verdict == "noisy"
    assert gain_sentence(found, "b").startswith(
        "b joined: -50 %: cannot be compared: other programs took 2.0 cores more with it ("
    )


def test_nothing_is_said_before_there_is_enough() -> None:
    """One that just joined waits, one that is noisy waits longer, and nobody waits for ever."""
    company = Company((0.0, 10_000.0, 10_400.0), sd=0.3, seed=3)
    company.comes("a", 0.0)
    assert seen(company, 20.0).waiting == ("a",)
    known = frozenset({("a", 0.0)})
    company.comes("b", 200.0)
    assert seen(company, 205.0, known).waiting == ("b",)
    assert seen(company, 211.0, known).waiting == ("b",)
    assert seen(company, 240.0, known) == MeasuredGains(waiting=("b",))
    assert after(company, 600.0, known)["b"].verdict == "noisy"
    company.stays.append(TrainingSpan("stuck", 700.0, None))
    assert seen(company, 710.0, known).waiting == ("stuck",)
    assert seen(company, 701.0 + PATIENCE_S, known).waiting == ()


def test_a_gap_does_not_keep_the_last_word_back() -> None:
    """A run that evaluates for a while leaves cells without a speed; the noise is named noise all the same."""
    company = Company((0.0, 10_000.0, 10_400.0), sd=0.3, seed=3)
    company.comes("a", 0.0)
    company.comes("b", 200.0)
    records = company.records(600.0)

    def gappy(run: str, begin: float, end: float, most: int) -> list[Span]:
        return [span for span in records.spans(run, begin, end, most) if not 230.0 < span.end < 235.0]

    found = dict(measure_gains(company.stays, replace(records, spans=gappy), 600.0, frozenset({("a", 0.0)})).gains)
    assert found["b"].verdict == "noisy"


def test_what_was_said_is_not_said_again() -> None:
    """The verdict at the first look that allows one stays what it was, however much later one looks."""
    company = Company((0.0, 10_000.0, 13_000.0), sd=0.02)
    company.comes("a", 0.0)
    company.comes("b", 100.0)
    first = after(company, 150.0)
    assert first == after(company, 700.0)
    assert after(company, 700.0, frozenset({("a", 0.0), ("b", 100.0)})) == {}


def test_updates_that_become_longer_later_change_nothing() -> None:
    """What could be measured in its own time stays measured, so the next run is still compared with it."""
    company = Company((0.0, 10_000.0, 13_000.0, 14_000.0), sd=0.02, update_s=3.0)
    company.comes("a", 0.0)
    company.comes("b", 40.0)
    company.comes("c", 80.0)
    slower = company.records(400.0)
    spans = slower.spans

    def stretched(run: str, begin: float, end: float, most: int) -> list[Span]:
        return [
            Span(span.end - 9.0, span.end, span.steps_per_s) if span.end > 120.0 else span
            for span in spans(run, begin, end, most)
        ]

    known = frozenset({("a", 0.0), ("b", 40.0)})
    found = dict(measure_gains(company.stays, replace(slower, spans=stretched), 400.0, known).gains)["c"]
    assert (found.verdict, found.others, found.together) == ("little", 2, 1)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 500), st.floats(0, 50), st.none() | st.floats(0, 300)), max_size=6),
    st.floats(0, 900),
)
def test_in_a_stretch_nobody_comes_or_goes(drawn: list[tuple[float, float, float | None]], now: float) -> None:
    """Stretches follow each other, and within one the warm runs are exactly those it names."""
    stays = [
        TrainingSpan(str(number), since, since + warm, None if stays_s is None else since + stays_s)
        for number, (since, warm, stays_s) in enumerate(drawn)
    ]
    last = float("-inf")
    for period in steady_periods(stays, now):
        assert last <= period.begin < period.end <= now
        last = period.end
        moment = (period.begin + period.end) / 2
        there = [span for span in stays if span.since <= moment and (span.until is None or span.until > moment)]
        assert {span.run for span in there} == period.runs
        assert all(span.warm is not None and span.warm <= moment for span in there)


def test_the_newest_verdicts_are_told_for_an_hour() -> None:
    """Newest first; of runs that were judged together one, and none that says nothing of it."""
    pays = MarginalGain(NOW - 60.0, "joined", "pays", 1, 2, 1000.0, 1300.0, 0.3, 0.28, 0.32)
    paid = (
        RunGain("c", "c", pays),
        RunGain("b", "b", structs.replace(pays, t=NOW - 62.0)),
        RunGain("d", "d", structs.replace(pays, t=NOW - 300.0, together=1)),
        RunGain("a", "a", MarginalGain(NOW - 400.0, "joined", "first", 0)),
        RunGain("f", "f", MarginalGain(NOW - 410.0, "joined", "swapped", 1)),
        RunGain("e", "e", structs.replace(pays, t=NOW - 4000.0, together=1)),
    )
    assert [each.run for each in recent_gains(structs.replace(a_fleet(()), paid=paid))] == ["c", "d"]
