"""The newest values beside their limits: the run's own ones, in units that the curve can be read in."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.health.readings import Reading, readings
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.specs.thresholds import ClipFractionLimits, HealthKeep, KlPersistentLimits, Limits

TAGS = (
    "train/approx_kl", "train/clip_range", "train/clip_fraction", "train/ratio_first", "policy/entropy_ratio",
    "policy/std_min_ratio", "policy/std_max_ratio", "policy/actions_at_bound", "train/explained_variance",
    "train/grad_norm",
)  # fmt: skip


def read(metrics: dict[str, Metric], limits: Limits | None = None, **more: Any) -> dict[str, Reading]:
    settings = more.pop("settings", Settings())
    return {it.label: it for it in readings(metrics, settings, limits or HealthKeep(), **more)}


def test_kl_is_read_in_units_of_the_clip_range() -> None:
    """u is KL over clip^2 / 2 of that update, and its levels find their place on the curve of the KL."""
    (u,) = (read({"train/approx_kl": 0.048, "train/clip_range": 0.2})[label] for label in ("KL u",))
    assert u.value == pytest.approx(2.4)
    assert u.level == "warning"
    assert u.on_curve(u.warning) == pytest.approx(0.04)
    assert u.on_curve(u.critical) == pytest.approx(0.08)
    assert read({"train/approx_kl": 0.048, "train/clip_range": 0.4})["KL u"].level == "ok"


def test_the_limits_are_the_runs_own() -> None:
    """What a preset overrides is what is shown, and a rule that is off is not read."""
    own = HealthKeep(kl_persistent=KlPersistentLimits(warning=1.0, critical=2.0, needed=3, window=4))
    u = read({"train/approx_kl": 0.048}, own)["KL u"]
    assert (u.warning, u.critical, u.held, u.level) == (1.0, 2.0, "3 of 4 updates", "critical")
    off = HealthKeep(clip_fraction=ClipFractionLimits(act="off"))
    assert "clip fraction" in read({"train/clip_fraction": 0.4})
    assert "clip fraction" not in read({"train/clip_fraction": 0.4}, off)


@pytest.mark.parametrize(
    ("tag", "label", "fine", "bad", "worse"),
    [
        ("train/clip_fraction", "clip fraction", 0.2, 0.4, 0.6),
        ("train/explained_variance", "explained variance", 0.5, 0.0, -0.6),
        ("policy/std_min_ratio", "std / start, least", 0.5, 0.05, 0.01),
        ("policy/std_max_ratio", "std / start, most", 1.0, 3.0, 6.0),
        ("train/grad_norm", "gradient / its cap", 1.0, 6.0, 60.0),
    ],
)
def test_a_value_stands_where_its_levels_say(tag: str, label: str, fine: float, bad: float, worse: float) -> None:
    """Below or above, whichever side trouble lies on."""
    for value, standing in ((fine, "ok"), (bad, "warning"), (worse, "critical")):
        assert read({tag: value})[label].level == standing


def test_the_first_ratio_is_measured_by_the_precision() -> None:
    """What is a mismatch in fp32 is rounding where products are rounded to fewer bits."""
    for reduced, standing in ((False, "critical"), (True, "ok")):
        settings = Settings(reduced_precision=reduced)
        assert read({"train/ratio_first": 1e-3}, settings=settings)["first ratio, off 1"].level == standing


def test_speed_is_compared_with_the_runs_own_median() -> None:
    """Once there are enough speeds to have one."""
    slow = read({}, speeds=(100.0, 100.0, None, "nan", 100.0, 100.0, 50.0))["speed / median"]
    assert (slow.value, slow.level) == (0.5, "warning")
    assert slow.on_curve(slow.warning) == pytest.approx(60.0)
    assert read({}, speeds=(100.0, 100.0, 100.0, 50.0)) == {}


def test_idle_endings_are_a_share_of_all_episodes() -> None:
    """By the environment's own words; without episodes there is nothing to read."""
    idle = read({}, outcomes={"captured": 20, "timeout": 50, "stalled": 30})["idle endings"]
    assert (idle.value, idle.level, idle.on_curve(idle.warning)) == (0.8, "warning", None)
    assert read({}, outcomes={}) == {}


def test_a_value_that_is_no_number_stands_nowhere() -> None:
    """NaN is shown, and compared with nothing; an absent value is no reading at all."""
    broken = read({"train/clip_fraction": "nan"})["clip fraction"]
    assert math.isnan(broken.value)
    assert broken.level is None
    assert read({}) == {}


@given(
    st.dictionaries(st.sampled_from(TAGS), st.floats() | st.sampled_from(["nan", "inf", "-inf"]), max_size=len(TAGS)),
    st.lists(st.none() | st.floats() | st.just("nan"), max_size=8),
)
def test_nothing_that_a_row_may_hold_raises(metrics: dict[str, Metric], speeds: list[Metric | None]) -> None:
    """Whatever a trainer said is read or left out."""
    for reading in readings(metrics, Settings(), Limits(), speeds=speeds, outcomes={"": 1}):
        assert reading.level in ("ok", "warning", "critical", None)


def test_a_clip_range_that_decays_is_read_by_its_start() -> None:
    """As the rules judge it: what is clipped towards the end of the schedule has passed no level."""
    late = {"train/approx_kl": 0.01, "train/clip_range": 0.01, "train/clip_fraction": 0.9}
    decays = Settings(clip_range=0.2, clip_range_decays=True)
    found = {reading.rule: reading for reading in readings(late, decays, Limits()) if not reading.below}
    assert {rule: reading.level for rule, reading in found.items()} == {"kl-persistent": "ok", "clip-fraction": "ok"}
    assert found["clip-fraction"].on_curve(0.35) is None
    assert found["clip-fraction"].label == "clip fraction at 0.2"
