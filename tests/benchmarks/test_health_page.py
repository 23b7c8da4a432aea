"""The published score is the one that comes out, on the page and in the README; every rule finds its own trouble.

What rules say of that stands on the page too: one process works it out for both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from benchmarks.health.__main__ import TUNED, dressed, held_out, judged_all
from benchmarks.health.cases import constructed
from benchmarks.health.halves import FRESH
from benchmarks.health.scoring import Scored, false_rate, precision, total
from benchmarks.health.streams import FAULTS, KINDS, said_with

ROOT = Path(__file__).resolve().parents[2]
TOLD = {"kl-creep", "plateau"}
"""Rules that only inform."""


@cache
def scored() -> tuple[Scored, ...]:
    """The scoring half, judged as ours and as foreign logs."""
    return judged_all(dressed(constructed("scoring")))


def _rates(runs: Sequence[Scored]) -> str:
    """False criticals and warnings, as README says them."""
    return " and ".join(f"{false_rate(runs, (level,)).per_1000:.2f}" for level in ("critical", "warning"))


@pytest.mark.slow
@pytest.mark.timeout(240)  # some two hundred runs are judged, on whatever cores are left
def test_the_page_has_the_score_that_comes_out() -> None:
    """Line by line, down to what rules were tuned on; `make health` writes it anew."""
    page, _, _ = (ROOT / "docs" / "health.md").read_text(encoding="utf-8").partition(f"\n{TUNED}\n")
    assert page.rstrip().splitlines() == held_out(scored()).rstrip().splitlines()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_readme_has_the_same_numbers() -> None:
    """Runs found, both precisions, and the false warnings and criticals of the held-out half."""
    own = [one for one in scored() if one.case.source == "constructed"]
    fresh = [one for one in own if one.case.task in FRESH]
    untouched = [one for one in fresh if one.case.untouched]
    once = total(fresh)
    every, (true, said), (right, _) = total(own), precision(own), precision(own, right_rules_only=True)
    sentence = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    wanted = (
        f"{every.hits} of {every.positives} harmed runs",
        f"precision {true / said:.3f}",
        f"{right / said:.3f} if it must name the trouble",
        f"{false_rate(own, ('critical',)).per_1000:.2f} false criticals",
        f"{false_rate(own, ('warning',)).per_1000:.2f} false warnings",
        f"{once.hits} of {once.positives}, with {_rates(fresh)} ({_rates(untouched)} where nothing was done)",
    )
    assert [words for words in wanted if words not in sentence] == []
    assert not re.search("no false critical", sentence)


@pytest.mark.parametrize("rule", sorted(FAULTS))
def test_a_rule_still_finds_its_own_trouble(rule: str) -> None:
    """In every kind of training."""
    found = {kind.name: said_with(kind.name, rule).get(rule) for kind in KINDS}
    wanted = {"info"} if rule in TOLD else {"warning", "critical"}
    assert {name for name, severity in found.items() if severity not in wanted} == set()
