"""What the supervisor holds of a live run beyond the store: open files, held processes, the trainer's link.

Everything here can be made again from the run directory and from /proc.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from mission_tui.fleet.health import Judge
from mission_tui.fleet.metrics import MetricRecord, TrainingEnded
from mission_tui.fleet.spec import Spec
from mission_tui.ipc.server import TrainerLink
from mission_tui.records.attempt import LaunchOrder
from mission_tui.records.layout import RunDir
from mission_tui.records.tail import Tail
from mission_tui.supervisor.identity import Process
from mission_tui.supervisor.journal import RunJournal

__all__ = ["LiveRun"]


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run that has not ended, in its attempt `attempt`. `spec` is None when it cannot be read.

    `keeper` and `trainer` are None while unknown or gone; `patient_until` (monotonic) is how long an attempt may take
    to say who it is, `unbegun` its order while nobody was found to carry it out; `workers` are the processes that its
    trainer named; `breaks_told` counts the breaks that its judge has heard; `messengers` counts the commands that tell
    people of it; `applying` is the finding whose advice it is ending for; `kept` are the checkpoints its trainer was
    told to leave, `offered` the one that somebody was shown to go back to; `freezes` says that its processes are to
    stay stopped, `freezing` is what finishes a freeze after a restart, `seen_stopped` in how many looks in a row its
    trainer was stopped although they are not. `gone` is set when the run has ended.
    """

    dir: RunDir
    spec: Spec | None
    journal: RunJournal
    tail: Tail
    attempt: int = 0
    nonce: str = ""
    keeper: Process | None = None
    trainer: Process | None = None
    link: TrainerLink | None = None
    workers: tuple[int, ...] = ()
    judge: Judge | None = None
    breaks_told: int = 0
    unbegun: LaunchOrder | None = None
    unjudged: deque[MetricRecord] = field(default_factory=deque)
    catching_up: asyncio.TimerHandle | None = None
    end: TrainingEnded | None = None
    wants_pause: bool = False
    freezes: bool = False
    freezing: asyncio.Task[object] | None = None
    seen_stopped: int = 0
    messengers: int = 0
    kept: tuple[str, ...] = ()
    offered: str = ""
    applying: str = ""
    patient_until: float = 0.0
    escalation: asyncio.TimerHandle | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        return self.dir.id

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
