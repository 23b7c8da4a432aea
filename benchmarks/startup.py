"""How long `status --json`, the first paint and a full list take, each beside its floor measured in the same run.

`status` stands beside a bare interpreter, the screen beside the smallest Textual application. Rounds are interleaved;
nothing is asserted, because the machine may be busy. Run: python -m benchmarks.startup [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
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

from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import bounded

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "tests" / "fixtures" / "format-1" / "20261121-040628-recorded-2aa5"
ENDED_RUNS, MANY_RUNS = 200, 1000
PAINT_S, ATTACH_S = 0.3, 1.0
LIMIT_S = 60.0
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


def shown_s(words: list[str], environ: dict[str, str], text: bytes = b"mission-tui") -> float:
    """Seconds from start until `text` is on a 160x50 terminal; the program is then left with `q`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    begun = time.perf_counter()
    with subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True
    ) as process:
        os.close(slave)
        seen = b""
        while text not in seen:
            if not select.select([master], [], [], LIMIT_S)[0]:
                raise TimeoutError(f"{words} shows no {text!r}")
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


def recorded(folder: Path, count: int) -> dict[str, str]:
    """An environment whose runs root has `count` ended runs."""
    runs = folder / f"{count}-runs"
    for number in range(count):
        shutil.copytree(RECORDED, runs / f"20261120-{number // 60:04d}{number % 60:02d}-recorded-{number:04x}")
    return {**os.environ, "MISSION_TUI_RUNS": str(runs), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}


def rows(times: dict[str, list[float]]) -> list[Row]:
    """What there are goals for, and the rest."""
    bare, smallest = times["bare interpreter"], times["smallest Textual app"]
    app = "smallest Textual app"
    note = f"the smallest Textual app takes {statistics.median(smallest):.2f} s of it"
    paint, attach = f"first paint, {ENDED_RUNS} ended runs", f"attach, {MANY_RUNS:,} ended runs listed"
    return [
        bounded(paint, "s", times["first paint"], at_most=PAINT_S, against=app, theirs=smallest, note=note),
        bounded(attach, "s", times["attach"], at_most=ATTACH_S, against=app, theirs=smallest, note=note),
        bounded(
            f"`status --json`, {ENDED_RUNS} ended runs",
            "s",
            times["status --json"],
            against="bare interpreter",
            theirs=bare,
        ),
    ]


def main() -> None:
    """Print the table; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    elsewhere = busy_elsewhere()
    ours = [sys.executable, "-m", "mission_tui"]
    with tempfile.TemporaryDirectory() as folder:
        few, many = recorded(Path(folder), ENDED_RUNS), recorded(Path(folder), MANY_RUNS)
        subjects: dict[str, Callable[[], float]] = {
            "bare interpreter": lambda: process_s([sys.executable, "-c", "pass"], few),
            "status --json": lambda: process_s([*ours, "status", "--json"], few),
            "smallest Textual app": lambda: shown_s([sys.executable, "-c", SMALLEST_APP], few),
            "first paint": lambda: shown_s(ours, few),
            "attach": lambda: shown_s(ours, many, f"{MANY_RUNS} ended".encode()),
        }
        for subject in subjects.values():  # the first time starts the supervisors
            subject()
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(options.rounds):
            for name, subject in subjects.items():
                times[name].append(subject())
        for environ in (few, many):
            subprocess.run([*ours, "supervisor", "stop"], env=environ, check=True)
    print(f"{ENDED_RUNS} and {MANY_RUNS} ended runs, supervisor attached, {options.rounds} rounds")
    for name, values in times.items():
        print(f"{name:22} median {statistics.median(values):.3f} s   {min(values):.3f} to {max(values):.3f}")
    if options.json is not None:
        found = tuple(rows(times))
        sheet = Sheet("First paint and `status`", asked_as("benchmarks.startup"), found, elsewhere=elsewhere)
        write_sheet(sheet, options.json)


if __name__ == "__main__":
    main()
