"""What a supervisor answers on the operator plane, as a msgspec tagged union: one JSON object a line."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field, structs

from mission_tui.fleet.capacity.demand import Cost
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.events.provenance import Provenance, SettingChange
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.search import SearchResult
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.strip import Strip
from mission_tui.fleet.views.played_frame import PlayedFrame
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView


class Reply(Struct, frozen=True, kw_only=True, tag_field="reply"):
    """Base of all answers; `re` is the request's id."""

    re: int


class Welcome(Reply, frozen=True, kw_only=True, tag="welcome"):
    """The supervisor's side of the hello. `changes`: it can answer a watch with what has changed alone. Over a bridge,
    `bridge` is the version of the program at its far end, which puts folder, interpreter, variables and limits of its
    own into what is to be launched without any.
    """

    protocol: int
    version: str
    pid: int
    runs_root: str
    changes: bool = False
    bridge: str = ""


class SnapshotReply(Reply, frozen=True, kw_only=True, tag="snapshot"):
    """A snapshot, once or as one of a watch."""

    snapshot: FleetSnapshot


class ChangesReply(Reply, frozen=True, kw_only=True, tag="changes", omit_defaults=True):
    """The next snapshot of a watch for changes: as `snapshot` is, which has those of its runs alone that are others
    than in the one sent before. `order` are the ids of all of them; None: the same as before, in the same order.
    """

    snapshot: FleetSnapshot
    order: tuple[str, ...] | None = None

    def after(self, before: FleetSnapshot) -> FleetSnapshot:
        """The whole of it, where `before` is the one sent before. Raises `KeyError` where it is not."""
        views = {view.id: view for view in before.runs}
        order = tuple(views) if self.order is None else self.order
        views.update((view.id, view) for view in self.snapshot.runs)
        return structs.replace(self.snapshot, runs=tuple(views[run_id] for run_id in order))


class Launched(Reply, frozen=True, kw_only=True, tag="launched"):
    """These run directories exist and their runs are queued; `warnings` say what will be slow and why."""

    runs: tuple[RunView, ...]
    warnings: tuple[str, ...] = ()


class Quoted(Reply, frozen=True, kw_only=True, tag="quoted"):
    """What each of the runs would cost, in their order. `refused` is why a launch would make none of them, if it would;
    `warnings` are those that it would say. Nothing of that is said, nor who would begin, where it is not `decided`:
    files alone were asked.
    """

    costs: tuple[Cost, ...]
    refused: str = ""
    warnings: tuple[str, ...] = ()
    decided: bool = True


class CheckpointOutcome(Struct, frozen=True, omit_defaults=True):
    """What came of an order for a checkpoint of `run`: its name, or `why` there is none."""

    run: str
    checkpoint: str | None = None
    why: str = ""


class Accepted(Reply, frozen=True, kw_only=True, tag="accepted"):
    """The request was accepted for `runs` (ids). What comes of it shows in snapshots. `notes` are sentences.

    `checkpoints` say what came of orders for them, where that was waited for; `damaged` names the newer checkpoints
    that a resume passed over. Of one run that goes on from its `checkpoint`: the `remedies` that were taken, as
    NAME:FIELD. `warnings` are those of the notes that no verdict has shown before, such as what the machine lacks.
    """

    runs: tuple[str, ...]
    notes: tuple[str, ...] = ()
    checkpoints: tuple[CheckpointOutcome, ...] = ()
    damaged: tuple[str, ...] = ()
    checkpoint: str = ""
    remedies: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class AdoptRow(Struct, frozen=True):
    """One thing that a run would start or set: what it is (command, python, variable, ...), and what it says."""

    kind: str
    value: str


class Adoptable(Struct, frozen=True, kw_only=True):
    """A run that is not ours, `why`, and everything that it would run or set if it were. `digest` is of what was read
    for that, so that nothing else can be adopted than what was shown; it is empty for what cannot be adopted.

    One that is not `foreign` is ours, and its specs were changed.
    """

    run: str
    name: str
    why: str
    rows: tuple[AdoptRow, ...]
    digest: str
    foreign: bool = True


class AdoptableReply(Reply, frozen=True, kw_only=True, tag="adoptable"):
    """Runs that are foreign, or whose specs were changed since they were launched.

    Of the runs `more` (ids) nothing is said yet: they are for another request.
    """

    items: tuple[Adoptable, ...]
    more: tuple[str, ...] = ()


class VerdictReply(Reply, frozen=True, kw_only=True, tag="verdict"):
    """What a resume from `checkpoint` would change; nothing was started. `accept_needed`: `accept` would start it.

    `damaged` are newer checkpoints that it would pass over. `not_now`: why it cannot start now whatever is accepted:
    the machine lacks room, its name is taken. Empty: it can.
    """

    run: str
    verdict: ResumeVerdict
    accept_needed: bool
    checkpoint: str = ""
    damaged: tuple[str, ...] = ()
    not_now: str = ""


