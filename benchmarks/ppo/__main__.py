"""PPO beside its peers, all shapes of the table, one torch thread wherever nothing else is said.

Rounds are interleaved in one process, ratios are taken round by round; nothing is asserted, because the machine may be
busy. Run: python -m benchmarks.ppo [--only NAME ...] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch as th

from benchmarks.ppo import batched, cartpole, heavier
from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet

SHAPES = ("cartpole", *(str(lanes) for lanes in batched.LANES), *heavier.GOALS)


def main() -> None:
    """Measure and print; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0, help="that a peer's program runs each round")
    parser.add_argument("--only", nargs="*", choices=SHAPES, default=SHAPES)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    th.set_num_threads(1)
    elsewhere, rows = busy_elsewhere(), list[Row]()
    if "cartpole" in options.only:
        rows.extend(cartpole.rows(options.rounds, options.seconds))
    for env_id in heavier.GOALS:
        if env_id in options.only:
            rows.extend(heavier.rows(env_id, options.rounds))
    for lanes in batched.LANES:
        if str(lanes) in options.only:
            rows.extend(batched.rows(lanes, options.rounds))
    if options.json is not None:
        write_sheet(Sheet("PPO", asked_as("benchmarks.ppo"), tuple(rows), elsewhere=elsewhere), options.json)


if __name__ == "__main__":
    main()
