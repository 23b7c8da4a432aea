"""Peers that are programs of their own: each runs for some seconds when it is its turn and says its rate.

They are `benchmarks.peers.loops`; sbx needs the throw-away environment that `make peers` builds. What is not there is a
row that says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Row
from benchmarks.rows import unmeasured

__all__ = ["Program", "bare_torch", "peers"]

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".venv-peers" / "bin" / "python"
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Program:
    """A loop with its arguments and threads; `missing` says what of it is not here."""

    name: str
    words: tuple[str, ...]
    missing: str | None
    threads: int = 1

    def rate(self, seconds: float) -> float:
        """Median environment steps a second of PPO over about `seconds`, after the program's own warm-up."""
        threads = {"OMP_NUM_THREADS": str(self.threads), "MKL_NUM_THREADS": str(self.threads)}
        if self.threads == 1:
            threads["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        done = subprocess.run(
            [*self.words, "--seconds", str(seconds)],
            env={**os.environ, **threads, "PYTHONPATH": str(ROOT)},
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=LIMIT_S,
        )
        return float(json.loads(done.stdout.splitlines()[-1])["sps_med"])

    def unmeasured(self, what: str) -> Row:
        """The row of a program that is not here."""
        assert self.missing is not None
        return unmeasured(what, "", self.missing, self.name)


def bare_torch(n_envs: int, batch: int) -> Program:
    """The bare torch loop on a batched CartPole, with fused Adam: what SB3's numbers cost at the least."""
    return _program("bare torch loop, batched", Path(sys.executable), "bare", n_envs, batch)


def peers(n_envs: int, batch: int, threads: int = 1) -> list[Program]:
    """What other people train with, as they train."""
    here, also = Path(sys.executable), "" if threads == 1 else f", {threads} threads"
    return [
        _program(f"sbx (JAX){also}", PEERS, "sbx", n_envs, batch, threads),
        _program(f"SB3 dummy, own process{also}", here, "stock", n_envs, batch, threads),
        _program(f"CleanRL's loop{also}", here, "cleanrl", n_envs, batch, threads),
        _program(f"PufferLib's loop{also}", here, "pufferlib", n_envs, batch, threads),
    ]


def _program(name: str, python: Path, shape: str, n_envs: int, batch: int, threads: int = 1) -> Program:
    words = (str(python), "-m", "benchmarks.peers.loops", shape, "--n-envs", str(n_envs), "--batch", str(batch))
    return Program(name, words, None if python.exists() else "its environment is not there: make peers", threads)
