"""One run, folded from its two files and from what is seen of it live.

The fold does not depend on how the lines of `events.jsonl` and `metrics.jsonl` are interleaved, and a line applied
twice counts once; so a run rebuilt from its directory equals the run that was watched all along. What its events say is
in `journal_state`; of its rows the newest update and checkpoint are kept here, and the columns that curves are drawn
from.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Iterable

from msgspec import Struct, field, json, structs

from mission_tui.fleet.events import journal as events
from mission_tui.fleet.events import metrics as facts
from mission_tui.fleet.events import processes
from mission_tui.fleet.events.outcome import Lost, Phase, RunState
from mission_tui.fleet.events.provenance import Origin, SettingChange, diff_of
from mission_tui.fleet.history.course import ROLLOUT_SUCCESS, Course, GoalView, Scan, StepTime, ValueAtUpdate
from mission_tui.fleet.history.journal_state import JournalState, StateIntervals
from mission_tui.fleet.history.series import Columns
from mission_tui.fleet.specs.flat_settings import learned_with
from mission_tui.fleet.specs.quantity import Goal, parse_goal
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean

POINTS = 60
"""Rows kept of every run, live or ended: what a snapshot's series show."""

MOVED_CHARS = 160


class ViewParts(Struct, frozen=True):
    """The parts of a view that follow from the rows alone."""

    metrics: dict[str, facts.Metric]
    outcomes: dict[str, int]
    series: dict[str, tuple[facts.Metric | None, ...]]
    pace: StepTime | None = None
    course: Course | None = None
    best: ValueAtUpdate | None = None
    goal: GoalView | None = None
    steps_to_goal: tuple[float, float] | None = None


@dataclasses.dataclass(slots=True)
class MetricsState:
    """What `metrics.jsonl` says. `complete` is false while only the end of the file was read.

    `total_timesteps` are those that a command last said it means to reach. `saved_t` is when (unix s) `checkpoint` was
    saved, `evaluated_t` when a periodic evaluation last was done, `evaluation` the newest that counts.
    `outcomes` are those of the last `POINTS` rows, of each in which an episode ended in one, with its update.
    `reward_threshold` is what the environment's registration says, `device` where the newest attempt computes ("" where
    that is not known), `moved` what of the machine is another one since
    the checkpoint that the attempt goes on from. `written_by` is the attempt that wrote line `seq`. `view_parts` is
    what a view made of the rows up to a `seq` for a goal, kept for the next view; `scan` has gone over the first rows,
    and is dropped where they change.

    `trimmed`: only the newest rows are kept of a run that goes on, and `places` are the update and timesteps at moments
    (unix s) before them. `lacking`: what happened since can only be known from all rows, which have to be loaded anew.
    """

    seq: int = 0
    written_by: int = 0
    complete: bool = False
    attempt: int = 0
    seconds: float = 0.0
    row: facts.UpdateDone | None = None
    checkpoint: str | None = None
    saved_t: float | None = None
    evaluated_t: float | None = None
    evaluation: facts.EvaluationDone | None = None
    total_timesteps: int | None = None
    columns: Columns = dataclasses.field(default_factory=Columns)
    sets: list[facts.SettingsChanged] = dataclasses.field(default_factory=list)
    outcomes: list[tuple[int, dict[str, int]]] = dataclasses.field(default_factory=list)
    reward_threshold: float | None = None
    device: str = ""
    moved: tuple[str, ...] = ()
    view_parts: tuple[int, Goal | None, ViewParts] | None = dataclasses.field(default=None, compare=False, repr=False)
    scan: Scan | None = dataclasses.field(default=None, compare=False, repr=False)
    trimmed: bool = False
    lacking: bool = False
    places: dict[float, tuple[int, int]] = dataclasses.field(default_factory=dict)

    @property
    def reached(self) -> tuple[int, int]:
        """How far it has come: the lines of an attempt come after all those of the ones before, whatever their `seq`.

        An attempt on a lost node goes on writing until it sees that it was overtaken: its last lines may stand
        between those of the next one, and have numbers that this one has.
        """
        return self.written_by, self.seq

    def take(self, record: facts.MetricRecord) -> bool:
        """Fold in a line; false for one that was folded before, or that an overtaken attempt wrote late."""
        if (record.attempt, record.seq) <= self.reached:
            return False
        self.written_by, self.seq = record.attempt, record.seq
        _fold(self, record)
        return True

    def scanned(self, goal: Goal | None) -> Scan:
        """The scan of all rows for `goal`."""
        if self.scan is None or self.scan.goal != goal:
            self.scan, self.lacking = Scan(goal), self.lacking or self.trimmed
        self.scan.follow(self.columns)
        return self.scan

    def trim(self, rows: int, goal: Goal | None, moments: Iterable[float]) -> int:
        """Keep the newest `rows` rows of a run that goes on, and what all of them say for `goal`, and where it was at
        `moments` (unix s); how many went. Nothing goes of a run with a share of successes to reach: evaluations tell it
        of rows that are past.
        """
        surplus = len(self.columns) - rows
        if surplus <= 0 or not self.complete or self.lacking or (goal is not None and goal.of == "success"):
            return 0
        self.places |= {t: place for t in moments if (place := self.columns.place_at(t)) is not None}
        self.scanned(goal).forgot(surplus)
        self.columns.keep_last(rows)
        self.trimmed = True
        return surplus

    def place_at(self, t: float) -> tuple[int, int] | None:
        """Update and timesteps of the last row that had ended at unix time `t`; None where that is not known."""
        return self.columns.place_at(t) or self.places.get(t)


