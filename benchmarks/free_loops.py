"""The machine's own limit in stepping: processes that each step their share of environments and never wait for another.

It is what `n` processes would reach if sending actions and collecting results cost nothing: a ceiling for any env
worker, measured beside them. Cores that share a socket's clock and caches make it less than `n` times one process.
"""

from __future__ import annotations

import multiprocessing
from typing import Any

import gymnasium

__all__ = ["CHUNK", "FreeLoops"]

CHUNK = 50
"""Steps that each process makes between two words with us: the word costs under 1 % of them."""


def loop(env_id: str, n_envs: int, actions: list[Any], pipe: Any) -> None:
    """Make `CHUNK` steps at each word, until the word is no."""
    vec = gymnasium.make_vec(env_id, n_envs, vectorization_mode="sync")
    vec.reset(seed=0)
    pipe.send(None)
    made = 0
    while pipe.recv():
        for _ in range(CHUNK):
            vec.step(actions[made % len(actions)])
            made += 1
        pipe.send(None)


class FreeLoops:
    """`n_workers` processes with `n_envs / n_workers` environments each, in Gymnasium's own loop (Sync)."""

    def __init__(self, env_id: str, n_envs: int, n_workers: int, actions: list[Any]) -> None:
        context = multiprocessing.get_context("spawn")
        share = n_envs // n_workers
        self._pipes, self._processes = [], []
        for index in range(n_workers):
            ours, theirs = context.Pipe()
            part = [one[index * share : (index + 1) * share] for one in actions]
            process = context.Process(target=loop, args=(env_id, share, part, theirs), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def reset(self) -> None:
        """Wait until every process stands ready."""
        for pipe in self._pipes:
            pipe.recv()

    def step(self, _actions: Any) -> None:
        """`CHUNK` steps in every process."""
        for pipe in self._pipes:
            pipe.send(True)
        for pipe in self._pipes:
            pipe.recv()

    def close(self) -> None:
        """End the processes: by a word, since others that forked meanwhile hold the pipes open."""
        for pipe in self._pipes:
            pipe.send(False)
        for process in self._processes:
            process.join()
