"""One record, one line, one checksum."""

from __future__ import annotations

import json
import zlib

import pytest

from mission_tui.errors import DamagedError
from mission_tui.fleet.events.journal import FleetEvent, RunCreated
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.records.files.lines import decode_line, encode_line
from tests.records.journal import paused

CREATED = RunCreated(seq=3, t=1.5, name='quote " brace } ,"crc": Ω', preset="demo")


def test_a_record_survives_its_line() -> None:
    """What was encoded decodes to an equal record, hostile text included."""
    assert decode_line(encode_line(CREATED), FleetEvent) == CREATED


def test_the_line_is_json_with_crc_last() -> None:
    """Any JSON tool reads the line; `crc` is the last key and the CRC-32 of the bytes before `,"crc"`."""
    line = encode_line(CREATED)
    table = json.loads(line)
    assert list(table)[-1] == "crc"
    before = line[: line.rindex(b',"crc"')]
    assert table["crc"] == f"{zlib.crc32(before):08x}"
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1


def test_non_finite_numbers_travel_by_name() -> None:
    """A NaN metric comes back as the string that was spoken, not as null."""
    update = UpdateDone(1, 1, 1, 64, 0.0, 0.1, 0.1, 9.0, metrics={"train/loss": "nan"})
    assert decode_line(encode_line(update), MetricRecord).metrics == {"train/loss": "nan"}


def test_unknown_fields_are_passed_over() -> None:
    """A line of a newer version with one more field is still a record."""
    body = encode_line(paused(1)).split(b',"crc"')[0] + b',"novelty":[1]'
    line = body + b',"crc":"%08x"}\n' % zlib.crc32(body)
    assert decode_line(line, FleetEvent) == paused(1)


def test_every_flipped_bit_is_noticed() -> None:
    """No single-bit error in a line, newline included, yields a record."""
    line = encode_line(paused(1))
    for index in range(len(line)):
        for bit in range(8):
            flipped = bytearray(line)
            flipped[index] ^= 1 << bit
            with pytest.raises(DamagedError):
                decode_line(bytes(flipped), FleetEvent)


@pytest.mark.parametrize("raw", [b"", b"\n", b"\0" * 64, b"{}", b'{"seq":1,"kind":"paused","t":1,"attempt":1}\n'])
def test_a_line_without_checksum_is_damage(raw: bytes) -> None:
    """Empty, zeroed and unsealed lines are told apart from records."""
    with pytest.raises(DamagedError, match="checksum"):
        decode_line(raw, FleetEvent)


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"unheard","seq":1',
        b'{"kind":"paused","seq":"x"',
        b'{"kind":"damaged","seq":1,"t":1,"detail":"","file":"\xff"',
        b'{"kind":"damaged","seq":1,"t":1,"detail":"","file":"\\ud800"',
        b'{"a":' + b"[" * 200_000,
    ],
)
def test_a_whole_line_of_something_else_is_damage(body: bytes) -> None:
    """A right checksum does not make a record: unknown kinds, wrong types, bad UTF-8 and bracket bombs are refused."""
    with pytest.raises(DamagedError, match="not a record"):
        decode_line(body + b',"crc":"%08x"}\n' % zlib.crc32(body), FleetEvent)
