"""Telling a person's key from a paste or a held one."""

from __future__ import annotations

from mission_tui.tui.terminal.typed_ahead import LaunchGate


def test_a_single_key_is_released_after_its_moment() -> None:
    """Not before, and only once."""
    gate = LaunchGate()
    gate.press("1", 10.0)
    assert gate.release(10.1) == ((), 0)
    assert gate.release(10.16) == (("1",), 0)
    assert gate.release(10.2) == ((), 0)


def test_more_than_two_within_a_moment_are_all_ignored() -> None:
    """Each key prolongs the moment, so a held key never starts anything."""
    gate = LaunchGate()
    for n in range(20):
        gate.press("1", 10.0 + n * 0.03)
        assert gate.release(10.0 + n * 0.03) == ((), 0)
    assert gate.release(11.0) == ((), 20)


def test_keys_a_second_apart_are_each_a_start() -> None:
    """A person pressing 1, 2, 3 starts three presets."""
    gate = LaunchGate()
    started: list[str] = []
    for n, key in enumerate("123"):
        gate.press(key, float(n))
        started += gate.release(n + 0.2)[0]
    assert started == ["1", "2", "3"]
