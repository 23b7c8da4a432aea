"""The fleet: every run's history, changed only by `apply` and its siblings, shown only as frozen snapshots; and which
runs the words of a person mean: an id, a unique prefix, a name, a group's name, `@last` or `@live`.

The revision rises exactly when something a snapshot shows has changed; the same revision is the same object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from sys import intern

from msgspec import Struct, structs

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.events.findings import FailedDuty
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, GainMeasured, RunCreated
from mission_tui.fleet.events.marginal_gain import MarginalGain
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.events.outcome import outcome_word
from mission_tui.fleet.events.trials import TrialBranch
from mission_tui.fleet.history.run import POINTS, Fact, MetricsState, RunHistory
from mission_tui.fleet.history.series import Thinned
from mission_tui.fleet.specs.flat_settings import GroupSettings
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean
from mission_tui.fleet.views import snapshot as views
from mission_tui.fleet.views.run import view_of

SHOWN_CANDIDATES = 5


class RunRef(Struct, frozen=True):
    """What a reference can match."""

    id: str
    name: str
    live: bool
    group: str = ""
    foreign: bool = False


def resolve(ref: str, runs: Sequence[RunRef]) -> tuple[str, ...]:
    """Ids that `ref` means among `runs` (oldest first). `@live` may be empty, a group may have several; every other ref
    gives exactly one id.

    A foreign run is meant only where no other can be: what somebody else named must not stand in the way of ours.
    An exact id wins over an exact name, that over a group's name, and that over a prefix; of several runs of exactly
    that name the live one is meant, as names are kept apart among live runs. Raises `UsageError` naming the nearest run
    for an unknown ref and the candidates for an ambiguous one.
    """
    ours = [run for run in runs if not run.foreign]
    if len(ours) < len(runs):
        with suppress(UsageError):
            return resolve(ref, ours)
    if ref == "@live":
        return tuple(run.id for run in runs if run.live)
    if not runs:
        raise UsageError(f"no run matches '{ref}': {_elsewhere(ref) or 'this runs root holds no runs yet'}")
    if ref == "@last":
        return (runs[-1].id,)
    exact = [run for run in runs if run.id == ref] or [run for run in runs if run.name == ref]
    if not exact and (members := tuple(run.id for run in runs if ref and run.group == ref)):
        return members
    if len(living := [run for run in exact if run.live]) == 1:
        exact = living
    matches = exact or [run for run in runs if ref and (run.id.startswith(ref) or run.name.startswith(ref))]
    if len(matches) == 1:
        return (matches[0].id,)
    if matches:
        said = f"'{ref}' matches {len(matches)} runs: {_listed(matches)}; give more of the id{_groups(matches)}"
        raise UsageError(said)
    words = {word for run in runs for word in (run.id, run.name, run.group) if word}
    if elsewhere := _elsewhere(ref):
        raise UsageError(f"no run matches '{ref}': {elsewhere}")
    raise UsageError(f"no run matches '{ref}'{nearest(ref, words) or '; `mission-tui status` lists them'}")


def _listed(matches: Sequence[RunRef]) -> str:
    shown = ", ".join(run.id for run in matches[-SHOWN_CANDIDATES:])
    return shown if len(matches) <= SHOWN_CANDIDATES else f"..., {shown}"


def _groups(matches: Sequence[RunRef]) -> str:
    """The groups that a person who typed a launch's `--name` may have meant, the newest first."""
    groups = list(dict.fromkeys(run.group for run in reversed(matches) if run.group))[:SHOWN_CANDIDATES]
    return f", or the name of a group for all of it: {', '.join(groups)}" if groups else ""


def _elsewhere(ref: str) -> str:
    """What to say for a name as screens of several machines show it: `gpu1:demo`."""
    host, colon, run = ref.partition(":")
    if not (host and colon and run) or " " in host:
        return ""
    return f"a run of another machine is named after --host: mission-tui --host {host} VERB {run}"


SNAPSHOT_ENDED = 200
"""Ended runs in a snapshot; `ended` serves the rest."""

SHOWN_PAID = 8

LOADED_ENDED = 8
"""Ended runs whose full history stays in memory."""

LIVE_ROWS = 200_000
"""Rows of all live runs that stay in memory, some 130 bytes each: of more, the runs that nobody looks at keep their
newest `KEPT_ROWS`, and the others are read again when somebody asks."""

KEPT_ROWS = 64
_LOOKED_AFTER = 1000


