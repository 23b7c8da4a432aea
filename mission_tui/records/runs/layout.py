"""The run directory as the database: every path inside it, the rule for ids, and how runs are found on disk.

The keeper knows the same file names without importing this module; `docs/run-directory.md` is their common contract.
Directories of earlier versions are read as they are, without a migration: what they lack is a default or unknown.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from mission_tui.fence import FENCE
from mission_tui.plain_files import names_in

RUN_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9][a-z0-9._-]*-[0-9a-f]{4}")
_ATTEMPT = re.compile(r"[0-9]{1,9}")
STAMP_CHARACTERS = len("20261121-104207-")
"""What of a run id is left out of the name of a run that was given none."""


class RunDir(Struct, frozen=True):
    """Paths of one run. Nothing is created by asking for a path."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def spec(self) -> Path:
        return self.path / "spec.toml"

    @property
    def snapshot(self) -> Path:
        return self.path / "snapshot"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def timed(self) -> Path:
        """What a run with a budget in seconds did in them."""
        return self.path / "benchmark_metrics.json"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def lease(self) -> Path:
        return self.path / "lease"

    @property
    def fence(self) -> Path:
        """Names the newest attempt; absent before the second."""
        return self.path / FENCE

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def origin(self) -> Path:
        """The checkpoint of another run that this one, a branch, began with."""
        return self.path / "origin"

    @property
    def evaluations(self) -> Path:
        return self.path / "evaluations"

    @property
    def study(self) -> Path:
        """Optuna's journal of a search; only in the run that is its driver."""
        return self.path / "study.log"

    @property
    def search(self) -> Path:
        """What has come of the search so far; only in the run that is its driver."""
        return self.path / "search.json"

    def track(self, tracker: str) -> Path:
        """How far the run was passed on to `tracker`; absent while nobody did."""
        return self.path / f"track-{tracker}.json"

    @property
    def track_log(self) -> Path:
        """What the tracker's library printed, of the newest process."""
        return self.path / "track.log"

    def attempt(self, number: int) -> AttemptDir:
        return AttemptDir(self.path / "attempts" / str(number))

    def attempts(self) -> list[int]:
        """Numbers of the attempts on disk, ascending."""
        try:
            names = names_in(self.path / "attempts")
        except OSError:
            return []
        return sorted(int(name) for name in names if _ATTEMPT.fullmatch(name))


class AttemptDir(Struct, frozen=True):
    """Paths of one attempt: `launch.json` (argv, cwd, env, nonce; 0600) is written before the keeper starts."""

    path: Path

    @property
    def launch(self) -> Path:
        return self.path / "launch.json"

    @property
    def spec(self) -> Path:
        """This attempt's spec; absent when it equals the run's."""
        return self.path / "spec.toml"

    @property
    def terms(self) -> Path:
        """On what terms it goes on from its checkpoint; absent when as it was."""
        return self.path / "terms.json"

    @property
    def handle(self) -> Path:
        """Which launcher has the attempt, and under which name; absent in runs of earlier versions."""
        return self.path / "handle.json"

    @property
    def identity(self) -> Path:
        return self.path / "identity.json"

    @property
    def effective(self) -> Path:
        return self.path / "effective.toml"

    @property
    def provenance(self) -> Path:
        """From which code, packages and machine it was launched; absent while that is not known."""
        return self.path / "provenance.json"

    @property
    def loaded(self) -> Path:
        """What its trainer has imported of the person's own code; absent before that, and for a command."""
        return self.path / "loaded.json"

    @property
    def output(self) -> Path:
        return self.path / "output.log"

    @property
    def reported(self) -> Path:
        """What the script of a command says by `mission_tui.report`; absent while it says nothing."""
        return self.path / "reported.jsonl"

    @property
    def stop_asked(self) -> Path:
        """There once a script that reports is to save and leave."""
        return self.path / "reported.jsonl.stop"

    @property
    def orders(self) -> Path:
        """Orders to a trainer that no socket reaches; absent before the first, and wherever one does."""
        return self.path / "orders.jsonl"

    @property
    def alive(self) -> Path:
        """What such a trainer says of itself, replaced every two seconds."""
        return self.path / "alive.json"

    @property
    def signal(self) -> Path:
        """What the keeper is to do, where no signal reaches it: TERM or QUIT, in one word; absent before."""
        return self.path / "signal"

    @property
    def pad(self) -> Path:
        """One half of what is withheld from files, where the engine would show the whole; gone once it was read."""
        return self.path / "pad"

    @property
    def shared_memory(self) -> Path:
        """Inodes and names of shared memory that its environments made; absent when they made none."""
        return self.path / "shared-memory"

    @property
    def exit(self) -> Path:
        return self.path / "exit.json"


def supervisor_dir(root: Path) -> Path:
    """Lock, log and fleet-wide journal of a runs root."""
    return root / ".supervisor"


def instruments_dir(root: Path) -> Path:
    """What GPUs, processors and phases did over the last day."""
    return supervisor_dir(root) / "instruments"


def new_run_id(stem: str, now: float | None = None) -> str:
    """A fresh id such as `20261121-104207-heavy-3f9a`: local start time, slug of `stem`, four random hex digits."""
    slug = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._")[:40] or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{slug}-{os.urandom(2).hex()}"


def run_dirs(root: Path) -> Iterator[RunDir]:
    """Run directories of a runs root, oldest first. Folders that are not named like a run are passed over."""
    if not root.is_dir():
        return
    # Asked of the listing itself: with fifty thousand runs a look at each folder takes longer than reading them.
    with os.scandir(root) as entries:
        names = sorted(
            entry.name for entry in entries if RUN_ID.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        )
    for name in names:
        yield RunDir(root / name)
