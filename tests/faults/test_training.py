"""Faults of trainers and env workers (rows W) that the other rooms' tests do not show."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import psutil
import pytest

from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.store import Store
from mission_tui.fleet.views.snapshot import HostMeters, SupervisorInfo
from mission_tui.ipc.replies import LogReply
from mission_tui.ipc.requests import GetLog
from mission_tui.ipc.sockets import encode
from mission_tui.records.jsonl import Tail, encode_line
from tests.keeper.conftest import KeptRun, kept
from tests.supervisor.conftest import Lab

__all__ = ["kept"]

GARBAGE = r"""
block = (b"\0\xff\x1b]0;t\x07 no line end " * 4096)[:65536]
os.write(1, b"begun\n")
for n in range(1600):
    os.write(1, block)
ready()
os.write(1, b"\nlast words \xff\0\n")
"""


def test_w7_a_hundred_megabytes_without_a_line_end_are_capped_and_harmless(kept: KeptRun) -> None:
    """NULs, broken UTF-8 and escapes at full speed: the file keeps its cap, the keeper its size, the record is text."""
    kept.start(GARBAGE, output_cap_bytes=1 << 20)
    keeper = psutil.Process(kept.keepers[-1].pid)
    assert keeper.memory_info().rss < 24 << 20
    record = kept.ended()
    assert record.code == 0
    assert "last words" in record.last_output
    json.dumps(record.last_output).encode()
    assert kept.run.attempt(1).output.stat().st_size <= (1 << 20) + (64 << 10)


def test_w7_such_a_log_is_served_in_pages_that_change_no_terminal(lab: Lab) -> None:
    """What the supervisor gives of it is bounded and holds no control character."""
    (run,) = lab.launch()
    lab.running(run)
    with lab.dir(run).attempt(1).output.open("ab") as output:
        output.write(b"\0\xff\x1b]0;t\x07no line end " * 200_000)
    reply = lab.ask(lambda id_: GetLog(id=id_, run=run))
    assert isinstance(reply, LogReply)
    assert len(json.dumps(str(reply))) < 1 << 20
    lab.running(run, (lab.view(run).update or 0) + 3)


HOST = HostMeters(name="host", cores=1)
ABSURD = ["true", "[1, 2]", '{"a": 1}', "null", "1e400", "9" * 400, '"\\ud800"', '"not a word of ours\\u001b[2J"']


def row(seq: int, value: str) -> bytes:
    """A whole line, with its checksum, whose one metric is `value` as JSON."""
    sound = encode_line(UpdateDone(seq, 1, seq, 64 * seq, 1.0, 1.0, 1.0, 64.0, {"rollout/ep_rew_mean": 0.5}))
    body = sound[: sound.rindex(b',"crc"')].replace(b"0.5", value.encode())
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


@pytest.mark.parametrize("value", ABSURD)
def test_w10_a_metric_of_absurd_type_costs_its_row_at_most(value: str, tmp_path: Path) -> None:
    """Between two sound rows: those count whatever the value is; what was dropped is said, what was not is shown."""
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(row(1, "1.0") + row(2, value) + row(3, "3.0"))
    tail = Tail(path, MetricRecord)
    records = tail.read()
    assert [record.seq for record in records if record.seq != 2] == [1, 3]
    assert len(tail.damage) == 3 - len(records)
    store = Store("/runs", SupervisorInfo(pid=1, version="0", started_t=0.0), HOST)
    store.add_run("20261121-000000-a-0000", "/runs/a", None)
    for record in records:
        store.apply("20261121-000000-a-0000", record)
    encode(store.snapshot(1.0))
