"""How often `try` is right on CartPole: settings that change nothing, a rate that ruins a healthy run, and the advice
for one that is fifty times too high. Every trial is the real verb, on branches of a run that was trained for it.

Run: python -m benchmarks.trials [--trials 20] [--others 3] [--budget 12u] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fleet.sheet import finish
from benchmarks.results import Row, asked_as
from benchmarks.rows import bounded

__all__ = ["CASES", "Case", "main", "row_of", "tried"]

PRESET = """description = "CartPole, quickly"
[env]
id = "CartPole-v1"
n_envs = 8
[ppo]
n_steps = 64
batch_size = 128
n_epochs = 8
learning_rate = {rate}
[run]
total_timesteps = {steps}
seed = 1
threads = 1
"""
FAILED = "failed"

Answer = dict[str, Any]
"""`says`, a word, and the `sentence` of the trial; or why there is none."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is tried on a run of this rate and length: one of `words` after the other, or a finding's advice.

    `budget` is what it takes to tell; None takes the one that is asked for. `share` of the trials have to say `right`.
    """

    name: str
    rate: float
    steps: int
    right: str
    share: float
    words: tuple[str, ...] = ()
    budget: str | None = None
    seeds: int = 3


CASES = (
    Case(
        "settings that change nothing",
        0.001,
        40_960,
        "no difference",
        0.95,
        ("keep.checkpoint.last=5", "ppo.gae_lambda=0.95", "keep.checkpoint.every_s=900", "ppo.max_grad_norm=0.5"),
    ),
    Case("a learning rate of 0.5 on a healthy run", 0.001, 40_960, "hurts", 1.0, ("ppo.learning_rate=0.5",), "16u"),
    Case("the advice for a learning rate of 0.05", 0.05, 10_240, "helps", 1.0, budget="60u", seeds=4),
)


def tried(root: Path, run: str, case: Case, number: int, budget: str) -> Answer:
    """Trial `number` of the case, from 0; its branches are thrown away."""
    words = ("--set", case.words[number % len(case.words)]) if case.words else ()
    done = _cli(
        root, "try", run, *words, "--budget", case.budget or budget, "--seeds", str(case.seeds), "--wait", "--json"
    )
    try:
        trial = json.loads(done.stdout)["trial"]
        answer = {"says": trial["verdict"]["says"], "sentence": trial["sentence"]}
    except (ValueError, KeyError, TypeError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        answer = {"says": FAILED, "sentence": f"failed with exit code {done.returncode}: {last}"}
    _cli(root, "try", run, "--discard")
    return answer


def row_of(case: Case, answers: Sequence[Answer]) -> Row:
    """How many of the trials said the right word, and what the others said."""
    said = Counter(answer["says"] for answer in answers)
    others = [f"{count} said {other}" for other, count in said.items() if other != case.right]
    what, total = f"`try` of {case.name}, that says {case.right}", len(answers)
    return bounded(what, f"of {total}", [said[case.right]], at_least=case.share * total, note="; ".join(others))


def main(words: Sequence[str]) -> int:
    """Print each verdict as it comes, then the counts; 1 when they are not what they should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20, help="of settings that change nothing")
    parser.add_argument("--others", type=int, default=3, help="of each of the other cases")
    parser.add_argument("--budget", default="12u")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(words)
    rows = []
    with tempfile.TemporaryDirectory(prefix="trials-") as folder:
        root = Path(folder)
        for place, case in enumerate(CASES):
            run = _trained(root, f"case{place + 1}", case)
            answers = []
            for number in range(asked.others if place else asked.trials):
                answers.append(tried(root, run, case, number, asked.budget))
                print(f"{number + 1:3}  {case.name}: {answers[-1]['sentence']}", flush=True)
            rows.append(row_of(case, answers))
        _cli(root, "supervisor", "stop", "--with-runs")
    finish("Verdicts of `try`", asked_as("benchmarks.trials"), rows, asked.json)
    return 0 if all(row.met for row in rows) else 1


def _trained(root: Path, name: str, case: Case) -> str:
    preset = root / f"{name}.toml"
    preset.write_text(PRESET.format(rate=case.rate, steps=case.steps), encoding="utf-8")
    done = _cli(root, "launch", "--preset", str(preset), "--name", name, "--wait")
    if done.returncode != 0:
        raise SystemExit(f"{name} could not be trained: {done.stderr.strip()}")
    return name


def _cli(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mission_tui", *words],
        env=os.environ | {"MISSION_TUI_RUNS": str(root / "runs"), "XDG_STATE_HOME": str(root / "state")},
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
