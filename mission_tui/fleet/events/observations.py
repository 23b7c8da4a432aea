"""What is seen of a run and forgotten at restart: links, phases, heartbeats, processes, flags.

Nothing here is written down; after a restart the same facts are observed again.
"""

from __future__ import annotations

from msgspec import Struct

from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.events.processes import EnvWorkers, Pids, RunFlag, Usage


class LinkSeen(Struct, frozen=True):
    """The trainer's telemetry connection is there, or gone."""

    connected: bool


class PhaseSeen(Struct, frozen=True):
    """The trainer entered `phase` at unix time `t`; None: what it does then is not known."""

    phase: Phase | None
    t: float


class HeartbeatSeen(Struct, frozen=True):
    """The trainer's heartbeat thread lived at unix time `t`."""

    t: float


class PidsSeen(Struct, frozen=True):
    """The processes of the live attempt."""

    pids: Pids


class FlagSeen(Struct, frozen=True):
    """`flag` holds, or no longer holds."""

    flag: RunFlag
    raised: bool


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


class WaitSeen(Struct, frozen=True):
    """The queued run waits, and `why`: a sentence."""

    why: str


Observation = (
    LinkSeen
    | PhaseSeen
    | HeartbeatSeen
    | PidsSeen
    | FlagSeen
    | ForeignSeen
    | SizeSeen
    | UsageSeen
    | WaitSeen
    | WorkersSeen
)
