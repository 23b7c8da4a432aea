"""The telemetry handler: hello, heartbeat, phase and new rows of each trainer, taken into the store; and the mailboxes
by which they come where no socket reaches.

A trainer is believed only about the run and attempt whose nonce it knows. Losing its link changes nothing but what is
fresh on the screen. To the late env workers that it names, their state and place in the kernel are added.

Of a mailbox the trainer's `alive.json` is read once a second, and orders are appended to `orders.jsonl` of its attempt.
Its trainer is connected while the file changes; how old it is by the clock of another host is never asked.
"""

from __future__ import annotations

import logging
import time

import msgspec
from msgspec import Struct, structs

from mission_tui.fleet.events import processes
from mission_tui.fleet.events.journal import RunPaused, RunResumed
from mission_tui.fleet.events.processes import FlagSeen
from mission_tui.fleet.history.run import not_taken
from mission_tui.fleet.text import clean
from mission_tui.ipc import telemetry_messages
from mission_tui.ipc import telemetry_messages as messages
from mission_tui.ipc.sockets import PROTOCOL
from mission_tui.plain_files import read_plain
from mission_tui.procfs import wait_channel
from mission_tui.records.atomic import StorageError
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.layout import AttemptDir
from mission_tui.supervisor.ending.ladder import stop_gracefully
from mission_tui.supervisor.host.process_files import read_state
from mission_tui.supervisor.lifecycle.attempts import show_pids
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun, OrderLink
from mission_tui.supervisor.watching.finding_actions import keep_last_good, react_to_due
from mission_tui.supervisor.watching.metrics_feed import on_rows_written, read_news, record_duty_failure

_PLACE_CHARS = 40


class TelemetryHandler:
    """The three callbacks of the telemetry plane."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def admit(self, link: OrderLink) -> bool:
        """Whether the trainer is the one that was launched. What it was asked before it came is said again."""
        import hmac  # with OpenSSL: a start does not wait for it

        hello = link.hello
        run = self._core.live.get(hello.run)
        if run is None or not run.nonce or run.attempt != hello.attempt:
            return False
        if not hmac.compare_digest(run.nonce.encode(), hello.nonce.encode()):
            return False
        run.connected(link)
        self._core.apply(run.id, processes.LinkSeen(connected=True))
        show_pids(self._core, run)
        asked = self._core.store.run(run.id).journal.asked
        if asked & {"stop", "park"}:
            stop_gracefully(self._core, run)
        elif run.wants_pause:
            link.send(telemetry_messages.Order("pause"))
        for event in not_taken(self._core.store.run(run.id)):
            link.send(telemetry_messages.Order("set", number=event.seq, assignments=event.assignments))
        react_to_due(self._core, run)
        keep_last_good(self._core, run)
        return True

    def receive(self, link: OrderLink, message: telemetry_messages.TelemetryMessage) -> None:
        """Take in what an admitted trainer says. A run that has ended here has nothing more to say."""
        run = self._core.live.get(link.hello.run)
        if run is None or run.link is not link:
            return
        match message:
            case telemetry_messages.PhaseEntered():
                self._phase(run, message)
            case telemetry_messages.Heartbeat(t=t, workers=workers, env_workers=env_workers, in_callback=in_callback):
                run.workers_seen(workers)
                self._core.apply_quietly(run.id, processes.HeartbeatSeen(t, in_callback))
                self._core.apply_quietly(
                    run.id,
                    processes.WorkersSeen(with_process_state(env_workers) if run.launcher.can.here else env_workers),
                )
            case telemetry_messages.RowsWritten(seq=seq):
                on_rows_written(self._core, run, seq)
            case telemetry_messages.TrainerDutyFailed(duty=duty, why=why, number=number):
                record_duty_failure(self._core, run, duty, why, number)
            case telemetry_messages.CheckpointAnswered():
                # First the news: a client that gets this answer and asks for the run must see the checkpoint there.
                read_news(self._core, run)
                run.checkpoint_answered(message)
            case telemetry_messages.TrainerHello():
                raise AssertionError("the server lets only one hello through")

    def disconnected(self, link: OrderLink) -> None:
        """The connection ended."""
        run = self._core.live.get(link.hello.run)
        if run is not None and run.link is link:
            run.disconnected()
            self._core.apply_quietly(run.id, processes.WorkersSeen(None))
            self._core.apply(run.id, processes.LinkSeen(connected=False))

    def _phase(self, run: LiveRun, said: telemetry_messages.PhaseEntered) -> None:
        self._core.apply(run.id, processes.PhaseSeen(said.phase, said.t))
        was_paused = self._core.store.run(run.id).journal.paused
        if said.phase == "paused" and not was_paused:
            read_news(self._core, run)
            # Said again after a lost link: the pause began when the trainer says it did, and was no silence since.
            self._core.record_observed(run, lambda seq, t: RunPaused(seq, min(t, said.t), run.attempt))
        elif said.phase != "paused" and was_paused:
            self._core.record_observed(run, lambda seq, t: RunResumed(seq, t, run.attempt))


def with_process_state(said: processes.EnvWorkers | None) -> processes.EnvWorkers | None:
    """`said`, with a look at each late process. Costs nothing where none is late."""
    if said is None or not said.late:
        return said
    return structs.replace(said, late=tuple(map(_seen, said.late[: processes.MOST_LATE])))


def _seen(late: processes.LateWorker) -> processes.LateWorker:
    state = read_state(late.pid) or "Z"
    return structs.replace(late, state=state, waits_in=_place(late.pid) if state in "DS" else "")


def _place(pid: int) -> str:
    """The kernel function that it waits in; empty where the kernel keeps that to itself."""
    name = wait_channel(pid)
    return "" if name == "0" else clean(name, _PLACE_CHARS)


SILENT_S = 30.0
"""A file that did not change for so long is of a trainer that cannot be reached: attributes of files on a network file
system are cached for up to a few seconds where changes are frequent."""

SAME_CLOCK_S = 5.0
"""What a message may take on its way; clocks that differ by more are of different minds."""

_WORD: msgspec.json.Decoder[messages.TrainerWord] = msgspec.json.Decoder(messages.TrainerWord)
log = logging.getLogger(__name__)


class MailboxLink:
    """What a `TrainerLink` is on a socket: orders go into the attempt's file, each on disk before the next."""

    def __init__(self, folder: AttemptDir, word: messages.TrainerWord) -> None:
        self.hello = word.hello
        self._path = folder.orders

    def send(self, order: messages.Order) -> None:
        """Give `order`; a disk that refuses it is as a trainer that does not read: an order is a request."""
        try:
            orders = AppendLog(self._path)
            try:
                orders.append(lambda seq: messages.NumberedOrder(seq, time.time(), order))
            finally:
                orders.close()
        except StorageError as error:
            log.warning("%s: the order '%s' could not be given: %s", self.hello.run, order.what, error)