def _fold(metrics: MetricsState, record: facts.MetricRecord) -> None:
    """Fold one line of `metrics.jsonl`. An attempt's start drops the later rows of earlier attempts (rewind)."""
    match record:
        case facts.TrainingStarted():
            metrics.device = record.device
            metrics.attempt, metrics.moved = record.attempt, tuple(clean(it, MOVED_CHARS) for it in record.moved[:4])
            if record.reward_threshold is not None:
                metrics.reward_threshold = record.reward_threshold
            if record.checkpoint not in (None, metrics.checkpoint):
                metrics.saved_t = None
            metrics.checkpoint = record.checkpoint or metrics.checkpoint
            if metrics.row is not None and metrics.row.update > record.from_update:
                metrics.lacking = metrics.lacking or metrics.trimmed
                metrics.columns.rewind(record.from_update)
                metrics.scan = None
                metrics.seconds = metrics.columns.trained_s
                metrics.row = metrics.columns.last_row(record.attempt, record.seq)
                metrics.sets = [each for each in metrics.sets if each.update <= record.from_update]
                metrics.outcomes = [entry for entry in metrics.outcomes if entry[0] <= record.from_update]
                if metrics.evaluation is not None and metrics.evaluation.update > record.from_update:
                    metrics.evaluation = None
        case facts.UpdateDone():
            if metrics.row is None or record.update > metrics.row.update:
                metrics.row = record
                metrics.total_timesteps = record.total_timesteps or metrics.total_timesteps
                metrics.columns.append(record)
                phases_s = record.rollout_s + record.update_s
                metrics.seconds = metrics.seconds + phases_s if record.trained_s is None else record.trained_s
                if record.episodes.outcomes:
                    metrics.outcomes.append((record.update, record.episodes.outcomes))
                while metrics.outcomes and metrics.outcomes[0][0] < metrics.columns.first_of_last(POINTS):
                    del metrics.outcomes[0]
        case facts.SettingsChanged():
            metrics.sets.append(record)
        case facts.EvaluationDone():
            if metrics.scan is not None and metrics.scan.goal is not None and metrics.scan.goal.of == "success":
                metrics.scan = None  # the row of it may have been scanned
            for tag, value in facts.evaluated(record).items():
                metrics.columns.annotate(record.update, tag, value)
            metrics.evaluated_t, metrics.evaluation = record.t, record
        case facts.CheckpointSaved():
            metrics.checkpoint, metrics.saved_t = record.name, record.t
        case facts.TrainingEnded():
            metrics.checkpoint = record.checkpoint or metrics.checkpoint


