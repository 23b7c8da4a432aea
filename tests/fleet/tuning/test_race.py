"""The race of a tune's stage: who is dropped, who is never dropped by chance, and who is gone on with."""

from __future__ import annotations

import random

import pytest

from mission_tui.fleet.tuning.tune_state import slower_than_leader, winner


def rounds(draws: random.Random, levels: list[float], noise: float, count: int) -> list[list[float]]:
    """Speeds of each candidate in each round; a round as a whole is slowed by what else the machine does."""
    slowed = [draws.uniform(0.3, 1.0) for _ in range(count)]
    return [[level * slow * draws.lognormvariate(0.0, noise) for slow in slowed] for level in levels]


@pytest.mark.parametrize("noise", [0.005, 0.05, 0.2])
def test_equals_are_hardly_ever_dropped(noise: float) -> None:
    """Five candidates of one speed: at most one stage in twenty drops any of them, whatever the noise and the load."""
    draws = random.Random(1)
    dropped = sum(
        any(slower_than_leader([row[:seen] for row in rates], 2) for seen in (2, 3))
        for rates in (rounds(draws, [1000.0] * 5, noise, 3) for _ in range(200))
    )
    assert dropped <= 10 + 9  # three times the scatter of 200 stages


def test_half_the_speed_is_dropped_after_two_rounds() -> None:
    """Although the machine's load changes between the rounds by more than that."""
    draws = random.Random(2)
    found = [slower_than_leader(rounds(draws, [1000.0, 500.0, 980.0, 990.0, 1000.0], 0.03, 2), 2) for _ in range(200)]
    assert all(1 in each for each in found)
    assert not any(0 in each for each in found)


def test_the_leader_is_never_dropped() -> None:
    """Whatever the rates are, somebody is left."""
    draws = random.Random(3)
    for _ in range(500):
        rates = rounds(draws, [draws.uniform(10, 1e6) for _ in range(draws.randint(1, 7))], 0.1, draws.randint(1, 4))
        assert len(slower_than_leader(rates, 2)) < len(rates)


def test_too_few_probes_drop_nobody() -> None:
    """One round, or two candidates in two rounds, have no interval that says anything."""
    assert slower_than_leader([[1000.0], [1.0], [1.0], [1.0], [1.0]], 2) == ()
    assert slower_than_leader([[1000.0, 1000.0], [1.0, 1.0]], 2) == ()
    assert slower_than_leader([], 2) == ()


def test_what_stands_is_left_only_for_something_faster() -> None:
    """By 3 %; of several the fastest."""
    assert winner([[1000.0, 1000.0], [1020.0, 1020.0]]) == 0
    assert winner([[1000.0, 1000.0], [1040.0, 1040.0], [1100.0, 1090.0]]) == 2
