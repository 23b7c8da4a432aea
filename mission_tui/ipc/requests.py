"""What a client asks on the operator plane (`operator.sock`), as a msgspec tagged union: one JSON object a line.

A client says `Hello`, then requests with rising `id`; every answer (`ipc/replies.py`) carries that id in `re`.
"""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from msgspec import Meta, Struct

from mission_tui.fleet.events.journal import ActVerb
from mission_tui.fleet.events.journal import Mark as FindingMark
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.history.course import MOST_STRETCHES
from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.fleet.specs.spec import LaunchItem, Spec
from mission_tui.fleet.tuning.record import TunePlan
from mission_tui.fleet.views.played_frame import MOST_FILMED, Canvas, PlayOrder
from mission_tui.ipc import replies

Answer = TypeVar("Answer", covariant=True)
Keep = Literal["best", "last"]
UNDO_S = 10.0
"""So long after it began a launch can be undone."""
OPERATOR_LINE_BYTES = 1 << 20
MOST_PAGE = 1000
"""Runs of one page: four megabytes."""


class AnsweredBy(Generic[Answer]):
    """Mixed into a request: what a client gets back when the request is not refused."""

    __slots__ = ()


class Request(Struct, frozen=True, kw_only=True, tag_field="op", forbid_unknown_fields=True, omit_defaults=True):
    """Base of all requests; `id` is chosen by the client and comes back as `re`. What is as usual is left out, so that
    an older supervisor takes what does not use a newer field.
    """

    id: int


class FromClient(Request, frozen=True, kw_only=True):
    """Base of requests that are carried out with interpreter, folder, captured environment and limits of the client.

    Without `limits`, from a client that captures none, what is started has the supervisor's.
    """

    cwd: str
    python: str
    environ: dict[str, str]
    limits: ProcessLimits | None = None


class ContinuingRequest(Request, frozen=True, kw_only=True):
    """Base of what is done as the run was launched, unless the client says how else."""

    cwd: str | None = None
    python: str | None = None
    environ: dict[str, str] | None = None
    limits: ProcessLimits | None = None


class Clean(Request, AnsweredBy[replies.CleanReply], frozen=True, kw_only=True, tag="clean"):
    """List what dead runs left behind; with `remove`, remove exactly the listed keys that still pass the verdict."""

    remove: tuple[str, ...] = ()


class Remove(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="rm"):
    """Move ended runs to the trash; `now` frees their bytes for good, also of runs that lie there."""

    runs: tuple[str, ...]
    now: bool = False


class Restore(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="restore"):
    """Take runs, and checkpoints of runs, back from the trash."""

    runs: tuple[str, ...]


class GetTrash(Request, AnsweredBy[replies.RemovableReply], frozen=True, kw_only=True, tag="trash"):
    """What lies in the trash."""


class Prune(Request, AnsweredBy[replies.RemovableReply], frozen=True, kw_only=True, tag="prune"):
    """What ended before unix time `before_t`: whole runs, or with `keep` their other checkpoints.

    It is only listed, or with `remove` moved to the trash; `now` frees the bytes for good. Of `runs` alone, if named.
    """

    before_t: float
    runs: tuple[str, ...] = ()
    keep: tuple[Keep, ...] = ()
    remove: bool = False
    now: bool = False


class Hello(Request, AnsweredBy[replies.Welcome], frozen=True, kw_only=True, tag="hello"):
    """The handshake: first line of every operator connection."""

    protocol: int
    version: str


class GetSnapshot(Request, AnsweredBy[replies.SnapshotReply], frozen=True, kw_only=True, tag="snapshot"):
    """The newest snapshot, once."""


class Watch(Request, AnsweredBy[replies.SnapshotReply], frozen=True, kw_only=True, tag="watch", omit_defaults=True):
    """A subscription: snapshots as they change, at most four a second; a slow reader gets the newest later, never a
    backlog.

    With `changes`, of a supervisor whose welcome offers them, all but the first say only which runs are others than in
    the one before.
    """

    changes: bool = False


class Launch(FromClient, AnsweredBy[replies.Launched], frozen=True, kw_only=True, tag="launch"):
    """Make and start runs. All or none."""

    items: tuple[LaunchItem, ...]


class Quote(FromClient, AnsweredBy[replies.Quoted], frozen=True, kw_only=True, tag="quote"):
    """What a `Launch` of the same would cost, and whether its runs would begin now. Nothing is made."""

    items: tuple[LaunchItem, ...]