_OF_COURSE = (facts.RETURN, ROLLOUT_SUCCESS)


def course_rows(records: Iterable[facts.MetricRecord]) -> MetricsState:
    """What `records`, the whole of a `metrics.jsonl`, say of the return: no other series is kept, so that the longest
    run takes little."""
    whole = MetricsState()
    for record in records:
        if isinstance(record, facts.UpdateDone):
            kept = {name: record.metrics[name] for name in _OF_COURSE if name in record.metrics}
            whole.take(structs.replace(record, metrics=kept))
        else:
            whole.take(record)
    return whole


def phase_before(row: facts.UpdateDone, moment: float) -> processes.PhaseSeen:
    """The phase at `moment` of the update that ends with `row`, the first row after it; None before its rollout."""
    update_t = row.t - row.update_s
    rollout_t = update_t - row.rollout_s
    if moment >= update_t:
        return processes.PhaseSeen("update", update_t)
    return processes.PhaseSeen("rollout", rollout_t) if moment >= rollout_t else processes.PhaseSeen(None, moment)


Fact = events.FleetEvent | facts.MetricRecord | processes.Observation
MOST_DIFF_LINES = 16
"""Lines of a change that are shown: one for each setting that can be changed, and some."""
_ASLEEP_S = 30.0
"""A trainer whose heart has not beaten for so long was stopped, or its machine asleep: its phase did not go on."""


class ObservedState(Struct):
    """What the processes of the live attempt show right now."""

    connected: bool = False
    phase: Phase | None = None
    phase_t: float | None = None
    heartbeat_t: float | None = None
    node: str = ""
    pids: processes.Pids = field(default_factory=processes.Pids)
    flags: frozenset[processes.RunFlag] = frozenset()
    waits: str = ""
    usage: processes.Usage | None = None
    workers: processes.EnvWorkers | None = None


def _stepped(t: float | None, event: events.ClockStepped) -> float | None:
    """The moment `t` as the clock that was set would have shown it; what may have been named by that clock stays."""
    before = t is not None and (t <= event.t - event.by_s if event.by_s > 0.0 else t > event.t)
    return t + event.by_s if t is not None and before else t


def goal_of(spec: Spec | None, reward_threshold: float | None) -> Goal | None:
    """What a run of `spec` is to reach: what was asked for, else the reward threshold of its environment."""
    if spec is not None and spec.run.goal is not None:
        try:
            return parse_goal(spec.run.goal)
        except ValueError:  # a file that somebody changed
            return None
    if reward_threshold is None or not math.isfinite(reward_threshold):
        return None
    return Goal("return", reward_threshold)


