"""What the events of a run say: how its newest attempt stands, what was asked of it, what was found, and when it waited
or was held, which no trainer says of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise

from msgspec import Struct, field, structs

from mission_tui.fleet.events import journal
from mission_tui.fleet.events.findings import (
    AFTER_CHANGE,
    GRAVITY,
    OUT_OF_MEMORY,
    FailedDuty,
    Finding,
    FindingState,
    Severity,
    failed_again,
    in_order,
    stories,
    symptoms_of,
)
from mission_tui.fleet.events.journal import Break, declared_breaks
from mission_tui.fleet.events.marginal_gain import MarginalGain
from mission_tui.fleet.events.outcome import After, Failed, Outcome, RunState, Stopped, outcome_word
from mission_tui.fleet.events.processes import Peak, Placement, RunFlag
from mission_tui.fleet.events.provenance import Origin
from mission_tui.fleet.events.trials import TrialBranch, TrialPlan, TrialVerdict
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.strip import StandState, StateInterval
from mission_tui.fleet.text import clean
from mission_tui.fleet.windows import Window

YOUNG_S = 10.0
"""An attempt that failed within this time died young."""

AGAIN = 16
"""So many attempts that began by themselves are remembered."""

PAYOFFS = 16
"""So many times that the run joined or left the others are remembered."""
MOST_STATE_CHANGES = 256
"""Changes that are remembered; the newest ones."""
MOST_EVIDENCE = 48
"""Findings that keep their evidence, the first ones in the order in which they are shown: three times what a view has
room for. Some 3 kB each; of all that are over after a day that would be most of what is known of a run."""
MOST_FINDINGS, NEWEST_FINDINGS = 512, 64
"""Findings that are remembered, some kilobyte each, and those of them that are remembered whatever they are. A view
goes through all of them, and a run of a million updates has thousands; the journal has the rest."""
_STANDS: dict[RunState, StandState] = {"queued": "queued", "paused": "paused", "frozen": "frozen", "parked": "parked"}


class TrialState(Struct):
    """A trial of the run: when it began (unix s), its verdict once it has one, and what became of it."""

    t: float
    plan: TrialPlan
    verdict: TrialVerdict | None = None
    closed: journal.TrialClosed | None = None

    @property
    def is_open(self) -> bool:
        """Whether its branches are still waited for."""
        return self.verdict is None and self.closed is None

    @property
    def has_work(self) -> bool:
        """Whether something is still to be done about it: a verdict, or a place that changes hands."""
        return self.is_open or (self.closed is not None and self.closed.how in ("taking", "returning"))


MOST_MOMENTS = 12
NOTE_CHARS = 400

_OfAttempt = (
    journal.Asked
    | journal.SettingsAsked
    | journal.RunPaused
    | journal.RunResumed
    | journal.RunFrozen
    | journal.RunThawed
    | journal.ClockStepped
    | journal.DutyFailureSeen
)


class JournalState(Struct):
    """What `events.jsonl` says.

    `due` are the findings of the attempt that may still be acted on: they opened, or became worse, while nobody had
    marked them. `restarts` counts the attempts in a row that nobody asked for, `short_attempts` those in a row that
    soon died; `gave_up` says why there will be no further one. `acted` is what was done about which finding at which
    severity, so that it is never done twice. `changes` is what the attempt was resumed with, `sets` what was set while
    it trained; `note` is the newest. `after` are the runs that it waits for to begin; `priority` is None until somebody
    changes the spec's. `peak` is that of the newest attempt that trained and ended. `duties` are those that failed for
    the newest attempt, by name, and `failures` the numbers of its trainer's records that were journaled.

    `started_t` is as the clock shows it now: `stepped_s` is by how much it was set since.

    `rebooted`: a restart of the machine ended the attempt, and it `was_held` then because it was paused or frozen.
    `reboots` counts the attempts in a row that began by themselves after one. `auto_restarts` is when attempts last
    began by themselves (unix s), and after what. `gains` is what it brought when it joined the others or left them.

    `trials` are those of the run, by number; `branch_of` says of which trial of another run it is a branch itself. A
    `probe` was made to be measured.
    `goal` is the newest that it reached. `moments` are what charts mark: when (unix s) it was held, ended or went on.

    `forgotten` counts the findings that are not remembered, symptoms of others left out, by severity; `forgotten_to` is
    the attempt and the first update of the last of them.

    `foreign` says why the run counts as somebody else's; that is seen, not told. Empty: it is ours.
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
    stepped_s: float = 0.0
    paused: bool = False
    frozen: journal.RunFrozen | None = None
    restart: journal.RestartDue | None = None
    restarts: int = 0
    short_attempts: int = 0
    rebooted: bool = False
    interrupted: str = ""
    reboots: int = 0
    was_held: bool = False
    auto_restarts: list[tuple[float, After]] = field(default_factory=list)
    gave_up: str = ""
    foreign: str = ""
    asked: set[journal.Verb] = field(default_factory=set)
    flags: set[RunFlag] = field(default_factory=set)
    findings: dict[str, Finding] = field(default_factory=dict)
    forgotten: dict[Severity, int] = field(default_factory=dict)
    forgotten_to: tuple[int, int] = (0, 0)
    acknowledged: dict[str, Severity] = field(default_factory=dict)
    silenced: set[str] = field(default_factory=set)
    due: set[str] = field(default_factory=set)
    acted: set[tuple[str, Severity, str]] = field(default_factory=set)
    total_timesteps: int | None = None
    until_timesteps: int = 0
    branched: Origin | None = None
    resumed: Origin | None = None
    others: int = 0
    gains: list[MarginalGain] = field(default_factory=list)
    breaks: list[tuple[float, Break]] = field(default_factory=list)
    sets: list[journal.SettingsAsked] = field(default_factory=list)
    changes: tuple[Change, ...] = ()
    labels: set[str] = field(default_factory=set)
    note: str = ""
    placed: Placement | None = None
    after: tuple[str, ...] = ()
    priority: int | None = None
    peak: Peak | None = None
    duties: dict[str, FailedDuty] = field(default_factory=dict)
    failures: set[int] = field(default_factory=set)
    goal: journal.GoalReached | None = None
    moments: Window[tuple[float, str]] = field(default_factory=lambda: Window(MOST_MOMENTS))
    trials: dict[int, TrialState] = field(default_factory=dict)
    branch_of: TrialBranch | None = None
    probe: bool = False

    def apply(self, event: journal.FleetEvent) -> None:
        """Take in the next event. What one says of an attempt that is not the newest changes nothing."""
        match event:
            case journal.RunCreated():
                self.name, self.preset, self.created_t = clean(event.name), clean(event.preset), event.t
                self.group = clean(event.group) if event.group else None
                self.branched, self.after, self.branch_of = event.origin, event.after, event.trial
                self.probe = event.probe
            case journal.PriorityAsked():
                self.priority = event.priority
            case journal.RunRenamed():
                self.name = clean(event.name)
            case journal.RunNoted():
                self.note = clean(event.text, NOTE_CHARS)
            case journal.RunLabelled():
                self.labels = (self.labels | {clean(label) for label in event.added}) - set(event.removed)
            case journal.AttemptStarting():
                if event.attempt > 1:
                    self.moments.append((event.t, "restarted" if event.restart or event.reboots else "resumed"))
                self.begin(event)
            case (
                journal.Asked()
                | journal.SettingsAsked()
                | journal.RunPaused()
                | journal.RunResumed()
                | journal.RunFrozen()
                | journal.RunThawed()
                | journal.ClockStepped()
                | journal.DutyFailureSeen()
            ):
                if event.attempt == self.attempt:
                    self._apply_to_attempt(event)
            case journal.AttemptEnded():
                if (word := outcome_word(event.outcome)) != "finished":
                    self.moments.append((event.over_t, word))
                self.end(event)
            case journal.RestartDue():
                self.restart = event
            case journal.RunParked():
                self.restart, self.gave_up = None, event.why
            case journal.FindingChanged():
                self.find(event.finding)
            case journal.FindingMarked():
                self.mark(event)
            case journal.HealthActed():
                self.act(event)
            case journal.CoRunningChanged():
                self.others = event.others
                self.declare(event)
            case journal.GainMeasured():
                self.add_gain(event.payoff)
            case journal.DutyDoneSeen():
                self.duties.pop(event.duty, None)
            case journal.KeeperLost():
                self.flags.add("keeperless")
            case journal.FileDamaged():
                self.flags.add("damaged")
            case journal.GoalReached():
                self.goal = event
            case journal.TrialBegun() | journal.TrialJudged() | journal.TrialClosed():
                self.try_out(event)

    def _apply_to_attempt(self, event: _OfAttempt) -> None:
        """What was asked of the newest attempt, when it was held, and what went wrong beside its training."""
        match event:
            case journal.Asked():
                self.ask(event)
            case journal.SettingsAsked():
                self.sets.append(event)
                self.total_timesteps = event.total_timesteps or self.total_timesteps
            case journal.RunPaused() | journal.RunResumed():
                self.paused = isinstance(event, journal.RunPaused)
                if self.paused:
                    self.moments.append((event.t, "paused"))
                self.asked.discard("pause")
                self.declare(event)
            case journal.RunFrozen() | journal.RunThawed():
                self.frozen = event if isinstance(event, journal.RunFrozen) else None
                if self.frozen is not None:
                    self.moments.append((event.t, "frozen"))
                self.declare(event)
            case journal.ClockStepped():
                self.step_clock(event)
            case journal.DutyFailureSeen():
                self.fail(event)

    def finding_state(self, finding: Finding) -> FindingState:
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
        if self.finding_state(finding) != "open":
            self.due.discard(finding.id)
        elif known is None or known.state == "cleared" or GRAVITY[finding.severity] > GRAVITY[known.severity]:
            self.due.add(finding.id)
        if known is None and len(self.findings) % MOST_EVIDENCE == 0:
            self._drop_evidence()
        if known is None and len(self.findings) > MOST_FINDINGS:
            self._forget_findings()

    def was_forgotten(self, finding: Finding) -> bool:
        """Whether an incident that is not among `findings` was once, so that who judges the run anew tells no news."""
        # Of a changed setting it may be told long after the update that it began at.
        told_in_order = bool(self.forgotten) and finding.rule != AFTER_CHANGE
        return told_in_order and (finding.attempt, finding.first_update) <= self.forgotten_to

    def _forget_findings(self) -> None:
        """Of those that are over let half go, with their symptoms: the least grave first, and the oldest of these."""
        everything = tuple(self.findings.values())
        newest = {it.id for it in everything[-NEWEST_FINDINGS:]}
        parts: dict[str, list[Finding]] = {}
        for it in everything:
            parts.setdefault(it.part_of, []).append(it)
        reasons = {id_ for id_, _, act in self.acted if act == "stop"}
        for story in sorted(stories(everything), key=lambda it: GRAVITY[it.severity]):
            gone = (story, *symptoms_of(story, parts.get(story.id, ())))
            ids = {it.id for it in gone}
            stays = ids & (newest | reasons) or any(it.state != "cleared" or it.rule == AFTER_CHANGE for it in gone)
            if stays or story.part_of in self.findings:
                continue
            self.forgotten[story.severity] = self.forgotten.get(story.severity, 0) + 1
            self.forgotten_to = max(self.forgotten_to, *((it.attempt, it.first_update) for it in gone))
            for id_ in ids:
                del self.findings[id_]
                self.acknowledged.pop(id_, None)
            self.acted = {action for action in self.acted if action[0] not in ids}
            if len(self.findings) <= MOST_FINDINGS // 2:
                return

    def _drop_evidence(self) -> None:
        """Of what is over and too far back to be shown; the journal has it."""
        kept = {it.id for it in islice(in_order(tuple(self.findings.values())), MOST_EVIDENCE)}
        for id_, finding in self.findings.items():
            if finding.state == "cleared" and finding.evidence and id_ not in kept:
                self.findings[id_] = structs.replace(finding, evidence=())

    def declare(self, event: journal.FleetEvent) -> None:
        """Keep a break while the attempt lives: its judge is told, after a restart once more."""
        if self.outcome is None:
            self.breaks += declared_breaks(event)

    def fail(self, event: journal.DutyFailureSeen) -> None:
        """Take in that a duty failed."""
        self._count(event.duty, event.why, event.t)
        if event.number:
            self.failures.add(event.number)

    def _count(self, duty: str, why: str, t: float) -> None:
        self.duties[duty] = failed_again(self.duties.get(duty), duty, why, t)

    def add_gain(self, gain: MarginalGain) -> None:
        """Take in what the run's joining or leaving brought."""
        self.gains = [*self.gains[1 - PAYOFFS :], gain]

    def try_out(self, event: journal.TrialBegun | journal.TrialJudged | journal.TrialClosed) -> None:
        """Take in that a trial began, what it says, or what became of it."""
        if isinstance(event, journal.TrialBegun):
            self.trials[event.plan.number] = TrialState(event.t, event.plan)
        elif (known := self.trials.get(event.number)) is not None:
            if isinstance(event, journal.TrialJudged):
                known.verdict = event.verdict
            else:
                known.closed = None if event.how == "returned" else event

    def mark(self, event: journal.FindingMarked) -> None:
        """Take in what a person thinks of a finding or a rule. Taking a mark back makes nothing due again."""
        if event.rule:
            (self.silenced.add if event.mark == "silenced" else self.silenced.discard)(event.rule)
        elif event.mark == "acknowledged" and event.finding in self.findings:
            self.acknowledged[event.finding] = self.findings[event.finding].severity
        elif event.mark == "open":
            self.acknowledged.pop(event.finding, None)
        self.due = {id_ for id_ in self.due if self.finding_state(self.findings[id_]) == "open"}

    @property
    def stopped_by(self) -> Finding | None:
        """The finding that stopped the attempt, None when a person did or nobody."""
        return next((self.findings[id_] for id_, _, act in self.acted if act == "stop"), None)

    @property
    def asked_or_stopped(self) -> set[journal.Verb]:
        """What was asked of the attempt; a stop is in it also where a finding gave the reason."""
        return {*self.asked, "stop"} if self.stopped_by is not None else set(self.asked)

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
        """Whether the run waits for a person: it saved and ended to make room, or was restarted often enough. One that
        was taken from the queue held nothing.
        """
        made_room = isinstance(self.outcome, Stopped) and self.attempt > 0 and self.asked & journal.ENDING == {"park"}
        return made_room or bool(self.gave_up)

    def begin(self, event: journal.AttemptStarting) -> None:
        """Another attempt: nothing that was said of the one before holds."""
        if (after := self.follows(event)) is not None:
            self.auto_restarts = [*self.auto_restarts[1 - AGAIN :], (event.t, after)]
        self.attempt, self.started_t, self.stepped_s = event.attempt, event.t, 0.0
        self.ended_t, self.outcome, self.paused, self.frozen = None, None, False, None
        self.restart, self.restarts, self.gave_up = None, event.restart, ""
        self.reboots, self.rebooted, self.was_held, self.interrupted = event.reboots, False, False, ""
        self.placed = event.placed
        self.short_attempts = self.short_attempts if event.restart else 0
        for said in (self.asked, self.due, self.acted, self.duties, self.failures):
            said.clear()
        self.others, self.breaks, self.sets, self.changes = 0, [], [], event.changes
        self.flags.discard("keeperless")
        for found in self.findings.values():
            if found.rule == OUT_OF_MEMORY and found.state == "open":
                self.findings[found.id] = structs.replace(found, state="cleared")
        self.total_timesteps = event.total_timesteps or self.total_timesteps
        self.until_timesteps = event.terms.until_timesteps

    def follows(self, event: journal.AttemptStarting) -> After | None:
        """What the attempt that `event` is about to begin follows by itself; None when somebody asked for it."""
        if not event.restart and not event.reboots:
            return None
        if self.restart is not None:
            return self.restart.after
        return "reboot" if event.reboots > self.reboots else "failure"

    def ask(self, event: journal.Asked) -> None:
        """Take in what was asked. Ending a run that waits for its restart cancels the restart; resuming one that never
        began puts it back into the queue, whatever ended it there.
        """
        self.asked.add(event.verb)
        if event.verb == "resume":
            self.asked.discard("pause")
            if self.attempt == 0:
                self.asked -= journal.ENDING
                self.ended_t, self.outcome, self.gave_up = None, None, ""
        if event.verb in journal.ENDING and self.restart is not None:
            self.restart = None
            self.gave_up = "on request, while it waited for a restart" if event.verb == "park" else ""

    def end(self, event: journal.AttemptEnded) -> None:
        """The attempt is over."""
        self.peak = event.peak or self.peak
        self.rebooted, self.was_held, self.interrupted = event.rebooted, self.held, event.interrupted
        self.ended_t, self.outcome, self.paused, self.frozen = event.over_t, event.outcome, False, None
        young = isinstance(event.outcome, Failed) and event.over_t - (self.started_t or 0.0) < YOUNG_S
        self.short_attempts = self.short_attempts + 1 if young else 0
        self.breaks = []
        self.flags.discard("keeperless")

    def step_clock(self, event: journal.ClockStepped) -> None:
        """The clock was set: what began a minute ago began a minute ago, and what is due in one is due in one."""
        if self.outcome is None:
            self.stepped_s += event.by_s
            self.started_t = None if self.started_t is None else self.started_t + event.by_s
        if self.restart is not None:
            self.restart = structs.replace(self.restart, due_t=self.restart.due_t + event.by_s)
        self.declare(event)

    def act(self, event: journal.HealthActed) -> None:
        """Take in what was done about a finding at the severity that it has now."""
        if event.failed:
            self._count(event.failed, event.detail.removeprefix(f"{event.failed} "), event.t)
        if event.finding in self.findings:
            self.acted.add((event.finding, self.findings[event.finding].severity, event.act))


class StateIntervals:
    """Takes in states in the order of the journal, whatever its clock did."""

    def __init__(self) -> None:
        self._changes = Window[tuple[float, StandState | None]](MOST_STATE_CHANGES)

    def add(self, state: RunState, t: float) -> None:
        """From unix time `t` on the run is in `state`."""
        stands = _STANDS.get(state)
        last_t, last = self._changes[-1] if self._changes else (t, None)
        if stands != last:
            self._changes.append((max(t, last_t), stands))

    def between(self, since: float, until: float) -> tuple[StateInterval, ...]:
        """The stands from `since` to `until`, oldest first; what goes on ends there."""
        changes: Sequence[tuple[float, StandState | None]] = (*self._changes, (until, None))
        return tuple(
            StateInterval(state, max(t, since), min(end, until))
            for (t, state), (end, _) in pairwise(changes)
            if state is not None and max(t, since) < min(end, until)
        )
