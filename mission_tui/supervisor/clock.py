"""What is done as time passes: once a second look at the live runs, the machine and the sockets; leave when idle.

How long it waits, until it leaves and until a start is called slow, the environment says that it was started with. The
heartbeat cannot tell a slow start: it begins after the imports. Nothing is killed, because a slow import may still end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.processes import FlagSeen
from mission_tui.ipc.listener import Listener
from mission_tui.ipc.start import name_root
from mission_tui.records.runs_roots import check_private
from mission_tui.supervisor.ending.ladder import check_unkillable, watch_stops
from mission_tui.supervisor.ending.leftovers import find_stale
from mission_tui.supervisor.ending.removal import TrashPurger
from mission_tui.supervisor.lifecycle.adoption import Arrivals, Unloading
from mission_tui.supervisor.lifecycle.attempts import show_pids, watch_or_finish
from mission_tui.supervisor.lifecycle.capacity import claims_of
from mission_tui.supervisor.lifecycle.further_attempts import Restarts
from mission_tui.supervisor.lifecycle.run_queue import RunQueue
from mission_tui.supervisor.request_dispatcher import LoopBreaks, RequestDispatcher
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.machine_state import reason_of
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.telemetry_handler import Mailboxes
from mission_tui.supervisor.verbs.trial import Trials
from mission_tui.supervisor.watching.co_running import CoRunningMonitor, GainMonitor
from mission_tui.supervisor.watching.machine_findings import CommandThreads, IdleGpus
from mission_tui.supervisor.watching.metrics_feed import follow, judge_silence, read_news, silent_until
from mission_tui.supervisor.watching.tracking import Trackers
from mission_tui.supervisor.watching.usage import OtherPrograms, OtherRoots, RunSizes, UsageMeter

TICK_S = 1.0
PIDS_TICKS = 3
USAGE_TICKS = 2
THREADS_TICKS = 5
STALE_TICKS = 30
RESERVE_TICKS = 10
GROUND_TICKS = 2
TRASH_TICKS = 60
CLAIM_TICKS = 2
ARRIVAL_TICKS = 10
UNLOAD_TICKS = 10
TRACK_TICKS = 2
MOST_MAILBOXES = 250
"""Runs that speak by files and are looked at in one beat: each look opens three files, on a network file system."""

LINK_TICKS = 10
"""Until a new supervisor has heard a trainer, it does not know whether the silence is a pause."""
IDLE_S = 300.0
START_S = 120.0
"""Importing torch from a cold disk, starting 64 env workers and compiling took under a minute each where measured."""

log = logging.getLogger(__name__)


class Clock:
    """One beat a second."""

    def __init__(
        self,
        core: Core,
        dispatcher: RequestDispatcher,
        listeners: Sequence[Listener],
        owns_root: Callable[[], bool],
        limits: TimeLimits,
    ) -> None:
        self._core = core
        self._dispatcher = dispatcher
        self._listeners = listeners
        self._owns_root = owns_root
        self._limits = limits
        self._busy_at = time.monotonic()
        self._co_running = CoRunningMonitor(core)
        self._gain_monitor = GainMonitor(core, core.machine)
        self._restarts = Restarts(core)
        self._queue = RunQueue(core)
        self._trials = Trials(core)
        self._trackers = Trackers(core)
        self._sizes = RunSizes(core)
        self._usage = UsageMeter(core, core.machine)
        self._threads = CommandThreads(core)
        self._idle_gpus = IdleGpus(core)
        self._others = OtherPrograms(core, core.machine)
        core.machine.survey = self._others.survey
        self._purger = TrashPurger(core)
        self._arrivals = Arrivals(core)
        self._unloading = Unloading(core)
        self._other_roots = OtherRoots(core)
        self._mailboxes = Mailboxes(core)
        self._claims = partial(claims_of, core)
        self._beats = 0
        self._looking: asyncio.Task[None] | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Beat for ever."""
        while True:
            try:
                await self._beat()
            except (OSError, MissionError) as error:
                # A disk that refuses: the next beat may succeed. A reason that lasts is logged once.
                self._core.duties.fail("a beat of the clock", reason_of(error), error)
            else:
                self._core.duties.done("a beat of the clock")
            await asyncio.sleep(TICK_S)

    async def _beat(self) -> None:
        self._beats += 1
        if not self._owns_root():
            self._core.request_exit("its runs root was removed, replaced or closed to it")
            return
        if self._beats % GROUND_TICKS == 0:
            self._check_root()
        self._core.duties.attempt("steps of the clock", lambda: self._core.clock_steps.poll(self._core), None)
        self._ask_engines()
        await self._check_runs()
        self._keep_duties()
        for listener in self._listeners:
            await self._restore(listener)
        if self._core.live or self._core.store.live_ids() or self._dispatcher.attached:
            self._busy_at = time.monotonic()
        elif time.monotonic() - self._busy_at > self._limits.idle_s:
            self._core.request_exit(f"no run and no client for {self._limits.idle_s:g} s")

    async def _check_runs(self) -> None:
        """Each live run, those that are followed over their directory by turns."""
        stride = 1 + sum(run.by_mailbox for run in self._core.live.values()) // MOST_MAILBOXES
        turns = LoopBreaks()
        for place, run in enumerate(list(self._core.live.values())):
            await turns.offer()
            if self._core.live.get(run.id) is not run:
                continue  # it ended while others were looked at
            if run.by_mailbox and run.link is not None and (place + self._beats) % stride:
                continue
            try:
                self._check_run(run)
            except Exception as error:  # noqa: BLE001 - whatever lies in its directory costs the others nothing
                self._note_failed(run, error)

    def _keep_duties(self) -> None:
        """What is due for the whole fleet. One that fails is shown as failed, and keeps no other from its turn."""
        attempt, attended = self._core.duties.attempt, self._dispatcher.attended
        if self._beats % USAGE_TICKS == 0:
            attempt("usage meters", lambda: self._usage.sample(time.monotonic(), attended=attended), None)
        if self._beats % THREADS_TICKS == 0:
            attempt("threads of commands", lambda: self._threads.poll(time.monotonic(), time.time()), None)
            attempt("idle GPUs", lambda: self._idle_gpus.poll(time.time()), None)
        attempt("other programs", lambda: self._others.poll(attended=attended), None)
        attempt("company", self._co_running.poll, None)
        attempt("gains", lambda: self._gain_monitor.poll(time.time()), None)
        attempt("unkillable processes", lambda: check_unkillable(self._core), None)
        attempt("restarts", lambda: self._restarts.poll(time.time()), None)
        attempt("turns", lambda: self._queue.poll(time.time()), None)
        attempt("trials", self._trials.poll, None)
        if self._beats % TRACK_TICKS == 0:
            attempt("trackers", lambda: self._trackers.poll(time.monotonic(), time.time()), None)
        if attended:
            attempt("sizes of runs", lambda: self._sizes.poll(time.monotonic()), None)
        if self._beats % TRASH_TICKS == 1:
            attempt("looking into the trash", lambda: self._purger.poll(time.time()), None)
        if self._beats % ARRIVAL_TICKS == 0:
            attempt("search for new run directories", self._arrivals.poll, None)
        attempt("reading of older runs", self._unloading.load_shown, None)
        if self._beats % UNLOAD_TICKS == 0:
            attempt("unloading of ended runs", lambda: self._unloading.poll(time.monotonic()), None)
        attempt("journals", self._retry_journals, None)
        attempt("meters", self._sample, None)
        attempt("leftovers", self._find_stale, None)
        if self._beats % CLAIM_TICKS == 0:
            others = self._core.machine.other_supervisors
            attempt("ledger", lambda: others.poll(self._claims, busy=bool(self._core.live)), None)
        attempt("surroundings", lambda: self._other_roots.poll(attended=attended), None)

    async def _restore(self, listener: Listener) -> None:
        """Listen again where a socket is gone, as soon as what may stand in its place is gone as well."""
        duty = f"listening at {listener.path.name}"
        try:
            if await listener.restore():
                log.warning("%s was gone and was made again", listener.path)
                name_root(self._core.root)
                self._other_roots.forget()
        except (OSError, MissionError) as error:
            self._core.duties.fail(duty, reason_of(error), error)
        else:
            self._core.duties.done(duty)

    def _ask_engines(self) -> None:
        """Have each engine asked about all its runs at once; one that takes its time keeps nobody waiting."""
        for name, launcher in self._core.launchers.items():
            if not launcher.can.asks_engine or (name in self._asking and not self._asking[name].done()):
                continue
            jobs = [run.job for run in self._core.live.values() if run.launcher is launcher and run.attempt]
            if jobs:
                self._asking[name] = asyncio.create_task(launcher.refresh(jobs), name=f"launcher {name}")
                self._core.duties.follow(f"asking {name} how its jobs stand", self._asking[name])

    def _check_run(self, run: LiveRun) -> None:
        if run.turn is not None:
            return
        read_news(self._core, run)
        if run.by_mailbox:
            self._mailboxes.poll(run)
        if not run.lives():
            watch_or_finish(self._core, run)
            return
        if run.job_status.trains:
            follow(self._core, run)
        watch_stops(self._core, run)
        watch_start(self._core, run, time.time(), self._limits.start_s)
        if run.link is not None or self._beats > LINK_TICKS:
            judge_silence(self._core, run, silent_until(run))
        if not run.job_status.trains or self._beats % PIDS_TICKS == 0:
            show_pids(self._core, run)

    def _note_failed(self, run: LiveRun, error: Exception) -> None:
        """Show that a live run cannot be followed: once in the log, for as long as it lasts as a flag."""
        if "damaged" not in self._core.store.view(run.id).flags:
            log.error("%s cannot be looked at", run.id, exc_info=error)
            self._core.apply(run.id, FlagSeen("damaged", raised=True))

    def _check_root(self) -> None:
        """Where others may write, nothing can be trusted: leave, so that the next client learns why; runs go on."""
        try:
            check_private(self._core.root)
        except UsageError as error:
            self._core.request_exit(str(error))

    def _find_stale(self) -> None:
        """At the start, after an end without a keeper, now and then while a client looks: it reads all of /proc."""
        due = self._core.orphaned or (self._beats % STALE_TICKS == 0 and self._dispatcher.attended)
        if due and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(find_stale(self._core), name="stale")
            self._core.duties.follow("search for leftovers", self._looking)

    def _retry_journals(self) -> None:
        if self._core.unwritten or self._beats % RESERVE_TICKS == 0:
            self._core.reserve.hold()
        self._core.retry_journals()

    def _sample(self) -> None:
        """Without clients and live runs nothing is sampled."""
        core = self._core
        wanted = bool(core.live) or self._dispatcher.attended
        core.machine.gpu.tick(wanted)
        if wanted:
            core.machine.sample()
            core.changed.set()


