"""Every message of the telemetry plane (`telemetry.sock`), as msgspec tagged unions: one JSON object a line.

A trainer says `TrainerHello` with its run's nonce, then facts; it receives `Order`s and nothing else, and it cannot ask
for anything. Where no socket reaches, files of the attempt carry the same messages.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.events.processes import EnvWorkers

TELEMETRY_LINE_BYTES = 1 << 16


class TrainerHello(Struct, frozen=True, tag="hello", tag_field="say"):
    """The handshake, first line of a trainer: which run and attempt, and the nonce that only its launcher knew."""

    protocol: int
    run: str
    attempt: int
    nonce: str
    pid: int


class PhaseEntered(Struct, frozen=True, tag="phase", tag_field="say"):
    """The trainer entered `phase` at unix time `t`, with `update` updates and `timesteps` done."""

    phase: Phase
    update: int
    timesteps: int
    t: float


class Heartbeat(Struct, frozen=True, tag="heartbeat", tag_field="say"):
    """The trainer's heartbeat thread lives; `dropped` counts telemetry lines it had to drop so far.

    `workers` are the processes of its environments, and `env_workers` says how they are. `in_callback`: a callback of
    the user's has gone on for a while, such as one that evaluates.
    """

    t: float
    workers: tuple[int, ...] = ()
    dropped: int = 0
    env_workers: EnvWorkers | None = None
    in_callback: bool = False


class RowsWritten(Struct, frozen=True, tag="wrote", tag_field="say"):
    """`metrics.jsonl` now ends with record `seq`; the reader takes it from the file, which is the truth."""

    seq: int


class TrainerDutyFailed(Struct, frozen=True, tag="duty_failed", tag_field="say", omit_defaults=True):
    """The trainer could not do `duty`: what its record says, said at once because a full disk may hold that back."""

    duty: str
    why: str
    t: float
    number: int


class CheckpointAnswered(Struct, frozen=True, tag="checkpoint", tag_field="say", omit_defaults=True):
    """What came of every order for a checkpoint up to `number`: its name, or `why` none was written."""

    number: int
    checkpoint: str | None = None
    why: str = ""


TelemetryMessage = TrainerHello | PhaseEntered | Heartbeat | RowsWritten | TrainerDutyFailed | CheckpointAnswered


class Order(Struct, frozen=True, tag="order", tag_field="say", omit_defaults=True):
    """What the supervisor asks of a trainer. `reason` is why a checkpoint is wanted.

    `keep` names earlier checkpoints that retention must leave: with "keep" exactly these from now on, because an open
    finding would go back to them; with "stop" these too, because the next attempt will. `assignments` are the words of
    "set", and `number` is the `seq` of their event: said again after a lost link, they are known by it. That of a
    "checkpoint" is the `seq` of its event too, and comes back with the answer.
    """

    what: Literal["stop", "pause", "unpause", "checkpoint", "keep", "set"]
    reason: Literal["asked", "finding"] = "asked"
    keep: tuple[str, ...] = ()
    number: int = 0
    assignments: tuple[str, ...] = ()


class NumberedOrder(Struct, frozen=True):
    """A line of an attempt's `orders.jsonl`: an order where no socket reaches; `t` is the supervisor's unix time."""

    seq: int
    t: float
    order: Order


class TrainerWord(Struct, frozen=True):
    """An attempt's `alive.json`: who speaks, the `beat`-th time, and the newest message of each kind."""

    hello: TrainerHello
    beat: int
    messages: tuple[TelemetryMessage, ...]