class Undo(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="undo"):
    """Kill and remove runs launched less than `UNDO_S` ago."""

    runs: tuple[str, ...]


class Act(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="act"):
    """Do `verb` to `runs`: ids, unique prefixes, names, `@last`, or `@live` for every live run.

    Of a checkpoint, `wait_s` is how long the answer may wait for what comes of it; 0 answers once it is asked for.
    """

    verb: ActVerb
    runs: tuple[str, ...]
    wait_s: float = 0.0


class Resume(
    ContinuingRequest, AnsweredBy[replies.Accepted | replies.VerdictReply], frozen=True, kw_only=True, tag="resume"
):
    """Continue a paused or ended run; `assignments` are `--set` words; warnings need `accept`.

    `remedies` (NAME or NAME:FIELD) of those that a verdict offers are carried out; each of `overrides` is a field whose
    refusal is gone against. `branch` leaves the run alone and makes another, called `name`, in `group`, with its
    weights. With `check_only` the verdict is the answer and nothing is done.
    """

    run: str
    assignments: tuple[str, ...] = ()
    checkpoint: str | None = None
    accept: bool = False
    remedies: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    branch: bool = False
    name: str | None = None
    check_only: bool = False
    group: str | None = None


class Set(Request, AnsweredBy[replies.Accepted | replies.VerdictReply], frozen=True, kw_only=True, tag="set"):
    """Change settings of a run while it trains, from its next update on; warnings need `accept`.

    With `check_only` the verdict is the answer and nothing is done.
    """

    run: str
    assignments: tuple[str, ...]
    accept: bool = False
    check_only: bool = False


class Clone(
    ContinuingRequest, AnsweredBy[replies.Accepted | replies.VerdictReply], frozen=True, kw_only=True, tag="clone"
):
    """Make and start a run, called `name`, in `group`, like `run` is now, with `assignments`.

    With its weights: `Resume.branch`.

    `exact`: as `run` began, with its interpreter, folder and environment; what is no longer the same needs `accept`.
    """

    run: str
    assignments: tuple[str, ...] = ()
    name: str | None = None
    exact: bool = False
    accept: bool = False
    group: str | None = None


class GetAdoptable(Request, AnsweredBy[replies.AdoptableReply], frozen=True, kw_only=True, tag="adoptable"):
    """What `runs` (none: all that are foreign) would run if they were ours. Nothing is done.

    With `every` those that are ours are passed over; without, naming one is an error.
    """

    runs: tuple[str, ...] = ()
    every: bool = False


class Adopt(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="adopt"):
    """Take foreign runs for ours, by id; `digests` are those of what a person was shown, in the same order."""

    runs: tuple[str, ...]
    digests: tuple[str, ...]


class Rename(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="rename"):
    """Call the run `name` from now on; its id and folder stay."""

    run: str
    name: str


class Note(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="note"):
    """Write `text` about the run into its journal."""

    run: str
    text: str


class Label(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="label"):
    """Put the labels `add` on the run and take `remove` off."""

    run: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class Mark(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="mark"):
    """Acknowledge one finding by its id, or silence one rule for the run; `open` takes either back."""

    run: str
    mark: FindingMark
    finding: str = ""
    rule: str = ""


class Apply(
    ContinuingRequest, AnsweredBy[replies.Accepted | replies.VerdictReply], frozen=True, kw_only=True, tag="apply"
):
    """Follow a finding's advice: resume from the last good checkpoint with that change; a live run is stopped first.

    `checkpoint` is the one that a verdict has named and a person has agreed to; no other will do then.
    With `check_only` the verdict is the answer and nothing is done.
    """

    run: str
    finding: str
    checkpoint: str | None = None
    accept: bool = False
    check_only: bool = False


class Try(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="try"):
    """Try other settings of the run in short branches of it: `assignments`, or else what `finding` advises.

    `finding` is the id of one, its rule, or its number in the list; empty without `assignments` is the most severe that
    advises settings. `budget` (None: what usually suffices) is such as 20u or 10m for each branch; there are `seeds`
    pairs (None: three, or five of quick branches). The other actions are about the newest trial: `discard` moves its
    branches to the trash, `take` gives the run's place to the best of them, `return` takes that back.
    """

    run: str
    do: Literal["begin", "discard", "take", "return"] = "begin"
    finding: str = ""
    assignments: tuple[str, ...] = ()
    seeds: int | None = None
    budget: str | None = None


class GetDetails(Request, AnsweredBy[replies.DetailsReply], frozen=True, kw_only=True, tag="details"):
    """Spec, effective values, attempts, checkpoints and evaluations of one run."""

    run: str


