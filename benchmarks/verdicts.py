"""How often `bench` is right: a preset against itself, and against three times its epochs, many benches of each.

Every bench is the real verb on a runs root of its own. Run: python -m benchmarks.verdicts [--benches N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PRESET = "cartpole"
EPOCHS = 20  # those of the preset
RIGHT = {"itself": ("same", 0.95), "three times its epochs": ("slower", 1.0)}


def benched(root: Path, duration: str, repeats: int, against: str) -> dict[str, Any]:
    """The document of one bench; `three times its epochs` is the preset that is timed, the plain one what it meets."""
    more = ("--set", f"ppo.n_epochs={3 * EPOCHS}") if against != "itself" else ()
    words = ("bench", PRESET, *more, "--vs", PRESET, "--duration", duration, "--repeat", str(repeats), "--json")
    done = subprocess.run(
        [sys.executable, "-m", "mission_tui", *words],
        env=os.environ | {"MISSION_TUI_RUNS": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(words: Sequence[str]) -> int:
    """Print each verdict as it comes, then the counts; 1 when they are not what they should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benches", type=int, default=20)
    parser.add_argument("--duration", default="5s")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(words)
    counts: dict[str, dict[str, int]] = {against: {} for against in RIGHT}
    ratios: dict[str, list[dict[str, Any]]] = {against: [] for against in RIGHT}
    with tempfile.TemporaryDirectory(prefix="verdicts-") as folder:
        for number in range(1, asked.benches + 1):
            for against in RIGHT:
                found = benched(Path(folder), asked.duration, asked.repeat, against)
                word = found["verdict"] or "no verdict"
                counts[against][word] = counts[against].get(word, 0) + 1
                ratios[against].append({"verdict": found["verdict"], **found["ratio"]})
                print(f"{number:3}  against {against}: {found['ratio']['sentence']}", flush=True)
        subprocess.run(
            [sys.executable, "-m", "mission_tui", "--runs-dir", folder, "supervisor", "stop"],
            stdout=subprocess.DEVNULL,
            check=True,
        )
    held = True
    for against, (word, share) in RIGHT.items():
        right = counts[against].get(word, 0)
        held = held and right >= share * asked.benches
        print(f"against {against}: {right} of {asked.benches} say {word} ({counts[against]})")
    if asked.json is not None:
        asked.json.write_text(json.dumps({"counts": counts, "benches": ratios}, indent=1) + "\n", encoding="utf-8")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