class RunHistory:
    """Everything known of one run. `spec` is None when it cannot be read. `state_intervals`: when it waited or was
    held.
    """

    def __init__(self, run_id: str, run_dir: str, spec: Spec | None) -> None:
        self.id = run_id
        self.run_dir = run_dir
        self.spec = spec
        self.journal = JournalState(name=run_id, preset=clean(spec.preset) if spec else "")
        self.metrics = MetricsState()
        self.observed = ObservedState()
        self.size_bytes: int | None = None
        self.state_intervals = StateIntervals()
        self._setting: tuple[Spec, str] | None = None

    @property
    def state(self) -> RunState:
        journal = self.journal
        if journal.outcome is not None:
            return "queued" if journal.restart is not None else "parked" if journal.parked else "ended"
        if journal.asked & events.ENDING:
            return "stopping"
        if journal.attempt == 0:
            return "queued"
        if journal.frozen is not None:
            return "frozen"
        if journal.paused:
            return "paused"
        return "running" if self._runs else "starting"

    @property
    def _runs(self) -> bool:
        """Whether the attempt has begun: it says so itself, or it is a command, and those begin when they are there."""
        if self.metrics.attempt == self.journal.attempt:
            return True
        return self.spec is not None and self.spec.run.command is not None and self.observed.pids.trainer is not None

    @property
    def goal(self) -> Goal | None:
        """What it is to reach: what was asked for, else the reward threshold of its environment."""
        return goal_of(self.spec, self.metrics.reward_threshold)

    @property
    def setting(self) -> str:
        """A digest of its spec without the seed, and what only names it or lets it begin; "" without a group."""
        if self.spec is None or self.journal.group is None:
            return ""
        if self._setting is None or self._setting[0] is not self.spec:
            self._setting = self.spec, f"{zlib.crc32(json.encode(learned_with(self.spec))):08x}"
        return self._setting[1]

    def apply(self, fact: Fact) -> bool:
        """Fold `fact` in; false when it changes nothing, for example because it was said before."""
        match fact:
            case (
                facts.TrainingStarted()
                | facts.UpdateDone()
                | facts.CheckpointSaved()
                | facts.DutyFailed()
                | facts.EvaluationDone()
                | facts.SettingsChanged()
                | facts.TrainingEnded()
            ):
                if not self.metrics.take(fact):
                    return False
                self.metrics.complete = self.metrics.complete or fact.seq == 1
                return True
            case (
                processes.LinkSeen()
                | processes.PhaseSeen()
                | processes.HeartbeatSeen()
                | processes.NodeSeen()
                | processes.PidsSeen()
                | processes.FlagSeen()
                | processes.ForeignSeen()
                | processes.SizeSeen()
                | processes.UsageSeen()
                | processes.WaitSeen()
                | processes.WorkersSeen()
            ):
                return self._apply_observation(fact)
            case _:
                if fact.seq <= self.journal.seq:
                    return False
                self.journal.seq = fact.seq
                self._apply_event(fact)
                self.state_intervals.add(self.state, fact.t)
                return True

    def load(self, records: Iterable[facts.MetricRecord], metrics: MetricsState | None = None) -> None:
        """Replace what is known of the training by the whole of `metrics.jsonl`; `metrics` holds what comes before
        `records`.
        """
        metrics = MetricsState(complete=True) if metrics is None else metrics
        for record in records:
            metrics.take(record)
        if metrics.reached >= self.metrics.reached:
            self.metrics = metrics

    def scan_whole(self, whole: MetricsState) -> None:
        """Know course, best and goal by `whole`, what all of `metrics.jsonl` says of its return (see `course_rows`);
        the rows that are kept stay the newest."""
        self.metrics.reward_threshold, self.metrics.device = whole.reward_threshold, whole.device
        self.metrics.view_parts = None
        self.metrics.scan = whole.scanned(self.goal)
        self.metrics.scan.whole = True

    def forget_rows(self) -> None:
        """Keep only the rows that a snapshot shows, of a run that has ended."""
        if len(self.metrics.columns) > POINTS:
            scan = self.metrics.scanned(self.goal)
            scan.whole = scan.whole or (self.metrics.complete and not self.metrics.lacking)
            self.metrics.columns.keep_last(POINTS)
            self.metrics.complete = self.metrics.trimmed = False

    def trim_rows(self, rows: int) -> int:
        """Keep the newest `rows` rows of a run that trains; how many went. All others stay in its file, and what they
        say of its course, its best and its goal is known.
        """
        # An attempt that has not begun may take rows back.
        if self.metrics.attempt != self.journal.attempt:
            return 0
        return self.metrics.trim(rows, self.goal, (t for t, _ in self.journal.moments))

    def _apply_event(self, event: events.FleetEvent) -> None:
        """The journal takes it in; here is what an event says of the processes that are seen."""
        journal, observed = self.journal, self.observed
        match event:
            case events.AttemptStarting():
                journal.resumed = _resumed(self.id, journal, event)
                self.observed = ObservedState()
            case events.RunThawed():
                if event.attempt == journal.attempt and observed.phase_t is not None:
                    observed.phase_t = max(observed.phase_t, event.t)
            case events.ClockStepped():
                if event.attempt == journal.attempt:
                    observed.phase_t, observed.heartbeat_t = (
                        _stepped(t, event) for t in (observed.phase_t, observed.heartbeat_t)
                    )
            case events.AttemptEnded():
                self.observed = ObservedState(flags=observed.flags - {"slow-start", "silent"}, node=observed.node)
        journal.apply(event)

    def _apply_observation(self, observation: processes.Observation) -> bool:
        if isinstance(observation, processes.ForeignSeen):
            return self._disown(observation.why)
        observed = self.observed
        waits = isinstance(observation, processes.WaitSeen) and self.journal.restart is not None
        if (
            self.journal.outcome is not None
            and not waits
            and not isinstance(observation, processes.FlagSeen | processes.SizeSeen)
        ):
            return False
        match observation:
            case processes.LinkSeen(connected=connected):
                changed, observed.connected = observed.connected != connected, connected
            case processes.PhaseSeen(phase=phase, t=t):
                changed = (observed.phase, observed.phase_t) != (phase, t)
                observed.phase, observed.phase_t = phase, t
            case processes.HeartbeatSeen(t=t, in_callback=in_callback):
                since_s = 0.0 if observed.heartbeat_t is None else t - observed.heartbeat_t
                if (since_s > _ASLEEP_S or in_callback) and observed.phase_t is not None:
                    # Nor is an evaluation that a callback does part of a rollout that may hang.
                    observed.phase_t = min(t, observed.phase_t + since_s)
                changed, observed.heartbeat_t = observed.heartbeat_t != t, t
            case processes.NodeSeen(node=node):
                changed, observed.node = observed.node != node, node
            case processes.PidsSeen(pids=pids):
                changed, observed.pids = observed.pids != pids, pids
            case processes.FlagSeen(flag=flag, raised=raised):
                flags = observed.flags | {flag} if raised else observed.flags - {flag}
                changed, observed.flags = observed.flags != flags, flags
            case processes.UsageSeen(usage=usage):
                changed, observed.usage = observed.usage != usage, usage
            case processes.WorkersSeen(workers=workers):
                changed, observed.workers = observed.workers != workers, workers
            case processes.WaitSeen(why=why):
                changed, observed.waits = observed.waits != why, why
            case processes.SizeSeen(size_bytes=size_bytes):
                changed, self.size_bytes = self.size_bytes != size_bytes, size_bytes
        return changed

    def _disown(self, why: str) -> bool:
        """What is foreign is over here: how it stands where it was made, and what was to follow, is not known."""
        changed, self.journal.foreign = self.journal.foreign != why, why
        self.journal.restart, self.journal.gave_up = None, ""
        if self.journal.outcome is None:
            row = self.metrics.row
            last_t = max(self.journal.created_t, self.journal.started_t or 0.0, row.t if row is not None else 0.0)
            lost = Lost("whether it has ended, and how, is not known here", self.metrics.checkpoint)
            self.journal.end(events.AttemptEnded(self.journal.seq, last_t, self.journal.attempt, lost))
            self.journal.ended_t = last_t or None  # nothing of it has a time
            self.observed = ObservedState()
        return changed


