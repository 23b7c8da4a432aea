"""The loop of a search: trials are asked for, launched, read, pruned and judged, then the winner is held against the
preset with fresh seeds. What is to be done follows from the study and from the runs, so it can end at any moment.

Runs are asked of a supervisor, which is started where there is none, again until it answers. A request whose answer was
lost may have been carried out, so runs are looked for by their names before they are launched again.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mission_tui import report
from mission_tui.errors import MissionError, NoSupervisorError, PresetError, UsageError
from mission_tui.fleet.comparison_sides import Trace, trace_of
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.search import Confirmation, SearchResult, best_of, confirmed
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import LaunchItem, is_driver
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.client import Connection
from mission_tui.ipc.client_environment import Origin, origin_of
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act, Answer, AnsweredBy, GetNamed, Launch, Resume
from mission_tui.ipc.sockets import ConnectionLostError
from mission_tui.ipc.start import was_stopped
from mission_tui.present.comparisons import confirmation_words, progress_words
from mission_tui.records.atomic import write_json
from mission_tui.records.jsonl import Tail
from mission_tui.records.runs.layout import RunDir
from mission_tui.search.plan import Parameter, SearchPlan, items_of, trial_words
from mission_tui.search.study import RUNGS, Study

_AGAIN_S = 2.0


class StopAskedError(Exception):
    """Somebody asked the driver to stop."""


class Fleet:
    """The runs of one group, through the supervisor of their runs root."""

    def __init__(self, root: Path, group: str) -> None:
        self._root, self._group = root, group
        self._connection: Connection | None = None

    def members(self) -> list[RunView]:
        """Every run of the group but its driver, oldest first."""
        return [view for view in self._named(self._group) if view.group == self._group and not is_driver(view.preset)]

    def views(self, runs: Sequence[str]) -> dict[str, RunView]:
        """By id; one that was removed is absent."""
        try:
            return {view.id: view for view in self._named(*runs)}
        except UsageError:
            found = {}
            for run in runs:
                with suppress(UsageError):
                    (found[run],) = self._named(run)
            return found

    def launched(self, items: Sequence[LaunchItem]) -> list[str]:
        """The ids of the runs `items`, which are on disk then. Those that are there already are not made again.

        Raises `PresetError` and `UsageError` for what can never be launched.
        """
        return self._launched(items, "")

    def anew(self, item: LaunchItem, run: str) -> str:
        """The id of another run of `item`, which begins in the place of `run`. Raises as `launched`."""
        return self._launched((item,), run)[0]

    def _launched(self, items: Sequence[LaunchItem], instead_of: str) -> list[str]:
        origin = origin_of(Path.cwd(), os.environ)
        while True:
            # The newest of a name: an older one was begun again.
            named = {view.name: view.id for view in self.members()}
            known = {name: run for name, run in named.items() if run != instead_of}
            missing = tuple(item for item in items if item.name not in known)
            if not missing:
                return [known[item.name or ""] for item in items]
            try:
                reply = self._once(partial(_launch, missing, origin))
            except (PresetError, UsageError):
                raise
            except MissionError as error:
                self._pause(str(error))  # a full disk, or the supervisor went away
                continue
            made = dict(zip((item.name for item in missing), (view.id for view in reply.runs), strict=True))
            return [(known | made)[item.name] for item in items]

    def stop(self, runs: Sequence[str]) -> None:
        """Ask `runs` (ids) to save and end; those that have ended already are passed over."""
        for run in runs:
            with suppress(UsageError):
                self._ask(partial(_stop, run))

    def resumed(self, run: str) -> bool:
        """Whether the run goes on from its last checkpoint now."""
        try:
            return isinstance(self._ask(lambda id_: Resume(id=id_, run=run, accept=True)), Accepted)
        except MissionError as error:
            say(f"{run} cannot go on, so it begins again: {error}")
            return False

    def _named(self, *refs: str) -> tuple[RunView, ...]:
        return self._ask(lambda id_: GetNamed(id=id_, refs=refs)).runs

    def _ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        """The answer, of however many supervisors. Raises `StopAskedError`, and the error that a refusal is."""
        while True:
            try:
                return self._once(make)
            except (ConnectionLostError, NoSupervisorError) as error:
                self._pause(str(error))

    def _once(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        if self._connection is None:
            # One that was stopped on purpose is started by a person.
            self._connection = Connection.connect(self._root, start=not was_stopped(self._root))
        try:
            return self._connection.ask(make)
        except ConnectionLostError:
            self._connection.close()
            self._connection = None
            raise

    def _pause(self, why: str) -> None:
        say(f"{why}; asking again")
        until = time.monotonic() + _AGAIN_S
        while time.monotonic() < until:
            if report.should_stop():
                raise StopAskedError
            time.sleep(0.1)


def _stop(run: str, id_: int) -> Act:
    return Act(id=id_, verb="stop", runs=(run,))


def _launch(items: tuple[LaunchItem, ...], origin: Origin, id_: int) -> Launch:
    return Launch(id=id_, items=items, **origin)


def say(sentence: str) -> None:
    """A line of the driver's output."""
    print(f"{time.strftime('%H:%M:%S')}  {sentence}", flush=True)  # noqa: T201 - its log


