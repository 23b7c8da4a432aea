"""`clip-fraction`: 5 of 8 updates over the limit, and a whole calm window to leave."""

from __future__ import annotations

from statistics import NormalDist

import pytest
from msgspec.structs import replace

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.rules.clip_fraction import TAG, ClipFraction
from mission_tui.fleet.specs.thresholds import ClipFractionLimits, Limits
from tests.fleet.health.one_rule import ABSENT, TRACES
from tests.fleet.health.rounds import Round, judged, judged_outside, labels, row, rows

CALM = [row(number, {"clip_fraction": 0.1, "clip_range": 0.2}) for number in range(-99, 1)]
"""So many updates that trends may be judged."""


def clipped(*shares: float, clip: float = 0.2, settings: Settings | None = None, limits: Limits | None = None) -> Round:
    """Updates with these clip fractions, long after the first."""
    lines = rows(*({"clip_fraction": s, "clip_range": clip} for s in shares))
    return judged(ClipFraction, [*CALM, *lines], settings, limits)


def test_the_first_updates_clip_much_by_themselves() -> None:
    """Until trends may be judged, and later while the return rises or stays near its best, it is information."""
    high = rows(*[{"clip_fraction": 0.6}] * 120)
    assert judged(ClipFraction, high).changes == [(5, "info"), (100, "warning")]
    rising = [row(n, {"clip_fraction": 0.6, "ret": float(n)}) for n in range(1, 200)]
    assert {severity for _, severity in judged(ClipFraction, rising).changes} == {"info"}
    resting = [row(n, {"clip_fraction": 0.4, "ret": min(n, 150) + 0.5 * (n % 2)}) for n in range(1, 300)]
    assert {severity for _, severity in judged(ClipFraction, resting).changes} == {"info"}


def test_it_is_critical_only_where_the_return_is_lost() -> None:
    """While half of what was gained is there it is a warning, however much is clipped."""

    def fallen(to: float) -> list[Row]:
        levels = [float(min(n, 100)) if n < 150 else to + 0.5 * (n % 2) for n in range(1, 300)]
        return [row(n, {"clip_fraction": 0.1 if n < 140 else 0.6, "ret": ret}) for n, ret in enumerate(levels, 1)]

    assert "critical" not in {severity for _, severity in judged(ClipFraction, fallen(70.0)).changes}
    assert judged(ClipFraction, fallen(20.0)).changes[-1][1] == "critical"


def test_four_of_eight_are_no_finding() -> None:
    """Half of the updates far over the limit is still not five of eight."""
    assert clipped(*[0.9, 0.1] * 50).changes == []


def test_five_of_eight_are_a_warning() -> None:
    """The fifth opens it, and it says how many and how much."""
    seen = clipped(0.1, 0.4, 0.4, 0.1, 0.4, 0.4, 0.42)
    assert seen.changes == [(7, "warning")]
    assert seen.words[0].sentence == "more than 35% of the transitions were clipped in 5 of 8 updates, 42% in the last"
    assert seen.words[0].threshold == 0.35


def test_every_second_transition_is_critical() -> None:
    """Above 0.5 in five of eight, of a return that gets nowhere."""
    lines = [row(n, {"clip_fraction": 0.45 if n < 140 else 0.6, "ret": n % 2}) for n in range(1, 200)]
    assert judged(ClipFraction, lines).changes[-2:] == [(100, "warning"), (144, "critical")]


def test_each_level_is_left_after_a_window_below_its_own_lower_one() -> None:
    """Eight updates below 0.4 take the critical back, eight below 0.3 the warning."""

    def after(*shares: float) -> list[tuple[int, Severity | None]]:
        lines = [row(n, {"clip_fraction": 0.1, "ret": n % 2}) for n in range(-99, 1)]
        lines += [row(n, {"clip_fraction": share, "ret": n % 2}) for n, share in enumerate(shares, 1)]
        return judged(ClipFraction, lines).changes

    assert after(*[0.6] * 8, *[0.41] * 30) == [(5, "critical")]
    assert after(*[0.6] * 8, *[0.39] * 8, *[0.31] * 30) == [(5, "critical"), (16, "warning")]
    assert after(*[0.6] * 8, *[0.39] * 8, *[0.29] * 8)[-1] == (24, None)


