"""What reporting costs an SB3 script: the same PPO with and without it, turn by turn in one process.

Counted in processor seconds of the whole process, because the machine may be busy; who comes first alternates. The
ratio is the median over pairs of turns, with the bounds between which it lies at 95 %. In turns of their own the
seconds inside the callbacks are clocked, on both sides: their difference is hardly touched by who else is at work. A
follower reads what is said, as behind every run. Run: python -m benchmarks.reporting [--turns N] [--json FILE]
"""

from __future__ import annotations

import argparse
import fcntl
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger

from benchmarks.results import Row, Sheet, Spread, asked_as, busy_elsewhere, write_sheet
from mission_tui import hook, report
from mission_tui.records.runs.layout import RunDir

LANES, STEPS, BATCH, EPOCHS = 8, 128, 256, 4
UPDATES = 6
WARM_UP = 5
CLOCKED = 10
GOAL = 0.99
CALLED = (
    "update_locals",
    "on_step",
    "on_rollout_start",
    "on_rollout_end",
    "on_training_start",
    "on_training_end",
)


class Own(BaseCallback):
    """What many scripts bring: a callback that looks at each step and logs something."""

    def _on_step(self) -> bool:
        if self.n_calls % 100 == 0:
            self.logger.record("custom/steps", self.num_timesteps)
        return True


class ByHand(BaseCallback):
    """The same script, edited: it says its phases, its updates with their numbers, and asks whether to stop."""

    def _on_rollout_start(self) -> None:
        report.phase("rollout")

    def _on_step(self) -> bool:
        return not report.should_stop()

    def _on_rollout_end(self) -> None:
        report.update(timesteps=self.num_timesteps, **self.logger.name_to_value)
        report.phase("update")


class Silent(BaseCallback):
    """`ByHand` without a word."""

    def _on_step(self) -> bool:
        return True


class Side:
    """One model and the processor seconds of its turns; of those that are clocked, the seconds inside callbacks."""

    def __init__(self, callback: Callable[[], BaseCallback | None], *, hooked: bool) -> None:
        self.seconds: list[float] = []
        self.inside: list[float] = []
        self._callback = callback
        self._hooked = hooked
        vec = make_vec_env("CartPole-v1", LANES, seed=1)
        self._model = PPO("MlpPolicy", vec, n_steps=STEPS, batch_size=BATCH, n_epochs=EPOCHS, seed=1, device="cpu")
        self._model.set_logger(Logger(folder=None, output_formats=[]))

    def turn(self, path: str) -> None:
        """A few rollouts and updates as a `learn()` of its own: a script begins that once, for thousands of them."""
        os.environ.pop(hook.REPORT, None)
        if self._hooked:
            os.environ[hook.REPORT] = path
        begun = time.process_time()
        self._model.learn(UPDATES * LANES * STEPS, callback=self._callback(), reset_num_timesteps=False)
        self.seconds.append(time.process_time() - begun)

    def clocked_turn(self, path: str) -> None:
        """A turn whose seconds inside the callback that SB3 calls, with whatever that calls, are kept instead."""
        spent, make = [0.0], self._model._init_callback

        def made(*said: Any, **more: Any) -> BaseCallback:
            begun = time.thread_time()
            callback = make(*said, **more)
            for name in CALLED:
                setattr(callback, name, clocked(getattr(callback, name), spent))
            spent[0] += time.thread_time() - begun
            return callback

        self._model._init_callback = made  # type: ignore[method-assign]
        self.turn(path)
        del self._model._init_callback
        self.seconds.pop()
        self.inside.append(spent[0])


def clocked(call: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """`call`, whose processor seconds are added to `spent`."""

    def timed(*said: Any) -> Any:
        begun = time.thread_time()
        try:
            return call(*said)
        finally:
            spent[0] += time.thread_time() - begun

    return timed


@contextmanager
def follower(folder: Path) -> Iterator[psutil.Process]:
    """Who reads what is said in the run at `folder`, for as long as this lasts."""
    with (folder / "lease").open("wb") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        process = subprocess.Popen([sys.executable, "-m", "mission_tui.trainer.follow", str(folder), "1"])
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()
            process.wait()


def measured(what: str, plain: Side, ours: Side, path: str, reader: psutil.Process, turns: int) -> Row:
    """`ours` beside `plain`."""
    began = cpu = 0.0
    for number in range(WARM_UP + turns + CLOCKED):
        if number == WARM_UP:
            plain.seconds.clear()
            ours.seconds.clear()
            began, cpu = time.monotonic(), sum(reader.cpu_times()[:2])
        for side in (plain, ours) if number % 2 else (ours, plain):
            if number < WARM_UP + turns:
                side.turn(path)
            else:
                side.clocked_turn(path)
    share = (sum(reader.cpu_times()[:2]) - cpu) / (time.monotonic() - began)
    pairs = zip(plain.seconds, ours.seconds, strict=True)
    ratio = middle([theirs / mine for theirs, mine in pairs])
    more = (median(ours.inside) - median(plain.inside)) / median(plain.seconds)
    return Row(
        what=f"SB3 PPO, {LANES} x CartPole x {STEPS}, {what}",
        unit="steps per processor second",
        ours=middle([UPDATES * LANES * STEPS / each for each in ours.seconds]),
        goal=f"at least {GOAL} of its speed",
        met=ratio.median >= GOAL,
        against="the same script, not reported",
        peer=middle([UPDATES * LANES * STEPS / each for each in plain.seconds]),
        ratio=ratio,
        note=f"medians of {turns} turns and their 95 % bounds; clocked directly, its callbacks take {more:+.2%} of the "
        f"script's seconds; the follower beside it takes {share:.2%} of a core",
    )


def middle(values: list[float]) -> Spread:
    """The median of `values` with its 95 % bounds, by their order alone."""
    ordered, aside = sorted(values), 0.98 * math.sqrt(len(values))
    last = len(ordered) - 1
    low, high = max(0, math.floor(last / 2 - aside)), min(last, math.ceil(last / 2 + aside))
    return Spread(median(ordered), ordered[low], ordered[high])


def rows(folder: Path, turns: int) -> tuple[Row, ...]:
    """One for each way to report, printed as it comes."""
    files = RunDir(folder).attempt(1)
    files.path.mkdir(parents=True)
    files.launch.write_text("{}")
    path = os.environ[hook.REPORT] = str(files.reported)
    report.phase("starting")
    hook.attach(BaseAlgorithm)
    ways = (
        ("by the hook", nothing, nothing, True),
        ("with a callback of its own, by the hook", Own, Own, True),
        ("by `report` in a callback of its own", Silent, ByHand, False),
    )
    with follower(folder) as reader:
        found = []
        for what, plain, ours, hooked in ways:
            row = measured(what, Side(plain, hooked=False), Side(ours, hooked=hooked), path, reader, turns)
            assert row.ours is not None
            assert row.ratio is not None
            print(f"{row.what}: {row.ours.median:,.0f} steps/s, {row.ratio.median:.4f} x {row.against}", flush=True)
            print(f"({row.ratio.low:.4f} to {row.ratio.high:.4f}); {row.note}", flush=True)
            found.append(row)
    return tuple(found)


def nothing() -> None:
    """No callback at all."""


def main() -> None:
    """Measure, and write the rows where `--json` says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    elsewhere = busy_elsewhere()
    th.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = rows(Path(folder), arguments.turns)
    if arguments.json:
        write_sheet(Sheet("Reporting", asked_as("benchmarks.reporting"), found, elsewhere=elsewhere), arguments.json)
        print(f"written to {arguments.json}", file=sys.stderr)


if __name__ == "__main__":
    main()
