"""The trainer's side of the telemetry plane: a thread that sends what it is given, and never delays or fails a
training.

`send` never blocks and never raises. Only the newest message of each kind waits to be sent, at most four frames a
second; one that was overtaken because there was no listener counts as dropped. The metrics file holds the truth anyway.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from mission_tui.errors import ProtocolError
from mission_tui.fleet.events.processes import EnvWorkers
from mission_tui.ipc import telemetry_messages as messages
from mission_tui.ipc.sockets import LineReader, connect, decode, encode

FRAME_S = 0.25
HEARTBEAT_S = 1.0
FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0
READ_BYTES = 1 << 14
LAST_WORDS_S = 0.5
_Kind = tuple[type[messages.TelemetryMessage], str]
ORDERS: msgspec.json.Decoder[messages.Order] = msgspec.json.Decoder(messages.Order)


class TrainerSide:
    """A thread's end of the link between one attempt and its supervisor: messages out, orders in, whatever the way.

    Set `workers` to the process ids of the environment workers; they go with the heartbeats, and so does what `look`
    says of them. It must not raise.
    """

    def __init__(self, hello: messages.TrainerHello) -> None:
        self.workers: tuple[int, ...] = ()
        self.look: Callable[[], EnvWorkers] | None = None
        self.in_callback: Callable[[], bool] | None = None
        self._hello = hello
        self._lock = threading.Lock()
        self._newest: dict[_Kind, messages.TelemetryMessage] = {}
        self._dropped = 0
        self._orders: deque[messages.Order] = deque()

    @property
    def dropped(self) -> int:
        """How many messages could not be sent so far."""
        return self._dropped

    def send(self, message: messages.TelemetryMessage) -> None:
        """Send `message` soon; a newer one of its kind (of a failed duty, one of that duty) may take its place."""
        with self._lock:
            self._newest[_kind(message)] = message

    def orders(self) -> list[messages.Order]:
        """The orders that arrived since the last call."""
        taken: list[messages.Order] = []
        while self._orders:
            taken.append(self._orders.popleft())
        return taken

    def close(self, timeout_s: float = 1.0) -> None:
        """Say what is unsaid if somebody listens, and end the thread; returns within `timeout_s` in any case."""
        raise NotImplementedError

    def _heartbeat(self) -> messages.Heartbeat:
        env_workers = self.look() if self.look is not None else None
        in_callback = self.in_callback is not None and self.in_callback()
        return messages.Heartbeat(time.time(), self.workers, self._dropped, env_workers, in_callback)


class Telemetry(TrainerSide):
    """Sends to whichever supervisor listens at `path`; reconnects for as long as it lives, and then sends the newest
    facts again.
    """

    def __init__(self, path: Path, hello: messages.TrainerHello) -> None:
        super().__init__(hello)
        self._path = path
        self._unsaid = dict(self._newest)
        self._heard = True
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def send(self, message: messages.TelemetryMessage) -> None:
        kind = _kind(message)
        with self._lock:
            if kind in self._unsaid and not self._heard:
                self._dropped += 1
            self._newest[kind] = self._unsaid[kind] = message

    def close(self, timeout_s: float = 1.0) -> None:
        """Say what is unsaid if somebody listens, and end the thread; returns within `timeout_s` in any case."""
        self._closing.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        """Connect, talk until the link is lost, wait a little longer each time, until closed."""
        retry_s = FIRST_RETRY_S
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                link = connect(self._path, timeout_s=0.0)
            except OSError:
                link = None
            if link is not None:
                with link:
                    self._talk(_Wire(link))
            self._heard = False
            # A link that was refused at once must not be knocked at ten times a second.
            retry_s = FIRST_RETRY_S if time.monotonic() - began > LAST_RETRY_S else min(2 * retry_s, LAST_RETRY_S)
            self._closing.wait(retry_s)

    def _talk(self, wire: _Wire) -> None:
        wire.queue_line(encode(self._hello))
        wire.write()
        with self._lock:
            self._unsaid = dict(self._newest)
        frame_at = beat_at = time.monotonic()
        leave_at: float | None = None
        while wire.alive:
            now = time.monotonic()
            closing = self._closing.is_set()
            if closing and leave_at is None:
                leave_at = now + LAST_WORDS_S
            if now >= frame_at or closing:
                self._heard = not wire.waiting
                if self._heard:
                    self._put_frame(wire, beat=now >= beat_at)
                    beat_at = now + HEARTBEAT_S if now >= beat_at else beat_at
                frame_at = now + FRAME_S
            wire.write()
            if leave_at is not None and (now >= leave_at or not wire.waiting):
                return
            wire.wait(frame_at - time.monotonic())
            self._orders.extend(wire.read())

    def _put_frame(self, wire: _Wire, *, beat: bool) -> None:
        with self._lock:
            frame: list[messages.TelemetryMessage] = list(self._unsaid.values())
            self._unsaid.clear()
        if beat:
            frame.append(self._heartbeat())
        for message in frame:
            try:
                line = encode(message)
            except (TypeError, ValueError, ProtocolError):
                line = b""
            if 0 < len(line) <= messages.TELEMETRY_LINE_BYTES:
                wire.queue_line(line)
            else:
                self._dropped += 1


def _kind(message: messages.TelemetryMessage) -> _Kind:
    return type(message), message.duty if isinstance(message, messages.TrainerDutyFailed) else ""


class _Wire:
    """A non-blocking socket with the bytes it has not taken yet."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lines = LineReader(messages.TELEMETRY_LINE_BYTES)
        self._out = bytearray()
        self.alive = True

    @property
    def waiting(self) -> bool:
        return bool(self._out)

    def queue_line(self, line: bytes) -> None:
        self._out += line

    def write(self) -> None:
        try:
            del self._out[: self._link.send(self._out)]
        except BlockingIOError:
            return
        except OSError:
            self.alive = False

    def wait(self, timeout_s: float) -> None:
        """Until there is something to read, room for what waits, or `timeout_s` has passed."""
        poll = select.poll()
        poll.register(self._link, select.POLLIN | (select.POLLOUT if self._out else 0))
        poll.poll(max(0.0, timeout_s) * 1000)

    def read(self) -> list[messages.Order]:
        """Orders that have arrived; anything else than orders ends the link."""
        try:
            data = self._link.recv(READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self.alive = self.alive and bool(data)
        try:
            return [decode(line, ORDERS) for line in self._lines.feed(data)]
        except ProtocolError:
            self.alive = False
            return []
