"""A trainer that hangs up and calls again in turns, and what is made of its rows."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from benchmarks.fleet.alternating import TURN, AlternatingLink, is_supervised
from benchmarks.fleet.overhead import steps_per_s, turn_rates
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.ipc.telemetry_messages import PhaseEntered
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.orders import Attempt


def updates(count: int, seconds: dict[bool, float]) -> list[UpdateDone]:
    """Updates of 100 steps that take so long when they are supervised, and so long when not; a change takes longer."""
    rows, t = [], 0.0
    for number in range(1, count + 1):
        changing = number % TURN == 1
        t += 3.0 if changing else seconds[is_supervised(number - 1)]
        rows.append(UpdateDone(number, 1, number, 100 * number, t, 0.1, 0.1, 500.0))
    return rows


def test_turns_are_told_apart() -> None:
    """Rates belong to their turn, without its first update and without the first pair of turns."""
    rates = turn_rates(updates(8 * TURN, {True: 0.5, False: 0.25}))
    assert {side: set(map(round, values)) for side, values in rates.items()} == {True: {200}, False: {400}}
    assert [len(values) for values in rates.values()] == [3, 3]


def test_a_whole_process_is_measured_after_its_warm_up() -> None:
    """Slow first updates do not count."""
    ends = [100.0, 200.0, 300.0, 400.0, 500.0, *(500.0 + 0.5 * number for number in range(1, 11))]
    rows = [UpdateDone(n, 1, n, 100 * n, t, 0.1, 0.1, 500.0) for n, t in enumerate(ends, 1)]
    assert steps_per_s(rows) == pytest.approx(200.0)


def test_the_link_is_there_in_every_other_turn(tmp_path: Path) -> None:
    """It hangs up before the first rollout of a turn of its own, and calls again before that of the next."""
    with socket.socket(socket.AF_UNIX) as ears:
        ears.bind(str(tmp_path / "telemetry.sock"))
        ears.listen()
        ears.settimeout(5.0)
        attempt = Attempt(RunDir(tmp_path / "run"), 1, None)
        link = AlternatingLink(attempt, {"MISSION_TUI_TELEMETRY": str(tmp_path / "telemetry.sock")})
        try:
            first, _ = ears.accept()
            first.settimeout(5.0)
            link.send(PhaseEntered("rollout", 0, 0, 0.0))
            link.send(PhaseEntered("rollout", TURN, 0, 0.0))
            heard = b""
            while data := first.recv(4096):
                heard += data
            assert b'"update":0' in heard.replace(b" ", b"")
            assert link.orders() == []
            link.send(PhaseEntered("rollout", 2 * TURN, 0, 0.0))
            second, _ = ears.accept()
            second.close()
            first.close()
        finally:
            link.close()
