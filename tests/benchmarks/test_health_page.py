"""The published score is the one that comes out, on the page and in the README; every rule finds its own trouble.

What rules say of that stands on the page too: one process works it out for both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from benchmarks.health.__main__ import ONCE_HEAD, TUNED, dressed, held_out, judged_all, judged_once
from benchmarks.health.cases import Case, Incident, constructed, judged
from benchmarks.health.halves import FRESH
from benchmarks.health.scoring import Scored, as_healthy, false_rate, healthy_updates, precision, total
from benchmarks.health.streams import FAULTS, KINDS, said_with, stream
from benchmarks.health.tables import unclear
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.health import Settings
from mission_tui.fleet.specs.thresholds import Limits

ROOT = Path(__file__).resolve().parents[2]
TOLD = {"kl-creep", "plateau"}
"""Rules that only inform."""


@cache
def scored_fresh() -> tuple[Scored, ...]:
    """The tasks that were judged once, as ours and as foreign logs."""
    return judged_all(dressed([case for case in constructed("scoring") if case.task in FRESH]))


@cache
def scored() -> tuple[Scored, ...]:
    """The scoring half, in its order."""
    others = judged_all(dressed([case for case in constructed("scoring") if case.task not in FRESH]))
    known = {(one.case.name, one.case.source): one for one in (*scored_fresh(), *others)}
    return tuple(known[case.name, case.source] for case in dressed(constructed("scoring")))


def _rates(runs: Sequence[Scored]) -> str:
    """False criticals and warnings, as README says them."""
    return " and ".join(f"{false_rate(runs, (level,)).per_1000:.2f}" for level in ("critical", "warning"))


def _alone(runs: Sequence[Scored]) -> list[Scored]:
    """Those to which nothing was done, or something benign."""
    return [one for one in runs if one.case.untouched]


def _of_fresh(scored: Sequence[Scored]) -> tuple[str, ...]:
    """What README says of the tasks that were judged once."""
    fresh = [one for one in scored if one.case.source == "constructed" and one.case.task in FRESH]
    once = total(fresh)
    return (
        f"{once.hits} of {once.positives} harmed runs",
        f"{_rates(_alone(fresh))} false criticals and warnings per 1,000 updates of runs to which nothing was done",
        f"({_rates(as_healthy(fresh))} if",
    )


@cache
def _readme() -> str:
    return " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


@pytest.mark.timeout(120)  # some 150 runs are judged
def test_the_fresh_tasks_score_what_page_and_readme_say() -> None:
    """In `make test`, where the whole half would take too long: these are the numbers that stand in front."""
    page = (ROOT / "docs" / "health.md").read_text(encoding="utf-8")
    section = page[page.index(f"\n{ONCE_HEAD}\n") :].partition("\n## False incidents\n")[0]
    assert section.strip().splitlines() == judged_once(scored_fresh()).strip().splitlines()
    assert [words for words in _of_fresh(scored_fresh()) if words not in _readme()] == []


@pytest.mark.slow
@pytest.mark.timeout(240)  # some five hundred runs are judged, on whatever cores are left
def test_the_page_has_the_score_that_comes_out() -> None:
    """Line by line, down to what rules were tuned on; `make health` writes it anew."""
    page, _, _ = (ROOT / "docs" / "health.md").read_text(encoding="utf-8").partition(f"\n{TUNED}\n")
    assert page.rstrip().splitlines() == held_out(scored()).rstrip().splitlines()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_readme_has_the_same_numbers() -> None:
    """Runs found, both precisions, false warnings and criticals: of the fresh tasks, of the whole half, untouched."""
    own = [one for one in scored() if one.case.source == "constructed"]
    every, (true, said), (right, _) = total(own), precision(own), precision(own, right_rules_only=True)
    wanted = (
        *_of_fresh(own),
        f"{every.hits} of {every.positives}, with {_rates(_alone(own))} in runs to which nothing was done",
        f"and {_rates(as_healthy(own))} if",
        f"precision {true / said:.3f}",
        f"{right / said:.3f} if it must name the trouble",
    )
    assert [words for words in wanted if words not in _readme()] == []
    assert not re.search("no false critical", _readme())


def test_an_unclear_run_counts_for_nothing_once_something_was_done_to_it() -> None:
    """Before that it is healthy like any other; counted as healthy to its end, what was said of it is false."""
    rows = tuple(UpdateDone(i, 1, i, i * 64, float(i), 0.1, 0.1, 320.0) for i in range(1, 101))
    case = Case("x", "constructed", "", "swapped", "unclear", rows, Settings(), "scoring", onset=70)
    one = Scored(case, (Incident("kl-spike", "critical", 20, 25), Incident("drawdown", "critical", 81, 100)))
    assert (healthy_updates(case), false_rate([one], ("critical",)).count) == (69, 1)
    assert precision([one]) == (0, 1)
    assert total([one]).positives == 0
    strict = as_healthy([one])
    assert (healthy_updates(strict[0].case), false_rate(strict, ("critical",)).count) == (100, 2)
    assert "| x | 70 | kl-spike critical 20-25, drawdown critical 81-100 |" in unclear([one])


def test_symptoms_are_told_below_what_may_have_caused_them() -> None:
    """A rate 300 times as large is one finding about steps, whatever comes of it and had been information before; a
    return that swings takes in the fall that was told first.
    """
    every = [Scored(case, judged(case, Limits())) for case in constructed("tuning", "lr-300-pendulum-s101")]
    steps = {it.rule: it for it in every[0].called}
    (annealed,) = (kind for kind in KINDS if kind.name == "annealed")
    swings = {it.rule: it for it in judged(stream(annealed, "reward-oscillation"), Limits())}
    came_of_it = ("value-loss", "grad-norm", "drawdown", "explained-variance")
    assert {steps[rule].below for rule in came_of_it} == {"kl-persistent"}
    assert (steps["kl-persistent"].below, steps["kl-persistent"].level) == ("", "critical")
    assert (swings["reward-oscillation"].below, swings["drawdown"].below) == ("", "reward-oscillation")
    right, said = precision(every, right_rules_only=True)
    right_alone, alone = precision(every, right_rules_only=True, on_their_own=True)
    assert right_alone / alone > right / said


@pytest.mark.parametrize("rule", sorted(FAULTS))
def test_a_rule_still_finds_its_own_trouble(rule: str) -> None:
    """In every kind of training."""
    found = {kind.name: said_with(kind.name, rule).get(rule) for kind in KINDS}
    wanted = {"info"} if rule in TOLD else {"warning", "critical"}
    assert {name for name, severity in found.items() if severity not in wanted} == set()
