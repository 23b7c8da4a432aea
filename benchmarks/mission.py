"""What a field of MissionGym costs per step: in the batched core beside the single environment, in the same rounds.

Seconds are processor time of this process, because the machine may be busy; rounds are interleaved and ratios taken
round by round, with nothing asserted. Then PPO's own loop on the `swarm` preset, to say what its environment takes of
it. Run: python -m benchmarks.mission [--rounds N] [--updates N] [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.ppo.matmul import KERNELS, arithmetic_s
from benchmarks.ppo.side import Side
from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.round_parts import built
from benchmarks.rows import bounded, compared
from mission_tui.envs import MissionGym, MissionGymVector

ROOT = Path(__file__).resolve().parents[1]
SIZES = (32, 256, 2048)
DECISIONS = 40
WARM_UP = 200
TIMES_SINGLE, SWARM_RATE = 50.0, 150_000.0


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


def compare(config: str, rounds: int) -> Iterator[Row]:
    """One row per number of fields; the goal is for the largest."""
    alone, together = single(config), {lanes: batched(config, lanes) for lanes in SIZES}
    costs = [(alone(), {lanes: measure() for lanes, measure in together.items()}) for _ in range(rounds + 1)][1:]
    theirs = [1 / cost for cost, _ in costs]
    print(f"{config}: single environment {1e6 / statistics.median(theirs):.0f} us per step")
    for lanes in SIZES:
        ours = [1 / by[lanes] for _, by in costs]
        goal = TIMES_SINGLE if lanes == max(SIZES) else None
        what = f"MissionGym batched core, {lanes:,} fields, `{config}`"
        yield (row := compared(what, "steps/s of the processor", ours, "single env", theirs, goal))
        assert row.ratio is not None
        low, middle, high = row.ratio.low, row.ratio.median, row.ratio.high
        rate = statistics.median(ours)
        print(
            f"  {lanes:5} fields  {1e6 / rate:7.2f} us per field and step   {rate:9,.0f} steps/s   "
            f"{middle:5.0f} x the single one ({low:.0f} to {high:.0f})"
        )


def swarm(updates: int, threads: int, at_least: float | None) -> Row:
    """PPO's steps per second on `swarm` as a run has it, after an update of warm-up."""
    model = built("swarm", (f"run.threads={threads}",))
    transitions = model.n_steps * model.n_envs
    rates, shares = [], []
    for number in range(updates + 1):
        begun = time.perf_counter()
        model.collect()
        collected = time.perf_counter()
        update = model.update()
        assert update is not None
        update.read(model)
        done = time.perf_counter()
        print(
            f"swarm update {number}, {threads} thread(s): {transitions / (done - begun):7,.0f} steps/s by the clock, "
            f"rollout {collected - begun:.1f} s, update {done - collected:.1f} s"
        )
        rates.append(transitions / (done - begun))
        shares.append((collected - begun) / (done - begun))
    products_s, turn_s = arithmetic_s(Side("swarm", model, threads=threads))
    products = KERNELS
    if products_s:
        alone = f"{transitions / products_s:,.0f} steps/s"
        products = f"{products_s / turn_s:.0%} of all are matrix products, which alone would give {alone}"
    note = f"rollout {statistics.median(shares[1:]):.0%}, update the rest; {products}"
    what = "PPO on `swarm`, 2,048 fields" + ("" if threads == 1 else f", run.threads = {threads}")
    return bounded(what, "steps/s", rates[1:], at_least=at_least, note=note)


def main() -> None:
    """Measure and print; with `--json` also write the sheet."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--updates", type=int, default=5, help="of `swarm`; 0 leaves it out")
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    elsewhere = busy_elsewhere()
    rows = [row for config in ("standard", "demo") for row in compare(config, asked.rounds)]
    if asked.updates:
        rows += [swarm(asked.updates, 1, None), swarm(asked.updates, 2, SWARM_RATE)]
    if asked.json is not None:
        sheet = Sheet("MissionGym's batched core", asked_as("benchmarks.mission"), tuple(rows), elsewhere=elsewhere)
        write_sheet(sheet, asked.json)


if __name__ == "__main__":
    main()
