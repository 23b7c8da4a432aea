"""SIGKILL at every system call of every change of state: the old state or the new one, never neither.

A round is one scene and one system call, killed at its first, second, ... call until it comes through.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from tests.faults.campaign.part import Part, Tell, Violation
from tests.faults.scenes import SCENES
from tests.faults.tracing import SYSCALLS, lacks_strace, striking

__all__ = ["PART", "PLACES"]

PLACES = [(scene, syscall) for scene in SCENES for syscall in SYSCALLS]


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    with striking() as strike:
        for index in rounds:
            scene, syscall = PLACES[index]
            for ordinal in itertools.count(1):
                struck, wrong = strike(scene, syscall, f"signal=SIGKILL:when={ordinal}")
                yield from wrong
                if not struck:
                    break
                tell("crash points", 1)


PART = Part("crash-points", ("S2", "C1"), len(PLACES), _run, lacks_strace)
