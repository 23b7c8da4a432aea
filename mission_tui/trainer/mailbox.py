"""The trainer's side of the telemetry plane where no socket reaches: files of its attempt carry the same messages.

A thread replaces `alive.json` every two seconds with the newest message of each kind, and reads new orders from
`orders.jsonl` once a second. It opens both anew each time: that is when a network file system asks its server.
Like the socket's side it never blocks training and never raises.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

from mission_tui.errors import ProtocolError
from mission_tui.fence import Fence
from mission_tui.fleet.events.processes import EnvWorkers
from mission_tui.ipc import telemetry_messages as messages
from mission_tui.plain_files import open_fresh
from mission_tui.records.files.atomic import write_all
from mission_tui.records.files.tail import Tail
from mission_tui.records.runs.layout import AttemptDir

ORDERS_S = 1.0
BEAT_S = 2.0
SOON_S = 0.25
"""The least time between two beats: an answer that somebody waits for does not wait for the next one."""

_Kind = tuple[type[messages.TelemetryMessage], str]


class Mailbox:
    """Says facts about one attempt in its directory and reads its orders there; it has what `Telemetry` has."""

    def __init__(self, folder: AttemptDir, hello: messages.TrainerHello, fence: Fence | None = None) -> None:
        self.workers: tuple[int, ...] = ()
        self.look: Callable[[], EnvWorkers] | None = None
        self._path = folder.alive
        self._hello = hello
        self._fence = fence
        self._tail = Tail(folder.orders, messages.NumberedOrder)
        self._lock = threading.Lock()
        self._newest: dict[_Kind, messages.TelemetryMessage] = {}
        self._beat = 0
        self._dropped = 0
        self._orders: deque[messages.Order] = deque()
        self._urgent = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="mailbox", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """How often nothing could be written so far."""
        return self._dropped

    def send(self, message: messages.TelemetryMessage) -> None:
        """Have `message` said soon; a newer one of its kind, of a failed duty one of that duty, takes its place."""
        kind = type(message), message.duty if isinstance(message, messages.TrainerDutyFailed) else ""
        with self._lock:
            self._newest[kind] = message
        held = isinstance(message, messages.PhaseEntered) and message.phase in ("paused", "ending")
        if held or isinstance(message, messages.CheckpointAnswered | messages.TrainerDutyFailed):
            self._urgent.set()

    def orders(self) -> list[messages.Order]:
        """Orders that came since the last call."""
        taken: list[messages.Order] = []
        while self._orders:
            taken.append(self._orders.popleft())
        return taken

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what was said last, and end the thread; returns within `timeout_s` in any case."""
        self._closing = True
        self._urgent.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        read_at = beat_at = written_at = float("-inf")
        while not self._closing:
            now = time.monotonic()
            if now >= read_at:
                read_at = now + ORDERS_S
                self._read()
            if now >= beat_at or (self._urgent.is_set() and now >= written_at + SOON_S):
                beat_at, written_at = now + BEAT_S, now
                self._urgent.clear()
                self._write()
            until = min(read_at, beat_at, written_at + SOON_S if self._urgent.is_set() else beat_at)
            if self._urgent.is_set():
                time.sleep(max(0.0, until - time.monotonic()))
            else:
                self._urgent.wait(max(0.0, until - time.monotonic()))
        self._write()

    def _read(self) -> None:
        with suppress(OSError):
            self._orders.extend(numbered.order for numbered in self._tail.read())

    def _write(self) -> None:
        """Not synced: a node that goes down with it has nothing more to say."""
        if self._fence is not None:
            self._fence.check_if_due()
        self._beat += 1
        env_workers = self.look() if self.look is not None else None
        with self._lock:
            said = tuple(self._newest.values())
        beat = messages.Heartbeat(time.time(), self.workers, self._dropped, env_workers)
        try:
            document = msgspec.json.encode(messages.TrainerWord(self._hello, self._beat, (*said, beat)))
        except (TypeError, ValueError, ProtocolError):
            self._dropped += 1
            return
        if len(document) > messages.TELEMETRY_LINE_BYTES:
            self._dropped += 1
            return
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        try:
            descriptor = open_fresh(temporary)
            try:
                write_all(descriptor, document)
            finally:
                os.close(descriptor)
            temporary.replace(self._path)
        except OSError:
            self._dropped += 1
            with suppress(OSError):
                temporary.unlink()
