"""The telemetry plane, both ends: fresh when somebody listens, harmless when nobody does."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mission_tui.ipc import telemetry_server
from mission_tui.ipc.listener import Listener
from mission_tui.ipc.replies import Refused
from mission_tui.ipc.requests import Act
from mission_tui.ipc.sockets import PROTOCOL, encode
from mission_tui.ipc.telemetry import Telemetry
from mission_tui.ipc.telemetry_messages import (
    TELEMETRY_LINE_BYTES,
    Heartbeat,
    Order,
    PhaseEntered,
    RowsWritten,
    TelemetryMessage,
    TrainerDutyFailed,
    TrainerHello,
)
from mission_tui.ipc.telemetry_server import TrainerLink, serve_telemetry
from tests.ipc.hostile import HOSTILE_LINES
from tests.ipc.serving import Wire, until

CHECKOUT = Path(__file__).resolve().parents[2]
HELLO = TrainerHello(protocol=PROTOCOL, run="run-1", attempt=1, nonce="secret", pid=os.getpid())


class Ward:
    """A small supervisor of trainers: admits one nonce, remembers what it heard and when."""

    def __init__(self) -> None:
        self.links: list[TrainerLink] = []
        self.gone: list[TrainerLink] = []
        self.heard: list[TelemetryMessage] = []
        self.heard_at: list[float] = []
        self.hellos = 0

    def on_hello(self, link: TrainerLink) -> bool:
        self.hellos += 1
        if link.hello.nonce != HELLO.nonce:
            return False
        self.links.append(link)
        return True

    def on_message(self, link: TrainerLink, message: TelemetryMessage) -> None:
        assert not self.gone or self.gone[-1] is not link
        self.heard.append(message)
        self.heard_at.append(time.monotonic())

    def said(self, kind: type) -> list[TelemetryMessage]:
        return [message for message in self.heard if isinstance(message, kind)]


@asynccontextmanager
async def warded(path: Path, hello_s: float = 5.0) -> AsyncIterator[tuple[Ward, Listener]]:
    """A ward behind the socket at `path`."""
    ward = Ward()
    listener = await serve_telemetry(path, ward.on_hello, ward.on_message, ward.gone.append, hello_s=hello_s)
    try:
        yield ward, listener
    finally:
        await listener.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where trainers talk."""
    return tmp_path / "s" / "telemetry.sock"


@pytest.fixture
def telemetry(path: Path) -> Iterator[Telemetry]:
    """A trainer's telemetry, begun before anybody listens."""
    made = Telemetry(path, HELLO)
    yield made
    made.close()


def phase(update: int) -> PhaseEntered:
    """The rollout of that update begins."""
    return PhaseEntered("rollout", update, update * 1024, float(update))


async def test_facts_arrive_and_orders_come_back(path: Path, telemetry: Telemetry) -> None:
    """A trainer that is admitted says what it does and hears what it shall do."""
    async with warded(path) as (ward, _):
        telemetry.send(phase(1))
        telemetry.send(RowsWritten(7))
        await until(lambda: phase(1) in ward.heard and RowsWritten(7) in ward.heard)
        assert (ward.links[0].hello, ward.links[0].pid) == (HELLO, os.getpid())
        ward.links[0].send(Order("pause"))
        ward.links[0].send(Order("stop"))
        received: list[Order] = []

        def both() -> bool:
            received.extend(telemetry.orders())
            return len(received) == 2

        await until(both)
        assert received == [Order("pause"), Order("stop")]
        assert telemetry.orders() == []


async def test_only_the_newest_of_a_kind_is_said_four_times_a_second(path: Path, telemetry: Telemetry) -> None:
    """A thousand updates a second become a handful of frames, the newest last, and none of them counts as dropped."""
    async with warded(path) as (ward, _):
        # What is sent before the thread knows that somebody listens may be overtaken.
        telemetry.send(RowsWritten(0))
        await until(lambda: RowsWritten(0) in ward.heard)
        began = time.monotonic()
        seq = 0
        while time.monotonic() - began < 1.0:
            seq += 1
            telemetry.send(RowsWritten(seq))
            telemetry.send(phase(seq))
            await asyncio.sleep(0.001)
        await until(lambda: RowsWritten(seq) in ward.heard and phase(seq) in ward.heard)
        assert 2 <= len(ward.said(RowsWritten)) <= 7
        assert telemetry.dropped == 0