LOOK_S = 1.0
_SHARE = 20
"""Reading and judging take no more than one part of so many of a core."""
_GIVE_UP_AFTER = 5
_TRIES = 3
_INTERRUPTED = ("lost", "stopped", "killed")
_OF_ITS_OWN = ("config", "env", "callback", "nan")
"""Failures that would come again; the others may be what ended the driver too."""


@dataclass
class _Rows:
    """The rows of one run, read as they come."""

    tail: Tail
    records: list[MetricRecord] = field(default_factory=list)
    trace: Trace = field(default_factory=Trace)

    def read(self, metric: str) -> Trace:
        """The metric over the run, as far as it is written."""
        if fresh := self.tail.read():
            self.records += fresh
            self.trace = trace_of(self.records, metric)
        return self.trace


@dataclass(frozen=True)
class _SettingRuns:
    """How the runs of one setting stand: `over` once all have ended, with what they came to (None: nothing)."""

    over: bool
    values: tuple[float | None, ...]
    diverged: str = ""
    why: str = ""


class Driver:
    """One search, as far as this process takes it."""

    def __init__(self, run: RunDir, plan: SearchPlan, group: str, space: Sequence[Parameter]) -> None:
        self._run, self._plan, self._group, self._space = run, plan, group, space
        self._study = Study(run.study, group, plan, space)
        self._fleet = Fleet(run.path.parent, group)
        self._rows: dict[str, _Rows] = {}
        self._tries: dict[str, int] = {}
        self._fails = 0
        self._written: SearchResult | None = None
        self._told: tuple[int, int] | None = None

    def work(self) -> None:
        """Search until nothing is left to do. Raises `StopAskedError` when somebody asks for a stop."""
        self._go_on()
        while True:
            begun = time.process_time()
            self._check_stop()
            running = [trial.number for trial in self._study.trials() if trial.state == "running"]
            live = sum(self._poll_trial(number) for number in running)
            self._check_stop()
            more = self._launch(live)
            result = self._say()
            if not more and not any(trial.state == "running" for trial in result.trials):
                break
            self._rest(begun)
        why = self._gave_up()
        confirmation = None if why else self._confirm()
        result = self._say(confirmation, ended=True, why=why)
        say(progress_words(result))
        if confirmation is not None:
            say(confirmation_words(confirmation))

    def _go_on(self) -> None:
        """Launch what was asked for and not launched, and have runs go on that ended with the last driver."""
        for trial in self._study.trials():
            if trial.state != "running":
                continue
            if trial.runs:
                self._again(trial.runs, trial.number)
            else:
                self._begin(trial.number)

    def _again(self, runs: Sequence[str], number: int) -> None:
        if self._study.pruned_at(number) is not None:
            return
        views, items = self._fleet.views(runs), self._items(number)
        now = [self._revived(run, views.get(run), items[at]) for at, run in enumerate(runs)]
        if now != list(runs):
            self._study.note_runs(number, now)

    def _revived(self, run: str, view: RunView | None, item: LaunchItem) -> str:
        """The run that stands for `run` now: itself, going on if it has to, or a new one that begins again."""
        if view is not None and not _was_interrupted(view):
            return run
        self._tries[run] = self._tries.get(run, 0) + 1
        if view is not None and view.last_checkpoint is not None and self._fleet.resumed(run):
            say(f"{view.name} goes on from {view.last_checkpoint}")
            return run
        try:
            made = self._fleet.anew(item, run)
        except MissionError as error:
            say(f"{item.name} cannot begin again: {error}")
            return run
        return made

    def _items(self, number: int) -> list[LaunchItem]:
        words = trial_words(self._space, self._study.drawn(number), self._plan.base)
        return items_of(self._plan, self._group, str(number), words, self._plan.trial_seeds)

    def _begin(self, number: int) -> int:
        """Launch the runs of trial `number`; how many live then. Settings that contradict each other cost no run."""
        words = trial_words(self._space, self._study.drawn(number), self._plan.base)
        self._study.begin(number, words)
        try:
            runs = self._fleet.launched(items_of(self._plan, self._group, str(number), words, self._plan.trial_seeds))
        except MissionError as error:
            self._failed(number, str(error))
            return 0
        self._study.note_runs(number, runs)
        say(f"trial {number}: {' '.join(f'{key}={word}' for key, word in words.items())}")
        return len(runs)

    def _launch(self, live: int) -> bool:
        """Begin as many trials as may live beside `live` runs; whether there are more to come."""
        while not self._gave_up():
            begun = len(self._study.trials())
            if begun >= self._plan.trials:
                return False
            if live and live + self._plan.seeds > self._plan.at_once:
                return True
            self._check_stop()
            number, _ = self._study.ask()
            live += self._begin(number)
        return False

    def _gave_up(self) -> str:
        if self._fails < _GIVE_UP_AFTER:
            return ""
        why = next((trial.why for trial in reversed(self._study.trials()) if trial.state == "failed"), "")
        return f"{self._fails} trials failed one after the other; the last one: {why}"

    def _poll_trial(self, number: int) -> int:
        """Read the runs of a trial, prune it, tell what it came to; how many of its runs live."""
        study, runs = self._study, self._study.runs_of(number)
        views = self._fleet.views(runs)
        pruned_at = study.pruned_at(number)
        if pruned_at is None:
            self._again_if_lost(number, runs, views)
        ends = self._ends(runs, views)
        live = [run for run in runs if run in views and views[run].state not in OVER]
        if not ends.over:
            if pruned_at is None:
                pruned_at = self._reported(number, runs, views)
            if pruned_at is not None:
                self._fleet.stop([run for run in live if views[run].state != "stopping"])
            return len(live)
        self._check_stop()
        if any(view.outcome in ("stopped", "killed") for view in views.values()):
            self._check_stop_of_all()
        known = [value for value in ends.values if value is not None]
        if len(known) == len(runs):  # perhaps before an order to stop had reached them
            self._reported(number, runs, views)
            study.finish(number, statistics.fmean(known))
            say(f"trial {number} came to {statistics.fmean(known):.4g}")
        elif pruned_at is not None:
            study.prune(number, f"pruned at {pruned_at:.0%} of its budget")
        elif ends.diverged:
            self._reported(number, runs, views)
            study.prune(number, ends.diverged)
        else:
            self._failed(number, ends.why or f"no run of it reported {self._plan.metric}")
            return 0
        self._fails = 0
        return 0

    def _failed(self, number: int, why: str) -> None:
        self._fails += 1
        self._study.fail(number, why)
        say(f"trial {number} failed: {why}")

    def _again_if_lost(self, number: int, runs: Sequence[str], views: Mapping[str, RunView]) -> None:
        """A run that was lost while this driver lived goes on; what a person ended stays ended."""
        items = self._items(number)
        now = [
            self._revived(run, view, items[at])
            if (view := views.get(run)) is not None and view.outcome == "lost" and self._tries.get(run, 0) < _TRIES
            else run
            for at, run in enumerate(runs)
        ]
        if now != list(runs):
            self._study.note_runs(number, now)

    def _ends(self, runs: Sequence[str], views: Mapping[str, RunView]) -> _SettingRuns:
        values: list[float | None] = []
        over, diverged, why = True, "", ""
        for run in runs:
            view = views.get(run)
            if view is None:
                values.append(None)
                why = f"{run} was removed"
            elif view.state == "ended" and view.outcome == "finished":
                trace = self._trace(run)
                values.append(trace.values[-1] if trace.values and not trace.broken else None)
                if trace.broken:
                    diverged = f"{view.name}: {self._plan.metric} is no number at its end"
            elif view.state == "ended" and view.outcome is not None:
                values.append(None)
                why = f"{view.name} {view.outcome}: {view.cause or 'no cause is known'}"
                diverged = why if view.kind == "nan" else diverged
            else:
                over = False
                values.append(None)
        return _SettingRuns(over and bool(runs), tuple(values), diverged, why)

    def _reported(self, number: int, runs: Sequence[str], views: Mapping[str, RunView]) -> float | None:
        """Report the rungs that all runs of a trial have come to; the share of its budget where it is to be pruned."""
        means = _at_rungs([self._trace(run) for run in runs], [_budget(views.get(run)) for run in runs])
        done = self._study.last_rung(number)
        fresh = {rung: value for rung, value in means.items() if rung > done}
        if not fresh or not self._study.report(number, fresh):
            return None
        at = max(fresh) / RUNGS
        if at >= 1.0:
            return None
        self._study.note_pruned(number, at)
        say(f"trial {number} is pruned at {at:.0%}: {fresh[max(fresh)]:.4g} is behind the others there")
        return at

    def _trace(self, run: str) -> Trace:
        if run not in self._rows:
            self._rows[run] = _Rows(Tail(RunDir(self._run.path.parent / run).metrics, MetricRecord))
        return self._rows[run].read(self._plan.metric)

    def _confirm(self) -> Confirmation | None:
        """Train the winner and the preset itself with fresh seeds, and judge them once all have ended."""
        trials, seeds = self._study.trials(), self._plan.fresh_seeds
        best = best_of(trials, minimize=self._plan.minimize)
        if best is None or not seeds:
            return None
        words = next(trial.settings for trial in trials if trial.number == best)
        if change(self._plan.base, [f"{key}={word}" for key, word in words.items()]) == self._plan.base:
            return Confirmation(seeds=(), says="same")
        noted = self._study.confirmation
        runs: dict[str, list[str]] = {} if noted.get("winner") != best else noted["runs"]
        arms = {f"best{best}": words, "default": {}}
        items = {arm: items_of(self._plan, self._group, arm, its, seeds) for arm, its in arms.items()}
        for arm in arms:
            if len(runs.get(arm, ())) == len(seeds):
                views = self._fleet.views(runs[arm])
                runs[arm] = [self._revived(run, views.get(run), items[arm][at]) for at, run in enumerate(runs[arm])]
            else:
                runs[arm] = self._fleet.launched(items[arm])
            self._study.note_confirmation({"winner": best, "runs": runs})
        say(f"trial {best} is the best; it and the preset itself train with {len(seeds)} fresh seeds")
        while True:
            begun = time.process_time()
            self._check_stop()
            ends = {arm: self._ends(its, self._fleet.views(its)) for arm, its in runs.items()}
            winner, default = (ends[arm].values for arm in arms)
            if all(each.over for each in ends.values()):
                self._check_stop()
                return confirmed(seeds, winner, default, minimize=self._plan.minimize)
            self._say(Confirmation(seeds=seeds, winner=winner, default=default))
            self._rest(begun)

    def _say(self, confirmation: Confirmation | None = None, *, ended: bool = False, why: str = "") -> SearchResult:
        """Write what is known, where that is news; the row of the driver on the screen shows how far it is."""
        trials = self._study.trials()
        before = self._written
        if before is not None and confirmation is None and not ended:
            confirmation = before.confirmation
        news = before is None or [it.state for it in before.trials] != [it.state for it in trials]
        fresh = 0 if confirmation is None else sum(it is not None for it in confirmation.winner + confirmation.default)
        best = best_of(trials, minimize=self._plan.minimize)
        result = SearchResult(
            group=self._group,
            preset=self._plan.base.preset,
            metric=self._plan.metric,
            minimize=self._plan.minimize,
            wanted=self._plan.trials,
            keys=tuple(each.key for each in self._space),
            trials=trials,
            best=best,
            importance=self._study.importance() if news or before is None else before.importance,
            confirmation=confirmation,
            ended=ended,
            why=why,
        )
        if result != before:
            write_json(self._run.search, result)
            self._written = result
        progress = result.over + fresh, result.wanted + 2 * self._plan.confirm
        if ended and not why:  # the winner may be the preset itself, and a fresh run without a result is over too
            progress = progress[0], progress[0]
        if progress != self._told:
            self._told = progress
            shown = {} if (found := result.best_trial) is None else {"search/best": found.value}
            report.update(timesteps=progress[0], total_timesteps=progress[1], **shown)
        return result

    def _check_stop(self) -> None:
        if report.should_stop():
            raise StopAskedError

    def _check_stop_of_all(self) -> None:
        """A stop of the whole group is none of its trials, which may have ended before our own order gets here."""
        own = self._fleet.views((self._run.id,)).get(self._run.id)
        if own is not None and own.state == "stopping":
            raise StopAskedError

    def _rest(self, begun: float) -> None:
        until = time.monotonic() + max(LOOK_S, _SHARE * (time.process_time() - begun))
        while time.monotonic() < until and not report.should_stop():
            time.sleep(0.1)


