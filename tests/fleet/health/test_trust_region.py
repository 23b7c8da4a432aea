"""What all rules about the trust region have in common: they survive any number, and advise what `--set` takes."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mission_tui.fleet.health import Settings, settings_of
from mission_tui.fleet.health.rule import Explanation, Rule
from mission_tui.fleet.health.rules.clip_fraction import ClipFraction
from mission_tui.fleet.health.rules.kl import KlPersistent
from mission_tui.fleet.health.rules.kl_creep import KlCreep
from mission_tui.fleet.health.rules.kl_spike import KlSpike
from mission_tui.fleet.health.rules.policy_frozen import PolicyFrozen, cause_of_standstill
from mission_tui.fleet.health.rules.ratio import Ratio
from mission_tui.fleet.health.trust_region import changes_between, radius_of, smaller_update_advice
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Schedule, Spec
from tests.fleet.health.rounds import judged, row

RULES: tuple[type[Rule], ...] = (KlPersistent, KlSpike, KlCreep, PolicyFrozen, ClipFraction, Ratio)
TAGS = (
    "approx_kl",
    "clip_fraction",
    "clip_range",
    "learning_rate",
    "n_epochs_done",
    "ratio_first",
    "ratio_max",
    "grad_norm",
    "policy/std",
    "policy/entropy_ratio",
    "rollout/ep_len_mean",
    "ret",
)
edges = st.sampled_from([0.0, -0.0, 1e-300, 1e300, -1e300, math.inf, -math.inf, math.nan, 0.5, 0.01, 1e-9])
columns = st.lists(st.dictionaries(st.sampled_from(TAGS), edges | st.floats(), max_size=len(TAGS)), max_size=4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", RULES)
@example(data=[{"approx_kl": 0.0, "clip_range": math.inf, "n_epochs_done": 0.0}], times=25, rate=None)
@example(data=[{"approx_kl": 0.0, "clip_fraction": 0.0, "learning_rate": 0.0}], times=25, rate=3e-4)
@example(data=[{"approx_kl": math.inf, "clip_fraction": math.inf, "ratio_max": math.inf}], times=25, rate=None)
@given(data=columns, times=st.integers(1, 40), rate=st.sampled_from([None, 0.0, 3e-4, Schedule(start=1e-3, end=0.0)]))
def test_no_number_makes_a_rule_raise(
    kind: type[Rule], data: list[dict[str, float]], times: int, rate: float | Schedule | None
) -> None:
    """NaN, infinities and absurd sizes in every tag it reads, over and over; its words can be written and read back."""
    settings = Settings(learning_rate=rate, gradient_steps=40, n_epochs=10, target_kl=0.01, rollout=100)
    lines = [row(number, tags) for number, tags in enumerate(data * times, start=1)]
    for known in (settings, Settings()):
        for words in judged(kind, lines, known).words:
            assert msgspec.json.decode(msgspec.json.encode(words), type=Explanation) == words
            assert len(words.evidence) <= 12


PPOS = (
    PpoSpec(batch_size=64, n_epochs=20),
    PpoSpec(batch_size=2048, n_epochs=4),
    PpoSpec(batch_size=2048, n_epochs=4, target_kl=0.05),
    PpoSpec(batch_size=2048, n_epochs=4, target_kl=0.05, learning_rate=Schedule(start=3e-4, end=1e-5)),
)
STILL: tuple[dict[str, float], ...] = (
    {"n_epochs_done": 0.1},
    {"learning_rate": 1e-9},
    {"policy/entropy_ratio": 0.0},
    {"grad_norm": 0.0},
    {"grad_norm": 1.0, "learning_rate": 0.0},
    {},
)


@pytest.mark.parametrize("ppo", PPOS)
def test_every_advice_is_a_change_that_the_spec_takes(ppo: PpoSpec) -> None:
    """Whatever is proposed is understood by `--set` and really changes something."""
    spec = Spec(preset="p", env=EnvSpec(id="X"), ppo=ppo, run=RunSpec(total_timesteps=100_000))
    settings = settings_of(spec)
    proposed = [smaller_update_advice(settings, row(1, {"clip_range": 0.2}))[1]]
    for tags in STILL:
        line = row(30, tags)
        proposed += [cause_of_standstill(line, settings, 3e-4, since=10, dead=dead)[2] for dead in (True, False)]
    for assignments in filter(None, proposed):
        written = change(spec, assignments)
        assert written.ppo != spec.ppo or assignments == ("ppo.learning_rate=0.0003",)
    assert proposed[0]


def test_a_clip_range_that_means_no_clipping_freezes_nothing() -> None:
    """With `clip_range` 1e6 a KL of 0.02 is still a step, and the level on the curve still a number."""
    lines = [row(number, {"approx_kl": 0.02, "clip_fraction": 0.0, "clip_range": 1e6}) for number in range(1, 60)]
    assert judged(PolicyFrozen, lines).changes == []
    assert radius_of(lines[0], Settings()) == 0.125


def test_a_clip_range_that_clips_nothing_comes_before_a_target() -> None:
    """Neither fewer epochs nor a `target_kl` is as simple as the clip range that everybody uses."""
    words = "set a usual clip range: one of 10 holds no update back"
    assert smaller_update_advice(Settings(), row(1, {"clip_range": 10.0})) == (words, ("ppo.clip_range=0.2",))
    assert smaller_update_advice(Settings(clip_range=10.0), row(1, {}))[1] == ("ppo.clip_range=0.2",)
    assert smaller_update_advice(Settings(), row(1, {"clip_range": 0.4}))[1] == ("ppo.target_kl=0.12",)


def test_only_what_changed_by_half_is_named() -> None:
    """A deviation from 0.9 to 0.3 is, a learning rate from 3e-4 to 2.5e-4 is not, and what is unknown is not either."""
    before = row(1, {"policy/std": 0.9, "learning_rate": 3e-4, "grad_norm": 1.0})
    after = row(9, {"policy/std": 0.3, "learning_rate": 2.5e-4, "policy/entropy_ratio": 0.1})
    assert changes_between(before, after) == "standard deviation of the actions 0.9 -> 0.3"
    assert changes_between(before, before) == ""
