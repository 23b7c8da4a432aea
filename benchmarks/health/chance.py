"""Made-up healthy runs whose return only chance moves: how many of a hundred does each rule warn of?

A rule that looks at every update of every run, and 22 of them do, must be surer than 1 in 20. Episodes are drawn from
laws that trainings have, among them rare disasters and rare successes; the mean over the last 100 episodes wanders by
itself, the farther the fewer episodes an update has. What is learned, if anything, is learned in the first quarter.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.health.cases import Case, judged
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.specs.thresholds import Limits
from mission_tui.records.logs.log import TableRow, log_of_rows

__all__ = ["COURSES", "LAWS", "PER_UPDATE", "Told", "chance_run", "told"]

Law = Callable[[random.Random], float]
UPDATES, WINDOW = 300, 100
RISE = UPDATES // 4

LAWS: dict[str, Law] = {
    "normal": lambda dice: dice.gauss(0.0, 1.0),
    "rare disaster": lambda dice: dice.gauss(0.0, 0.3) - (12.0 if dice.random() < 0.02 else 0.0),
    "rare success": lambda dice: 1.0 if dice.random() < 0.05 else 0.0,
    "coin": lambda dice: 1.0 if dice.random() < 0.5 else 0.0,
    "long tail": lambda dice: dice.lognormvariate(0.0, 1.0),
}
"""An episode's return, beside what was learned."""

COURSES = {"nothing learned": 0.0, "one deviation": 1.0, "five deviations": 5.0}
"""How many standard deviations of an episode are gained, in the first quarter."""

PER_UPDATE = (1, 4, 20, 100)
"""Episodes that end in an update."""


@dataclass(frozen=True, slots=True)
class Told:
    """Of `runs`, how many each rule warned of, and how many any did."""

    runs: int
    warned: int
    by_rule: Counter[str]


def chance_run(law: Law, gain: float, per_update: int, seed: int) -> Case:
    """One run as a foreign log: healthy updates, and returns of `law` that rise by `gain` and then stay."""
    dice = random.Random(f"{gain}/{per_update}/{seed}")
    window: deque[float] = deque(maxlen=WINDOW)
    rows: list[TableRow] = []
    for i in range(1, UPDATES + 1):
        learned = gain * min(1.0, i / RISE)
        window.extend(learned + law(dice) for _ in range(per_update))
        rows.append(TableRow(_row(i, per_update, sum(window) / len(window), dice)))
    log = log_of_rows(Path("chance"), rows, [])
    updates = tuple(record for record in log.records if isinstance(record, UpdateDone))
    return Case("chance", "foreign", "", "healthy", "healthy", updates, log.settings)


def told(seeds: int, laws: Iterator[str] | None = None) -> dict[tuple[str, str], Told]:
    """By law and course, what was said of `seeds` runs for each number of episodes per update."""
    found: dict[tuple[str, str], Told] = {}
    for name in laws or LAWS:
        for course, gain in COURSES.items():
            by_rule: Counter[str] = Counter()
            runs = warned = 0
            for per_update in PER_UPDATE:
                for seed in range(seeds):
                    case = chance_run(LAWS[name], gain, per_update, seed)
                    rules = {it.rule for it in judged(case, Limits()) if it.level != "info"}
                    by_rule.update(rules)
                    runs, warned = runs + 1, warned + bool(rules)
            found[name, course] = Told(runs, warned, by_rule)
    return found


def _row(i: int, per_update: int, mean: float, dice: random.Random) -> dict[str, float]:
    steps = 2048
    return {
        "time/iterations": float(i),
        "time/total_timesteps": float(i * steps),
        "rollout/ep_rew_mean": mean,
        "rollout/ep_len_mean": steps / per_update,
        "train/approx_kl": 0.008 * dice.lognormvariate(0.0, 0.4),
        "train/clip_fraction": 0.1 * dice.lognormvariate(0.0, 0.3),
        "train/clip_range": 0.2,
        "train/entropy_loss": -0.6 + 0.2 * min(1.0, i / RISE) + dice.gauss(0.0, 0.01),
        "train/explained_variance": 0.4 + dice.gauss(0.0, 0.1),
        "train/learning_rate": 3e-4,
        "train/loss": 0.3 * dice.lognormvariate(0.0, 0.4),
        "train/policy_gradient_loss": -0.01 + dice.gauss(0.0, 0.003),
        "train/value_loss": 0.6 * dice.lognormvariate(0.0, 0.3),
        "train/n_updates": 10.0 * i,
    }
