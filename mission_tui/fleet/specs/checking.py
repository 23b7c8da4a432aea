"""What a smoke run says of a spec: one line for each step, and the figures that it measured."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Level = Literal["ok", "note", "failed", "skipped"]

SMOKE_STEPS = ("versions", "imports", "device", "env", "build", "rollout", "update", "checkpoint", "leftovers")
"""What the smoke run of a training goes through, in this order."""


class CheckStep(Struct, frozen=True, kw_only=True):
    """`note`: it would run, and a person should know. `exit_code` is that of a command line that ends with it."""

    name: str
    level: Level
    detail: str
    seconds: float | None = None
    exit_code: int = 0


class CheckFigures(Struct, frozen=True, kw_only=True):
    """Measured in the smoke run; None is not known. `memory_bytes`: the trainer's peak and its workers' share (PSS).

    `vram_bytes` is the peak of torch's allocator; the CUDA context comes on top. `hours` is the whole run's.
    """

    updates: int
    steps_per_s: float | None = None
    update_s: float | None = None
    hours: float | None = None
    memory_bytes: int | None = None
    worker_bytes: int | None = None
    n_workers: int = 0
    vram_bytes: int | None = None


STEPS = (*SMOKE_STEPS[:3], "speed", *SMOKE_STEPS[3:])
"""All steps in their order: where a GPU is, "speed" says whether the net is faster on it or on the CPU."""


def unreached(steps: tuple[CheckStep, ...]) -> tuple[CheckStep, ...]:
    """The steps of a smoke run that `steps` do not have, as skipped."""
    known = {step.name for step in steps}
    return tuple(CheckStep(name=name, level="skipped", detail="") for name in SMOKE_STEPS if name not in known)
