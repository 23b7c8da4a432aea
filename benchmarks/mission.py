"""What a field of MissionGym costs per step: in the batched core beside the single environment, in the same rounds.

Seconds are processor time of this process, because the machine may be busy; rounds are interleaved and medians of
their ratios printed, with nothing asserted. Then PPO's own loop on the `swarm` preset, to say what its environment
takes of it. Run: OMP_NUM_THREADS=1 python -m benchmarks.mission [--rounds N] [--swarm]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mission_tui.cli.plan import Wish, launch_items
from mission_tui.envs import MissionGym, MissionGymVector

ROOT = Path(__file__).resolve().parents[1]
SIZES = (32, 256, 2048)
DECISIONS = 40
WARM_UP = 200


def batched(config: str, lanes: int) -> Callable[[], float]:
    """Seconds per field and step of `lanes` fields in one core, well into their episodes."""
    env = MissionGymVector(lanes, config)
    env.reset(seed=1)
    orders = np.random.default_rng(0).integers(0, 9, size=(DECISIONS, lanes, len(env.mission.units.attackers)))
    for number in range(WARM_UP):
        env.step(orders[number % DECISIONS])

    def measure() -> float:
        begun = time.process_time()
        for order in orders:
            env.step(order)
        return (time.process_time() - begun) / (DECISIONS * lanes)

    return measure


def single(config: str) -> Callable[[], float]:
    """Seconds per step of one environment, resets included."""
    env = MissionGym(config)
    env.reset(seed=1)
    orders = np.random.default_rng(0).integers(0, 9, size=(10 * DECISIONS, len(env.mission.units.attackers)))

    def measure() -> float:
        begun = time.process_time()
        for order in orders:
            _, _, terminated, truncated, _ = env.step(order)
            if terminated or truncated:
                env.reset()
        return (time.process_time() - begun) / len(orders)

    return measure


def compare(config: str, rounds: int) -> None:
    """Print one row per number of fields."""
    alone, together = single(config), {lanes: batched(config, lanes) for lanes in SIZES}
    costs = [(alone(), {lanes: measure() for lanes, measure in together.items()}) for _ in range(rounds + 1)][1:]
    print(f"{config}: single environment {statistics.median(cost for cost, _ in costs) * 1e6:.0f} us per step")
    for lanes in SIZES:
        field_s = statistics.median(by[lanes] for _, by in costs)
        ratios = sorted(cost / by[lanes] for cost, by in costs)
        print(
            f"  {lanes:5} fields  {field_s * 1e6:7.2f} us per field and step   {1 / field_s:9,.0f} steps/s   "
            f"{statistics.median(ratios):5.0f} x the single one ({ratios[0]:.0f} to {ratios[-1]:.0f})"
        )


def swarm(updates: int) -> None:
    """Print PPO's steps per second on `swarm`, update by update, with what rollout and update took."""
    from mission_tui.trainer.arguments import ppo_arguments
    from mission_tui.trainer.model import build_ppo
    from mission_tui.trainer.vec_env import build_vec_env

    spec = launch_items(Wish(("swarm",)), [ROOT / "presets"])[0].spec
    model = build_ppo(ppo_arguments(spec), build_vec_env(spec, None).vec, 1, "cpu")
    model._setup_learn(0, reset_num_timesteps=False)
    transitions = model.n_steps * model.n_envs
    for number in range(1, updates + 1):
        begun = time.perf_counter()
        model.collect()
        collected = time.perf_counter()
        model.update()
        done = time.perf_counter()
        print(
            f"swarm update {number}: {transitions / (done - begun):7,.0f} steps/s of the wall clock, "
            f"rollout {collected - begun:.1f} s, update {done - collected:.1f} s"
        )


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--swarm", action="store_true", help="also train `swarm` for three updates")
    asked = options.parse_args()
    for config in ("standard", "demo"):
        compare(config, asked.rounds)
    if asked.swarm:
        swarm(3)
    print(f"{asked.rounds} rounds, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