def _was_interrupted(view: RunView) -> bool:
    """Whether a run that ended with the last driver goes on with the next one."""
    failed = view.outcome == "failed" and view.kind not in _OF_ITS_OWN
    return view.state == "ended" and (failed or view.outcome in _INTERRUPTED)


def _budget(view: RunView | None) -> tuple[int | None, float | None]:
    """Steps, or else seconds, that the run is to train."""
    return (None, None) if view is None else (view.total_timesteps, view.duration_s)


def _at_rungs(traces: Sequence[Trace], budgets: Sequence[tuple[int | None, float | None]]) -> dict[int, float]:
    """The mean over runs at each rung that all have come to: of each the last value until then."""
    columns = [_rungs_of(trace, *budget) for trace, budget in zip(traces, budgets, strict=True)]
    shared = set.intersection(*map(set, columns)) if columns else set()
    return {rung: statistics.fmean(column[rung] for column in columns) for rung in sorted(shared)}


def _rungs_of(trace: Trace, total: int | None, duration_s: float | None) -> dict[int, float]:
    budget = total or duration_s
    if not budget:
        return {}
    places, end = (trace.timesteps, trace.end_timesteps or 0) if total else (trace.seconds, trace.end_s)
    if trace.broken:  # what came before says nothing of the rungs since
        end = places[-1] if places else 0
    found: dict[int, float] = {}
    at = 0
    for rung in range(1, RUNGS + 1):
        place = budget * rung / RUNGS
        if place > end:
            break
        while at < len(places) and places[at] <= place:
            at += 1
        if at:
            found[rung] = trace.values[at - 1]
    return found
