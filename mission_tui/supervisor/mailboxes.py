"""The supervisor's side of the telemetry plane where no socket reaches: a trainer's `alive.json` is read once a second,
and orders are appended to `orders.jsonl` of its attempt.

What is read there goes the way of what comes over the socket (`TelemetryHandler`). A trainer is connected while its
file changes; how old it is by the clock of another host is never asked.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import msgspec
from msgspec import structs

from mission_tui.fleet.events.processes import FlagSeen
from mission_tui.ipc import telemetry_messages as messages
from mission_tui.ipc.requests import PROTOCOL
from mission_tui.plain_files import read_plain
from mission_tui.records.files.append import AppendLog
from mission_tui.records.files.atomic import StorageError
from mission_tui.records.runs.layout import AttemptDir
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.telemetry_handler import TelemetryHandler

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


@dataclass(slots=True)
class _Seen:
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
        self._seen: dict[str, _Seen] = {}

    def poll(self, run: LiveRun) -> None:
        """Take in what the trainer of `run` has written since the last look."""
        seen = self._seen.get(run.id)
        if seen is None or seen.attempt != run.attempt:
            self._forget_ended()
            # Of a file that was there before us nobody knows yet whether anybody still writes it.
            self._seen[run.id] = _Seen(run.attempt, _read(run), time.monotonic())
            return
        now, raw = time.monotonic(), _read(run)
        if raw and raw != seen.raw:
            seen.raw, seen.changed_at = raw, now
            self._call_silent(run, seen, silent=False)
            self._take(run, seen, raw)
        elif raw and not seen.silent and now - (seen.changed_at or seen.first_at) > SILENT_S:
            seen.changed_at = None
            log.warning("%s: nothing new in its mailbox for %g s", run.id, SILENT_S)
            self._call_silent(run, seen, silent=run.link is None or isinstance(run.link, MailboxLink))
            if isinstance(run.link, MailboxLink):
                self._handler.disconnected(run.link)

    def _call_silent(self, run: LiveRun, seen: _Seen, *, silent: bool) -> None:
        if silent != seen.silent:
            seen.silent = silent
            self._core.apply(run.id, FlagSeen("silent", raised=silent))

    def _take(self, run: LiveRun, seen: _Seen, raw: bytes) -> None:
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