async def test_of_failed_duties_the_newest_of_each_is_said(path: Path, telemetry: Telemetry) -> None:
    """On a full disk several duties fail within a frame, and no row says so: none takes the place of another."""
    said = [TrainerDutyFailed(duty, "no space", 1.0, number) for number, duty in enumerate(("rows", "events"), 1)]
    async with warded(path) as (ward, _):
        await until(lambda: ward.links)
        for message in said:
            telemetry.send(message)
        await until(lambda: all(message in ward.heard for message in said))


@pytest.mark.slow
async def test_heartbeats_come_every_second_with_the_workers(path: Path, telemetry: Telemetry) -> None:
    """The thread beats by itself, whatever the training does."""
    telemetry.workers = (11, 12)
    async with warded(path) as (ward, _):
        await until(lambda: len(ward.said(Heartbeat)) >= 3)
        beats = [beat for beat in ward.said(Heartbeat) if isinstance(beat, Heartbeat)]
        assert beats[0].workers == (11, 12)
        assert beats[2].t - beats[1].t > 0.8


async def test_a_supervisor_that_comes_back_is_told_the_newest_facts(path: Path, telemetry: Telemetry) -> None:
    """Across restarts of the supervisor the trainer connects anew, says hello, and says where it stands."""
    async with warded(path) as (ward, _):
        telemetry.send(phase(1))
        await until(lambda: phase(1) in ward.heard)
    telemetry.send(RowsWritten(3))
    async with warded(path) as (ward, _):
        await until(lambda: RowsWritten(3) in ward.heard)
        assert phase(1) in ward.heard


async def test_what_nobody_hears_is_dropped_and_counted(path: Path, telemetry: Telemetry) -> None:
    """Without a supervisor only the newest waits; each one overtaken counts, and the count is reported."""
    while not telemetry.dropped:
        telemetry.send(RowsWritten(0))
        await asyncio.sleep(0.001)
    before = telemetry.dropped
    for seq in range(1, 101):
        telemetry.send(RowsWritten(seq))
    dropped = telemetry.dropped
    assert dropped == before + 100
    async with warded(path) as (ward, _):
        await until(lambda: ward.said(Heartbeat))
        assert ward.said(RowsWritten)[0] == RowsWritten(100)
        [beat, *_] = ward.said(Heartbeat)
        assert isinstance(beat, Heartbeat)
        assert beat.dropped == dropped


def test_a_supervisor_that_never_reads_does_not_slow_training(path: Path) -> None:
    """With the other end stuck, a hundred thousand calls stay instant, memory stays flat, and closing is bounded."""
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(os.fspath(path))
        stuck.listen()
        telemetry = Telemetry(path, HELLO)
        telemetry.workers = tuple(range(1_000_000, 1_008_000))
        began = time.monotonic()
        for seq in range(100_000):
            telemetry.send(RowsWritten(seq))
        assert time.monotonic() - began < 20.0
        began = time.monotonic()
        telemetry.close()
        assert time.monotonic() - began < 10.0


async def test_last_words_are_said(path: Path) -> None:
    """What is said right before closing still arrives, and the supervisor sees the end at once."""
    async with warded(path) as (ward, _):
        telemetry = Telemetry(path, HELLO)
        await until(lambda: ward.links)
        telemetry.send(PhaseEntered("ending", 9, 9, 9.0))
        await asyncio.to_thread(telemetry.close)
        await until(lambda: ward.gone)
        assert PhaseEntered("ending", 9, 9, 9.0) in ward.heard