class _MailboxReading(Struct):
    """What was read of one attempt's file, first at `first_at`; `lag_s` is the least by which its clock was behind ours
    when it was read.
    """

    attempt: int
    raw: bytes = b""
    first_at: float = 0.0
    changed_at: float | None = None
    silent: bool = False
    lag_s: float = float("inf")
    said: tuple[messages.TelemetryMessage, ...] = ()


class Mailboxes:
    """Those of all runs whose trainers write one."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._handler = TelemetryHandler(core)
        self._seen: dict[str, _MailboxReading] = {}

    def poll(self, run: LiveRun) -> None:
        """Take in what the trainer of `run` has written since the last look."""
        seen = self._seen.get(run.id)
        if seen is None or seen.attempt != run.attempt:
            self._forget_ended()
            # Of a file that was there before us nobody knows yet whether anybody still writes it.
            self._seen[run.id] = _MailboxReading(run.attempt, _read(run), time.monotonic())
            return
        now, raw = time.monotonic(), _read(run)
        if raw and raw != seen.raw:
            seen.raw, seen.changed_at = raw, now
            self._call_silent(run, seen, silent=False)
            self._take(run, seen, raw)
        elif (
            raw
            and not seen.silent
            and not run.job_status.suspended
            and now - (seen.changed_at or seen.first_at) > SILENT_S
        ):
            seen.changed_at = None
            log.warning("%s: nothing new in its mailbox for %g s", run.id, SILENT_S)
            self._call_silent(run, seen, silent=run.link is None or isinstance(run.link, MailboxLink))
            if isinstance(run.link, MailboxLink):
                self._handler.disconnected(run.link)

    def _call_silent(self, run: LiveRun, seen: _MailboxReading, *, silent: bool) -> None:
        if silent != seen.silent:
            seen.silent = silent
            self._core.apply(run.id, FlagSeen("silent", raised=silent))

    def _take(self, run: LiveRun, seen: _MailboxReading, raw: bytes) -> None:
        try:
            word = _WORD.decode(raw)
        except (ValueError, RecursionError):
            return
        if word.hello.protocol != PROTOCOL:
            return
        now = time.time()
        for message in word.messages:
            if isinstance(message, messages.Heartbeat):
                seen.lag_s = min(seen.lag_s, now - message.t, key=abs)
        run.clock_differs_by(seen.lag_s if SAME_CLOCK_S < abs(seen.lag_s) < float("inf") else 0.0)
        if run.link is None:
            link = MailboxLink(run.dir.attempt(run.attempt), word)
            if not self._handler.admit(link):
                return
            seen.said = ()
        if not isinstance(run.link, MailboxLink):
            return
        news = [message for message in word.messages if message not in seen.said]
        seen.said = word.messages
        for message in news:
            if run.link is not None:
                self._handler.receive(run.link, _in_our_time(message, now, run.clock_lag_s))

    def _forget_ended(self) -> None:
        for run_id in [run_id for run_id in self._seen if run_id not in self._core.live]:
            del self._seen[run_id]


def _in_our_time(message: messages.TelemetryMessage, now: float, lag_s: float) -> messages.TelemetryMessage:
    """`message` by our clock: a heartbeat is of the moment in which it was seen, whatever its own clock says."""
    match message:
        case messages.Heartbeat():
            return structs.replace(message, t=now)
        case messages.PhaseEntered():
            return structs.replace(message, t=message.t + lag_s)
        case _:
            return message


def _read(run: LiveRun) -> bytes:
    try:
        return read_plain(run.dir.attempt(run.attempt).alive, messages.TELEMETRY_LINE_BYTES)
    except OSError:
        return b""