class GetHistory(Request, AnsweredBy[replies.HistoryReply], frozen=True, kw_only=True, tag="history"):
    """Columns over updates of one run, thinned to at most `points` buckets as min and max.

    Of an ended run all rows are loaded for it, but not for what a line of a list shows (`is_course`).
    """

    run: str
    series: tuple[str, ...]
    from_update: int = 0
    to_update: int | None = None
    points: int = 500

    @property
    def is_course(self) -> bool:
        """Whether it is about the return of the whole run alone, in as few stretches as every snapshot has."""
        return (*self.series, self.from_update, self.to_update) == (RETURN, 0, None) and self.points <= MOST_STRETCHES


class GetStrip(Request, AnsweredBy[replies.StripReply], frozen=True, kw_only=True, tag="strip"):
    """The last `seconds` before unix time `until` (None: now) in at most `most` cells a track."""

    seconds: float
    until: float | None = None
    most: int = 240


class Compare(Request, AnsweredBy[replies.ComparisonReply], frozen=True, kw_only=True, tag="compare"):
    """The runs beside each other, over timesteps or over the seconds they trained; None takes the usual threshold."""

    runs: tuple[str, ...]
    by: Literal["step", "time"] = "step"
    threshold: float | None = None


class GetSides(Request, AnsweredBy[replies.SidesReply], frozen=True, kw_only=True, tag="sides"):
    """What there is to compare of the runs that words mean, for a comparison with runs of other machines."""

    runs: tuple[str, ...]
    metrics: tuple[str, ...]


class GetLog(Request, AnsweredBy[replies.LogReply], frozen=True, kw_only=True, tag="log"):
    """Up to `limit` bytes of an attempt's output from byte `offset`; None means the end."""

    run: str
    offset: int | None = None
    limit: int = 65536
    attempt: int | None = None


class GetEnded(Request, AnsweredBy[replies.EndedReply], frozen=True, kw_only=True, tag="ended"):
    """Ended runs beyond those of the snapshot, newest first."""

    offset: int = 0
    limit: int = 200


class GetPage(Request, AnsweredBy[replies.PageReply], frozen=True, kw_only=True, tag="page"):
    """`limit` runs from place `offset` on of all: those that have not ended, oldest first, then all others, the last to
    end first. With `states` only those whose state or outcome is one of these words.
    """

    offset: int = 0
    limit: int = 200
    states: tuple[str, ...] = ()


class GetNamed(Request, AnsweredBy[replies.NamedReply], frozen=True, kw_only=True, tag="named"):
    """The runs that words mean, those of any age: a group's name stands for its runs, any other word for one."""

    refs: tuple[str, ...]


class GoTo(Request, AnsweredBy[replies.SnapshotReply], frozen=True, kw_only=True, tag="goto"):
    """In a replay: show the fleet as it was at unix time `t` from now on, or as near to it as the files tell."""

    t: float


class GetUpgrades(Request, AnsweredBy[replies.UpgradesReply], frozen=True, kw_only=True, tag="upgrades"):
    """Which packages were changed under live runs since they were launched."""


class Evaluate(Request, AnsweredBy[replies.Evaluated], frozen=True, kw_only=True, tag="evaluate"):
    """Play episodes, so many of each seed, with a checkpoint (None: latest verified), from the run's snapshot.

    `accept`: although its environment's source is another. `reel`: each has its own seed, from `seed` on, so that the
    best, the median and the worst can be played again; no more `seeds` then. Streams `Progress`; with `render` pictures
    of one episode.
    `environ` is the client's: variables of the run whose values nobody remembers are taken from there.
    """

    run: str
    environ: dict[str, str] | None = None
    checkpoint: str | None = None
    episodes: int = 100
    deterministic: bool = True
    seed: int = 10_000
    seeds: int = 1
    accept: bool = False
    policy: Literal["trained", "random"] = "trained"
    reel: bool = False
    render: Canvas | None = None


class Play(Request, AnsweredBy[replies.Played], frozen=True, kw_only=True, tag="play"):
    """One frame of a checkpoint's policy at play (None: the newest), `order.steps` further than the one before.

    A connection has one player, a process of its own, which the first `Play` starts; another run has another one start
    in its place, another checkpoint is played by the same. It does nothing that is not asked for, and ends with
    `StopPlay` or with the connection.
    """

    run: str
    order: PlayOrder
    checkpoint: str | None = None
    environ: dict[str, str] | None = None


