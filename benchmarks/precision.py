"""What bf16 and torch's compiler give PPO: each beside the default, float32 differentiated by hand, on the same lanes.

Rounds are interleaved in one process with one torch thread and counted in processor seconds, because the machine may be
busy; ratios are taken round by round. Run: python -m benchmarks.precision [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3.common.logger import Logger

from benchmarks.ppo.batched_cartpole import BatchedCartPole
from benchmarks.results import Row, Sheet, Spread, write_sheet
from mission_tui.trainer.ppo import FastPPO
from mission_tui.trainer.ppo.reference import never
from mission_tui.trainer.torch_compiler import load_compiler

LANES, STEPS, BATCH, EPOCHS = 16, 128, 512, 4
NETS = ((64, 64), (512, 512))
WARM_UP = 2
PLAIN = "fp32, not compiled"
OPTIONS: dict[str, dict[str, Any]] = {
    PLAIN: {},
    "bf16": {"precision": "bf16"},
    "compiled": {"compiles": True},
    "bf16, compiled": {"precision": "bf16", "compiles": True},
}


@dataclass
class Side:
    """One way of computing, the seconds that compiling it took, and the steps per processor second of its rounds."""

    name: str
    model: FastPPO
    compile_s: float | None
    rounds: list[float] = field(default_factory=list)

    def turn(self) -> None:
        """One rollout and one update."""
        begun_s = time.process_time()
        self.model.collect()
        update = self.model.update()
        assert update is not None
        update.read(self.model)
        self.rounds.append(LANES * STEPS / (time.process_time() - begun_s))


def side(name: str, net: Sequence[int]) -> Side:
    """A model with the options of `name`, ready for its first rollout."""
    model = FastPPO(
        "MlpPolicy",
        BatchedCartPole(LANES),
        n_steps=STEPS,
        batch_size=BATCH,
        n_epochs=EPOCHS,
        seed=1,
        device="cpu",
        policy_kwargs={"net_arch": list(net)},
        **OPTIONS[name],
    )
    model.set_logger(Logger(None, []))
    model._setup_learn(0)
    return Side(name, model, model.warm_up(never) if model.compiles else None)


def measured(net: Sequence[int], rounds: int) -> list[Side]:
    """All ways on one net, after `rounds` rounds of each in turn."""
    sides = [side(name, net) for name in OPTIONS]
    for _ in range(WARM_UP + rounds):
        for each in sides:
            each.turn()
    for each in sides:
        del each.rounds[:WARM_UP]
    return sides


def rows_of(net: Sequence[int], sides: list[Side]) -> list[Row]:
    """Each option beside the default."""
    plain, *others = sides
    return [_row("-".join(map(str, net)), each, plain) for each in others]


def _row(net: str, ours: Side, plain: Side) -> Row:
    ratio = Spread.of([mine / theirs for mine, theirs in zip(ours.rounds, plain.rounds, strict=True)])
    said = (
        "faster than the default" if ratio.low > 1 else "slower than the default" if ratio.high < 1 else "no clear gain"
    )
    compiling = "" if ours.compile_s is None else f"; compiled in {ours.compile_s:.0f} s before the first step"
    return Row(
        what=f"PPO, {LANES} x CartPole (batched) x {STEPS}, {net}, {ours.name}",
        unit="steps per processor second",
        ours=Spread.of(ours.rounds),
        goal="none: an option, off by default",
        met=None,
        against=PLAIN,
        peer=Spread.of(plain.rounds),
        ratio=ratio,
        note=f"{said} on this processor{compiling}",
    )


def main() -> None:
    """Print the rows, and write them where `--json` says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    th.set_num_threads(1)
    load_compiler()
    rows: list[Row] = []
    for net in NETS:
        rows += rows_of(net, measured(net, arguments.rounds))
    for row in rows:
        assert row.ours is not None
        assert row.ratio is not None
        print(f"{row.what:70} {row.ours.median:9,.0f} steps/s, {row.ratio.median:.2f} x {row.against}")
        print(f"{'':70} ({row.ratio.low:.2f} to {row.ratio.high:.2f}); {row.note}")
    if arguments.json:
        command = f"python -m benchmarks.precision --rounds {arguments.rounds}"
        write_sheet(Sheet("bf16 and the compiler", command, tuple(rows)), arguments.json)
        print(f"written to {arguments.json}", file=sys.stderr)


if __name__ == "__main__":
    main()
