"""How often `bench` is right: a preset against itself, and against three times its epochs, many benches of each.

Every bench is the real verb on a runs root of its own; one that fails is counted as a wrong answer, and the rest go on.
Run: python -m benchmarks.verdicts [--benches N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.fleet.sheet import finish
from benchmarks.results import Row, asked_as
from benchmarks.rows import bounded

__all__ = ["RIGHT", "Answer", "benched", "main", "row_of"]

PRESET = "cartpole"
EPOCHS = 20  # those of the preset
RIGHT = {"itself": ("same", 0.95), "three times its epochs": ("slower", 1.0)}
FAILED = "failed"

Answer = dict[str, Any]
"""`verdict` in a word or None, the `sentence` that says it, and `elsewhere`: what other work took of all cores, in
percent, at the median of its runs.
"""


def benched(root: Path, duration: str, repeats: int, against: str) -> Answer:
    """One bench; `three times its epochs` is the preset that is timed, the plain one what it meets."""
    more = ("--set", f"ppo.n_epochs={3 * EPOCHS}") if against != "itself" else ()
    words = ("bench", PRESET, *more, "--vs", PRESET, "--duration", duration, "--repeat", str(repeats), "--json")
    done = subprocess.run(
        [sys.executable, "-m", "mission_tui", *words],
        env=os.environ | {"MISSION_TUI_RUNS": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return {"verdict": FAILED, "sentence": f"failed with exit code {done.returncode}: {last}"}
    found = json.loads(done.stdout)
    timed = [repeat for side in found["sides"] for repeat in (*side["repeats"], *side["set_aside"])]
    elsewhere = statistics.median(repeat["load"]["elsewhere_percent"] or 0.0 for repeat in timed)
    return {"verdict": found["verdict"], **found["ratio"], "elsewhere": elsewhere}


def row_of(against: str, answers: Sequence[Answer]) -> Row:
    """How many of the benches said the right word, and what the others said."""
    word, share = RIGHT[against]
    said = Counter(answer["verdict"] or "no verdict" for answer in answers)
    others = [f"{count} said {other}" for other, count in said.items() if other != word]
    met = [answer["elsewhere"] for answer in answers if "elsewhere" in answer]
    if met:
        others.append(f"other work took {statistics.median(met):.0f} % of all cores, {max(met):.0f} % at most")
    what, total = f"`bench {PRESET}` against {against}, that say {word}", len(answers)
    return bounded(what, f"of {total}", [said[word]], at_least=share * total, note="; ".join(others))


def main(words: Sequence[str]) -> int:
    """Print each verdict as it comes, then the counts; 1 when they are not what they should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benches", type=int, default=20)
    parser.add_argument("--duration", default="5s")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(words)
    answers: dict[str, list[Answer]] = {against: [] for against in RIGHT}
    with tempfile.TemporaryDirectory(prefix="verdicts-") as folder:
        for number in range(1, asked.benches + 1):
            for against, given in answers.items():
                given.append(benched(Path(folder), asked.duration, asked.repeat, against))
                print(f"{number:3}  against {against}: {given[-1]['sentence']}", flush=True)
        subprocess.run(
            [sys.executable, "-m", "mission_tui", "--runs-dir", folder, "supervisor", "stop"],
            stdout=subprocess.DEVNULL,
            check=False,  # there may be none, if the last bench failed for want of one
        )
    rows = [row_of(against, given) for against, given in answers.items()]
    finish("Verdicts of `bench`", asked_as("benchmarks.verdicts"), rows, asked.json)
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
