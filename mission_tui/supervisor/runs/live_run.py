"""What the supervisor holds of a live run beyond the store: open files, its launcher, the trainer's link.

Everything here can be made again from the run directory and by its launcher.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from mission_tui.fleet.events.metrics import CheckpointSaved, MetricRecord, TrainingEnded, UpdateDone
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.telemetry_messages import CheckpointAnswered, Order, TrainerHello
from mission_tui.records.jsonl import Tail
from mission_tui.records.runs.attempt import Handle, LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers import NOTHING_SEEN, Job, JobStatus, Launcher
from mission_tui.supervisor.launchers.order import VISIBLE
from mission_tui.supervisor.runs.journal import RunJournal
from mission_tui.supervisor.runs.live_metrics import LogFollower, RunJudging


class OrderLink(Protocol):
    """The way to a trainer, by socket or by files; `hello` is what it said of itself."""

    hello: TrainerHello

    def send(self, order: Order) -> None:
        """Give `order`: a request, not a promise."""


class AskedCheckpoint(Struct, frozen=True, eq=False):
    """An order for a checkpoint: the `seq` and time of its event, and what comes of it."""

    number: int
    t: float
    answer: asyncio.Future[CheckpointAnswered]


class LiveRun(Struct, eq=False):
    """A run that has not ended, in its attempt `attempt`: it owns that attempt's open files.

    What is true of the run is in the store; here is what watching it and acting on it take. Only its own methods change
    it, and those of `judging` and `follower` these (`tests/supervisor/runs/test_live_run.py`), so that all that can
    happen to a live run stands in three classes.
    """

    dir: RunDir
    spec: Spec | None
    """What the attempt began with; None when it cannot be read."""
    launcher: Launcher
    """Carries the attempt out; whoever acts on the run does so through it."""
    journal: RunJournal
    tail: Tail
    attempt: int = 0
    nonce: str = ""
    handle: Handle | None = None
    job_status: JobStatus = NOTHING_SEEN
    """How the attempt stood at the last `poll`."""

    waited_until_t: float = 0.0
    """Until then (unix s) it was seen to wait for its engine, which may take days and is no slow start."""

    peak_rss_bytes: int = 0
    peak_vram_bytes: int | None = None
    """What the processes of its attempt were seen to hold at most."""
    settled: tuple[int, int] | None = None
    """An early update of the attempt that they had begun with everything made, and the bytes that they held then."""
    visible_gpus: str | None = None
    """`CUDA_VISIBLE_DEVICES` of its trainer."""

    unseen: str = ""
    """Why none of its processes can be reached although its lease is held; empty while one can."""
    outlived: bool = False
    """Keeper and trainer are gone, and what holds its lease are visible processes that they left behind."""
    unbegun: LaunchOrder | None = None
    """The order of an attempt of which no process was found yet."""
    link: OrderLink | None = None
    by_mailbox: bool = False
    """Its trainer speaks by files of the attempt."""
    clock_lag_s: float = 0.0
    """What the clock of its node is behind ours, where they differ; row times are that clock's."""
    workers: tuple[int, ...] = ()
    """The processes that its trainer named."""

    judging: RunJudging = field(default_factory=RunJudging)
    follower: LogFollower = field(default_factory=LogFollower)
    end: TrainingEnded | None = None
    """What its trainer said at its end."""

    wants_pause: bool = False
    freezes: bool = False
    """Its processes are to stay stopped."""
    freezing: asyncio.Task[object] | None = None
    """What finishes a freeze that another supervisor began."""
    seen_stopped: int = 0
    """In how many looks in a row its trainer was stopped without a request."""
    turn: Callable[[], None] | None = None
    """Begins a run that is queued."""
    order: LaunchOrder | None = None
    """What it begins with then."""
    gpu: str = ""
    """The GPU (UUID) that its turn came with, until it begins there."""
    escalation: asyncio.TimerHandle | None = None
    messengers: int = 0
    """Commands at work that notify people of it."""
    kept: tuple[str, ...] = ()
    """The checkpoints that its trainer was ordered to leave."""
    offered: str = ""
    """The checkpoint that a person was shown to go back to."""
    applying: str = ""
    """The finding whose advice it is ending for."""
    asked_checkpoints: list[AskedCheckpoint] = field(default_factory=list)
    """Orders whose senders wait for the result."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the run has ended."""
    id: str = ""
    """The run's, at hand: it is asked for with every message."""

    def __post_init__(self) -> None:
        self.id = self.dir.id

    def take_on(self, order: LaunchOrder) -> None:
        """The attempt of `order` is the run's now: nothing is known of its processes yet."""
        self.attempt, self.nonce, self.workers = order.attempt, order.nonce, ()
        self.handle, self.job_status = None, NOTHING_SEEN
        self.by_mailbox, self.clock_lag_s = "MISSION_TUI_MAILBOX" in order.env, 0.0
        self.visible_gpus = order.env.get(VISIBLE)
        self.peak_rss_bytes, self.peak_vram_bytes, self.settled = 0, None, None
        self.end = None
        self.follower.begin_anew()
        self.judging.begin(self.spec)

    def found_on_disk(self, order: LaunchOrder, *, wants_pause: bool) -> None:
        """The attempt of `order` was begun by an earlier supervisor, or was to be."""
        self.nonce, self.unbegun, self.wants_pause = order.nonce, order, wants_pause
        self.by_mailbox = "MISSION_TUI_MAILBOX" in order.env
        self.visible_gpus = order.env.get(VISIBLE)

    def enqueue(self, order: LaunchOrder, turn: Callable[[], None]) -> None:
        """Wait in the queue; `turn` begins the run."""
        self.turn, self.order, self.visible_gpus = turn, order, order.env.get(VISIBLE)

    def respecify(self, spec: Spec) -> None:
        """Its spec was changed before it began."""
        self.spec = spec

    def leave_queue(self, gpu: str = "") -> None:
        """It waits no more: it begins, on `gpu` where the queue chose one, or never will."""
        self.turn, self.order, self.gpu = None, None, gpu

    def take_gpu(self) -> str:
        """The GPU that the queue chose for the attempt that begins now; empty for none, and for the attempts after."""
        gpu, self.gpu = self.gpu, ""
        return gpu

    def handed_over(self, handle: Handle) -> None:
        """Its launcher has taken the attempt."""
        self.handle, self.unbegun = handle, None
        self.poll()

    @property
    def job(self) -> Job:
        """The attempt as its launcher is asked about it."""
        return Job(self.dir, self.attempt, self.nonce, self.handle)

    def poll(self) -> JobStatus:
        """How the attempt stands now."""
        self.job_status = self.launcher.poll(self.job)
        if self.job_status.stage in ("queued", "unseen") and not self.launcher.can.here:
            self.waited_until_t = time.time()
        return self.job_status

    def lives(self) -> bool:
        """Whether a process that was found at the last poll is still there."""
        return self.job_status.lives and self.launcher.lives(self.job)

    def out_of_sight(self, why: str, *, outlived: bool) -> None:
        """Its lease is held, and no process that could be told anything is visible."""
        self.unseen, self.outlived = why, outlived

    def in_sight(self) -> None:
        """The processes that hold its lease are known, or there are none."""
        self.unseen, self.outlived = "", False

    def connected(self, link: OrderLink) -> None:
        """Its trainer has come, or come back: which checkpoints it was told to leave is not known."""
        self.link, self.kept = link, ()

    def disconnected(self) -> None:
        """The connection to its trainer has ended."""
        self.link = None

    def clock_differs_by(self, lag_s: float) -> None:
        """Its node's clock is so far behind ours."""
        self.clock_lag_s = lag_s

    def workers_seen(self, pids: tuple[int, ...]) -> None:
        """Its trainer has named its processes."""
        self.workers = pids

    def send(self, order: Order) -> None:
        """Send the order, if the trainer is connected."""
        if self.link is not None:
            self.link.send(order)

    def pause(self) -> None:
        """Have the trainer pause, also one that connects later."""
        self.wants_pause = True
        self.send(Order("pause"))

    def unpause(self) -> None:
        """Have the trainer go on."""
        self.wants_pause = False
        self.send(Order("unpause"))

    def keep_checkpoints(self, names: tuple[str, ...]) -> None:
        """Tell the trainer which checkpoints its retention must leave, if that has changed."""
        if names != self.kept and self.link is not None:
            self.kept = names
            self.send(Order("keep", keep=names))

    def freeze(self) -> None:
        """Its processes are to stay stopped."""
        self.freezes = True

    def finish_freeze(self, freezing: asyncio.Task[object]) -> None:
        """`freezing` stops its processes, as an earlier supervisor was asked to."""
        self.freezes, self.freezing = True, freezing

    def thaw(self) -> None:
        """Its processes may run."""
        self.freezes = False

    def count_stopped(self, *, stopped: bool) -> int:
        """In how many looks in a row, this one included, its trainer was stopped."""
        self.seen_stopped = self.seen_stopped + 1 if stopped else 0
        return self.seen_stopped

    def escalate_later(self, wait_s: float, step: Callable[[], None]) -> None:
        """`step` is the next one of its kill ladder, in place of the one that was to come."""
        if self.escalation is not None:
            self.escalation.cancel()
        self.escalation = asyncio.get_running_loop().call_later(wait_s, step)

    def take_record(self, record: MetricRecord) -> None:
        """Take in a new line of its file. Lines of earlier attempts are history."""
        if record.attempt != self.attempt:
            return
        if isinstance(record, TrainingEnded):
            self.end = record
        elif isinstance(record, CheckpointSaved):
            # Older trainers give no other answer to an order for a checkpoint.
            asked = [asked for asked in self.asked_checkpoints if record.t + self.clock_lag_s >= asked.t]
            self._settle(asked, CheckpointAnswered(0, record.name))
        self.judging.add(record)

    def messenger_started(self) -> None:
        """One more command that notifies people is at work."""
        self.messengers += 1

    def messenger_ended(self) -> None:
        """One of them has ended."""
        self.messengers -= 1

    def offer(self, checkpoint: str) -> None:
        """A person was shown the checkpoint to go back to: it has to stay."""
        self.offered = checkpoint

    def end_to_apply(self, finding_id: str) -> None:
        """It ends so that it can go on with the advice of a finding."""
        self.applying = finding_id

    def end_for_good(self) -> None:
        """It is to end; no advice is followed afterwards."""
        self.applying = ""

    def ask_checkpoint(self, number: int, t: float) -> AskedCheckpoint:
        """A person waits for the checkpoint that the event `number` of unix time `t` asks for."""
        asked = AskedCheckpoint(number, t, asyncio.get_running_loop().create_future())
        self.asked_checkpoints.append(asked)
        return asked

    def stop_waiting_for(self, asked: AskedCheckpoint) -> None:
        """The sender of `asked` waits no longer."""
        if asked in self.asked_checkpoints:
            self.asked_checkpoints.remove(asked)

    def checkpoint_answered(self, said: CheckpointAnswered) -> None:
        """The trainer says what came of its orders for a checkpoint up to a number."""
        self._settle([asked for asked in self.asked_checkpoints if asked.number <= said.number], said)

    def _settle(self, asked: list[AskedCheckpoint], answer: CheckpointAnswered) -> None:
        for each in asked:
            self.asked_checkpoints.remove(each)
            if not each.answer.done():
                each.answer.set_result(answer)

    def update_peaks(self, rss_bytes: int, vram_bytes: int | None, row: UpdateDone | None = None) -> None:
        """Take in what its processes hold now, and since which `row`."""
        self.peak_rss_bytes = max(self.peak_rss_bytes, rss_bytes)
        if self.settled is None and row is not None and row.attempt == self.attempt:
            self.settled = row.update, rss_bytes
        if vram_bytes is not None:
            self.peak_vram_bytes = max(self.peak_vram_bytes or 0, vram_bytes)

    def release(self) -> None:
        """Close everything that is held open for the run."""
        self.journal.close()
        self.launcher.release(self.job)
        self.judging.cancel_later()
        if self.escalation is not None:
            self.escalation.cancel()
