"""Who of the env workers is late and who is slow, seen while the trainer waits for them."""

from __future__ import annotations

import numpy as np
import pytest

from mission_tui.trainer.vec_env import workers
from mission_tui.trainer.vec_env.workers import WorkerLiveness
from tests.trainer.vec_env.test_workers_failing import act, obedient
from tests.trainer.worker_envs import HANG
from tests.waiting import until


@pytest.mark.slow
def test_the_one_worker_that_hangs_is_late_and_the_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is late between steps, nor after a question; in a step that hangs it is whose environment hangs."""
    monkeypatch.setattr(workers, "LATE_S", 0.2)
    with obedient() as vec:
        vec.env_method("has_wrapper_attr", "steps", indices=[3])
        assert (vec.pool.sample().count, vec.pool.sample().late) == (2, ())
        vec.step_async(act(HANG))
        until(lambda: vec.pool.sample().late_count == 1, 10)
        (late,) = vec.pool.sample().late
        assert (late.index, late.pid, late.env) == (1, vec.pids[1], 2)


def test_a_usual_wait_is_not_late() -> None:
    """Where steps take ten seconds, five are nothing to speak of."""
    watched = WorkerLiveness(np.zeros((2, 8), dtype=np.int64), [1, 1])
    watched._asked_s -= 5.0
    assert watched.sample((7, 8)).late_count == 2
    watched.usual_s = 10.0
    assert watched.sample((7, 8)).late_count == 0


def test_the_slowest_worker_is_the_one_that_spends_most_on_a_step() -> None:
    """By its own clock and per step, whatever the number of its environments; in a pause the last word stays."""
    lives = np.zeros((3, 8), dtype=np.int64)
    watched = WorkerLiveness(lives, [4, 4, 3])
    assert watched.sample((7, 8, 9)).slowest is None
    lives[:, 1] = (400, 400, 300)
    lives[:, 3] = (100_000_000, 300_000_000, 110_000_000)
    for _ in range(2):
        slowest = watched.sample((7, 8, 9)).slowest
        assert slowest is not None
        assert (slowest.index, slowest.pid) == (1, 8)
        assert slowest.step_s == pytest.approx(0.003)
        assert slowest.usual_s == pytest.approx(0.0011)
        each = watched.sample((7, 8, 9))
        assert each.pids == (7, 8, 9)
        assert each.steps_s == pytest.approx((0.001, 0.003, 0.0011))