async def test_what_cannot_be_sent_is_dropped(path: Path, telemetry: Telemetry) -> None:
    """A value that is no JSON, or a line beyond the cap, costs itself and nothing else."""
    async with warded(path) as (ward, _):
        await until(lambda: ward.links)
        telemetry.send(RowsWritten(object()))  # type: ignore[arg-type]  # what a careless caller may do
        telemetry.send(phase(1))
        await until(lambda: phase(1) in ward.heard)
        telemetry.workers = tuple(range(100_000, 100_000 + TELEMETRY_LINE_BYTES))
        await until(lambda: telemetry.dropped >= 2)
        telemetry.workers = ()
        telemetry.send(RowsWritten(2))
        await until(lambda: RowsWritten(2) in ward.heard)
        assert len(ward.links) == 1


async def test_a_foreign_nonce_is_refused_and_does_not_storm(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Only the process that was launched may speak for a run; one that is refused knocks less and less often, and the
    log says so once.
    """
    async with warded(path) as (ward, _):
        impostor = Telemetry(path, TrainerHello(PROTOCOL, "run-1", 1, "guess", os.getpid()))
        await until(lambda: ward.hellos >= 2)
        before, began = ward.hellos, time.monotonic()
        await until(lambda: ward.hellos >= before + 2)
        assert time.monotonic() - began > 0.4
        await asyncio.to_thread(impostor.close)
        assert (ward.links, ward.heard) == ([], [])
        assert [record.message for record in caplog.records].count(
            "telemetry: no attempt 1 of run run-1 with this nonce is expected"
        ) == 1


async def test_hostile_lines_cost_their_connection_only(path: Path, telemetry: Telemetry) -> None:
    """One typed error and the end, before and after a hello; the trainer beside it goes on."""
    async with warded(path) as (ward, _):
        await until(lambda: ward.links)
        for name, line in HOSTILE_LINES.items():
            for hello in (b"", encode(HELLO)):
                async with Wire.to(path) as wire:
                    wire.writer.write(hello + line + b"\n")
                    assert [type(reply) for reply in await wire.hear_the_rest()] == [Refused], name
        telemetry.send(RowsWritten(5))
        await until(lambda: RowsWritten(5) in ward.heard)
        await until(lambda: len(ward.gone) == len(HOSTILE_LINES))
        assert len(ward.links) == len(HOSTILE_LINES) + 1


async def test_the_telemetry_plane_has_no_verbs(path: Path) -> None:
    """A trainer cannot act on any run, its own or another, and cannot give orders; nor can it say hello for two."""
    other = TrainerHello(PROTOCOL, "run-2", 1, HELLO.nonce, 1)
    async with warded(path) as (ward, _):
        for line in (encode(Act(id=1, verb="kill", runs=("run-2",))), encode(Order("stop")), encode(other)):
            async with Wire.to(path) as wire:
                wire.writer.write(encode(HELLO) + line)
                assert [type(reply) for reply in await wire.hear_the_rest()] == [Refused]
        assert ward.heard == []


async def test_other_versions_and_long_lines_are_refused(path: Path) -> None:
    """Another protocol is named; a line beyond 64 KiB is not taken."""
    async with warded(path):
        for line, words in (
            (encode(TrainerHello(99, "run-1", 1, "secret", 1)), "speaks protocol 1"),
            (b"x" * (TELEMETRY_LINE_BYTES + 1), "longer than"),
        ):
            async with Wire.to(path) as wire:
                wire.writer.write(line)
                [refused] = await wire.hear_the_rest()
                assert words in refused.message


async def test_silence_instead_of_a_hello_is_ended(path: Path) -> None:
    """A connection that never says who it is does not stay."""
    async with warded(path, hello_s=0.1), Wire.to(path) as wire:
        assert [type(reply) for reply in await wire.hear_the_rest()] == [Refused]


async def test_a_busy_link_rests_and_then_says_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes while a link rests is heard after that, complete and in order; one word is heard at once."""
    monkeypatch.setattr(telemetry_server, "BATCH_S", 1.0)
    async with warded(path) as (ward, _), Wire.to(path) as wire:
        wire.say(HELLO)
        await until(lambda: ward.links)
        wire.writer.write(encode(RowsWritten(1)))
        await until(lambda: ward.heard, timeout_s=0.9)
        for seq in range(2, 101):
            wire.writer.write(encode(RowsWritten(seq)))
        wire.writer.write_eof()
        await until(lambda: ward.gone)
        assert ward.heard == [RowsWritten(seq) for seq in range(1, 101)]
        assert ward.heard_at[1] - ward.heard_at[0] > 0.9


async def test_where_many_talk_each_is_read_less_often_but_for_an_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is heard within a second, complete and in order; what follows an order is heard at once."""
    monkeypatch.setattr(telemetry_server, "MOST_REST_S", 60.0)
    monkeypatch.setattr(telemetry_server, "READS_PER_S", 0.01)
    monkeypatch.setattr(telemetry_server, "FEW", 1)
    async with warded(path) as (ward, _), Wire.to(path) as first, Wire.to(path) as wire:
        first.say(HELLO)
        await until(lambda: ward.links)
        wire.say(HELLO)
        await until(lambda: len(ward.links) == 2)
        for seq in range(1, 101):
            wire.writer.write(encode(RowsWritten(seq)))
        first.say(RowsWritten(101))
        await until(lambda: ward.heard == [RowsWritten(101)])
        ward.links[1].send(Order("pause"))
        await until(lambda: len(ward.heard) == 101)
        assert ward.heard[1:] == [RowsWritten(seq) for seq in range(1, 101)]
        wire.say(RowsWritten(102))
        await until(lambda: ward.heard[-1] == RowsWritten(102))


async def test_a_line_may_come_in_pieces_but_not_for_ever(path: Path) -> None:
    """Between lines a trainer may be silent for long; a line that was begun must end in time."""
    async with warded(path, hello_s=0.3) as (ward, _), Wire.to(path) as wire:
        for byte in encode(HELLO):
            wire.writer.write(bytes([byte]))
        await until(lambda: ward.links)
        for seq in (1, 2):
            began = time.monotonic()
            await until(lambda began=began: time.monotonic() - began > 0.4)  # type: ignore[misc]
            half = encode(RowsWritten(seq))
            wire.writer.write(half[:5])
            wire.writer.write(half[5:])
            await until(lambda seq=seq: RowsWritten(seq) in ward.heard)  # type: ignore[misc]
        wire.writer.write(b'{"say"')
        [refused] = await wire.hear_the_rest()
        assert "no complete line within 0.3 s" in refused.message
        assert len(ward.gone) == 1


async def test_end_of_file_is_seen(path: Path) -> None:
    """A trainer killed without a word is known to be gone."""
    program = (
        "import os, sys; from pathlib import Path; from mission_tui.ipc.telemetry_messages import (TrainerHello);"
        "from mission_tui.ipc.telemetry import Telemetry;"
        "Telemetry(Path(sys.argv[1]), TrainerHello(1, 'run-1', 1, 'secret', os.getpid())); sys.stdin.read()"
    )
    async with warded(path) as (ward, _):
        argv = [sys.executable, "-c", program, os.fspath(path)]
        trainer = await asyncio.create_subprocess_exec(*argv, cwd=CHECKOUT, stdin=asyncio.subprocess.PIPE)
        await until(lambda: ward.links)
        assert ward.links[0].pid == trainer.pid
        trainer.kill()
        await until(lambda: ward.gone)
        await trainer.wait()


async def test_an_order_to_a_trainer_that_left_goes_nowhere(path: Path) -> None:
    """Sending to a link whose end was not seen yet, or was, does not raise."""
    async with warded(path) as (ward, _):
        async with Wire.to(path) as wire:
            wire.say(HELLO)
            await until(lambda: ward.links)
        for _ in range(10):
            ward.links[0].send(Order("stop"))
            await asyncio.sleep(0.005)
        ward.links[0].close()
        await until(lambda: ward.gone)
