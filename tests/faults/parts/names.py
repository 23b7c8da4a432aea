"""Names that are paths, options, commands or half a character: refused in a sentence, or one plain folder name."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from mission_tui.errors import CheckpointError, UsageError
from mission_tui.fleet.launch_plan import check_name
from mission_tui.records.runs.checkpoint import CheckpointFacts, save_checkpoint
from mission_tui.records.runs.layout import RUN_ID, new_run_id
from tests.faults.campaign.part import Part, Tell, Violation, chance, memory_folder

__all__ = ["PART"]

PARTS = (
    "..", "/", "-", "\0", "\n", "$(touch x)", "`id`", ";", "|", "'", '"', "\\", "~", "*", "é", "🚀", "日本", "\u202e",
    "\ud800", " ", ".", "a",
    "B", "con", "NUL", "aux.txt", "x" * 300, "%2e%2e", "\u0130", "\u212a", "ﬀ", "_", "0", "--help", "\t",
    "\x1b[2J", "[/]", "A" * 64,
)  # fmt: skip
FACTS = CheckpointFacts(run="r", attempt=1, update=1, timesteps=1, t=0.0, reason="time", spec_sha256="0")


def name_of(luck: random.Random) -> str:
    """A name made of a few such parts."""
    return "".join(luck.choice(PARTS) for _ in range(luck.randrange(1, 5)))


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    with memory_folder() as root:
        for index in rounds:
            name = name_of(chance(seed, index))
            run_id = new_run_id(name)
            if not RUN_ID.fullmatch(run_id) or len(run_id) > 80 or Path(run_id).name != run_id:
                yield f"round {index}: {name!r} makes the id {run_id!r}"
            try:
                taken = check_name(name)
                tell("taken", 1)
                if Path(taken).name != taken or taken.startswith(("-", ".")) or not taken.isascii():
                    yield f"round {index}: {name!r} may name a run"
            except UsageError as refusal:
                tell("refused", 1)
                if not str(refusal).isprintable() or len(str(refusal)) > 300:
                    yield f"round {index}: {name!r} is refused as {str(refusal)[:80]!r}"
            yield from (f"round {index}: {it}" for it in _saved(root / "run" / "checkpoints", name))
            if [path.name for path in root.iterdir()] != ["run"]:
                yield f"round {index}: {name!r} left the folder"


def _saved(checkpoints: Path, name: str) -> Iterator[Violation]:
    """A checkpoint of that name lies in its folder or nowhere."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    try:
        save_checkpoint(checkpoints, name, lambda folder: None, FACTS)
    except CheckpointError:
        return
    except Exception as error:  # noqa: BLE001 - anything but our own errors is what is looked for
        if not (type(error).__name__ == "StorageError" and len(name) > 200):
            yield f"a checkpoint named {name[:80]!r} raised {type(error).__name__}: {error}"
    else:
        if not (checkpoints / name).is_dir() or (checkpoints / name).parent != checkpoints:
            yield f"a checkpoint named {name!r} lies elsewhere"


PART = Part("names", ("N3",), 5_000, _run)
