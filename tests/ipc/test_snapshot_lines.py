"""Snapshots encoded view by view are the bytes of a plain encoding."""

from __future__ import annotations

import sys

import msgspec

from mission_tui.ipc.client import decode_reply
from mission_tui.ipc.replies import ChangesReply, SnapshotReply
from mission_tui.ipc.server import SnapshotLines
from mission_tui.ipc.sockets import encode
from tests.ipc.serving import snapshot


def test_same_bytes_as_a_plain_encoding() -> None:
    """For every request id, for a changed snapshot, and for one without runs."""
    lines = SnapshotLines()
    for one in (snapshot(1, runs=3), snapshot(2, runs=3), snapshot(3), snapshot(4, runs=1, padding=100)):
        for re in (1, 2):
            reply = SnapshotReply(re=re, snapshot=one)
            assert lines.line(reply) == encode(reply)


def test_a_view_that_changed_is_encoded_anew() -> None:
    """A run keeps its id when it changes; its old bytes are not reused."""
    lines = SnapshotLines()
    first = snapshot(1, runs=2)
    lines.line(SnapshotReply(re=1, snapshot=first))
    changed = msgspec.structs.replace(first.runs[0], state="running")
    second = msgspec.structs.replace(first, revision=2, runs=(changed, first.runs[1]))
    reply = SnapshotReply(re=1, snapshot=second)
    assert lines.line(reply) == encode(reply)


def test_what_has_changed_makes_the_next_snapshot_of_the_one_before() -> None:
    """Views that changed, came, went or changed places: only what is new is said, and all of it comes out."""
    lines = SnapshotLines()
    first = snapshot(1, runs=4)
    a, b, c, d = first.runs
    changed = msgspec.structs.replace(b, state="running")
    came = msgspec.structs.replace(d, id=f"{d.id}-e")
    cases = [
        ((a, changed, c, d), 1, False),
        ((a, changed, d, came), 2, True),
        ((b, a), 0, True),
        (first.runs, 0, False),
    ]
    for runs, new, reordered in cases:
        second = msgspec.structs.replace(first, revision=2, t=first.t + 1, runs=runs)
        reply = decode_reply(lines.changes(SnapshotReply(re=1, snapshot=second), first))
        assert isinstance(reply, ChangesReply)
        assert (len(reply.snapshot.runs), reply.order is not None) == (new, reordered)
        assert reply.after(first) == second


def test_a_client_of_changes_keeps_no_whole_snapshot_in_memory() -> None:
    """Once changes are said, the snapshot that was sent first is let go, and with it the views of then."""
    lines, first = SnapshotLines(), snapshot(1, runs=2)
    held = sys.getrefcount(first)
    lines.line(SnapshotReply(re=1, snapshot=first))
    assert sys.getrefcount(first) > held
    changed = tuple(msgspec.structs.replace(view, state="running") for view in first.runs)
    second = msgspec.structs.replace(first, revision=2, runs=changed)
    lines.changes(SnapshotReply(re=1, snapshot=second), first)
    assert sys.getrefcount(first) == held
