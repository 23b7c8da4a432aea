"""What the supervisor holds of a live run beyond the store: open files, held processes, the trainer's link.

Everything here can be made again from the run directory and from /proc.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from mission_tui.fleet.events.metrics import CheckpointSaved, MetricRecord, TrainingEnded
from mission_tui.fleet.health import HealthJudge
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.telemetry_messages import CheckpointAnswered
from mission_tui.ipc.telemetry_server import TrainerLink
from mission_tui.records.files.tail import Tail
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.children import Child
from mission_tui.supervisor.host.identity import Process
from mission_tui.supervisor.launchers import Found
from mission_tui.supervisor.runs.journal import RunJournal


@dataclass(frozen=True, slots=True, eq=False)
class AskedCheckpoint:
    """An order for a checkpoint: the `seq` and time of its event, and what comes of it."""

    number: int
    t: float
    answer: asyncio.Future[CheckpointAnswered]


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run that has not ended, in its attempt `attempt`: it owns that attempt's open files and held processes.

    What is true of the run is in the store; here is what watching it and acting on it take.
    """

    dir: RunDir
    spec: Spec | None
    """What the attempt began with; None when it cannot be read."""
    journal: RunJournal
    tail: Tail
    attempt: int = 0
    nonce: str = ""

    peak_rss_bytes: int = 0
    peak_vram_bytes: int | None = None
    """What the processes of its attempt were seen to hold at most."""
    visible_gpus: str | None = None
    """`CUDA_VISIBLE_DEVICES` of its trainer."""

    keeper: Process | None = None
    trainer: Process | None = None
    """Both None while unknown or gone."""
    unseen: str = ""
    """Why nobody of it can be told anything although its lease is held; empty while somebody can."""
    outlived: bool = False
    """Keeper and trainer are gone, and what holds its lease are visible processes that they left behind."""
    patient_until: float = 0.0
    """How long (monotonic) the attempt may take to say who it is."""
    unbegun: LaunchOrder | None = None
    """The order of an attempt that nobody was found to carry out."""
    link: TrainerLink | None = None
    workers: tuple[int, ...] = ()
    """The processes that its trainer named."""

    judge: HealthJudge | None = None
    news_at: float = 0.0
    """When (monotonic) new lines were last found in its file."""
    breaks_reported: int = 0
    """How many breaks the judge has heard."""
    unjudged: deque[MetricRecord] = field(default_factory=deque)
    catching_up: asyncio.TimerHandle | None = None
    end: TrainingEnded | None = None

    wants_pause: bool = False
    freezes: bool = False
    """Its processes are to stay stopped."""
    freezing: asyncio.Task[object] | None = None
    """What finishes a freeze that another supervisor began."""
    seen_stopped: int = 0
    """In how many looks in a row its trainer was stopped although nobody asked here."""
    turn: Callable[[], None] | None = None
    """Begins a run that is queued."""
    gpu: str = ""
    """The GPU (UUID) that its turn came with, until it begins there."""
    escalation: asyncio.TimerHandle | None = None
    follower: Child | None = None
    """Reads for a command what it reports, or its logs."""
    followed_until: float = 0.0
    """How long (monotonic) it may take to read their last lines."""
    followed_elsewhere: bool = False
    """Somebody whom an earlier supervisor started does that."""

    messengers: int = 0
    """Commands at work that tell people of it."""
    kept: tuple[str, ...] = ()
    """The checkpoints that its trainer was told to leave."""
    offered: str = ""
    """The checkpoint that somebody was shown to go back to."""
    applying: str = ""
    """The finding whose advice it is ending for."""
    asked_checkpoints: list[AskedCheckpoint] = field(default_factory=list)
    """Orders of people who wait for what comes of them."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the run has ended."""
    id: str = field(init=False)
    """The run's, at hand: it is asked for with every message."""

    def __post_init__(self) -> None:
        self.id = self.dir.id

    def take_on(self, order: LaunchOrder) -> None:
        """The attempt of `order` is the run's now: nothing is known of its processes yet."""
        self.attempt, self.nonce, self.workers = order.attempt, order.nonce, ()
        self.visible_gpus = order.env.get("CUDA_VISIBLE_DEVICES")
        self.peak_rss_bytes, self.peak_vram_bytes = 0, None
        self.followed_until, self.followed_elsewhere = 0.0, False

    def hold(self, found: Found) -> None:
        """Hold those of the attempt who were found; who is held already is not held twice."""
        if self.keeper is None:
            self.keeper = found.keeper
        elif found.keeper is not None:
            found.keeper.close()
        if self.trainer is None:
            self.trainer = found.trainer
        elif found.trainer is not None:
            found.trainer.close()

    def checkpoint_answered(self, said: CheckpointAnswered) -> None:
        """The trainer says what came of its orders for a checkpoint up to a number."""
        self._settle([asked for asked in self.asked_checkpoints if asked.number <= said.number], said)

    def checkpoint_saved(self, record: CheckpointSaved) -> None:
        """A checkpoint is on disk. Older trainers give no other answer."""
        asked = [asked for asked in self.asked_checkpoints if record.t >= asked.t]
        self._settle(asked, CheckpointAnswered(0, record.name))

    def _settle(self, asked: list[AskedCheckpoint], answer: CheckpointAnswered) -> None:
        for each in asked:
            self.asked_checkpoints.remove(each)
            if not each.answer.done():
                each.answer.set_result(answer)

    def update_peaks(self, rss_bytes: int, vram_bytes: int | None) -> None:
        """Take in what its processes hold now."""
        self.peak_rss_bytes = max(self.peak_rss_bytes, rss_bytes)
        if vram_bytes is not None:
            self.peak_vram_bytes = max(self.peak_vram_bytes or 0, vram_bytes)

    def release(self) -> None:
        """Close everything that is held open for the run."""
        self.journal.close()
        for process in (self.keeper, self.trainer):
            if process is not None:
                process.close()
        self.keeper = self.trainer = None
        for timer in (self.escalation, self.catching_up):
            if timer is not None:
                timer.cancel()
