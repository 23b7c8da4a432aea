"""The long campaign: `python -m tests.faults.campaign [--seed S] [--only a,b] [--seconds N] [--scale 0.1] [--fresh]`.

Each part goes on where it was left. Exits 1 if any part has found a violation of the invariants.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from mission_tui.errors import nearest
from tests.faults.campaign.part import Part
from tests.faults.campaign.progress import Progress, kept_progress, load_progress, rounds_of
from tests.faults.campaign.report import write_report
from tests.faults.parts import ALL

ROOT = Path(__file__).parents[3]
STATE = ROOT / ".faults"
DOCUMENT = ROOT / "docs" / "faults.md"


def main() -> int:
    asked = _arguments()
    STATE.mkdir(exist_ok=True)
    # Supervisors of a campaign promise nothing to those of this machine, and one that is killed within this process
    # would keep the lock of their ledger.
    os.environ["MISSION_TUI_LEDGER"] = "off"
    commit = _commit()
    for part in _chosen(asked.only):
        rounds = max(1, round(part.rounds * asked.scale))
        fresh = Progress(part.name, asked.seed, rounds)
        progress = fresh if asked.fresh else load_progress(STATE, part, asked.seed, rounds)
        if progress.done < progress.asked:
            progress.measured_at(commit)
        _run(part, progress, asked.seconds)
    run = [kept for part in ALL if (kept := kept_progress(STATE, part))]
    write_report(run, STATE, DOCUMENT)
    bad = sum(len(progress.violations) for progress in run)
    print(f"{len(run)} parts, {sum(it.done for it in run):,} rounds, {bad} violations; {STATE / 'report.json'}")
    return 1 if bad else 0


def _run(part: Part, progress: Progress, seconds: float) -> None:
    progress.skipped = part.lacks()
    progress.day = time.strftime("%Y-%m-%d")
    print(
        f"{part.name}: {progress.skipped or f'{progress.done:,} of {progress.asked:,} rounds done before'}", flush=True
    )
    rounds = rounds_of(progress, STATE, 0.0 if progress.skipped else seconds)
    try:
        for violation in part.run(rounds, progress.seed, progress.tell):
            progress.violations.append(violation)
            print(f"  VIOLATION {violation}", flush=True)
            progress.save(STATE)
    finally:
        rounds.close()
        progress.save(STATE)
    print(f"  {progress.done:,} rounds, {len(progress.violations)} violations, {progress.seconds:,.1f} s", flush=True)


def _commit() -> str:
    """The checkout's commit, with `+` where its code was changed since; "" outside git."""
    try:
        commit = _git("rev-parse", "--short=8", "HEAD")
        return f"{commit}+" if _git("status", "--porcelain", "--", "mission_tui", "tests") else commit
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


def _chosen(only: str) -> list[Part]:
    by_name = {part.name: part for part in ALL}
    names = only.split(",") if only else list(by_name)
    for name in names:
        if name not in by_name:
            known = ", ".join(by_name)
            sys.exit(f"no part '{name}'{nearest(name, by_name)}; known are {known}")
    return [by_name[name] for name in names]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaign", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="what every random choice comes from")
    parser.add_argument("--only", default="", help="parts, separated by commas")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most this long for each part")
    parser.add_argument("--scale", type=float, default=1.0, help="this share of the full number of rounds")
    parser.add_argument("--fresh", action="store_true", help="begin again instead of going on")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
