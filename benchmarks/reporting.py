"""What reporting costs an SB3 script: the same PPO with and without the hook, turn by turn in one process.

Counted in processor seconds of the whole process, because the machine may be busy. The reporting thread also lives
during the turns without the hook: what it takes while nothing is said is measured first and taken off those. A process
of its own listens, as a supervisor would. Run: python -m benchmarks.reporting [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.results import Row, Sheet, Spread, write_sheet

LANES, STEPS, BATCH, EPOCHS = 8, 128, 256, 4
IDLE_S = 3.0
WARM_UP = 5
GOAL = 0.99
LISTENER = (
    "import socket, sys\nlistener = socket.socket(socket.AF_UNIX)\nlistener.bind(sys.argv[1])\nlistener.listen()\n"
    "print('up', flush=True)\nlink, _ = listener.accept()\nwhile link.recv(1 << 16): pass\n"
)


@dataclass
class Side:
    """One model, and the processor and wall seconds of its turns."""

    model: PPO
    rounds: list[tuple[float, float]] = field(default_factory=list)
    inside: list[tuple[float, float]] = field(default_factory=list)

    def turn(self, callback: Any) -> None:
        """One rollout and one update, as a `learn()` of its own."""
        begun = time.process_time(), time.monotonic()
        self.model.learn(LANES * STEPS, callback=callback, reset_num_timesteps=False)
        self.rounds.append((time.process_time() - begun[0], time.monotonic() - begun[1]))

    def clocked_turn(self, callback: Any) -> None:
        """A turn, of which the seconds inside `callback` and those of other threads are kept too."""
        spent = [0.0]
        for name in ("update_locals", "on_step", "on_rollout_start", "on_rollout_end"):
            setattr(callback, name, clocked(getattr(callback, name), spent))
        began, alone = time.process_time(), time.thread_time()
        self.turn(callback)
        cpu, mine = time.process_time() - began, time.thread_time() - alone
        self.inside.append((spent[0], cpu - mine))


def clocked(call: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """`call`, whose processor seconds are added to `spent`."""

    def timed(*said: Any) -> Any:
        begun = time.thread_time()
        try:
            return call(*said)
        finally:
            spent[0] += time.thread_time() - begun

    return timed


def model() -> PPO:
    """PPO as its documentation begins."""
    vec = make_vec_env("CartPole-v1", LANES, seed=1)
    return PPO("MlpPolicy", vec, n_steps=STEPS, batch_size=BATCH, n_epochs=EPOCHS, seed=1, device="cpu")


def measured(folder: Path, rounds: int) -> tuple[Side, Side, float]:
    """The turns without and with the hook, and the share of a core that the thread takes while nothing is said."""
    os.environ |= {
        "MISSION_TUI_RUN": "bench",
        "MISSION_TUI_RUN_DIR": str(folder),
        "MISSION_TUI_ATTEMPT": "1",
        "MISSION_TUI_NONCE": "n",
        "MISSION_TUI_TELEMETRY": str(folder / "telemetry.sock"),
    }
    from mission_tui import report
    from mission_tui.report_sb3 import ReportCallback

    report.phase("starting")
    plain, hooked = Side(model()), Side(model())
    begun = time.process_time()
    time.sleep(IDLE_S)
    idle = (time.process_time() - begun) / IDLE_S
    for number in range(WARM_UP + rounds):
        # Who comes first alternates, so that a machine that gets busier favours neither.
        for side in (plain, hooked) if number % 2 else (hooked, plain):
            if side is hooked:
                side.clocked_turn(ReportCallback())
            else:
                side.turn(None)
    for each in (plain.rounds, hooked.rounds, hooked.inside):
        del each[:WARM_UP]
    return plain, hooked, idle


def row_of(plain: Side, hooked: Side, idle: float) -> Row:
    """The hook beside nothing. The thread's idle seconds are wall seconds: they count as on a machine of one's own."""
    steps = LANES * STEPS
    without = [steps / (cpu - idle * wall) for cpu, wall in plain.rounds]
    with_hook = [steps / (cpu - idle * (wall - cpu)) for cpu, wall in hooked.rounds]
    ratio = Spread.of([mine / theirs for mine, theirs in zip(with_hook, without, strict=True)])
    called = statistics.median(calls / cpu for (calls, _), (cpu, _) in zip(hooked.inside, hooked.rounds, strict=True))
    thread = statistics.median(
        (other - idle * (wall - cpu)) / cpu
        for (_, other), (cpu, wall) in zip(hooked.inside, hooked.rounds, strict=True)
    )
    return Row(
        what=f"SB3 PPO, {LANES} x CartPole x {STEPS}, every learn() reported by the hook",
        unit="steps per processor second",
        ours=Spread.of(with_hook),
        goal=f"at least {GOAL} of its speed",
        met=ratio.median >= GOAL,
        against="the same script, not reported",
        peer=Spread.of(without),
        ratio=ratio,
        note=f"clocked directly, the callback takes {called:.2%} of its seconds and the thread {thread:.2%}, "
        f"{idle:.2%} of a core while nothing is said",
    )


def main() -> None:
    """Print the row, and write it where `--json` says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    th.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-c", LISTENER, f"{folder}/telemetry.sock"]
        listener = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert listener.stdout is not None
        listener.stdout.readline()
        try:
            row = row_of(*measured(Path(folder), arguments.rounds))
        finally:
            listener.kill()
            listener.wait()
            listener.stdout.close()
    assert row.ours is not None
    assert row.ratio is not None
    print(f"{row.what}: {row.ours.median:,.0f} steps/s, {row.ratio.median:.4f} x {row.against}")
    print(f"({row.ratio.low:.4f} to {row.ratio.high:.4f}); {row.note}")
    if arguments.json:
        command = f"python -m benchmarks.reporting --rounds {arguments.rounds}"
        write_sheet(Sheet("Reporting", command, (row,)), arguments.json)
        print(f"written to {arguments.json}", file=sys.stderr)


if __name__ == "__main__":
    main()
