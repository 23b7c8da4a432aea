"""The supervisor's side of the telemetry plane: facts of trainers, and no verb at all.

What a trainer says is taken as soon as it comes; from one that goes on at once nothing more for a moment, so that a
trainer that says much is read in few calls. Where many talk each is read less often, but for one that was just given an
order: people wait for what comes of it. Every line is read, in order; a link that fails affects no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from mission_tui.errors import EX_UNAVAILABLE, ProtocolError
from mission_tui.fleet.text import clean
from mission_tui.ipc.listener import CONNECTION_LIMIT, HELLO_S, Listener
from mission_tui.ipc.replies import Refused
from mission_tui.ipc.sockets import PROTOCOL, LineReader, MalformedError, WrongVersionError, decode, encode, peer
from mission_tui.ipc.telemetry_messages import TELEMETRY_LINE_BYTES, Order, TelemetryMessage, TrainerHello

TELEMETRY: msgspec.json.Decoder[TelemetryMessage] = msgspec.json.Decoder(TelemetryMessage)
BATCH_S = 0.05
"""Seconds for which a link that is busy is not read: a wake-up costs ten times what a message does."""

READS_PER_S = 64
FEW = 16
MOST_REST_S = 1.0
"""More than `FEW` trainers are together read so often, each at least once in `MOST_REST_S`: they say something four
times a second, and coming back to a run whose judge has left the caches costs as much as judging half an update."""

ANSWER_S = 10.0
"""For so long after an order a link is read as if few talked."""

READ_BYTES = 1 << 16
FIRST_BYTES = 1 << 20
ORDER_BACKLOG_BYTES = 1 << 14
MOST_TOLD = 1000
"""So many different refusals a supervisor writes into its log, each once."""

log = logging.getLogger(__name__)


def rest_s(trainers: int) -> float:
    """Seconds for which each of so many trainers is left alone once something of it was read; 0 for few."""
    return min(MOST_REST_S, trainers / READS_PER_S) if trainers > FEW else 0.0


class TrainerLink:
    """The connection of one trainer that was admitted. A trainer that reconnects has a new link."""

    def __init__(self, hello: TrainerHello, pid: int, writer: asyncio.StreamWriter) -> None:
        self.hello = hello
        self.pid = pid
        self._writer = writer

    def send(self, order: Order) -> None:
        """Give `order`, unless the trainer is gone or has stopped reading: an order is a request, not a promise."""
        transport = self._writer.transport
        if not transport.is_closing() and transport.get_write_buffer_size() <= ORDER_BACKLOG_BYTES:
            self._writer.write(encode(order))
            lines = transport.get_protocol()
            if isinstance(lines, _LineProtocol):
                lines.expect_answer()

    def close(self) -> None:
        """End the connection; the trainer will connect anew."""
        self._writer.close()


async def serve_telemetry(
    path: Path,
    on_hello: Callable[[TrainerLink], bool],
    on_message: Callable[[TrainerLink, TelemetryMessage], None],
    on_gone: Callable[[TrainerLink], None],
    *,
    hello_s: float = HELLO_S,
) -> Listener:
    """Listen for trainers at `path`.

    `on_hello` compares run, attempt and nonce (and the peer's pid) with what was launched; false closes the link.
    `on_gone` comes at end of file, once for every admitted link, possibly after the same trainer's next `on_hello`.
    """
    buffer = memoryview(bytearray(READ_BYTES))
    talking: set[_LineProtocol] = set()
    told: set[str] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ward = _TrainerConversation(writer, on_hello, on_message)
        try:
            await _LineProtocol(ward.take_line, buffer, hello_s, talking).read_all(reader, writer)
        except ProtocolError as error:
            # A trainer whose run was removed under it knocks every two seconds, for as long as it trains.
            if str(error) not in told and len(told) < MOST_TOLD:
                told.add(str(error))
                log.warning("telemetry: %s", error)
            writer.write(encode(Refused(re=0, message=str(error), exit_code=EX_UNAVAILABLE)))
        finally:
            if ward.link is not None:
                on_gone(ward.link)

    listener = Listener(path, talk, CONNECTION_LIMIT)
    await listener.open()
    return listener


class _TrainerConversation:
    """What the lines of one connection mean: a hello that is admitted, then facts."""

    def __init__(
        self,
        writer: asyncio.StreamWriter,
        on_hello: Callable[[TrainerLink], bool],
        on_message: Callable[[TrainerLink, TelemetryMessage], None],
    ) -> None:
        self.link: TrainerLink | None = None
        self._writer = writer
        self._on_hello = on_hello
        self._on_message = on_message

    def take_line(self, line: bytes) -> None:
        message = decode(line, TELEMETRY)
        if self.link is not None and not isinstance(message, TrainerHello):
            self._on_message(self.link, message)
            return
        if not isinstance(message, TrainerHello) or self.link is not None:
            raise MalformedError("a trainer says hello first, and once")
        if message.protocol != PROTOCOL:
            raise WrongVersionError(f"this supervisor speaks protocol {PROTOCOL}, the trainer {message.protocol}")
        link = TrainerLink(message, peer(self._writer.get_extra_info("socket"))[0], self._writer)
        if not self._on_hello(link):
            run = clean(message.run, 80)
            raise MalformedError(f"no attempt {message.attempt} of run {run} with this nonce is expected")
        self.link = link


class _LineProtocol(asyncio.BufferedProtocol):
    """Cuts one connection into lines for `take_line`, and pauses after a read that came soon after the one before, or
    after each while many are `talking`.

    The first line must be complete within `deadline_s`, later ones within `deadline_s` of their first byte. `buffer` is
    used within one callback only, so all connections share it, as they do the set of those that are `talking`.
    """

    def __init__(
        self, take: Callable[[bytes], None], buffer: memoryview, deadline_s: float, talking: set[_LineProtocol]
    ) -> None:
        self._take = take
        self._buffer = buffer
        self._deadline_s = deadline_s
        self._talking = talking
        self._lines = LineReader(TELEMETRY_LINE_BYTES)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._late: asyncio.TimerHandle | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._read_at = 0.0
        self._answers_until = 0.0
        self._transport: asyncio.Transport

    async def read_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read until the other side ends, and give the connection back to its reader.

        Raises `ProtocolError` for what is no line or not in time, and whatever `take_line` raises.
        """
        deadline = self._loop.time() + self._deadline_s
        try:
            async with asyncio.timeout_at(deadline):
                first = await reader.read(FIRST_BYTES)
        except TimeoutError as error:
            raise self._too_slow() from error
        # That was all that the reader held: nothing is lost between it and us.
        self._transport = writer.transport  # type: ignore[assignment]  # a socket's, which reads too
        theirs = self._transport.get_protocol()
        self._transport.set_protocol(self)
        self._talking.add(self)
        try:
            self._late = self._loop.call_at(deadline, self._give_up)
            self._take_bytes(first)
            if reader.at_eof():
                self._end()
            await self._ended
        finally:
            self._talking.discard(self)
            for timer in (self._late, self._rest):
                if timer is not None:
                    timer.cancel()
            self._transport.set_protocol(theirs)
            self._transport.resume_reading()

    def expect_answer(self) -> None:
        """Something was asked of the other side: for a while, what it sends is read as soon as it arrives."""
        self._answers_until = self._loop.time() + ANSWER_S
        if self._rest is not None:
            self._rest.cancel()
            self._transport.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the transport puts what it reads next."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """The transport has read."""
        self._take_bytes(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool:
        """The other side sends no more; what it may still read is flushed by closing."""
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._end(exc)

    def _take_bytes(self, data: bytes) -> None:
        if self._ended.done():
            return
        complete = False
        try:
            for start in range(0, len(data), READ_BYTES):
                for line in self._lines.feed(data[start : start + READ_BYTES]):
                    self._take(line)
                    complete = True
        except Exception as error:  # noqa: BLE001 - raised again by `read_all`, in the connection's own task
            self._end(error)
            return
        self._watch_time(complete)
        then, self._read_at = self._read_at, self._loop.time()
        if (rest := rest_s(len(self._talking))) and self._read_at > self._answers_until:
            self._rest_for(rest)
        elif self._read_at - then < 2 * BATCH_S:
            self._rest_for(BATCH_S)

    def _rest_for(self, seconds: float) -> None:
        self._transport.pause_reading()
        self._rest = self._loop.call_later(seconds, self._transport.resume_reading)

    def _watch_time(self, complete: bool) -> None:
        """The clock that runs is that of the line which is not complete, if any is."""
        if self._late is not None and complete:
            self._late.cancel()
            self._late = None
        if self._late is None and self._lines.partial:
            self._late = self._loop.call_later(self._deadline_s, self._give_up)

    def _give_up(self) -> None:
        self._end(self._too_slow())

    def _too_slow(self) -> MalformedError:
        return MalformedError(f"no complete line within {self._deadline_s:g} s")

    def _end(self, error: Exception | None = None) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)
