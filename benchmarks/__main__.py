"""All benchmarks, one after the other, in parts of whatever length: the same command goes on where it was left.

A benchmark whose sheet already speaks of this code is not measured again. Nothing is begun after `--seconds`, so that a
part takes at most that and the benchmark that was then under way; none takes half an hour on two cores.
Run: python -m benchmarks [--seconds N] [--sheets FOLDER] [NAME ...]
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.results import ROOT, read_sheets, speaks_of_this_code

ORDER = (
    "judging",
    "mission",
    "scaling",
    "startup",
    "cold_start",
    "stepping",
    "ppo",
    "round_parts",
    "precision",
    "supervisor",
    "sampling",
    "cpu_shares",
    "joining",
    "screen",
    "clusters",
    "reporting",
    "fleet.overhead",
    "fleet.heavy",
    "fleet.beast",
    "modes",
)
"""The light ones first; `learning` and `verdicts` take long, and are measured only by name."""
BY_NAME = ("learning", "verdicts")


def main(arguments: Sequence[str] | None = None, measure: Callable[[str, Path], int] | None = None) -> int:
    """Measure what has no sheet of this code; 1 when a benchmark failed, which keeps none of the others waiting."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure what was not measured of this code yet.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(ORDER + BY_NAME)}")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further benchmark after so long")
    parser.add_argument("--sheets", type=Path, default=ROOT / "benchmarks/results", help="where sheets are left")
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.names if name not in ORDER + BY_NAME]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(ORDER + BY_NAME)}")
    begun, failed = time.monotonic(), list[str]()
    wanted = tuple(asked.names) or ORDER
    sheets = read_sheets(asked.sheets)
    left = [name for name in wanted if name not in sheets or not speaks_of_this_code(name, sheets[name])]
    if kept := [name for name in wanted if name not in left]:
        print(f"measured already, of this code: {', '.join(kept)}", flush=True)
    while left and time.monotonic() - begun < asked.seconds:
        name = left.pop(0)
        print(f"{name}: begun, {len(left)} more after it", flush=True)
        if (measure or measured)(name, asked.sheets / f"{name}.json"):
            failed.append(name)
    if left:
        print(f"not begun: {', '.join(left)}; the same command goes on there", flush=True)
    if failed:
        print(f"failed, see above: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def measured(name: str, file: Path) -> int:
    """The exit code of that benchmark, in a process of its own with one torch thread."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(file)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