def watch_start(runs: Runs, run: LiveRun, now: float, limit_s: float) -> None:
    """Raise the flag `slow-start` when the attempt has been starting for longer than `limit_s`; lower it after."""
    history = runs.store.run(run.id)
    started_t = history.journal.started_t
    since = None if started_t is None else max(started_t, run.waited_until_t)
    slow = history.state == "starting" and since is not None and now - since > limit_s
    if runs.apply(run.id, FlagSeen("slow-start", raised=slow)) and slow:
        what = "builds its environments or model" if run.link is not None else "imports, or never came that far"
        log.warning("%s has been starting for more than %g s: its trainer %s", run.id, limit_s, what)


class TimeLimits(Struct, frozen=True):
    """Seconds until a supervisor without runs and clients leaves, and until a trainer that still starts is flagged."""

    idle_s: float = IDLE_S
    start_s: float = START_S


def read_time_limits(environ: Mapping[str, str]) -> TimeLimits:
    """`MISSION_TUI_IDLE_S` and `MISSION_TUI_START_S`; `inf` is never. Raises `UsageError` for what is no duration."""
    idle_s = _seconds(environ, "MISSION_TUI_IDLE_S", IDLE_S)
    return TimeLimits(idle_s, _seconds(environ, "MISSION_TUI_START_S", START_S))


def _seconds(environ: Mapping[str, str], name: str, usual: float) -> float:
    word = environ.get(name, "").strip()
    if not word:
        return usual
    try:
        seconds = float(word)
    except ValueError:
        seconds = float("nan")
    if not seconds >= 0.0:
        instead = "0" if seconds < 0.0 else f"{usual:g}"
        raise UsageError(f"{name} = '{word}' in the environment is no number of seconds of 0 or more; say {instead}")
    return seconds
