"""The lines of `events.jsonl`: what happened to a run, as its supervisor saw it. The supervisor is the only writer.

Every record carries `seq` (rises by one per line) and `t` (unix seconds). State is derived from these records and from
`metrics.jsonl`; nothing else is remembered. `asker` says who asked: the client and its terminal, in words; empty where
nobody did, or it is not known. Some lines, of either file, are declared breaks: they make the rows after them
incomparable with those before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.marginal_gain import MarginalGain
from mission_tui.fleet.events.metrics import EvaluationDone, MetricRecord
from mission_tui.fleet.events.outcome import After, Outcome
from mission_tui.fleet.events.processes import Peak, Placement
from mission_tui.fleet.events.provenance import Origin
from mission_tui.fleet.events.trials import TrialBranch, TrialEnd, TrialPlan, TrialVerdict
from mission_tui.fleet.ranges import Bytes, Count, UnixTime, Whole
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Change, Terms

Mark = Literal["acknowledged", "silenced", "open"]
ActVerb = Literal["stop", "kill", "pause", "freeze", "park", "checkpoint"]
"""What is asked of a run by its name alone: the orders of `fleet.commands`."""

Verb = Literal["launch", "resume", ActVerb]
ENDING: frozenset[Verb] = frozenset({"stop", "kill", "park"})
"""What, once asked, ends the attempt."""


class RunCreated(Struct, frozen=True, tag="created", tag_field="kind", omit_defaults=True, gc=False):
    """The run directory exists with its frozen spec; the run is queued. `origin`: what it branched from.

    It begins once the runs `after` (ids) have ended, however they end. `trial`: of which trial it is a branch. A
    `probe` was made to be measured, and is removed when whoever measures is gone.
    """

    seq: Count
    t: UnixTime
    name: str
    preset: str
    group: str | None = None
    origin: Origin | None = None
    after: tuple[str, ...] = ()
    asker: str = ""
    trial: TrialBranch | None = None
    probe: bool = False


class AttemptStarting(Struct, frozen=True, tag="attempt", tag_field="kind", omit_defaults=True):
    """Attempt `attempt` was handed to a keeper; `changes` are the accepted differences to the attempt before.

    `terms` are those on which it goes on from `checkpoint`, with the refusals that were overridden. `restart` and
    `reboots` count the attempts in a row that began by themselves, after a failure and after a restart of the machine;
    both are 0 for one that somebody asked for. `placed`: the GPU that was chosen for it, where several could be.
    `after` says of each run that it waited for how that one ended.
    """

    seq: Count
    t: UnixTime
    attempt: Count
    checkpoint: str | None = None
    changes: tuple[Change, ...] = ()
    total_timesteps: Count | None = None
    terms: Terms = AS_IT_WAS
    restart: Count = 0
    reboots: Count = 0
    placed: Placement | None = None
    after: tuple[str, ...] = ()
    asker: str = ""


class Asked(Struct, frozen=True, tag="asked", tag_field="kind", omit_defaults=True):
    """A person or script asked for `verb`. A `resume` of attempt 0 puts a run that never began back into the queue."""

    seq: Count
    t: UnixTime
    verb: Verb
    attempt: Count
    asker: str = ""


class SettingsAsked(Struct, frozen=True, tag="set", tag_field="kind", omit_defaults=True):
    """A person set `assignments` while attempt `attempt` trains: it, and every later attempt, go on with them.

    `changes` are what was judged and accepted, `total_timesteps` the new budget. The trainer's own record says since
    which update they are in effect.
    """

    seq: Count
    t: UnixTime
    attempt: Count
    assignments: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    total_timesteps: Count | None = None
    asker: str = ""


class PriorityAsked(Struct, frozen=True, tag="priority", tag_field="kind", omit_defaults=True):
    """A person gave the run, which waits for its turn, another place in the line."""

    seq: Count
    t: UnixTime
    priority: Whole
    asker: str = ""


class RunRenamed(Struct, frozen=True, tag="renamed", tag_field="kind", omit_defaults=True):
    """The run is called `name` from now on."""

    seq: Count
    t: UnixTime
    name: str
    asker: str = ""


class RunNoted(Struct, frozen=True, tag="noted", tag_field="kind", omit_defaults=True):
    """A person wrote `text` about the run."""

    seq: Count
    t: UnixTime
    text: str
    asker: str = ""


class RunLabelled(Struct, frozen=True, tag="labelled", tag_field="kind", omit_defaults=True):
    """Labels were put on the run, and taken off."""

    seq: Count
    t: UnixTime
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    asker: str = ""


class RunPaused(Struct, frozen=True, tag="paused", tag_field="kind"):
    """The trainer blocks at an update boundary; heartbeats go on."""

    seq: Count
    t: UnixTime
    attempt: Count


class RunResumed(Struct, frozen=True, tag="resumed", tag_field="kind"):
    """The paused trainer goes on."""

    seq: Count
    t: UnixTime
    attempt: Count


class RunFrozen(Struct, frozen=True, tag="frozen", tag_field="kind", omit_defaults=True):
    """The processes of the attempt are stopped where they stood, and hold what they held.

    `by` is `outside` when nobody asked: somebody sent SIGSTOP. `processes` counts the stopped ones, `running` are those
    that did not stop; `memory_bytes` and `vram_bytes` are what they all hold in memory and on GPUs, as far as it is
    known, `gpu` that one of them holds a GPU. `why` is there where its engine has them stand, and says what helps; or
    where the machine slept, which is known once it is over: then `t` lies before what was journaled already.
    """

    seq: Count
    t: UnixTime
    attempt: Count
    by: Literal["asked", "outside"] = "asked"
    processes: Count = 0
    running: tuple[Count, ...] = ()
    memory_bytes: Bytes | None = None
    gpu: bool = False
    vram_bytes: Bytes | None = None
    why: str = ""


class RunThawed(Struct, frozen=True, tag="thawed", tag_field="kind", omit_defaults=True):
    """The trainer runs again; `by` is `outside` when somebody sent SIGCONT and nobody asked here."""

    seq: Count
    t: UnixTime
    attempt: Count
    by: Literal["asked", "outside"] = "asked"


class ClockStepped(Struct, frozen=True, tag="clock", tag_field="kind"):
    """The machine's clock was set: `t` is `by_s` seconds more (less, where it is negative) than it would have been.

    Nothing that lasts is measured across it: what the run said before is that much older, or younger, than it seems.
    """

    seq: Count
    t: UnixTime
    attempt: Count
    by_s: Annotated[float, Meta(ge=-1e11, le=1e11)]


class KeeperLost(Struct, frozen=True, tag="keeper_lost", tag_field="kind"):
    """The keeper died while the trainer lives on: the run is keeperless."""

    seq: Count
    t: UnixTime
    attempt: Count


class AttemptEnded(Struct, frozen=True, tag="ended", tag_field="kind", omit_defaults=True, gc=False):
    """The attempt is over and classified; the run has ended. `rebooted`: because the machine was restarted.
    `interrupted`: why its engine ended it, where it may go on in another job.

    `peak` is what its processes held at most, of one that trained. `ended_t` is when they ended, where that was noticed
    later, as by the next supervisor.
    """

    seq: Count
    t: UnixTime
    attempt: Count
    outcome: Outcome
    rebooted: bool = False
    peak: Peak | None = None
    interrupted: str = ""
    ended_t: UnixTime | None = None

    @property
    def over_t(self) -> float:
        """When the attempt was over, as far as that is known."""
        return self.t if self.ended_t is None else self.ended_t


class ResumeChoices(Struct, frozen=True, omit_defaults=True):
    """What a person chose for a resume that waits: a named checkpoint, `--set` words, remedies, overrides."""

    checkpoint: str | None = None
    assignments: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()


class RestartDue(Struct, frozen=True, tag="restart_due", tag_field="kind", omit_defaults=True):
    """The attempt failed, or a reboot took it, and the run's own rule starts another at unix time `due_t`.

    It is the `number`th of at most `most` in a row `after` that. On the boot `boot` it is due `due_boot_s` seconds
    after the machine came up, whatever its clock says meanwhile; events of earlier versions name none.

    After a `request`, a resume that waits for its group, nothing is counted, and `choices` are what it goes on with.
    """

    seq: Count
    t: UnixTime
    attempt: Count
    number: Count
    most: Count
    due_t: UnixTime
    after: After = "failure"
    boot: str = ""
    due_boot_s: float = 0.0
    choices: ResumeChoices | None = None


class RunParked(Struct, frozen=True, tag="parked", tag_field="kind"):
    """The run was restarted often enough: it waits for a person, with the reason `why`."""

    seq: Count
    t: UnixTime
    attempt: Count
    why: str


class FindingChanged(Struct, frozen=True, tag="finding", tag_field="kind"):
    """A finding opened, changed severity, or cleared; the newest record of an id is the truth."""

    seq: Count
    t: UnixTime
    finding: Finding


class FindingMarked(Struct, frozen=True, tag="marked", tag_field="kind", omit_defaults=True):
    """A person marked finding `finding`, or every finding of rule `rule`; `open` takes a mark away."""

    seq: Count
    t: UnixTime
    mark: Mark
    finding: str = ""
    rule: str = ""
    asker: str = ""


class HealthActed(Struct, frozen=True, tag="acted", tag_field="kind", omit_defaults=True):
    """Something was done because of finding `finding`, never more than its rule may; `detail` says what came of it.

    `failed` names the messenger that could not tell of it: then nothing was done, and `detail` is the reason.
    """

    seq: Count
    t: UnixTime
    finding: str
    act: Literal["notified", "checkpoint", "pause", "stop", "applied"]
    detail: str = ""
    asker: str = ""
    failed: str = ""


class CoRunningChanged(Struct, frozen=True, tag="company", tag_field="kind"):
    """From `t` on this many other runs train beside this one: speeds before and after are not comparable."""

    seq: Count
    t: UnixTime
    others: Count


class GainMeasured(Struct, frozen=True, tag="paid", tag_field="kind"):
    """What the run brought when it joined the others that train, or took away when it left them, is known."""

    seq: Count
    t: UnixTime
    payoff: MarginalGain


class DutyFailureSeen(Struct, frozen=True, tag="duty_failed", tag_field="kind", omit_defaults=True):
    """Something that should have been done for the run was not: `duty` names it, `why` is the reason.

    `number` is that of the trainer's own record, 0 for what the supervisor itself failed at.
    """

    seq: Count
    t: UnixTime
    attempt: Count
    duty: str
    why: str
    number: Count = 0


class DutyDoneSeen(Struct, frozen=True, tag="duty_done", tag_field="kind"):
    """A duty of the supervisor's or trainer's that had failed was done again, after `times` failures."""

    seq: Count
    t: UnixTime
    attempt: Count
    duty: str
    times: Count


class TrialBegun(Struct, frozen=True, tag="trial", tag_field="kind", omit_defaults=True):
    """Branches of the run were made, each a run of its own, to try other settings by `plan`."""

    seq: Count
    t: UnixTime
    plan: TrialPlan
    asker: str = ""


class TrialJudged(Struct, frozen=True, tag="trial_judged", tag_field="kind"):
    """The branches of trial `number` have ended, and this is what they say."""

    seq: Count
    t: UnixTime
    number: Count
    verdict: TrialVerdict


class TrialClosed(Struct, frozen=True, tag="trial_closed", tag_field="kind", omit_defaults=True):
    """What becomes of trial `number`: its branches were discarded; or the branch `by` (id), called `branch`, takes the
    place and the `name` of the run, which is called `renamed` then; or that is taken back. What is `taking` or
    `returning` is not done yet. `trained`: the run did until then.
    """

    seq: Count
    t: UnixTime
    number: Count
    how: TrialEnd
    by: str = ""
    branch: str = ""
    name: str = ""
    renamed: str = ""
    trained: bool = False
    asker: str = ""


class GoalReached(Struct, frozen=True, tag="goal", tag_field="kind"):
    """What the run is to reach, `goal` in words, it reached with update `update`: once an attempt for each goal."""

    seq: Count
    t: UnixTime
    attempt: Count
    goal: str
    value: float
    update: Count
    timesteps: Count


class FileDamaged(Struct, frozen=True, tag="damaged", tag_field="kind"):
    """A file of the run did not hold what was written there; `detail` says what was set aside."""

    seq: Count
    t: UnixTime
    file: str
    detail: str


FleetEvent = (
    RunCreated
    | AttemptStarting
    | Asked
    | SettingsAsked
    | PriorityAsked
    | RunRenamed
    | RunNoted
    | RunLabelled
    | RunPaused
    | RunResumed
    | RunFrozen
    | RunThawed
    | ClockStepped
    | KeeperLost
    | AttemptEnded
    | RestartDue
    | RunParked
    | FindingChanged
    | FindingMarked
    | HealthActed
    | CoRunningChanged
    | GainMeasured
    | DutyFailureSeen
    | DutyDoneSeen
    | FileDamaged
    | GoalReached
    | TrialBegun
    | TrialJudged
    | TrialClosed
)


def final_end(events: Iterable[FleetEvent]) -> AttemptEnded | None:
    """How the run ended, by its `events` in order; None while it goes on, or waits in the queue again."""
    over: AttemptEnded | None = None
    for event in events:
        match event:
            case AttemptEnded():
                over = event
            case AttemptStarting() | Asked(verb="resume", attempt=0):
                over = None
    return over


Break = Literal["pause", "unpause", "freeze", "thaw", "step", "stepped", "back", "backed", "company", "evaluation"]
"""Declared breaks within an attempt: it was held or went on, another run came or went, an evaluation ran, or the clock
was set: forward, which leaves a gap between two times that no process has lived through, or back, after which times
come once more.
"""


def declared_breaks(fact: FleetEvent | MetricRecord) -> tuple[tuple[float, Break], ...]:
    """The breaks that `fact` declares, each as of its time; mostly none.

    A clock that was set forward is time that never was: it began when the clock would have shown less. One that was set
    back showed the first time then, and the second after it.
    """
    if isinstance(fact, ClockStepped):
        before = fact.t - fact.by_s
        return ((before, "step"), (fact.t, "stepped")) if fact.by_s > 0.0 else ((before, "back"), (fact.t, "backed"))
    cause = _break_of(fact)
    return () if cause is None else ((fact.t, cause),)


def _break_of(fact: FleetEvent | MetricRecord) -> Break | None:
    match fact:
        case RunPaused():
            return "pause"
        case RunResumed():
            return "unpause"
        case RunFrozen():
            return "freeze"
        case RunThawed():
            return "thaw"
        case CoRunningChanged():
            return "company"
        case EvaluationDone():
            return "evaluation"
        case _:
            return None