def test_a_narrow_clip_range_is_part_of_the_cause() -> None:
    """At clip range 0.05 small steps are clipped too."""
    narrow = rows(*[{"clip_fraction": 0.4, "clip_range": 0.05}] * 100)
    assert "a clip range of 0.05 is narrow" in judged(ClipFraction, narrow).words[-1].cause
    assert "narrow" not in clipped(*[0.4] * 5).words[0].cause


def test_the_advice_fits_the_settings() -> None:
    """Updates are ended early; many epochs under high pressure are halved where a `target_kl` does so already."""
    many = Settings(gradient_steps=320, n_epochs=20, learning_rate=3e-4)
    assert clipped(*[0.4] * 5, settings=many).words[0].advice_set == ("ppo.target_kl=0.03",)
    words = clipped(*[0.4] * 5, settings=replace(many, target_kl=0.05)).words[0]
    assert words.cause.startswith("320 gradient steps x 0.0003 per update is 24 x the reference")
    assert words.advice_set == ("ppo.n_epochs=10",)


def test_blank_updates_are_passed_over() -> None:
    """An update without a clip fraction neither counts nor calms."""
    high: dict[str, float] = {"clip_fraction": 0.4}
    blank = rows(high, {}, high, {}, high, {}, high, {}, {}, high)
    assert judged(ClipFraction, [*CALM, *blank]).changes == [(10, "warning")]


def test_its_limits_are_those_of_the_run() -> None:
    """With `warning` at 0.2 a share of 0.25 counts."""
    limits = Limits(clip_fraction=ClipFractionLimits(warning=0.2, warning_leave=0.15))
    assert clipped(*[0.25] * 8).changes == []
    assert clipped(*[0.25] * 8, limits=limits).changes == [(5, "warning")]


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_at_most_one_healthy_run_is_warned_of() -> None:
    """As in the health guide's baseline: one run of all, and none critical."""
    found = []
    for name, label in labels().items():
        if label == "healthy":
            changes = judged_outside(ClipFraction, name).changes
            found += [(name, severity) for _, severity in changes if severity not in (None, "info")]
    assert [severity for _, severity in found] in ([], ["warning"])


def test_a_clip_range_that_decays_is_no_pressure() -> None:
    """Towards 0 every step is clipped, and nothing is wrong; those that the first range would clip still are."""
    near = 0.08
    columns = [(n, 0.2 * (1.0 - n / 200)) for n in range(200)]

    def rows_of(step: float) -> list[Row]:
        shares = [(n, clip, 2.0 * (1.0 - NormalDist().cdf(clip / step))) for n, clip in columns]
        return [
            row(n + 1, {"clip_fraction": share, "clip_range": clip, "ret": float(n % 2)}) for n, clip, share in shares
        ]

    assert rows_of(near)[-1].metrics[TAG] > 0.9
    assert judged(ClipFraction, rows_of(near)).changes == []
    assert judged(ClipFraction, rows_of(4.0 * near)).changes[-1][1] == "critical"
    narrow = [row(n, {"clip_fraction": 0.6, "clip_range": 0.02, "ret": float(n % 2)}) for n in range(1, 120)]
    assert judged(ClipFraction, narrow).changes[-1][1] == "critical"


@pytest.mark.parametrize("share", [5e-324, 1e-300, 1e-17, 1.0 - 1e-16])
@pytest.mark.parametrize("clip", [5e-324, 1e-300, 0.1])
def test_shares_at_the_edge_of_numbers_are_survived(share: float, clip: float) -> None:
    """What is next to nothing, or next to all, has a tail that a float does not hold."""
    start = row(1, {"clip_fraction": 0.1, "clip_range": 0.5})
    assert judged(ClipFraction, [start, row(2, {"clip_fraction": share, "clip_range": clip})]).changes == []


def test_a_clip_range_that_nobody_sets_is_what_is_to_be_changed() -> None:
    """Smaller steps would only be smaller; one that its schedule brings there clipped at a usual one before."""
    words = judged(ClipFraction, rows(*[{"clip_fraction": 0.6, "clip_range": 0.001}] * 120)).words[-1]
    assert words.cause.startswith("a clip range of 0.001 ends what a transition teaches")
    assert (words.advice, words.advice_set) == ("set a usual clip range", ("ppo.clip_range=0.2",))
    decays = rows(*({"clip_fraction": 0.9999, "clip_range": max(0.001, 0.2 - n / 100)} for n in range(120)))
    assert "ppo.clip_range=0.2" not in judged(ClipFraction, decays).words[-1].advice_set
