"""System calls that fail, once or from then on: what was acknowledged stays, and what is raised is one of our errors.

A round is one scene, one system call, one error and whether it lasts, at its first, second, ... call until none is hit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from tests.faults.campaign.part import Part, Tell, Violation
from tests.faults.scenes import SCENES
from tests.faults.tracing import SYSCALLS, lacks_strace, striking

__all__ = ["FAILURES", "PART"]

ERRORS = {
    "EIO": SYSCALLS,
    "ENOSPC": ("write", "fsync", "fdatasync", "rename", "mkdir", "mkdirat", "openat", "close"),
    "EMFILE": ("openat",),
    "EROFS": ("rename", "renameat", "unlink", "unlinkat", "mkdir", "mkdirat", "openat"),
    # Only once: Python repeats a call that was interrupted, and would for ever.
    "EINTR": ("write", "fsync", "fdatasync", "openat"),
}

FAILURES = [
    (scene, syscall, error, lasts)
    for scene in SCENES
    for error, syscalls in ERRORS.items()
    for syscall in syscalls
    for lasts in ("", "+")
    # A supervisor that may open nothing, /proc included, cannot begin; that is not about what it writes.
    if not (scene == "adopt" and syscall in ("openat", "close"))
    # No device lets every close fail from then on: it tells once what it lost.
    if not (lasts and (error == "EINTR" or syscall == "close"))
]


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    with striking() as strike:
        for index in rounds:
            scene, syscall, error, lasts = FAILURES[index]
            for ordinal in itertools.count(1):
                struck, wrong = strike(scene, syscall, f"error={error}:when={ordinal}{lasts}")
                yield from wrong
                if not struck:
                    break
                tell("failed calls", 1)


PART = Part("failing-calls", ("D1", "D2", "D3", "D4", "C7"), len(FAILURES), _run, lacks_strace)
