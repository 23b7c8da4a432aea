"""How long a runs root full of old runs keeps the first answer back, and how quick answers are while they are read.

The runs are made here, each as its journal and its spec; the page cache is warm, as after a reboot and one `ls`, it is
not after none. Run: python -m benchmarks.many_runs [--runs N] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.fleet.lab import Lab, opened
from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import bounded
from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, RunCreated
from mission_tui.fleet.events.outcome import Finished
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.ipc.client import Connection
from mission_tui.ipc.requests import GetSnapshot
from mission_tui.records.jsonl import encode_line
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir

FIRST_S, MEANWHILE_S = 3.0, 0.5
WATCH_S = 5.0
OLD_T = 1.75e9
SPEC = Spec(preset="old", env=EnvSpec(id="CartPole-v1"), ppo=PpoSpec(), run=RunSpec(total_timesteps=1000))


def make_old(root: Path, runs: int) -> None:
    """`runs` ended runs, a second apart."""
    root.mkdir(parents=True, exist_ok=True)
    write_spec(root / "spec.toml", SPEC)
    spec = (root / "spec.toml").read_bytes()
    (root / "spec.toml").unlink()
    for number in range(runs):
        t = OLD_T + number
        run = RunDir(root / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(t))}-old-{number % 65536:04x}")
        run.path.mkdir()
        run.spec.write_bytes(spec)
        made = RunCreated(1, t, f"old-{number}", "old")
        begun, over = AttemptStarting(2, t, 1), AttemptEnded(3, t + 1.0, 1, Finished("000001000"))
        run.events.write_bytes(b"".join(encode_line(event) for event in (made, begun, over)))


def first_answer_s(lab: Lab, runs: int) -> float:
    """Seconds from the first client's call to a snapshot that counts every run, the supervisor's start included."""
    begun = time.perf_counter()
    while True:
        with suppress(MissionError), lab.connect() as link:
            snapshot = link.ask(lambda id_: GetSnapshot(id=id_)).snapshot
            if snapshot.unread:
                continue  # a first answer that comes sooner says how many are missing
            assert snapshot.ended_total == runs
            return time.perf_counter() - begun


def answers_s(lab: Lab) -> Iterator[float]:
    """Seconds that answers take while the older runs are read."""
    until = time.perf_counter() + WATCH_S
    while time.perf_counter() < until:
        begun = time.perf_counter()
        with Connection.connect(lab.root, start=False) as link:
            link.ask(lambda id_: GetSnapshot(id=id_))
        yield time.perf_counter() - begun
        time.sleep(0.1)


def main() -> None:
    """Measure and print; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    first, meanwhile, elsewhere = [], [], busy_elsewhere()
    with opened() as lab:
        make_old(lab.root, asked.runs)
        for _ in range(asked.rounds):
            first.append(first_answer_s(lab, asked.runs))
            meanwhile.append(max(answers_s(lab)))
            lab.cli("supervisor", "stop")
    found: list[Row] = [
        bounded(f"first answer with {asked.runs:,} ended runs", "s", first, at_most=FIRST_S),
        bounded("slowest answer while they are read", "s", meanwhile, at_most=MEANWHILE_S),
    ]
    for row in found:
        assert row.ours is not None
        print(f"{row.what}: {row.ours.median:.2f} {row.unit} ({row.ours.low:.2f} to {row.ours.high:.2f}), {row.goal}")
    if asked.json is not None:
        write_sheet(
            Sheet("Many old runs", asked_as("benchmarks.many_runs"), tuple(found), elsewhere=elsewhere), asked.json
        )


if __name__ == "__main__":
    main()
