"""Where the time of a round goes: what the policy, the environments and the rest of a rollout take, and of an update
its minibatches, their passes and the optimizer.

Each part's calls are timed from outside in the trainer's own process, on one thread; the timing itself costs about a
microsecond a call. Seconds are of the wall clock, so that environments in processes of their own count too.
Run: python -m benchmarks.round_parts [--rounds N] [--only SHAPE ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch as th

from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import bounded
from mission_tui.cli.plan import LaunchArguments, planned
from mission_tui.errors import MissionError
from mission_tui.trainer.building.model import build_ppo, ppo_arguments
from mission_tui.trainer.ppo import FastPPO
from mission_tui.trainer.ppo.policy_evaluator import NativePolicy
from mission_tui.trainer.vec_env import build_vec_env

ROOT = Path(__file__).resolve().parents[1]
SHAPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "16 x CartPole-v1 x 128": (
        "cartpole",
        ("env.n_envs=16", "ppo.n_steps=128", "ppo.batch_size=512", "ppo.n_epochs=4"),
    ),
    "32 x LunarLander-v3": ("lunarlander", ("env.n_envs=32",)),
    "16 x `standard`": ("standard", ("env.n_envs=16",)),
    "`fast`": ("fast", ()),
    "`swarm`": ("swarm", ()),
}
PARTS = ("environments", "policy", "rest of the rollout", "minibatches", "passes and loss", "gradient step", "signals")


class Stopwatch:
    """Seconds by part. Of calls within calls the outer one has the time of the inner one too."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Time every call of a method from here on."""
        call, seconds, now = getattr(owner, name), self.seconds, time.perf_counter

        def timed(*arguments: Any, **named: Any) -> Any:
            begun = now()
            try:
                return call(*arguments, **named)
            finally:
                seconds[part] += now() - begun

        setattr(owner, name, timed)

    def watch_each(self, owner: Any, name: str, part: str) -> None:
        """Time what a generator needs for each of what it yields."""
        make, seconds, now = getattr(owner, name), self.seconds, time.perf_counter

        def timed(*arguments: Any) -> Iterator[Any]:
            made = make(*arguments)
            while True:
                begun = now()
                each = next(made, None)
                seconds[part] += now() - begun
                if each is None:
                    return
                yield each

        setattr(owner, name, timed)


def built(preset: str, sets: tuple[str, ...] = ()) -> FastPPO:
    """The model of a preset as a run has it, on as many threads as that has."""
    spec = planned(LaunchArguments((preset,), assignments=sets), [ROOT / "presets"]).items[0].spec
    th.set_num_threads(spec.run.threads or 1)
    model = build_ppo(ppo_arguments(spec), build_vec_env(spec, None).vec, 1, "cpu")
    assert isinstance(model, FastPPO)
    model._setup_learn(0, reset_num_timesteps=False)
    return model


def parts_of(model: FastPPO, rounds: int) -> tuple[dict[str, list[float]], list[float]]:
    """Seconds of each part, and of the whole, round by round after one of warm-up."""
    watch = Stopwatch()
    for name in ("act", "rollout_values", "predict_values"):
        watch.watch(model._evaluator, name, "policy")
    assert model.env is not None
    watch.watch(model.env, "step", "environments")
    for name in ("get", "orders"):
        watch.watch_each(model.rollout_buffer, name, "minibatches")
    watch.watch(model, "_losses", "passes and loss")
    watch.watch(model, "_step", "gradient step")
    found: dict[str, list[float]] = {part: [] for part in PARTS}
    whole = list[float]()
    for number in range(rounds + 1):
        watch.seconds.clear()
        begun = time.perf_counter()
        model.collect()
        collected = time.perf_counter()
        update = model.update()
        assert update is not None
        update.read(model)
        done = time.perf_counter()
        seconds = watch.seconds
        seconds["rest of the rollout"] = collected - begun - seconds["environments"] - seconds["policy"]
        learned = seconds["minibatches"] + seconds["passes and loss"] + seconds["gradient step"]
        seconds["signals"] = done - collected - learned
        if number:
            whole.append(done - begun)
            for part in PARTS:
                found[part].append(seconds[part])
    return found, whole


def rows_of(shape: str, model: FastPPO, rounds: int) -> Iterator[Row]:
    """Microseconds of each part for one environment step, and how many steps a second all come to."""
    found, whole = parts_of(model, rounds)
    transitions = model.n_steps * model.n_envs
    native = isinstance(model._evaluator, NativePolicy)
    by = "by kernels; the gradient comes with the loss" if native else "by torch; the gradient comes with its step"
    note = f"{model.n_envs} environments, {transitions:,} transitions, minibatches of {model.batch_size:,}, {by}"
    yield bounded(f"a round of {shape}", "steps/s", [transitions / seconds for seconds in whole], note=note)
    for part in PARTS:
        yield bounded(f"a round of {shape}: {part}", "us a step", [1e6 * it / transitions for it in found[part]])


def main() -> None:
    """Measure and print; with `--json` also write the sheet."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--only", nargs="*", choices=SHAPES, default=SHAPES)
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    elsewhere, rows = busy_elsewhere(), list[Row]()
    for shape in asked.only:
        try:
            model = built(*SHAPES[shape])
        except MissionError as error:
            print(f"{shape}: not measured: {error}")
            continue
        told = list(rows_of(shape, model, asked.rounds))
        for row in told:
            assert row.ours is not None
            print(f"{row.what:55} {row.ours.median:12,.2f} {row.unit}")
        rows += told
        close: Callable[[], None] = model.env.close  # type: ignore[union-attr]
        close()
    if asked.json is not None:
        sheet = Sheet("Where a round goes", asked_as("benchmarks.round_parts"), tuple(rows), elsewhere=elsewhere)
        write_sheet(sheet, asked.json)


if __name__ == "__main__":
    main()
