"""Asking environments in worker processes: all workers at once, the answers back in the order of the asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mission_tui.envs.channel import CALL, frame
from mission_tui.envs.lanes import LaneQuery
from mission_tui.trainer.vec_env.worker_pool import WorkerPool
from mission_tui.trainer.vec_env.worker_process import Patience

__all__ = ["Question", "ask_lanes"]


class Question(NamedTuple):
    """`what` is asked of each of `lanes` (environments by their place) with its own `arguments`."""

    what: str
    lanes: Sequence[int]
    arguments: Sequence[tuple[Any, ...]]


def ask_lanes(pool: WorkerPool, of_lane: Sequence[int], question: Question, patience: Patience) -> list[Any]:
    """The answer of each lane; `of_lane` is the worker of every lane there is."""
    what, lanes, arguments = question
    shares: dict[int, list[int]] = {}
    for position, lane in enumerate(lanes):
        shares.setdefault(of_lane[lane], []).append(position)
    count = len(of_lane)
    asks = {
        index: LaneQuery(what, [(lanes[position] % count, arguments[position]) for position in share])
        for index, share in shares.items()
    }
    # All are pickled before the first is sent: what cannot be must leave no worker waited for in vain.
    pool.send({index: frame(CALL, ask) for index, ask in asks.items()})
    answers: list[Any] = [None] * len(lanes)
    for share, given in zip(shares.values(), pool.receive(shares, what, patience), strict=True):
        for position, answer in zip(share, given, strict=True):
            answers[position] = answer
    return answers
