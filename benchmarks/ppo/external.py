"""Peers that are programs of their own: each runs for some seconds when it is its turn and says its rate.

The programs are the measuring sticks of `../shared/bench`, run by path; sbx needs the throw-away environment that
`make peers` builds. What is not there is a row that says so.
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

__all__ = ["Program", "bare_torch", "sb3_program", "sbx"]

ROOT = Path(__file__).resolve().parents[2]
STICKS = Path(os.environ.get("BENCH_STICKS", ROOT.parent / "shared" / "bench"))
PEERS = ROOT / ".venv-peers" / "bin" / "python"
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Program:
    """A measuring stick with its arguments; `missing` says what of it is not here."""

    name: str
    words: tuple[str, ...]
    missing: str | None

    def rate(self, seconds: float) -> float:
        """Median environment steps a second of PPO over about `seconds`, after the program's own warm-up."""
        done = subprocess.run(
            [*self.words, "--seconds", str(seconds)],
            env={**os.environ, **ONE_THREAD},
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
    """The bare torch loop on its own batched CartPole, with fused Adam: what SB3's numbers cost at the least."""
    shape = ("--n-envs", str(n_envs), "--n-steps", "128", "--batch", str(batch), "--epochs", "4", "--fused")
    return _stick("bare torch loop, batched", Path(sys.executable), "torch_ppo.py", shape)


def sb3_program(vec: str, n_envs: int, batch: int) -> Program:
    """SB3's PPO in a process of its own, on `vec` ("dummy" or "subproc")."""
    shape = ("--vec", vec, "--n-envs", str(n_envs), "--n-steps", "128", "--batch", str(batch), "--epochs", "4")
    return _stick(f"SB3 {vec}, own process", Path(sys.executable), "sb3_ppo.py", shape)


def sbx(n_envs: int) -> Program:
    """sbx's PPO (JAX) on SB3's DummyVecEnv."""
    return _stick("sbx (JAX)", PEERS, "peers.py", ("sbx", "--n-envs", str(n_envs)))


def _stick(name: str, python: Path, file: str, words: tuple[str, ...]) -> Program:
    missing = None
    if not python.exists():
        missing = "its environment is not there: make peers"
    elif not (STICKS / file).exists():
        missing = f"{file} is not there: BENCH_STICKS names its folder"
    return Program(name, (str(python), str(STICKS / file), *words), missing)
