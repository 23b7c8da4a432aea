"""Lines on a socket: chunks, caps, and one typed error for what is hostile."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.errors import ProtocolError
from mission_tui.ipc.replies import OperatorReply, Refused
from mission_tui.ipc.requests import Act, Hello, OperatorRequest
from mission_tui.ipc.sockets import LineReader, MalformedError, TooLargeError, decode, encode
from mission_tui.ipc.telemetry_messages import Order, TelemetryMessage
from tests.ipc.hostile import HOSTILE_LINES

REQUESTS: msgspec.json.Decoder[OperatorRequest] = msgspec.json.Decoder(OperatorRequest)
TELEMETRY: msgspec.json.Decoder[TelemetryMessage] = msgspec.json.Decoder(TelemetryMessage)
REPLIES: msgspec.json.Decoder[OperatorReply] = msgspec.json.Decoder(OperatorReply)


@given(st.lists(st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b" "))), st.data())
def test_lines_survive_any_cutting(lines: list[bytes], data: st.DataObject) -> None:
    """However the stream is cut into chunks, the same lines come out, in order."""
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reader = LineReader(100)
    read: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        read += reader.feed(stream[start:end])
    assert read == lines
    assert not reader.partial


def test_cap_counts_the_line_without_its_newline() -> None:
    """A line of exactly the limit passes, one byte more does not, whether its end has come or not."""
    assert LineReader(5).feed(b"12345\n") == [b"12345"]
    for data in (b"123456\n", b"123456"):
        with pytest.raises(TooLargeError):
            LineReader(5).feed(data)


def test_memory_is_bounded_for_a_line_that_never_ends() -> None:
    """A stream without newlines is given up at the limit."""
    reader = LineReader(1 << 16)
    for _ in range(65):
        assert reader.feed(b"x" * 1000) == []
    with pytest.raises(TooLargeError):
        reader.feed(b"x" * 1000)


@pytest.mark.parametrize("decoder", [REQUESTS, TELEMETRY, REPLIES], ids=["operator", "telemetry", "reply"])
@pytest.mark.parametrize("name", sorted(HOSTILE_LINES))
def test_hostile_lines_give_one_typed_error(name: str, decoder: msgspec.json.Decoder[object]) -> None:
    """Nesting bombs, huge numbers, broken text, wrong shapes: always `MalformedError`, never anything else."""
    with pytest.raises(MalformedError) as caught:
        decode(HOSTILE_LINES[name], decoder)
    assert len(str(caught.value)) < 500


@given(st.binary(max_size=200))
def test_random_bytes_are_a_message_or_a_typed_error(raw: bytes) -> None:
    """No bytes make the decoder raise anything but a `ProtocolError`."""
    try:
        decode(raw, REQUESTS)
    except ProtocolError:
        return


def test_messages_come_back_as_they_were() -> None:
    """A request and a reply survive the wire, newline and quotes inside text included."""
    request = Act(id=3, verb="stop", runs=('a "b"\n', "@live"))
    line = encode(request)
    assert line.count(b"\n") == 1
    assert decode(line, REQUESTS) == request
    assert decode(encode(Refused(re=3, message="ü")), REPLIES) == Refused(re=3, message="ü")


def test_text_that_utf8_cannot_carry_is_refused_when_sent() -> None:
    """A lone surrogate in our own message is a typed error at the sender."""
    with pytest.raises(MalformedError, match="Hello holds text"):
        encode(Hello(id=0, protocol=1, version="\ud800"))


def test_planes_do_not_understand_each_other() -> None:
    """No verb can be said on the telemetry plane, and no order on the operator plane."""
    with pytest.raises(MalformedError):
        decode(encode(Act(id=1, verb="kill", runs=("@live",))), TELEMETRY)
    with pytest.raises(MalformedError):
        decode(encode(Order("stop")), REQUESTS)
