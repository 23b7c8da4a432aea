"""The processes of a run: their numbers, what they take of the machine, the GPU they were given, and how its env
workers are: how many, who keeps the others waiting, and who is the slowest. And what is seen of a run and forgotten at
restart: links, phases, heartbeats, processes, flags.

What is seen is written down nowhere; after a restart the same facts are observed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.ranges import Bytes

RunFlag = Literal[
    "keeperless",
    "unkillable",
    "unverifiable",
    "damaged",
    "slow-start",
    "foreign",
    "failed-duty",
    "out-of-sight",
    "outlived",
    "silent",
]


MOST_LATE = 4
"""So many late ones are named, the longest silent first."""
MOST_EACH = 64
"""So many are told one by one."""
SLOW_TIMES = 1.5
"""A worker so many times as slow as the usual one is worth a sentence: at every step all others wait for it."""
_STATES = {"D": "waits for a device or disk", "T": "is stopped", "Z": "is dead", "R": "computes", "S": "sleeps"}


class LateWorker(Struct, frozen=True):
    """Worker `index`, counted from 0, is process `pid` and has not answered for `seconds`; it was last at `env`.

    `state` is the kernel's letter for the process, `waits_in` where in the kernel it stands; empty is unknown.
    """

    index: int
    pid: int
    seconds: float
    env: int | None = None
    state: str = ""
    waits_in: str = ""


class SlowWorker(Struct, frozen=True):
    """Of the last second with steps in it the slowest worker: seconds for a step of all its environments.

    `usual_s` is the median of all workers.
    """

    index: int
    pid: int
    step_s: float
    usual_s: float


class EnvWorkers(Struct, frozen=True):
    """The env workers of a live attempt. `late_count` may be more than are named in `late`.

    `pids` are those of the first `MOST_EACH`, by index, and `steps_s` what each of them took for a step of all its
    environments when all of them last stepped; empty before that.
    """

    count: int
    late_count: int = 0
    late: tuple[LateWorker, ...] = ()
    slowest: SlowWorker | None = None
    pids: tuple[int, ...] = ()
    steps_s: tuple[float, ...] = ()


def worker_sentences(workers: EnvWorkers) -> Iterator[str]:
    """What somebody should know: a sentence per late worker, or one for a worker that holds the others up."""
    for late in workers.late:
        yield f"worker {late.index} of {workers.count} has not answered for {late.seconds:.0f} s ({_where(late)})"
    if workers.late_count > len(workers.late):
        yield f"and {workers.late_count - len(workers.late)} more of its workers"
    slowest = workers.slowest
    if not workers.late and slowest is not None and slowest.step_s > SLOW_TIMES * slowest.usual_s:
        times = slowest.step_s / slowest.usual_s if slowest.usual_s else float("inf")
        took = f"{1000 * slowest.step_s:.3g} ms a step, {times:.1f} times the usual"
        yield f"worker {slowest.index} of {workers.count} (pid {slowest.pid}) holds the others up: {took}"


def _where(late: LateWorker) -> str:
    words = [f"pid {late.pid}"]
    if late.state:
        words.append(f"state {late.state}: {_STATES.get(late.state, 'see ps')}")
    if late.env is not None:
        words.append(f"in environment {late.env}")
    if late.waits_in:
        words.append(f"in the kernel's {late.waits_in}")
    return ", ".join(words)


class Pids(Struct, frozen=True):
    """The processes of the live attempt."""

    keeper: int | None = None
    trainer: int | None = None
    workers: tuple[int, ...] = ()


class Usage(Struct, frozen=True):
    """What all processes of a run take of the machine, over the last seconds: `cpu_percent` 100 is one core.

    Memory that they share is counted for each of them, so `rss_bytes` is more than would be free without the run;
    `pss_bytes` shares it out, and may be two minutes old, as `open_files`. `written_bytes` went to disks since the
    attempt began, as far as this supervisor has seen it. `gpu_percent` 100 is one GPU.
    """

    cpu_percent: float
    rss_bytes: int
    threads: int
    processes: int
    vram_bytes: int | None = None
    pss_bytes: int | None = None
    written_bytes: int | None = None
    open_files: int | None = None
    gpu_percent: float | None = None


class Peak(Struct, frozen=True):
    """The most that all processes of an attempt held at once, in bytes; None is not known."""

    rss_bytes: Bytes
    vram_bytes: Bytes | None = None


class Placement(Struct, frozen=True):
    """The GPU that an attempt was given: `number` in the driver's order then, and `why` that one."""

    uuid: str
    number: int
    why: str = ""


class LinkSeen(Struct, frozen=True):
    """The trainer's telemetry connection is there, or gone."""

    connected: bool


class PhaseSeen(Struct, frozen=True):
    """The trainer entered `phase` at unix time `t`; None: what it does then is not known."""

    phase: Phase | None
    t: float


class HeartbeatSeen(Struct, frozen=True):
    """The trainer's heartbeat thread lived at unix time `t`; `in_callback`: a callback of the user's goes on."""

    t: float
    in_callback: bool = False


class PidsSeen(Struct, frozen=True):
    """The processes of the live attempt."""

    pids: Pids


class FlagSeen(Struct, frozen=True):
    """`flag` holds, or no longer holds."""

    flag: RunFlag
    raised: bool


class NodeSeen(Struct, frozen=True):
    """The live attempt runs on `node` of its launcher's engine."""

    node: str


class ForeignSeen(Struct, frozen=True):
    """The run was not launched by this user on this machine, and `why` that is known: it is shown and never acted on.

    Whatever its journal says, nothing of it goes on here.
    """

    why: str


class SizeSeen(Struct, frozen=True):
    """The files of the run have `size_bytes` bytes."""

    size_bytes: int


class UsageSeen(Struct, frozen=True):
    """What the processes of the live attempt take; None while it is not known."""

    usage: Usage | None


class WorkersSeen(Struct, frozen=True):
    """How the env workers of the live attempt are, as its trainer says; None where there are none."""

    workers: EnvWorkers | None


BEING_HANDED = "waits: it is being handed to "
"""With this a run begins to say why it waits while its engine has not answered yet whether it takes it."""

FOR_COMPANY = "waits: others may share its job"
"""And with this while it is not submitted yet, for others to come along."""


class WaitSeen(Struct, frozen=True):
    """The queued run waits, and `why`: a sentence."""

    why: str


Observation = (
    LinkSeen
    | PhaseSeen
    | HeartbeatSeen
    | NodeSeen
    | PidsSeen
    | FlagSeen
    | ForeignSeen
    | SizeSeen
    | UsageSeen
    | WaitSeen
    | WorkersSeen
)
