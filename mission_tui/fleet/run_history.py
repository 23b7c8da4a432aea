"""One run, folded from its two files and from what is seen of it live.

The fold does not depend on how the lines of `events.jsonl` and `metrics.jsonl` are interleaved, and a line applied
twice counts once; so a run rebuilt from its directory equals the run that was watched all along.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from mission_tui.fleet.events import (
    ENDING,
    Asked,
    AttemptEnded,
    AttemptStarting,
    CompanyChanged,
    FileDamaged,
    FindingChanged,
    FindingMarked,
    FleetEvent,
    HealthActed,
    KeeperLost,
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
    Verb,
)
from mission_tui.fleet.findings import GRAVITY, Finding, FindingState, Severity
from mission_tui.fleet.health.breaks import break_of
from mission_tui.fleet.health.rule import Break
from mission_tui.fleet.lineage import Origin, diff_of
from mission_tui.fleet.metrics import (
    CheckpointSaved,
    EvaluationDone,
    MetricRecord,
    SettingsChanged,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
)
from mission_tui.fleet.observations import (
    FlagSeen,
    HeartbeatSeen,
    LinkSeen,
    Observation,
    PhaseSeen,
    PidsSeen,
    SizeSeen,
    WaitSeen,
)
from mission_tui.fleet.outcome import Failed, Outcome, Phase, RunState, Stopped
from mission_tui.fleet.series import Columns
from mission_tui.fleet.snapshot import Pids, RunFlag
from mission_tui.fleet.spec import Spec
from mission_tui.fleet.text import clean

__all__ = ["POINTS", "Fact", "RunHistory"]

POINTS = 60
"""Rows kept of every run, live or ended: what a snapshot's series show."""

NOTE_CHARS = 400

YOUNG_S = 10.0
"""An attempt that failed within this time died young."""

Fact = FleetEvent | MetricRecord | Observation


@dataclass(slots=True)
class Told:
    """What `events.jsonl` says.

    `due` are the findings of the attempt that may still be acted on: they opened, or became worse, while nobody had
    marked them. `restarts` counts the attempts in a row that nobody asked for, `short_lives` those in a row that died
    young; `gave_up` says why there will be no further one. `acted` is what was done about which finding at which
    severity, so that it is never done twice. `sets` is what was set while the attempt trained; `note` is the newest.
    """

    name: str
    preset: str
    seq: int = 0
    group: str | None = None
    created_t: float = 0.0
    attempt: int = 0
    started_t: float | None = None
    ended_t: float | None = None
    outcome: Outcome | None = None
    paused: bool = False
    frozen: RunFrozen | None = None
    restart: RestartDue | None = None
    restarts: int = 0
    short_lives: int = 0
    gave_up: str = ""
    asked: set[Verb] = field(default_factory=set)
    flags: set[RunFlag] = field(default_factory=set)
    findings: dict[str, Finding] = field(default_factory=dict)
    acknowledged: dict[str, Severity] = field(default_factory=dict)
    silenced: set[str] = field(default_factory=set)
    due: set[str] = field(default_factory=set)
    acted: set[tuple[str, Severity, str]] = field(default_factory=set)
    total_timesteps: int | None = None
    branched: Origin | None = None
    resumed: Origin | None = None
    others: int = 0
    breaks: list[tuple[float, Break]] = field(default_factory=list)
    sets: list[SettingsAsked] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    note: str = ""

    def standing(self, finding: Finding) -> FindingState:
        """What `finding` is with its marks. An acknowledged one that has become worse since is open again."""
        if finding.state != "open":
            return finding.state
        if finding.rule in self.silenced:
            return "silenced"
        known = self.acknowledged.get(finding.id)
        return "acknowledged" if known is not None and GRAVITY[known] >= GRAVITY[finding.severity] else "open"

    def find(self, finding: Finding) -> None:
        """Take in how an incident stands now."""
        known = self.findings.get(finding.id)
        self.findings[finding.id] = finding
        if self.standing(finding) != "open":
            self.due.discard(finding.id)
        elif known is None or GRAVITY[finding.severity] > GRAVITY[known.severity]:
            self.due.add(finding.id)

    def declare(self, event: FleetEvent) -> None:
        """Keep a break while the attempt lives: its judge is told, after a restart once more."""
        cause = break_of(event)
        if cause is not None and self.outcome is None:
            self.breaks.append((event.t, cause))

    def mark(self, event: FindingMarked) -> None:
        """Take in what a person thinks of a finding or a rule. Taking a mark back makes nothing due again."""
        if event.rule:
            (self.silenced.add if event.mark == "silenced" else self.silenced.discard)(event.rule)
        elif event.mark == "acknowledged" and event.finding in self.findings:
            self.acknowledged[event.finding] = self.findings[event.finding].severity
        elif event.mark == "open":
            self.acknowledged.pop(event.finding, None)
        self.due = {id_ for id_ in self.due if self.standing(self.findings[id_]) == "open"}

    @property
    def stopped_by(self) -> Finding | None:
        """The finding that stopped the attempt, None when a person did or nobody."""
        return next((self.findings[id_] for id_, _, act in self.acted if act == "stop"), None)

    @property
    def held(self) -> bool:
        """Whether the attempt keeps its processes and memory, but computes nothing."""
        return self.paused or self.frozen is not None

    @property
    def over(self) -> bool:
        """Whether the attempt has ended, and no other follows it by itself."""
        return self.outcome is not None and self.restart is None

    @property
    def parked(self) -> bool:
        """Whether the run waits for a person: it saved and ended to make room, or was restarted often enough."""
        made_room = isinstance(self.outcome, Stopped) and self.asked & ENDING == {"park"}
        return made_room or bool(self.gave_up)

    def begin(self, event: AttemptStarting) -> None:
        """Another attempt: nothing that was said of the one before holds."""
        self.attempt, self.started_t = event.attempt, event.t
        self.ended_t, self.outcome, self.paused, self.frozen = None, None, False, None
        self.restart, self.restarts, self.gave_up = None, event.restart, ""
        self.short_lives = self.short_lives if event.restart else 0
        for said in (self.asked, self.due, self.acted):
            said.clear()
        self.others, self.breaks, self.sets = 0, [], []
        self.flags.discard("keeperless")
        self.total_timesteps = event.total_timesteps or self.total_timesteps

    def ask(self, event: Asked) -> None:
        """Take in what was asked. Whoever ends a run that waits for its restart wants no restart."""
        self.asked.add(event.verb)
        if event.verb in ENDING and self.restart is not None:
            self.restart = None
            self.gave_up = "on request, while it waited for a restart" if event.verb == "park" else ""

    def end(self, event: AttemptEnded) -> None:
        """The attempt is over."""
        self.ended_t, self.outcome, self.paused, self.frozen = event.t, event.outcome, False, None
        young = isinstance(event.outcome, Failed) and event.t - (self.started_t or 0.0) < YOUNG_S
        self.short_lives = self.short_lives + 1 if young else 0
        self.breaks = []
        self.flags.discard("keeperless")

    def act(self, event: HealthActed) -> None:
        """Take in what was done about a finding at the severity that it has now."""
        if event.finding in self.findings:
            self.acted.add((event.finding, self.findings[event.finding].severity, event.act))


