"""`ratio`: the first minibatch must be at 1, and large ratios later on are information."""

from __future__ import annotations

from typing import Any

import pytest

from mission_tui.fleet.health import Settings, settings_of
from mission_tui.fleet.health.rules.ratio import Ratio
from mission_tui.fleet.specs.spec import EnvSpec, RunSpec, Spec
from tests.fleet.health.rounds import Round, judged, rows


def first(*errors: float, settings: Settings | None = None) -> Round:
    """Updates whose first minibatch is this far from ratio 1."""
    return judged(Ratio, rows(*({"ratio_first": error} for error in errors)), settings)


def test_rounding_is_no_finding() -> None:
    """Up to 1e-4 is what single precision explains."""
    assert first(*[0.0, 1e-7, 9e-5] * 20).changes == []


def test_one_mismatch_is_critical_until_a_window_was_right() -> None:
    """Nothing has changed yet in the first minibatch, so one is enough; the eighth good update clears it."""
    seen = first(0.0, 0.3, *[0.0] * 8)
    assert seen.changes == [(2, "critical"), (10, None)]
    assert seen.words[0].sentence == (
        "the first minibatch of update 2 has ratios up to 0.3 away from 1; fp32 explains 0.0001"
    )
    assert seen.words[0].threshold == 1e-4


@pytest.mark.parametrize("error", [float("inf"), 1e30])
def test_absurd_mismatches_count(error: float) -> None:
    """An overflowed ratio is outside too."""
    assert first(error).changes == [(1, "critical")]


def test_reduced_precision_has_its_own_tolerance() -> None:
    """TF32 products made 0.07 in a healthy training of a deep and narrow policy on an H100."""
    reduced = Settings(reduced_precision=True)
    assert first(0.068, settings=reduced).changes == []
    assert first(0.16, settings=reduced).changes == [(1, "critical")]


@pytest.mark.parametrize(("device", "reduced"), [("cpu", False), ("cuda", True), ("cuda:1", True), ("auto", True)])
def test_a_device_that_may_be_cuda_may_round(device: str, reduced: bool) -> None:
    """The trainer multiplies in TF32 on CUDA; only a run that was sent to the CPU surely does not."""
    run: dict[str, Any] = {"device": device}
    assert settings_of(Spec(preset="p", env=EnvSpec(id="X"), run=RunSpec(**run))).reduced_precision is reduced


def test_large_ratios_are_information_when_they_keep_coming() -> None:
    """Above 3 in five of eight updates; single ones are ordinary."""
    large: dict[str, float] = {"ratio_first": 0.0, "ratio_max": 7.5, "clip_range": 0.2}
    usual = large | {"ratio_max": 2.9}
    assert judged(Ratio, rows(*[large, usual] * 30)).changes == []
    seen = judged(Ratio, rows(*[large] * 8, *[usual] * 8))
    assert seen.changes == [(5, "info"), (16, None)]
    assert seen.words[0].sentence == (
        "some actions became more than 3 times as likely within one update, in 5 of 5 updates; up to 7.5 times"
    )
    assert seen.words[0].advice_set == ("ppo.target_kl=0.03",)


def test_a_mismatch_outweighs_large_ratios() -> None:
    """What the log-probabilities are wrong by comes first."""
    large: dict[str, float] = {"ratio_first": 0.0, "ratio_max": 9.0}
    assert judged(Ratio, rows(*[large] * 6, large | {"ratio_first": 0.5})).changes == [(5, "info"), (7, "critical")]


def test_logs_without_ratios_are_passed_over() -> None:
    """SB3's own logs say none."""
    assert judged(Ratio, rows(*[{"approx_kl": 0.01}] * 20)).changes == []
