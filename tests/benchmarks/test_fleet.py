"""Campaigns of several runs: the floor of their gradient work, SB3's side of them, and what makes a stop exact."""

from __future__ import annotations

import time
from dataclasses import replace

import psutil
import pytest
import torch as th

from benchmarks.fleet import heavy
from benchmarks.fleet.beast import Seen, Stopped, equal, rows
from benchmarks.fleet.floor import Floor, measured
from benchmarks.fleet.heavy import ceiling, row, theirs
from benchmarks.fleet.shapes import spec_of
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.trainer.state.boundary import Boundary
from tests.waiting import until

FLOOR = Floor(seconds=10.0, tera_flop=1.0, giga_flop_s=100.0, cores=2)
STOPPED = Stopped(1.0, 3, same_as_twin=True, resumed_exactly=True)


def test_the_floor_counts_every_product_of_an_update() -> None:
    """Two towers of 64-64 with their heads: three products a layer, two where only observations lie below."""
    floor = measured(spec_of("cartpole", []), measure_s=0.05)
    per_row = 2 * (2 * (4 * 64) * 2 + 2 * (64 * 64) * 3 + (64 * 2 + 64 * 1) * 3)
    assert floor.tera_flop == pytest.approx(per_row * 256 * 20 / 1e12)
    assert floor.seconds > 0.0
    assert floor.giga_flop_s == pytest.approx(1000 * floor.tera_flop / floor.seconds)


def test_runs_beyond_the_cores_wait_for_each_other() -> None:
    """Four on two cores take twice as long as two; one alone takes no less than its own time."""
    assert (FLOOR.all_at_once_s(4), FLOOR.all_at_once_s(2), FLOOR.all_at_once_s(1)) == (20.0, 10.0, 10.0)
    assert "allow 1,600 steps/s summed: ours reached 50%" in ceiling(FLOOR, 8000, [700.0, 900.0])


def test_a_peer_is_the_sum_of_its_scripts() -> None:
    """Four slow scripts are compared together, each round with ours of that round; the middle round is judged."""
    script = {"steps_per_s": 25.0, "rollout_s": 1.0, "update_s": 2.0, "share_of_update": 0.5}
    slower = [script | {"steps_per_s": 12.5}] * 4
    found = row("SB3", 8.0, [700.0, 450.0, 1000.0], [[script] * 4, slower, [script] * 4], "")
    assert found.ratio is not None
    assert (found.ratio.median, found.ratio.low, found.ratio.high, found.met) == (9.0, 7.0, 10.0, True)
    assert row("SB3", 8.0, [700.0], [[script] * 4], "").met is False


def test_a_floor_lies_between_before_and_after() -> None:
    """A machine that became slower meanwhile has its middle as the floor, and the rate that belongs to it."""
    found = FLOOR.and_later(replace(FLOOR, seconds=30.0, giga_flop_s=33.3))
    assert (found.seconds, found.giga_flop_s, found.tera_flop, found.cores) == (20.0, 50.0, 1.0, 2)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_sb3s_scripts_say_how_fast_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """They begin together, answer while they go on, and leave no process behind; two show it as well as four."""
    monkeypatch.setattr(heavy, "RUNS", 2)
    tiny = ["env.n_envs=1", "ppo.n_steps=32", "ppo.batch_size=16", "ppo.n_epochs=2", "ppo.net_arch=[8]"]
    begun = time.time()
    found = theirs(tiny, 1.0, 1)
    assert len(found) == 2
    for one in found:
        assert one["steps_per_s"] == pytest.approx(32 / (one["rollout_s"] + one["update_s"]))
        assert one["share_of_update"] >= 0.5

    def left() -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if process.create_time() >= begun and is_script(process)]

    until(lambda: not left(), what="workers that were killed with their group are gone")


def is_script(process: psutil.Process) -> bool:
    """Whether it is one of SB3's scripts, or a worker forked from one."""
    try:
        return "benchmarks.fleet.sb3_subproc" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def boundary(**parts: float) -> Boundary:
    """A boundary after three updates with one parameter and one moment."""
    values = {"weight": 1.0, "moment": 2.0} | parts
    parameters = {"weight": th.tensor([values["weight"]])}
    return Boundary(3, 300, 1.0, parameters, {"weight/exp_avg": th.tensor([values["moment"]])}, {})


def test_boundaries_are_equal_to_the_last_bit_or_not() -> None:
    """Another parameter, moment or update is another boundary; the time it took is not looked at."""
    assert equal(boundary(), replace(boundary(), trained_s=2.0))
    assert not equal(boundary(), boundary(weight=1.0 + 2**-23))
    assert not equal(boundary(), boundary(moment=0.0))
    assert not equal(boundary(), replace(boundary(), update=4))


def test_an_inexact_stop_is_no_quick_stop() -> None:
    """A stop in time misses its goal if what it saved is not the boundary, or cannot be gone on from exactly."""
    update = UpdateDone(1, 1, 1, 32768, 0.0, 5.0, 21.0, 1200.0)
    seen = Seen([900.0, 3000.0], [0.01] * 40, [update] * 4)
    memory, first, keys, stop = rows(seen, STOPPED, FLOOR)
    assert (memory.met, first.met, keys.met, stop.met) == (True, True, True, True)
    for wrong in (replace(STOPPED, same_as_twin=False), replace(STOPPED, resumed_exactly=False)):
        assert rows(seen, wrong, FLOOR)[3].met is False
    assert rows(Seen([900.0, 3100.0], [0.01], [update] * 4), STOPPED, FLOOR)[0].met is False
