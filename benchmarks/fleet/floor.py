"""The least time that a preset's gradient work can take here: its matrix products alone, on as many cores as there are.

Every layer's product forwards and its two products backwards are timed at the minibatch's size, one thread in each of
as many processes at once as there are cores, because cores share caches and clocks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mission_tui.fleet.specs.spec import Spec

__all__ = ["Floor", "floor_of"]


@dataclass(frozen=True, slots=True)
class Floor:
    """`seconds` that one update's products take one core while all work; `tera_flop` in them, at `giga_flop_s`."""

    seconds: float
    tera_flop: float
    giga_flop_s: float
    cores: int

    def all_at_once_s(self, runs: int) -> float:
        """Seconds of an update's products when `runs` runs share the cores."""
        return self.seconds * max(1.0, runs / self.cores)

    def and_later(self, later: Floor) -> Floor:
        """The middle of this one, taken before a campaign, and one taken after it: machines change their pace."""
        seconds = (self.seconds + later.seconds) / 2
        return Floor(seconds, self.tera_flop, 1000 * self.tera_flop / seconds, self.cores)


def floor_of(preset: str, assignments: Sequence[str], measure_s: float = 5.0) -> Floor:
    """The floor of a preset with `--set` words, from one process a core at the same time."""
    cores = len(os.sched_getaffinity(0))
    words = [sys.executable, "-m", "benchmarks.fleet.floor", preset, *assignments, "--seconds", str(measure_s)]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ) for _ in range(cores)]
    told = [json.loads(process.communicate()[0]) for process in started]
    seconds = statistics.fmean(one["seconds"] for one in told)
    tera_flop = told[0]["tera_flop"]
    return Floor(seconds, tera_flop, 1000 * tera_flop / seconds, cores)


def measured(spec: Spec, measure_s: float) -> Floor:
    """The floor as this process finds it."""
    # Only the process that measures pays for torch.
    import torch as th

    from mission_tui.trainer.building.model import build_scratch, ppo_arguments
    from mission_tui.trainer.vec_env import build_vec_env

    th.set_num_threads(1)
    arguments = ppo_arguments(spec)
    policy = build_scratch(arguments, build_vec_env(spec, None).vec).policy
    batch = arguments["batch_size"]
    layers = [
        (th.randn(batch, layer.in_features), layer.weight.detach(), th.randn(batch, layer.out_features))
        for layer in policy.modules()
        if isinstance(layer, th.nn.Linear)
    ]
    shape = policy.observation_space.shape
    assert shape is not None
    first = shape[0]
    flop = sum(2 * x.numel() * w.shape[0] * (2 if x.shape[1] == first else 3) for x, w, _ in layers)

    def once() -> None:
        for inputs, weight, pull in layers:
            inputs @ weight.T
            pull.T @ inputs
            if inputs.shape[1] != first:  # nothing is differentiated by observations
                pull @ weight

    once()
    times: list[float] = []
    begun = time.perf_counter()
    while (now := time.perf_counter()) - begun < measure_s or len(times) < 3:
        once()
        times.append(time.perf_counter() - now)
    minibatches = arguments["n_epochs"] * -(-spec.env.n_envs * spec.ppo.n_steps // batch)
    seconds = statistics.median(times)
    return Floor(seconds * minibatches, flop * minibatches / 1e12, flop / seconds / 1e9, 1)


def main() -> None:
    """Print this process's floor as JSON."""
    from benchmarks.fleet.shapes import spec_of

    parser = argparse.ArgumentParser(prog="benchmarks.fleet.floor", description="Time a preset's matrix products.")
    parser.add_argument("preset")
    parser.add_argument("assignments", nargs="*")
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = parser.parse_args()
    print(json.dumps(asdict(measured(spec_of(asked.preset, asked.assignments), asked.seconds))))


if __name__ == "__main__":
    main()
