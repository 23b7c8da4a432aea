"""Seven kinds of healthy training that look odd, and every rule's own trouble in each of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from benchmarks.health.cases import Case
from benchmarks.health.foreign import UNHEARD, as_foreign
from benchmarks.health.streams import FAULTS, KINDS, Kind, dressed, said, stream
from mission_tui.fleet.health import HealthJudge
from mission_tui.fleet.health.rules import RULES
from mission_tui.fleet.health.settings import OF_CRITICS, OTHERS
from mission_tui.fleet.specs.thresholds import Limits

NAMES = {kind.name: kind for kind in KINDS}


@cache
def healthy(name: str) -> dict[str, dict[str, str]]:
    """What every rule says of a healthy training of kind `name`, in each dress."""
    return {dress: said(case) for dress, case in dressed(stream(NAMES[name]))}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("rule", sorted(FAULTS))
def test_a_rule_is_quiet_where_nothing_is_wrong(rule: str, kind: str) -> None:
    """Neither a warning nor worse, as ours and as a stranger's log of discrete and of continuous actions."""
    assert {dress: found.get(rule, "info") for dress, found in healthy(kind).items()} == dict.fromkeys(
        ("ours", "foreign, discrete", "foreign, continuous"), "info"
    )


@pytest.mark.parametrize("rule", ["kl-persistent", "clip-fraction", "policy-frozen", "explained-variance", "drawdown"])
def test_a_stranger_s_log_shows_it_too(rule: str) -> None:
    """The columns of SB3 alone are enough for the rules that read them; `test_health_page.py` has our own."""
    assert rule not in UNHEARD
    for kind, dress, case in _sick(rule):
        assert dress == "ours" or said(case).get(rule) in ("warning", "critical"), (kind.name, dress)


def test_every_rule_has_its_trouble() -> None:
    """A new rule needs a fault that calls it, unless it is about another algorithm: these are logs of PPO."""
    of_others = {rule for algorithm in OTHERS for rule in algorithm.rules} - set(OF_CRITICS)
    assert {rule.id for rule in RULES} - of_others <= set(FAULTS)


def _sick(rule: str) -> Iterator[tuple[Kind, str, Case]]:
    for kind in KINDS:
        for dress, case in dressed(stream(kind, rule)):
            yield kind, dress, case


@pytest.mark.parametrize("rule", sorted(FAULTS))
def test_advice_for_a_stranger_is_none_that_only_ours_could_follow(rule: str) -> None:
    """Of a log of SB3, and of a command, it names settings of the script, never a preset's key or `--set`."""
    case = as_foreign(stream(NAMES["noisy"], rule))
    if case is None:
        pytest.skip("SB3 begins a new log for a resumed training")
    for settings in (case.settings, replace(case.settings, command=("python", "train.py", "--learning-rate", "0.001"))):
        judge = HealthJudge(settings, Limits())
        for finding in (finding for record in case.records for finding in judge.feed(record)):
            words = f"{finding.sentence} {finding.cause} {finding.advice}"
            assert not [word for word in ("--set", "ppo.", "env.") if word in words], words
            assert finding.advice_set == ()