class _EndedRun(Struct, frozen=True):
    """An ended run by its first event and its end; `run_dir` is empty where it is below the runs root by its id.

    There may be twenty thousand: words that many of them share are held once.
    """

    id: str
    run_dir: str
    made: RunCreated
    over: AttemptEnded

    def history(self, runs_root: str) -> RunHistory:
        """What is known of it, folded."""
        run = RunHistory(self.id, self.run_dir or f"{runs_root}/{self.id}", None)
        run.apply(self.made)
        run.apply(AttemptStarting(self.over.seq - 1, self.made.t, self.over.attempt))
        run.apply(self.over)
        return run


class Store:
    """One writer (the supervisor) applies facts; readers take snapshots, views and histories."""

    def __init__(self, runs_root: str, supervisor: views.SupervisorInfo, host: views.HostMeters) -> None:
        self._runs_root = runs_root
        self._supervisor = supervisor
        self._host = host
        self._gpus: tuple[views.GpuMeters, ...] = ()
        self._stale: tuple[views.StaleRun, ...] = ()
        self._elsewhere: tuple[views.OtherRoot, ...] = ()
        self._paid: tuple[tuple[str, MarginalGain], ...] = ()
        self._duties: tuple[FailedDuty, ...] = ()
        self._runs: dict[str, RunHistory] = {}
        self._ends: dict[str, _EndedRun] = {}
        self._views: dict[str, views.RunView] = {}
        self._parked: set[str] = set()
        self._tried: set[str] = set()
        self._branches: dict[str, TrialBranch] = {}
        self._loaded: dict[str, None] = {}
        self._rows_taken = 0
        self._varied: dict[str, dict[str, float | str]] = {}
        self._groups: dict[str, GroupSettings] = {}
        self._regrouped = False
        self._order: tuple[list[str], list[str]] | None = None
        self._snapshot: views.FleetSnapshot | None = None
        self._revision = 0
        self._unread = 0
        self._half_read = ""

    def __contains__(self, run_id: object) -> bool:
        """Whether the run is known."""
        return run_id in self._runs or run_id in self._ends

    def observe_unread(self, directories: int) -> None:
        """So many run directories were found and not read yet."""
        if directories != self._unread:
            self._unread, self._snapshot = directories, None

    @contextmanager
    def half_read(self, run_id: str) -> Iterator[None]:
        """While it goes on, no snapshot shows the run: the first of its facts alone would mislead."""
        outer, self._half_read = self._half_read, run_id
        try:
            yield
        finally:
            self._half_read, self._snapshot = outer, None

    def add_run(self, run_id: str, run_dir: str, spec: Spec | None) -> None:
        """Know a run from now on. Comes before its facts; `spec` is None when `spec.toml` cannot be read."""
        self._runs[run_id] = RunHistory(run_id, run_dir, spec)
        self._paid = tuple(each for each in self._paid if each[0] != run_id)
        self._ends.pop(run_id, None)
        self._touch(run_id, reorder=True)

    def add_ended(self, run_id: str, run_dir: str, made: RunCreated, over: AttemptEnded) -> None:
        """Know of an ended run how it began and ended, and nothing else until `add_run` loads the whole of it."""
        self._keep_ends(run_id, run_dir, made, over)
        if made.trial is not None:
            self._branches[run_id] = made.trial
        self._touch(run_id, reorder=True)

    def unload(self, run_id: str, run_dir: str, made: RunCreated, over: AttemptEnded) -> None:
        """Know no more of a run that was loaded than `add_ended`, as before: its place is the same."""
        del self._runs[run_id]
        self._loaded.pop(run_id, None)
        self._views.pop(run_id, None)
        self._keep_ends(run_id, run_dir, made, over)

    def shown_ended_ids(self) -> list[str]:
        """The ended runs of a snapshot, the last to end first."""
        return self._ordered()[1][:SNAPSHOT_ENDED]

    def older_ids(self) -> list[str]:
        """Ended runs that are loaded and that no snapshot shows, the last to end first."""
        return [run_id for run_id in self._ordered()[1][SNAPSHOT_ENDED:] if run_id in self._runs]

    def _keep_ends(self, run_id: str, run_dir: str, made: RunCreated, over: AttemptEnded) -> None:
        shared = structs.replace(made, preset=intern(made.preset), group=made.group and intern(made.group))
        outcome = structs.replace(over.outcome, cause=intern(over.outcome.cause))
        elsewhere = "" if run_dir == f"{self._runs_root}/{run_id}" else run_dir
        self._ends[run_id] = _EndedRun(run_id, elsewhere, shared, structs.replace(over, outcome=outcome))

    def ends_of(self, run_id: str) -> tuple[RunCreated, AttemptEnded] | None:
        """How an ended run that is not loaded began and ended; None for any other."""
        found = self._ends.get(run_id)
        return None if found is None else (found.made, found.over)

    def replace_spec(self, run_id: str, spec: Spec) -> None:
        """The run goes on with another spec: that of its newest attempt."""
        self._runs[run_id].spec = spec
        self._regrouped = True
        self._touch(run_id)

    def remove_run(self, run_id: str) -> None:
        """Forget a run whose directory was removed."""
        if self._ends.pop(run_id, None) is None:
            del self._runs[run_id]
        self._loaded.pop(run_id, None)
        self._branches.pop(run_id, None)
        self._paid = tuple(each for each in self._paid if each[0] != run_id)
        self._touch(run_id, reorder=True)

    def apply(self, run_id: str, fact: Fact) -> bool:
        """Fold one event, metric record or observation into its run; true when that changed anything."""
        return self.apply_all(run_id, (fact,))

    def apply_all(self, run_id: str, facts: Iterable[Fact]) -> bool:
        """Fold `facts` into their run, in order; true when one of them changed anything."""
        run, news = self._runs[run_id], False
        before = (run.journal.over, run.journal.created_t)
        for fact in facts:
            if run.apply(fact):
                news = True
                if isinstance(fact, GainMeasured):
                    self._paid = _newest((*self._paid, (run_id, fact.payoff)))
        if news:
            self._touch(run_id, reorder=before != (run.journal.over, run.journal.created_t))
            self._bound_memory(run)
            self._rows_taken += 1
            if self._rows_taken >= _LOOKED_AFTER:
                self._rows_taken = 0
                self._bound_live_rows()
        return news

    def observe_machine(self, host: views.HostMeters, gpus: Sequence[views.GpuMeters]) -> None:
        if (host, tuple(gpus)) != (self._host, self._gpus):
            self._host, self._gpus = host, tuple(gpus)
            self._snapshot = None

    def observe_surroundings(
        self, *, stale: tuple[views.StaleRun, ...] | None = None, elsewhere: tuple[views.OtherRoot, ...] | None = None
    ) -> None:
        """Take in what was seen beside the runs; None is what was not looked for."""
        seen = (self._stale if stale is None else stale, self._elsewhere if elsewhere is None else elsewhere)
        if seen != (self._stale, self._elsewhere):
            self._stale, self._elsewhere = seen
            self._snapshot = None

    def observe_duties(self, failed: tuple[FailedDuty, ...]) -> None:
        """Take in which duties of the supervisor itself fail now."""
        if failed != self._duties:
            self._duties, self._snapshot = failed, None

    def snapshot(self, now: float) -> views.FleetSnapshot:
        """The fleet at unix time `now`; the previous snapshot itself while nothing has changed."""
        if self._snapshot is None:
            header = self.header(now)
            live, ended = self._ordered()
            shown = (run_id for run_id in live + ended[:SNAPSHOT_ENDED] if run_id != self._half_read)
            self._snapshot = structs.replace(header, runs=tuple(self.view(run_id) for run_id in shown))
            self._revision = header.revision
        return self._snapshot

    def header(self, now: float) -> views.FleetSnapshot:
        """The snapshot at unix time `now` without its runs, of which no view is made for it: a page has others."""
        if self._snapshot is not None:
            return structs.replace(self._snapshot, runs=())
        self._vary()
        return views.FleetSnapshot(
            revision=self._revision + 1,
            t=now,
            runs_root=self._runs_root,
            supervisor=self._supervisor,
            host=self._host,
            gpus=self._gpus,
            ended_total=len(self._ordered()[1]),
            parked_total=len(self._parked),
            unread=self._unread,
            stale=self._stale,
            elsewhere=self._elsewhere,
            paid=tuple(views.RunGain(run_id, self.run(run_id).journal.name, gain) for run_id, gain in self._paid),
            failed_duties=self._duties,
        )

    def view(self, run_id: str) -> views.RunView:
        """The run as a snapshot shows it; raises `KeyError` for an unknown id."""
        view = self._views.get(run_id)
        if view is None:
            view = _shown(self.run(run_id))
            if run_id in self._varied:
                view = structs.replace(view, varied=self._varied[run_id])
            self._views[run_id] = view
        return view

    def run(self, run_id: str) -> RunHistory:
        """The run's folded history, to read from."""
        ended = self._ends.get(run_id)
        return self._runs[run_id] if ended is None else ended.history(self._runs_root)

    def run_ids(self) -> list[str]:
        """Live runs, oldest first, then ended ones, newest first."""
        live, ended = self._ordered()
        return live + ended

    def live_ids(self) -> list[str]:
        """Runs that have not ended, oldest first."""
        return list(self._ordered()[0])

    def tried_ids(self) -> list[str]:
        """Runs with a trial that something is still to be done about."""
        return sorted(self._tried)

    def branches(self) -> Mapping[str, TrialBranch]:
        """Of which trial of which run each run is a branch that is one."""
        return self._branches

    def ended(self, offset: int, limit: int) -> tuple[tuple[views.RunView, ...], int]:
        """A page of ended runs, newest first, and how many there are."""
        ids = self._ordered()[1]
        page = ids[max(0, offset) : max(0, offset) + max(0, min(limit, SNAPSHOT_ENDED))]
        return tuple(self.view(run_id) for run_id in page), len(ids)

    def page(self, offset: int, limit: int, states: Collection[str] = ()) -> tuple[list[str], int]:
        """Ids of a page of all runs, in the order of `run_ids`, and how many there are; with `states` of those whose
        state or outcome is among them.
        """
        ids = self.run_ids()
        if states:
            ids = [run_id for run_id in ids if self._is_in(run_id, states)]
        return ids[max(0, offset) : max(0, offset) + max(0, limit)], len(ids)

    def _is_in(self, run_id: str, states: Collection[str]) -> bool:
        """Whether the run's state or outcome is one of `states`."""
        ended = self._ends.get(run_id)
        if ended is not None:
            return "ended" in states or outcome_word(ended.over.outcome) in states
        run = self._runs[run_id]
        outcome = run.journal.outcome
        return run.state in states or (outcome is not None and outcome_word(outcome) in states)

    def resolve(self, ref: str) -> tuple[str, ...]:
        """Run ids that `ref` means (see `fleet.views.refs`); raises `UsageError`."""
        run = self._runs.get(ref)
        if ref in self._ends or (run is not None and not run.journal.foreign):
            return (ref,)  # every request of a screen names runs so: twenty thousand others need not be looked through
        known = [
            (
                *_age(run),
                RunRef(run.id, it.name, run.state not in ("ended", "parked"), it.group or "", bool(it.foreign)),
            )
            for run in self._runs.values()
            for it in (run.journal,)
        ]
        ended = [
            (each.made.t, each.id, RunRef(each.id, clean(each.made.name), False, clean(each.made.group or "")))
            for each in self._ends.values()
        ]
        return resolve(ref, [found for *_, found in sorted([*known, *ended], key=lambda aged: aged[:2])])

    def load_history(self, run_id: str, records: Iterable[MetricRecord], metrics: MetricsState | None = None) -> None:
        """Take in the whole of a run's `metrics.jsonl`; runs are let go again, the longest loaded first. `metrics` has
        what comes before `records`.
        """
        run = self._runs[run_id]
        run.load(records, metrics)
        self._touch(run_id)
        self._bound_memory(run)
        if run.journal.outcome is None:
            self._loaded[run_id] = self._loaded.pop(run_id, None)

    def reload(self, run_id: str, records: Iterable[MetricRecord], metrics: MetricsState | None = None) -> bool:
        """Have all rows of a live run again that were known before, out of the whole of its `metrics.jsonl`; what comes
        after them is left to `apply`, whose news others are to hear of. False where `records` end too early.
        """
        reached = self._runs[run_id].metrics.reached
        self.load_history(run_id, (each for each in records if (each.attempt, each.seq) <= reached), metrics)
        return not self._runs[run_id].metrics.trimmed

    def scan_whole(self, run_id: str, whole: MetricsState) -> None:
        """Know the return of a whole run by what all of its `metrics.jsonl` says of it (see `course_rows`), and keep no
        more rows than are kept; nothing where more is known by now."""
        run = self._runs[run_id]
        if not run.metrics.complete and whole.reached >= run.metrics.reached:
            run.scan_whole(whole)
            self._touch(run_id)

    def history(
        self, run_id: str, series: Sequence[str], from_update: int = 0, to_update: int | None = None, points: int = 500
    ) -> Thinned:
        """Columns of a run over its updates, in at most `points` buckets as least and greatest value."""
        return self._runs[run_id].metrics.columns.thin(series, from_update, to_update, points)

    def _touch(self, run_id: str, *, reorder: bool = False) -> None:
        run = self._runs.get(run_id)
        (self._parked.add if run is not None and run.state == "parked" else self._parked.discard)(run_id)
        trials = run.journal.trials if run is not None else {}
        # Hardly a run has trials, and this is asked of every row.
        tried = bool(trials) and any(trial.has_work for trial in trials.values())
        (self._tried.add if tried else self._tried.discard)(run_id)
        if run is not None and run.journal.branch_of is not None:
            self._branches[run_id] = run.journal.branch_of
        self._views.pop(run_id, None)
        self._snapshot = None
        if reorder:
            self._order, self._regrouped = None, True

    def _vary(self) -> None:
        """Know anew what varies within each group, if runs have come, gone or been changed."""
        if not self._regrouped:
            return
        self._regrouped = False
        groups: dict[str, dict[str, Spec]] = {}
        for run in self._runs.values():
            # The driver of a search trains nothing: it has no settings beside those of its trials.
            if run.journal.group and run.spec is not None and run.journal.group != run.spec.run.values.get("group"):
                groups.setdefault(run.journal.group, {})[run.id] = run.spec
        before = self._varied
        self._groups = {name: self._groups.get(name) or GroupSettings() for name in groups}
        self._varied = {}
        for name, members in groups.items():
            self._groups[name].update(members)
            self._varied |= self._groups[name].varied
        for run_id in before.keys() | self._varied.keys():
            if before.get(run_id) != self._varied.get(run_id):
                self._views.pop(run_id, None)

    def _ordered(self) -> tuple[list[str], list[str]]:
        """Ids of live runs, oldest first, and of ended ones, newest first."""
        if self._order is None:
            by_age = sorted(self._runs.values(), key=_age)
            ended = [(run.journal.ended_t or 0.0, run.id) for run in by_age if run.journal.over]
            ended.extend((each.over.over_t, each.id) for each in self._ends.values())
            ended.sort(key=lambda entry: entry[0], reverse=True)
            self._order = [run.id for run in by_age if not run.journal.over], [run_id for _, run_id in ended]
        return self._order

    def _bound_memory(self, run: RunHistory) -> None:
        """Full histories stay only for live runs and the few ended ones loaded last."""
        if run.journal.outcome is None:
            return
        self._loaded.pop(run.id, None)
        if len(run.metrics.columns) <= POINTS:
            return
        if run.metrics.trimmed:
            run.forget_rows()
            return
        self._loaded[run.id] = None
        ended = [run_id for run_id in self._loaded if self._runs[run_id].journal.outcome is not None]
        if len(ended) > LOADED_ENDED:
            del self._loaded[ended[0]]
            self._runs[ended[0]].forget_rows()

    def _bound_live_rows(self) -> None:
        """Of live runs with too many rows together those lose theirs that were not loaded, the longest first, then
        those that were, the longest loaded first; never the one that was loaded last.
        """
        lengths = {run_id: len(self._runs[run_id].metrics.columns) for run_id in self._ordered()[0]}
        total = sum(lengths.values())
        if total <= LIVE_ROWS:
            return
        loaded = [run_id for run_id in self._loaded if run_id in lengths]
        others = sorted(lengths.keys() - set(loaded), key=lambda run_id: (-lengths[run_id], run_id))
        for run_id in (*others, *loaded[:-1]):
            total -= self._runs[run_id].trim_rows(KEPT_ROWS)
            self._loaded.pop(run_id, None)
            if total <= LIVE_ROWS * 3 // 4:
                return


def _shown(run: RunHistory) -> views.RunView:
    """The view of `run`; one of whose facts none can be made is shown as damaged, beside the others."""
    try:
        return view_of(run)
    except Exception as error:  # noqa: BLE001 - whatever facts can cause costs this one run
        bare = RunHistory(run.id, run.run_dir, None)
        bare.journal.name, bare.journal.created_t, bare.journal.outcome = (
            run.journal.name,
            run.journal.created_t,
            run.journal.outcome,
        )
        bare.journal.attempt, bare.journal.ended_t = run.journal.attempt, run.journal.ended_t
        bare.observed.flags = frozenset({"damaged"})
        bare.observed.waits = f"it cannot be shown: {type(error).__name__}: {error}"[:300]
        return view_of(bare)


def _age(run: RunHistory) -> tuple[float, str]:
    return run.journal.created_t, run.id


def _newest(paid: Iterable[tuple[str, MarginalGain]]) -> tuple[tuple[str, MarginalGain], ...]:
    """By when it happened, not by when it was applied: a fleet that is rebuilt shows the same."""
    return tuple(sorted(paid, key=lambda each: (-each[1].t, each[0]))[:SHOWN_PAID])