@dataclass(slots=True)
class Trained:
    """What `metrics.jsonl` says. `complete` is false while only the end of the file was read."""

    seq: int = 0
    complete: bool = False
    attempt: int = 0
    seconds: float = 0.0
    row: UpdateDone | None = None
    checkpoint: str | None = None
    columns: Columns = field(default_factory=Columns)
    sets: list[SettingsChanged] = field(default_factory=list)
    outcomes: deque[tuple[int, dict[str, int]]] = field(default_factory=lambda: deque(maxlen=POINTS))


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


class RunHistory:
    """Everything known of one run. `spec` is None when it cannot be read."""

    def __init__(self, run_id: str, run_dir: str, spec: Spec | None) -> None:
        self.id = run_id
        self.run_dir = run_dir
        self.spec = spec
        self.told = Told(name=run_id, preset=clean(spec.preset) if spec else "")
        self.trained = Trained()
        self.seen = Seen()
        self.size_bytes: int | None = None

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
            case LinkSeen() | PhaseSeen() | HeartbeatSeen() | PidsSeen() | FlagSeen() | SizeSeen() | WaitSeen():
                return self._see(fact)
            case _:
                if fact.seq <= self.told.seq:
                    return False
                self.told.seq = fact.seq
                self._hear(fact)
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
                told.branched = event.origin
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
            case RunRenamed():
                told.name = clean(event.name)
            case RunNoted():
                told.note = clean(event.text, NOTE_CHARS)
            case RunLabelled():
                told.labels = (told.labels | {clean(label) for label in event.added}) - set(event.removed)
            case RunPaused() | RunResumed():
                if event.attempt == told.attempt:
                    told.paused = isinstance(event, RunPaused)
                    told.declare(event)
            case RunFrozen() | RunThawed():
                if event.attempt == told.attempt:
                    told.frozen = event if isinstance(event, RunFrozen) else None
                    told.declare(event)
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
            case FileDamaged():
                told.flags.add("damaged")

    def _see(self, observation: Observation) -> bool:
        seen = self.seen
        if self.told.outcome is not None and not isinstance(observation, FlagSeen | SizeSeen):
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
            case WaitSeen(why=why):
                changed, seen.waits = seen.waits != why, why
            case SizeSeen(size_bytes=size_bytes):
                changed, self.size_bytes = self.size_bytes != size_bytes, size_bytes
        return changed


def _resumed(run_id: str, told: Told, event: AttemptStarting) -> Origin | None:
    """What the attempt goes on from. A restart from where the attempt before began differs from that as much as it."""
    if event.checkpoint is None:
        return None
    if event.restart and told.resumed is not None and told.resumed.checkpoint == event.checkpoint:
        return told.resumed
    return Origin("resumed", run_id, told.name, event.checkpoint, diff_of(event.changes))


def fold_record(trained: Trained, record: MetricRecord) -> None:
    """Fold one line of `metrics.jsonl`. An attempt's start drops the later rows of earlier attempts (rewind)."""
    match record:
        case TrainingStarted():
            trained.attempt = record.attempt
            trained.checkpoint = record.checkpoint or trained.checkpoint
            if trained.row is not None and trained.row.update > record.from_update:
                trained.columns.rewind(record.from_update)
                trained.seconds = trained.columns.total("rollout_s") + trained.columns.total("update_s")
                trained.row = trained.columns.last_row(record.attempt, record.seq)
                trained.sets = [each for each in trained.sets if each.update <= record.from_update]
                kept = [entry for entry in trained.outcomes if entry[0] <= record.from_update]
                trained.outcomes = deque(kept, maxlen=POINTS)
        case UpdateDone():
            if trained.row is None or record.update > trained.row.update:
                trained.row = record
                trained.columns.append(record)
                trained.seconds += record.rollout_s + record.update_s
                trained.outcomes.append((record.update, record.episodes.outcomes))
        case SettingsChanged():
            trained.sets.append(record)
        case EvaluationDone():
            trained.columns.annotate(record.update, "eval/mean_reward", record.mean)
        case CheckpointSaved():
            trained.checkpoint = record.name
        case TrainingEnded():
            trained.checkpoint = record.checkpoint or trained.checkpoint
