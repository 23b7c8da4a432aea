"""Several runs in one job of Slurm (`slurm.pack`), for clusters whose administrator has set no shares of a GPU.

Who asks for the same and comes within a few seconds shares a job; nobody joins one that was submitted. A folder below
the supervisor's own names the attempts of a job, so that any supervisor and the node know them. Which member is to end
is a word in its `signal` file; Slurm is told only once no member is left.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from mission_tui.errors import DamagedError
from mission_tui.fleet.specs.spec import Spec
from mission_tui.plain_files import make_folder, remove_tree
from mission_tui.records.files.atomic import read_json, storing, write_json
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir, supervisor_dir
from mission_tui.supervisor.launchers.engine import SECRETS, Known, half_of_secrets, unless_seen
from mission_tui.supervisor.launchers.slurm_commands import (
    PASSED,
    SLURM_LOG,
    Cluster,
    SlurmJob,
    asked_words,
    job_name,
    kept_environ,
    words_of_job,
)

GATHER_S = 3.0
"""How long a run waits for others to share its job."""

PACKS = "slurm"


class PackedAttempt(Struct, frozen=True, kw_only=True):
    """A member of a job: the run's directory, and its attempt."""

    run_dir: str
    attempt: int

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or was to end before it had begun."""
        folder = RunDir(Path(self.run_dir)).attempt(self.attempt)
        return folder.exit.exists() or (folder.signal.exists() and not folder.identity.exists())


class Pack(Struct, frozen=True, kw_only=True):
    """`pack.json`: the attempts that share a job."""

    attempts: tuple[PackedAttempt, ...]


class SlurmKnown(Known[SlurmJob]):
    """`spec` until it is submitted, `since` when that was asked. `pack` is the folder of the job that it shares.
    `put_off`: why it is submitted again at `again_at`. `followed`: it was submitted by this supervisor or seen in
    Slurm's list, which would have said how it ended.
    """

    spec: Spec | None = None
    since: float = 0.0
    pack: str = ""
    put_off: str = ""
    again_at: float = float("-inf")
    followed: bool = False

    def is_due(self, now: float) -> bool:
        """Whether it is to be submitted: nobody has tried, or what was tried is to be tried again."""
        return self.order is not None and not self.refused and not self.sending and now >= self.again_at

    @property
    def key(self) -> tuple[str, str]:
        """Name and folder of its job."""
        if not self.pack:
            return job_name(self.run, self.attempt), str(self.run.path)
        return f"{self.pack}+", str(pack_folder(self.run.path.parent, self.pack))


def pack_folder(root: Path, name: str) -> Path:
    """Where a job that carries several runs has its own files."""
    return supervisor_dir(root) / PACKS / name


def due_packs(waiting: Sequence[SlurmKnown], now: float) -> Iterator[list[SlurmKnown]]:
    """Who of `waiting` is to be submitted now, those together that share a job: it is full, or nobody came for it."""
    alike: dict[object, list[SlurmKnown]] = {}
    for known in waiting:
        if known.spec is not None:
            slurm = known.spec.slurm
            alike.setdefault((slurm.pack, slurm.warn_s, *asked_words(known.spec)), []).append(known)
    for members in alike.values():
        assert members[0].spec is not None
        most = members[0].spec.slurm.pack
        for first in range(0, len(members), most):
            together = members[first : first + most]
            if len(together) == most or now - together[0].since >= GATHER_S:
                yield together


def write_pack(root: Path, members: Sequence[SlurmKnown]) -> str:
    """Name who shares a job, in a folder of its own; its name. Raises `StorageError`."""
    name = job_name(members[0].run, members[0].attempt)
    folder = pack_folder(root, name)
    with storing(folder, "write"):
        make_folder(folder.parent)
        make_folder(folder)
    attempts = (PackedAttempt(run_dir=str(known.run.path), attempt=known.attempt) for known in members)
    write_json(folder / "pack.json", Pack(attempts=tuple(attempts)))
    return name


def everybody_is_over(root: Path, name: str) -> bool:
    """Whether no member of a job is left; False where that cannot be told."""
    with suppress(DamagedError, OSError):
        pack = read_json(pack_folder(root, name) / "pack.json", Pack)
        return pack is not None and all(each.is_over for each in pack.attempts)
    return False


def forget_pack(root: Path, name: str) -> None:
    """Remove the folder of a job that is over."""
    with suppress(OSError):
        remove_tree(pack_folder(root, name))


def pack_words(root: Path, name: str, specs: Sequence[Spec], cluster: Cluster) -> list[str]:
    """The words of the submission."""
    folder = pack_folder(root, name)
    return words_of_job(f"{name}+", folder, folder / SLURM_LOG, specs, cluster)


def pack_script(root: Path, name: str) -> str:
    """What the node does: it becomes the parent of a keeper for each run."""
    folder = pack_folder(root, name)
    words = [sys.executable, "-P", "-m", "mission_tui.keeper.pack", str(folder), PASSED]
    return f"#!/bin/bash\n{unless_seen(folder / 'pack.json', root)}exec {shlex.join(words)}\n"


def pack_environ(members: Sequence[tuple[RunDir, LaunchOrder]], environ: Mapping[str, str]) -> dict[str, str]:
    """As for one run, with one half of a secret for each. Raises as `half_of_secrets` does."""
    halves = (half_of_secrets(run, order) for run, order in members)
    return {**kept_environ(environ), **{f"{SECRETS}_{place}": half for place, half in enumerate(halves)}}


def waits_for_company(known: SlurmKnown) -> bool:
    """Whether others may still come to share its job."""
    return (
        known.spec is not None
        and known.spec.slurm.pack > 1
        and not known.sending
        and time.monotonic() - known.since < GATHER_S
    )


__all__ = [
    "Pack",
    "SlurmKnown",
    "due_packs",
    "everybody_is_over",
    "forget_pack",
    "pack_environ",
    "pack_folder",
    "pack_script",
    "pack_words",
    "waits_for_company",
    "write_pack",
]