class CheckpointView(Struct, frozen=True, kw_only=True):
    """A checkpoint on disk; `verified` is None until it was read back."""

    name: str
    update: int
    timesteps: int
    t: float
    size_bytes: int
    reason: str
    verified: bool | None = None


class AttemptView(Struct, frozen=True, kw_only=True):
    """One process lifetime of the run."""

    attempt: int
    started_t: float | None
    ended_t: float | None
    outcome: str | None
    cause: str | None
    from_checkpoint: str | None
    from_timesteps: int | None
    changes: tuple[Change, ...] = ()


class AuditEntry(Struct, frozen=True, kw_only=True):
    """What was done to the run at unix time `t`, as it was journaled; `what` is the verb, `detail` a line.

    `by` says who: the client that asked and its terminal, a rule, the run's own restart rule; empty where unknown.
    """

    t: float
    what: str
    detail: str = ""
    by: str = ""


class DetailsReply(Reply, frozen=True, kw_only=True, tag="details"):
    """All that is known of a run beyond its view. `effective` are values read back from the model, by table.

    `search` is what has come of the search that the run drives; None for every other run.
    """

    view: RunView
    spec: Spec
    effective: dict[str, Any] = field(default_factory=dict)
    attempts: tuple[AttemptView, ...] = ()
    checkpoints: tuple[CheckpointView, ...] = ()
    evaluations: tuple[dict[str, Any], ...] = ()
    provenance: Provenance | None = None
    audit_log: tuple[AuditEntry, ...] = field(default=(), name="deeds")
    search: SearchResult | None = None


class HistoryReply(Reply, frozen=True, kw_only=True, tag="history"):
    """Equal-length columns: x axes by bucket end, and per series the bucket's minimum and maximum (None: no value).

    `changes` are what was set while the run trained, to be marked on the curve. `episodes` that ended in each bucket,
    and of them those of each of the `outcomes`, come where the series `episodes` was asked for.
    """

    run: str
    updates: tuple[int, ...]
    timesteps: tuple[int, ...]
    t: tuple[float, ...]
    low: dict[str, tuple[Metric | None, ...]]
    high: dict[str, tuple[Metric | None, ...]]
    changes: tuple[SettingChange, ...] = ()
    episodes: tuple[int, ...] = ()
    outcomes: dict[str, tuple[int, ...]] = field(default_factory=dict)


class StripReply(Reply, frozen=True, kw_only=True, tag="strip"):
    """GPUs, processors and the phases of runs on one time axis."""

    strip: Strip


class ComparisonReply(Reply, frozen=True, kw_only=True, tag="comparison"):
    """A `fleet.comparison.Comparison` in builtin values: who shows one converts it, nobody else loads its modules."""

    comparison: dict[str, Any]


class SidesReply(Reply, frozen=True, kw_only=True, tag="sides"):
    """By metric a `fleet.comparison_sides.Side` for each run, in builtin values as it packs them."""

    sides: dict[str, tuple[dict[str, Any], ...]]


class LogReply(Reply, frozen=True, kw_only=True, tag="log"):
    """Text between byte `start` and `end` of an output file of `size` bytes; undecodable bytes are replaced."""

    run: str
    attempt: int
    text: str
    start: int
    end: int
    size: int


class EndedReply(Reply, frozen=True, kw_only=True, tag="ended"):
    """A page of ended runs."""

    runs: tuple[RunView, ...]
    total: int


class PageReply(Reply, frozen=True, kw_only=True, tag="page"):
    """The fleet as a snapshot has it, with the runs of a page alone; there are `total` to turn through."""

    snapshot: FleetSnapshot
    total: int


class NamedReply(Reply, frozen=True, kw_only=True, tag="named"):
    """The runs that the words of a request mean, each once, in the order of the words; of a group, oldest first."""

    runs: tuple[RunView, ...]


class LeftoverRow(Struct, frozen=True, kw_only=True):
    """A leftover of a dead run. Only `ours` may be removed; `unverifiable` is shown and never touched."""

    key: str
    kind: Literal["process", "socket", "shm", "file"]
    verdict: Literal["ours", "unverifiable"]
    run: str | None = None
    pid: int | None = None
    name: str | None = None
    age_s: float | None = None
    memory_bytes: int | None = None
    vram_bytes: int | None = None
    command: str = ""
    removed: bool = False


class CleanReply(Reply, frozen=True, kw_only=True, tag="clean"):
    """What was found, and which of it was removed."""

    stale: tuple[LeftoverRow, ...]


class Removable(Struct, frozen=True, kw_only=True):
    """A run, or a checkpoint of one. `trashed_t`: since when it lies in the trash (unix s); None for what does not."""

    run: str
    name: str
    checkpoint: str | None = None
    size_bytes: int
    trashed_t: float | None = None


class RemovableReply(Reply, frozen=True, kw_only=True, tag="removable"):
    """What lies in the trash, or what a prune would move there or has moved. `kept_s`: how long it stays there."""

    items: tuple[Removable, ...]
    kept_s: float


class Upgrade(Struct, frozen=True, kw_only=True):
    """What was changed under a live run since it was launched."""

    run: str
    name: str
    changes: tuple[Change, ...]


