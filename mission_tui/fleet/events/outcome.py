"""How a run stands and how it ended: closed sets of states and of outcomes (finished, stopped, killed, failed, lost),
each outcome with its own data.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from mission_tui.fleet.ranges import Whole

RunState = Literal["queued", "starting", "running", "paused", "frozen", "stopping", "parked", "ended"]
ALIVE: frozenset[RunState] = frozenset({"starting", "running", "paused", "frozen", "stopping"})
OVER: frozenset[RunState] = frozenset({"parked", "ended"})
"""No process, and none to come unless somebody resumes it."""

After = Literal["failure", "reboot", "interruption", "request"]
"""What an attempt that begins by itself follows; a request that waits for its turn too."""

AFTER_WORDS: dict[After, str] = {
    "failure": "a failure",
    "reboot": "a reboot",
    "interruption": "the end of its job",
    "request": "a request",
}

Phase = Literal["starting", "rollout", "update", "saving", "paused", "ending"]
PHASES: tuple[Phase, ...] = get_args(Phase)
FailureKind = Literal[
    "config", "env", "callback", "nan", "oom", "gpu_lost", "gpu_fault", "crash", "exit", "start", "unknown"
]

NO_GPU_MEMORY = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "HIP out of memory",
    "RESOURCE_EXHAUSTED: Out of memory",
    "OOM when allocating tensor",
)
NO_MEMORY = ("can't allocate memory", "Cannot allocate memory", "MemoryError", "std::bad_alloc")
"""What torch, JAX, TensorFlow, Python, C and C++ write when they get no memory, on a GPU and on the machine."""

_ON_CPU = ("RESOURCE_EXHAUSTED: Out of memory allocating", "device:CPU:")
"""What JAX says of its CPU client ("while trying to allocate" is a GPU's allocator), and TensorFlow of its CPU."""


def lacks_gpu_memory(said: str) -> bool:
    """Whether it was a GPU's memory that `said` complains of."""
    return any(sign in said for sign in NO_GPU_MEMORY) and not any(sign in said for sign in _ON_CPU)


class Finished(Struct, frozen=True, tag="finished", tag_field="outcome", gc=False):
    """The budget was used up, and `checkpoint` holds the final policy; of a command: it exited 0."""

    checkpoint: str | None
    cause: str = "reached its budget"


class Stopped(Struct, frozen=True, tag="stopped", tag_field="outcome", gc=False):
    """Asked to stop, saved, ended; resumes from `checkpoint`. A command may have saved more than it reported."""

    checkpoint: str | None
    cause: str = "stopped by you"


class Killed(Struct, frozen=True, tag="killed", tag_field="outcome", gc=False):
    """Asked to end at once; `checkpoint` is the last one saved before, if any."""

    checkpoint: str | None
    cause: str = "killed by you"


class Failed(Struct, frozen=True, tag="failed", tag_field="outcome", gc=False):
    """Ended by itself and wrongly; `signal` is set when a signal ended it. `exit`: a command exited with one but 0."""

    kind: FailureKind
    cause: str
    checkpoint: str | None = None
    signal: Whole | None = None


class Lost(Struct, frozen=True, tag="lost", tag_field="outcome", gc=False):
    """Nobody was left to see how it ended: a reboot, or keeper and supervisor both gone."""

    cause: str
    checkpoint: str | None = None


Outcome = Finished | Stopped | Killed | Failed | Lost


def outcome_word(outcome: Outcome) -> str:
    """The outcome's one word: finished, stopped, killed, failed or lost."""
    match outcome:
        case Finished():
            return "finished"
        case Stopped():
            return "stopped"
        case Killed():
            return "killed"
        case Failed():
            return "failed"
        case Lost():
            return "lost"
