"""How long `status --json` takes beside a bare interpreter, with many ended runs and the supervisor up.

Rounds are interleaved; nothing is asserted, because the machine may be busy. The screen's first paint is measured by
`benchmarks.screen`. Run: python -m benchmarks.startup [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.results import Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import bounded

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "tests" / "fixtures" / "format-1" / "20261121-040628-recorded-2aa5"
ENDED_RUNS = 200


def process_s(words: list[str], environ: dict[str, str]) -> float:
    """Seconds a whole process takes."""
    begun = time.perf_counter()
    subprocess.run(words, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main() -> None:
    """Print the table; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    elsewhere = busy_elsewhere()
    ours = [sys.executable, "-m", "mission_tui"]
    subjects = {"bare interpreter": [sys.executable, "-c", "pass"], "status --json": [*ours, "status", "--json"]}
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        for number in range(ENDED_RUNS):
            shutil.copytree(RECORDED, runs / f"20261120-{number // 60:04d}{number % 60:02d}-recorded-{number:04x}")
        environ = {**os.environ, "MISSION_TUI_RUNS": str(runs), "PYTHONPATH": str(ROOT)}
        for words in subjects.values():  # the first time starts the supervisor
            process_s(words, environ)
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(asked.rounds):
            for name, words in subjects.items():
                times[name].append(process_s(words, environ))
        subprocess.run([*ours, "supervisor", "stop"], env=environ, check=True)
    for name, values in times.items():
        print(f"{name:18} median {statistics.median(values):.3f} s   {min(values):.3f} to {max(values):.3f}")
    if asked.json is not None:
        bare, status = times.values()
        row = bounded(f"`status --json`, {ENDED_RUNS} ended runs", "s", status, against="bare interpreter", theirs=bare)
        write_sheet(Sheet("`status`", asked_as("benchmarks.startup"), (row,), elsewhere=elsewhere), asked.json)


if __name__ == "__main__":
    main()