def _resumed(run_id: str, journal: JournalState, event: events.AttemptStarting) -> Origin | None:
    """What the attempt goes on from. A restart from where the attempt before began differs from that as much as it."""
    if event.checkpoint is None:
        return None
    after = journal.follows(event)
    if after and journal.resumed is not None and journal.resumed.checkpoint == event.checkpoint:
        return structs.replace(journal.resumed, after=after)
    return Origin("resumed", run_id, journal.name, event.checkpoint, diff_of(event.changes), after)


def setting_changes(run: RunHistory) -> tuple[SettingChange, ...]:
    """Those in effect, oldest first, over all attempts; then those that wait."""
    taken = [SettingChange(_cleaned(each.diff), each.update, each.timesteps) for each in run.metrics.sets]
    waiting = [] if run.journal.outcome is not None else not_taken(run)
    return (*taken, *(SettingChange(diff_of(each.changes)) for each in waiting))


def _cleaned(diff: tuple[str, ...]) -> tuple[str, ...]:
    """A trainer may be anybody's, and so may be what it writes."""
    return tuple(clean(line) for line in diff[:MOST_DIFF_LINES])


def not_taken(run: RunHistory) -> list[events.SettingsAsked]:
    """What was asked of the attempt that its trainer has not taken over yet."""
    taken = max((each.number for each in run.metrics.sets), default=0)
    return [each for each in run.journal.sets if each.seq > taken]