class UpgradesReply(Reply, frozen=True, kw_only=True, tag="upgrades"):
    """The live runs under which something was changed, of `looked` that could be looked at."""

    upgrades: tuple[Upgrade, ...]
    looked: int


class Progress(Reply, frozen=True, kw_only=True, tag="progress"):
    """A long task is at `done` of `total`; `fact` is a part of it that is over, in builtin values."""

    done: int
    total: int
    note: str = ""
    fact: dict[str, Any] | None = None


class Evaluated(Reply, frozen=True, kw_only=True, tag="evaluated"):
    """The result of an evaluation, as it was written to `evaluations/`."""

    result: dict[str, Any]


class Played(Reply, frozen=True, kw_only=True, tag="played"):
    """What a player shows now."""

    frame: PlayedFrame


Level = Literal["ok", "note", "failed", "skipped"]

SMOKE_STEPS = ("versions", "imports", "device", "env", "build", "rollout", "update", "checkpoint", "leftovers")
"""What the smoke run of a training goes through, in this order."""


class CheckStep(Struct, frozen=True, kw_only=True):
    """`note`: it would run, and a person should know. `exit_code` is that of a command line that ends with it."""

    name: str
    level: Level
    detail: str
    seconds: float | None = None
    exit_code: int = 0


class CheckFigures(Struct, frozen=True, kw_only=True):
    """Measured in the smoke run; None is not known. `memory_bytes`: the trainer's peak and its workers' share (PSS).

    `vram_bytes` is the peak of torch's allocator; the CUDA context comes on top. `hours` is the whole run's.
    """

    updates: int
    steps_per_s: float | None = None
    update_s: float | None = None
    hours: float | None = None
    memory_bytes: int | None = None
    worker_bytes: int | None = None
    n_workers: int = 0
    vram_bytes: int | None = None


STEPS = (*SMOKE_STEPS[:3], "speed", *SMOKE_STEPS[3:])
"""All steps in their order: where a GPU is, "speed" says whether the net is faster on it or on the CPU."""


def unreached(steps: tuple[CheckStep, ...]) -> tuple[CheckStep, ...]:
    """The steps of a smoke run that `steps` do not have, as skipped."""
    known = {step.name for step in steps}
    return tuple(CheckStep(name=name, level="skipped", detail="") for name in SMOKE_STEPS if name not in known)


class Checked(Reply, frozen=True, kw_only=True, tag="checked"):
    """What a smoke run said, step by step; nothing of it is left. `figures` are None where it did not come so far."""

    steps: tuple[CheckStep, ...]
    figures: CheckFigures | None = None


class Benched(Reply, frozen=True, kw_only=True, tag="benched"):
    """A `timed_runs.Side` in builtin values for each preset, as `ComparisonReply` has them. `others` lived beside.

    Of a sweep, `dropped` are the places of items that could not be measured, with the reasons; `host` tells its machine
    from another.
    """

    sides: tuple[dict[str, Any], ...]
    others: tuple[str, ...] = ()
    dropped: dict[int, str] = field(default_factory=dict)
    host: dict[str, str] = field(default_factory=dict)


class Tuned(Reply, frozen=True, kw_only=True, tag="tuned"):
    """The journal `name` of a tune that is over: its `TuneBegun` and each `ProbeDone`, in builtin values. `others`
    live beside it now.
    """

    name: str
    begun: dict[str, Any]
    probes: tuple[dict[str, Any], ...]
    others: tuple[str, ...] = ()


class FleetTuned(Reply, frozen=True, kw_only=True, tag="fleet-tuned"):
    """A `fleet.tuning.tune_result.FleetSizeVerdict`, and the `MarginalGain` of each run that joined, in builtin
    values.
    """

    said: dict[str, Any]
    payoffs: tuple[dict[str, Any], ...]
    host: dict[str, str]


class Exported(Reply, frozen=True, kw_only=True, tag="exported"):
    """The zip exists at `path`, made from `checkpoint`."""

    path: str
    checkpoint: str


class Filmed(Reply, frozen=True, kw_only=True, tag="filmed"):
    """The film exists; `result` has its `path`, its size, and each episode in it."""

    result: dict[str, Any]


class Refused(Reply, frozen=True, kw_only=True, tag="refused"):
    """Nothing was done; `message` is one actionable sentence, `exit_code` what a command line should exit with."""

    message: str
    exit_code: int = 1


OperatorReply = (
    Welcome
    | SnapshotReply
    | ChangesReply
    | Launched
    | Quoted
    | Accepted
    | AdoptableReply
    | VerdictReply
    | DetailsReply
    | HistoryReply
    | StripReply
    | ComparisonReply
    | SidesReply
    | LogReply
    | EndedReply
    | PageReply
    | NamedReply
    | CleanReply
    | RemovableReply
    | UpgradesReply
    | Progress
    | Evaluated
    | Played
    | Checked
    | Benched
    | Tuned
    | FleetTuned
    | Exported
    | Filmed
    | Refused
)