class StopPlay(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="stop-play"):
    """End the connection's player, if it has one."""


class Check(FromClient, AnsweredBy[replies.Checked], frozen=True, kw_only=True, tag="check"):
    """Try `spec` without a run, as the client would launch it; each step may take `limit_s`. Streams `Progress`."""

    spec: Spec
    limit_s: float


class Bench(FromClient, AnsweredBy[replies.Benched], frozen=True, kw_only=True, tag="bench"):
    """Time `items` (one, or two in turns), each `repeats` times for `duration_s`; `keep` leaves their runs.

    A `sweep` has more in turns, and goes on without those that fail, the first one aside. Streams `Progress`, and ends
    with the connection that asked for it.
    """

    items: tuple[LaunchItem, ...]
    duration_s: float
    repeats: int
    keep: bool
    sweep: bool = False


class Tune(FromClient, AnsweredBy[replies.Tuned], frozen=True, kw_only=True, tag="tune"):
    """Search for the fastest way to train `item`, by `plan`, in the journal `name`; `go_on` with the last one instead.

    Streams `Progress`, with each probe that is done, and ends with the connection that asked for it.
    """

    item: LaunchItem
    plan: TunePlan
    name: str
    go_on: bool


class TuneFleet(FromClient, AnsweredBy[replies.FleetTuned], frozen=True, kw_only=True, tag="tune-fleet"):
    """Find how many runs of `item`, at `most` so many, pay at once. Streams `Progress` with each run's payoff."""

    item: LaunchItem
    most: int
    budget_s: float


class Export(Request, AnsweredBy[replies.Exported], frozen=True, kw_only=True, tag="export"):
    """Write a checkpoint as an ordinary SB3 zip to absolute `path`."""

    run: str
    path: str
    checkpoint: str | None = None


class Film(Request, AnsweredBy[replies.Filmed], frozen=True, kw_only=True, tag="film"):
    """Play the same `episodes` with several checkpoints and write them side by side as one film to absolute `path`.

    `checkpoints` are names; without any, `spread` of those that are kept, from the first to the last (0: all). `accept`
    and `environ` as in `Evaluate`. `fps` is 20, or less for few steps. Streams `Progress`; it ends with its client,
    and leaves nothing then.
    """

    run: str
    path: str
    environ: dict[str, str] | None = None
    checkpoints: tuple[str, ...] = ()
    spread: Annotated[int, Meta(ge=0, le=MOST_FILMED)] = 1
    episodes: Annotated[int, Meta(ge=1, le=100)] = 1
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 10_000
    fps: Annotated[int, Meta(ge=1, le=50)] | None = None
    accept: bool = False


class Importing(FromClient, frozen=True, kw_only=True):
    """Base: make an ended run of foreign files at absolute `path`, as `item` says. `trusted` is a person's word."""

    path: str
    item: LaunchItem
    trusted: bool


class ImportCheckpoint(Importing, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="import-checkpoint"):
    """Of an SB3 zip."""


class ImportRun(Importing, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="import-run"):
    """Of the folder of a stock SB3 run; of its zips only where they are trusted."""


class Shutdown(Request, AnsweredBy[replies.Accepted], frozen=True, kw_only=True, tag="shutdown"):
    """End the supervisor; runs go on unless `with_runs` (then they are stopped first)."""

    with_runs: bool = False


OperatorRequest = (
    Hello
    | GetSnapshot
    | Watch
    | Launch
    | Quote
    | Undo
    | Act
    | Resume
    | Set
    | Clone
    | GetAdoptable
    | Adopt
    | Rename
    | Note
    | Label
    | Mark
    | Apply
    | Try
    | GetDetails
    | GetHistory
    | GetStrip
    | Compare
    | GetSides
    | GetLog
    | GetEnded
    | GetPage
    | GetNamed
    | GoTo
    | Clean
    | Remove
    | Restore
    | GetTrash
    | GetUpgrades
    | Prune
    | Evaluate
    | Play
    | StopPlay
    | Check
    | Bench
    | Tune
    | TuneFleet
    | Export
    | Film
    | ImportCheckpoint
    | ImportRun
    | Shutdown
)

LOOKS = (
    GetSnapshot,
    Watch,
    GetDetails,
    GetHistory,
    GetStrip,
    Compare,
    GetSides,
    GetLog,
    GetEnded,
    GetPage,
    GetNamed,
    GoTo,
    GetAdoptable,
)
"""All that a client asks which only looks: none of it changes or starts anything."""
