"""One run, folded from its two files and from what is seen of it live.

The fold does not depend on how the lines of `events.jsonl` and `metrics.jsonl` are interleaved, and a line applied
twice counts once; so a run rebuilt from its directory equals the run that was watched all along.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import structs

from mission_tui.fleet.history.events import (
    ENDING,
    Asked,
    AttemptEnded,
    AttemptStarting,
    ClockStepped,
    CompanyChanged,
    DutyDoneSeen,
    DutyFailureSeen,
    FileDamaged,
    FindingChanged,
    FindingMarked,
    FleetEvent,
    HealthActed,
    KeeperLost,
    PayoffJudged,
    PriorityAsked,
    RestartDue,
    RunCreated,
    RunFrozen,
    RunLabelled,
    RunNoted,
    RunParked,
    RunPaused,
    RunRenamed,
    RunResumed,
    RunThawed,
    SettingsAsked,
)
from mission_tui.fleet.history.lineage import Origin, diff_of
from mission_tui.fleet.history.metrics import (
    CheckpointSaved,
    DutyFailed,
    EvaluationDone,
    MetricRecord,
    SettingsChanged,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
)
from mission_tui.fleet.history.observations import (
    FlagSeen,
    ForeignSeen,
    HeartbeatSeen,
    LinkSeen,
    Observation,
    PhaseSeen,
    PidsSeen,
    SizeSeen,
    UsageSeen,
    WaitSeen,
    WorkersSeen,
)
from mission_tui.fleet.history.outcome import Lost, Phase, RunState
from mission_tui.fleet.history.told import Told
from mission_tui.fleet.history.trained import POINTS, Trained, fold_record
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.strips.standing import Standing
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.env_workers import EnvWorkers
from mission_tui.fleet.views.snapshot import Pids, RunFlag, Usage

__all__ = ["NOTE_CHARS", "Fact", "RunHistory"]

NOTE_CHARS = 400

Fact = FleetEvent | MetricRecord | Observation


@dataclass(slots=True)
class Seen:
    """What the processes of the live attempt show right now."""

    connected: bool = False
    phase: Phase | None = None
    phase_t: float | None = None
    heartbeat_t: float | None = None
    pids: Pids = field(default_factory=Pids)
    flags: frozenset[RunFlag] = frozenset()
    waits: str = ""
    usage: Usage | None = None
    workers: EnvWorkers | None = None


class RunHistory:
    """Everything known of one run. `spec` is None when it cannot be read. `standing`: when it waited or was held."""

    def __init__(self, run_id: str, run_dir: str, spec: Spec | None) -> None:
        self.id = run_id
        self.run_dir = run_dir
        self.spec = spec
        self.told = Told(name=run_id, preset=clean(spec.preset) if spec else "")
        self.trained = Trained()
        self.seen = Seen()
        self.size_bytes: int | None = None
        self.standing = Standing()

    @property
    def state(self) -> RunState:
        told = self.told
        if told.outcome is not None:
            return "queued" if told.restart is not None else "parked" if told.parked else "ended"
        if told.asked & ENDING:
            return "stopping"
        if told.attempt == 0:
            return "queued"
        if told.frozen is not None:
            return "frozen"
        if told.paused:
            return "paused"
        return "running" if self._runs else "starting"

    @property
    def _runs(self) -> bool:
        """Whether the attempt has begun: it says so itself, or it is a command, and those begin when they are there."""
        if self.trained.attempt == self.told.attempt:
            return True
        return self.spec is not None and self.spec.run.command is not None and self.seen.pids.trainer is not None

    def apply(self, fact: Fact) -> bool:
        """Fold `fact` in; false when it changes nothing, for example because it was said before."""
        match fact:
            case (
                TrainingStarted()
                | UpdateDone()
                | CheckpointSaved()
                | DutyFailed()
                | EvaluationDone()
                | SettingsChanged()
                | TrainingEnded()
            ):
                if fact.seq <= self.trained.seq:
                    return False
                self.trained.complete = self.trained.complete or fact.seq == 1
                self.trained.seq = fact.seq
                fold_record(self.trained, fact)
                return True
            case (
                LinkSeen()
                | PhaseSeen()
                | HeartbeatSeen()
                | PidsSeen()
                | FlagSeen()
                | ForeignSeen()
                | SizeSeen()
                | UsageSeen()
                | WaitSeen()
                | WorkersSeen()
            ):
                return self._see(fact)
            case _:
                if fact.seq <= self.told.seq:
                    return False
                self.told.seq = fact.seq
                self._hear(fact)
                self.standing.saw(self.state, fact.t)
                return True

    def load(self, records: Iterable[MetricRecord]) -> None:
        """Replace what is known of the training by the whole of `metrics.jsonl`."""
        trained = Trained(complete=True)
        for record in records:
            trained.seq = record.seq
            fold_record(trained, record)
        if trained.seq >= self.trained.seq:
            self.trained = trained

    def forget_rows(self) -> None:
        """Keep only the rows that a snapshot shows."""
        if len(self.trained.columns) > POINTS:
            self.trained.columns.keep_last(POINTS)
            self.trained.complete = False

    def _hear(self, event: FleetEvent) -> None:
        told = self.told
        match event:
            case RunCreated():
                told.name, told.preset, told.created_t = clean(event.name), clean(event.preset), event.t
                told.group = clean(event.group) if event.group else None
                told.branched, told.after = event.origin, event.after
            case AttemptStarting():
                told.resumed = _resumed(self.id, told, event)
                told.begin(event)
                self.seen = Seen()
            case Asked():
                if event.attempt == told.attempt:
                    told.ask(event)
            case SettingsAsked():
                if event.attempt == told.attempt:
                    told.sets.append(event)
                    told.total_timesteps = event.total_timesteps or told.total_timesteps
            case PriorityAsked():
                told.priority = event.priority
            case RunRenamed():
                told.name = clean(event.name)
            case RunNoted():
                told.note = clean(event.text, NOTE_CHARS)
            case RunLabelled():
                told.labels = (told.labels | {clean(label) for label in event.added}) - set(event.removed)
            case RunPaused() | RunResumed():
                if event.attempt == told.attempt:
                    told.paused = isinstance(event, RunPaused)
                    told.asked.discard("pause")
                    told.declare(event)
            case RunFrozen() | RunThawed():
                if event.attempt == told.attempt:
                    told.frozen = event if isinstance(event, RunFrozen) else None
                    told.declare(event)
            case ClockStepped():
                if event.attempt == told.attempt:
                    told.step_clock(event)
            case KeeperLost():
                told.flags.add("keeperless")
            case AttemptEnded():
                told.end(event)
                self.seen = Seen(flags=self.seen.flags - {"slow-start"})
            case RestartDue():
                told.restart = event
            case RunParked():
                told.restart, told.gave_up = None, event.why
            case FindingChanged():
                told.find(event.finding)
            case FindingMarked():
                told.mark(event)
            case HealthActed():
                told.act(event)
            case CompanyChanged():
                told.others = event.others
                told.declare(event)
            case PayoffJudged():
                told.pay(event.payoff)
            case DutyFailureSeen():
                if event.attempt == told.attempt:
                    told.fail(event)
            case DutyDoneSeen():
                told.duties.pop(event.duty, None)
            case FileDamaged():
                told.flags.add("damaged")

    def _see(self, observation: Observation) -> bool:
        if isinstance(observation, ForeignSeen):
            return self._disown(observation.why)
        seen = self.seen
        waits = isinstance(observation, WaitSeen) and self.told.restart is not None
        if self.told.outcome is not None and not waits and not isinstance(observation, FlagSeen | SizeSeen):
            return False
        match observation:
            case LinkSeen(connected=connected):
                changed, seen.connected = seen.connected != connected, connected
            case PhaseSeen(phase=phase, t=t):
                changed = (seen.phase, seen.phase_t) != (phase, t)
                seen.phase, seen.phase_t = phase, t
            case HeartbeatSeen(t=t):
                changed, seen.heartbeat_t = seen.heartbeat_t != t, t
            case PidsSeen(pids=pids):
                changed, seen.pids = seen.pids != pids, pids
            case FlagSeen(flag=flag, raised=raised):
                flags = seen.flags | {flag} if raised else seen.flags - {flag}
                changed, seen.flags = seen.flags != flags, flags
            case UsageSeen(usage=usage):
                changed, seen.usage = seen.usage != usage, usage
            case WorkersSeen(workers=workers):
                changed, seen.workers = seen.workers != workers, workers
            case WaitSeen(why=why):
                changed, seen.waits = seen.waits != why, why
            case SizeSeen(size_bytes=size_bytes):
                changed, self.size_bytes = self.size_bytes != size_bytes, size_bytes
        return changed

    def _disown(self, why: str) -> bool:
        """What is foreign is over here: how it stands where it was made, and what was to follow, is not known."""
        changed, self.told.foreign = self.told.foreign != why, why
        self.told.restart, self.told.gave_up = None, ""
        if self.told.outcome is None:
            row = self.trained.row
            last_t = max(self.told.created_t, self.told.started_t or 0.0, row.t if row is not None else 0.0)
            lost = Lost("how it ended, or whether it did, is not known here", self.trained.checkpoint)
            self.told.end(AttemptEnded(self.told.seq, last_t, self.told.attempt, lost))
            self.seen = Seen()
        return changed


def _resumed(run_id: str, told: Told, event: AttemptStarting) -> Origin | None:
    """What the attempt goes on from. A restart from where the attempt before began differs from that as much as it."""
    if event.checkpoint is None:
        return None
    after = told.follows(event)
    if after and told.resumed is not None and told.resumed.checkpoint == event.checkpoint:
        return structs.replace(told.resumed, after=after)
    return Origin("resumed", run_id, told.name, event.checkpoint, diff_of(event.changes), after)
