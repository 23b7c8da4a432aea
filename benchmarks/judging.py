"""What judging costs: microseconds per update over all rules, and how long a long history takes to be replayed.

The run is synthetic but has everything a trainer of ours says, with calm and troubled stretches. Peak memory is that of
one judge. Nothing is asserted, because the machine may be busy.
Run: python -m benchmarks.judging [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import bounded
from mission_tui.fleet.events.metrics import Episodes, Metric, MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.health import judge_of
from mission_tui.fleet.health.replay import replay
from mission_tui.fleet.health.rule import row_of
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.records.jsonl import AppendLog, read_all

STEPS = 2048
RUNS = 64
HELD = 20_000
TROUBLED_EVERY, TROUBLED_FOR = 1500, 60


def synthetic(updates: int) -> Iterator[MetricRecord]:
    """A run of `updates` updates of one second each; every 1,500 updates something goes wrong for a minute."""
    dice = random.Random(7)
    t = 1_800_000_000.0
    yield TrainingStarted(1, 1, t, reward_threshold=1e9, max_episode_steps=1000)
    for number in range(1, updates + 1):
        troubled = number % TROUBLED_EVERY > TROUBLED_EVERY - TROUBLED_FOR
        yield _update(dice, number, t + number, troubled)


def _update(dice: random.Random, number: int, t: float, troubled: bool) -> UpdateDone:
    progress = 1.0 - math.exp(-number / 20_000)
    ret = 200.0 * progress + dice.gauss(0.0, 5.0) - 80.0 * troubled
    returns = tuple(ret + dice.gauss(0.0, 20.0) for _ in range(12))
    outcomes = {"captured": 4 + int(6 * progress), "timeout": 8 - int(6 * progress)}
    return UpdateDone(
        number + 1,
        1,
        number,
        number * STEPS,
        t,
        rollout_s=0.7 * dice.uniform(0.95, 1.05) * (1 + troubled),
        update_s=0.3 * dice.uniform(0.95, 1.05),
        steps_per_s=STEPS / (1.0 + 0.7 * troubled),
        metrics=_metrics(dice, ret, progress, troubled),
        episodes=Episodes(12, returns, (400,) * 12, outcomes),
    )


def _metrics(dice: random.Random, ret: float, progress: float, troubled: bool) -> dict[str, Metric]:
    wild = 8.0 if troubled else 1.0
    return {
        "rollout/ep_rew_mean": ret,
        "rollout/ep_len_mean": 400.0 + dice.gauss(0.0, 10.0),
        "rollout/success_rate": progress,
        "train/approx_kl": 0.01 * wild * dice.lognormvariate(0.0, 0.3),
        "train/approx_kl_all": 0.008 * wild * dice.lognormvariate(0.0, 0.3),
        "train/clip_fraction": min(1.0, 0.08 * wild * dice.lognormvariate(0.0, 0.3)),
        "train/clip_range": 0.2,
        "train/entropy_loss": -0.7 + 0.3 * progress,
        "train/explained_variance": 0.8 + dice.gauss(0.0, 0.05) - troubled,
        "train/grad_clipped_share": 0.4,
        "train/grad_norm": 0.6 * wild * dice.lognormvariate(0.0, 0.3),
        "train/grad_norm_max": 2.0 * wild * dice.lognormvariate(0.0, 0.3),
        "train/learning_rate": 3e-4,
        "train/loss": dice.gauss(0.0, 1.0),
        "train/n_epochs_done": 10.0,
        "train/n_updates": 10.0,
        "train/policy_gradient_loss": dice.gauss(-0.01, 0.01),
        "train/ratio_first": 1e-7,
        "train/ratio_max": 1.8,
        "train/value_loss": 3.0 * wild * dice.lognormvariate(0.0, 0.3),
        "policy/entropy_ratio": 0.9 - 0.4 * progress,
    }


def spec(updates: int) -> Spec:
    """What the synthetic run trains with."""
    return Spec(
        preset="judging",
        env=EnvSpec(id="CartPole-v1", n_envs=16),
        ppo=PpoSpec(n_steps=128, batch_size=256, n_epochs=10),
        run=RunSpec(total_timesteps=updates * STEPS),
    )


def judged_us(records: list[MetricRecord], updates: int) -> float:
    """Microseconds per update that one judge takes for `records`."""
    judge = judge_of(spec(updates))
    begun = time.process_time()
    for record in records:
        judge.feed(record)
    return 1e6 * (time.process_time() - begun) / len(records)


def shares_us(records: list[MetricRecord], updates: int) -> dict[str, float]:
    """Microseconds of processor time per update of each rule, and of what they have in common."""
    judge = judge_of(spec(updates))
    spent: dict[str, float] = {"row": 0.0, "returns": 0.0}
    for record in records:
        if not isinstance(record, UpdateDone):
            judge.feed(record)
            continue
        begun = time.process_time()
        row = row_of(record)
        spent["row"] += time.process_time() - begun
        begun = time.process_time()
        judge._returns.update(row.metrics.get("rollout/ep_rew_mean"), row.episodes)
        spent["returns"] += time.process_time() - begun
        for rule in judge._rules:
            begun = time.process_time()
            rule.judge(row)
            spent[rule.id] = spent.get(rule.id, 0.0) + time.process_time() - begun
    return {name: 1e6 * seconds / len(records) for name, seconds in spent.items()}


def kept_bytes(records: list[MetricRecord], updates: int) -> tuple[int, int]:
    """What a judge holds after half of the records and after all; the two differ little where memory is bounded."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    judge = judge_of(spec(updates))
    held = []
    for count, record in enumerate(records, start=1):
        judge.feed(record)
        if count in (len(records) // 2, len(records)):
            held.append(tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    return held[0], held[1]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A whole history read from its file and judged: seconds in all, of the processor, of reading alone."""

    all_s: float
    cpu_s: float
    read_s: float
    bytes: int
    incidents: int


def replayed(records: list[MetricRecord], updates: int) -> Replayed:
    """Write `records` as a trainer does, then read and judge them as a restart does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        log = AppendLog(path, sync_every_s=60.0)
        for record in records:
            log.append(lambda _seq, record=record: record)  # type: ignore[misc]
        log.close()
        begun, begun_cpu = time.perf_counter(), time.process_time()
        read, _ = read_all(path, MetricRecord)
        read_s = time.perf_counter() - begun
        found = replay({1: spec(updates)}, read, [])
        all_s, cpu_s = time.perf_counter() - begun, time.process_time() - begun_cpu
        return Replayed(all_s, cpu_s, read_s, path.stat().st_size, len(found))


def main() -> None:
    """Print the figures; with `--json` also write the sheet."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--updates", type=int, default=100_000, help="length of the history")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    elsewhere, updates = busy_elsewhere(), asked.updates
    records = list(synthetic(updates))
    sample = records[: min(len(records), 10_000)]
    costs = [judged_us(sample, updates) for _ in range(asked.rounds)]
    each = statistics.median(costs)
    print(f"synthetic run of {updates:,} updates, {len(judge_of(spec(1))._rules)} rules")
    print(f"one update           {each:8.1f} us   {min(costs):.1f} to {max(costs):.1f} over {asked.rounds} rounds")
    print(f"{RUNS} runs at 1 update/s {RUNS * each / 1e4:8.2f} % of a core")
    for name, cost in sorted(shares_us(sample, updates).items(), key=lambda share: -share[1]):
        print(f"  {name:19}{cost:8.1f} us")
    whole_run = replayed(records, updates)
    size_mib = whole_run.bytes / 2**20
    print(f"replay of the file   {whole_run.all_s:8.1f} s    {whole_run.cpu_s:.1f} s of processor, {size_mib:.0f} MiB")
    print(f"  reading it         {whole_run.read_s:8.1f} s    {whole_run.incidents} incidents")
    held = records[:HELD]
    half, whole = kept_bytes(held, updates)
    print(f"held by one judge    {whole / 2**10:8.0f} KiB  after {len(held):,} records, {half / 2**10:.0f} after half")
    if asked.json is not None:
        cpu = f"{whole_run.cpu_s:.1f} s of processor, of a file of {size_mib:.0f} MiB"
        rows = (
            bounded("judging one update, all rules", "us of the processor", costs),
            bounded(f"replaying a run of {updates:,} updates", "s", [whole_run.all_s], note=cpu),
            bounded("held by one judge", "KiB", [whole / 2**10], note=f"after {len(held):,} records"),
        )
        write_sheet(Sheet("Judging", asked_as("benchmarks.judging"), rows, elsewhere=elsewhere), asked.json)


if __name__ == "__main__":
    main()
