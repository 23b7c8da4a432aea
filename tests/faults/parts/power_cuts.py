"""A power cut after every call of every change of state: what was acknowledged survives what was not synced.

A round is one scene, recorded once; every state that `tests.faults.power` can build from the recording is laid out and
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.faults.campaign.part import Part, Tell, Violation
from tests.faults.scenes import SCENES
from tests.faults.tracing import cut_off, lacks_strace

__all__ = ["PART"]


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    names = list(SCENES)
    for index in rounds:
        for states, wrong in cut_off(names[index]):
            tell("states of a disk", states)
            yield from wrong


PART = Part("power-cuts", ("D7",), len(SCENES), _run, lacks_strace)
