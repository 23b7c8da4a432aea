"""How long `status --json` and the first paint of the screen take, each beside its floor measured in the same run.

`status` stands beside a bare interpreter, the screen beside the smallest Textual application. Rounds are interleaved
and medians are printed; nothing is asserted, because the machine may be busy. Run: `make bench`.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "tests" / "fixtures" / "format-1" / "20261121-040628-recorded-2aa5"
ENDED_RUNS = 200
ROUNDS = 7
SMALLEST_APP = """
from textual.app import App
from textual.widgets import Static
class Smallest(App):
    BINDINGS = [("q", "quit", "leave")]
    def compose(self):
        yield Static("mission-tui")
Smallest().run()
"""


def process_s(words: list[str], environ: dict[str, str]) -> float:
    """Seconds a whole process takes."""
    begun = time.perf_counter()
    subprocess.run(words, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def first_paint_s(words: list[str], environ: dict[str, str]) -> float:
    """Seconds from start until the program's name is on a 160x50 terminal; the program is then left with `q`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    begun = time.perf_counter()
    with subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True
    ) as process:
        os.close(slave)
        seen = b""
        while b"mission-tui" not in seen:
            select.select([master], [], [])
            seen += os.read(master, 65536)
        painted = time.perf_counter() - begun
        os.write(master, b"q")
        while select.select([master], [], [], 5.0)[0]:
            try:
                if not os.read(master, 65536):
                    break
            except OSError:
                break
        process.wait(timeout=10)
    os.close(master)
    return painted


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        for number in range(ENDED_RUNS):
            shutil.copytree(RECORDED, runs / f"20261120-{number // 60:04d}{number % 60:02d}-recorded-{number:04x}")
        environ = {**os.environ, "MISSION_TUI_RUNS": str(runs), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        ours = [sys.executable, "-m", "mission_tui"]
        subjects: dict[str, Callable[[], float]] = {
            "bare interpreter": lambda: process_s([sys.executable, "-c", "pass"], environ),
            "status --json": lambda: process_s([*ours, "status", "--json"], environ),
            "smallest Textual app": lambda: first_paint_s([sys.executable, "-c", SMALLEST_APP], environ),
            "first paint": lambda: first_paint_s(ours, environ),
        }
        for subject in subjects.values():
            subject()
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(ROUNDS):
            for name, subject in subjects.items():
                times[name].append(subject())
        subprocess.run([*ours, "supervisor", "stop"], env=environ, check=True)
    print(f"{ENDED_RUNS} ended runs, supervisor attached, {ROUNDS} rounds, load {os.getloadavg()[0]:.1f}")
    for name, values in times.items():
        print(f"{name:22} median {statistics.median(values):.3f} s   {min(values):.3f} to {max(values):.3f}")


if __name__ == "__main__":
    main()
