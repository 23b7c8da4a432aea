"""Snapshots as lines, each run's view encoded once however many clients watch it and however many snapshots hold it.

Views are frozen and a run that does not change keeps its very object, so identity says what is encoded already.
"""

from __future__ import annotations

import msgspec

from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.ipc.replies import SnapshotReply

__all__ = ["SnapshotLines"]


class SnapshotLines:
    """One per server."""

    def __init__(self) -> None:
        self._views: dict[str, tuple[RunView, msgspec.Raw]] = {}
        self._newest: FleetSnapshot | None = None
        self._body = msgspec.Raw(b"null")

    def line(self, reply: SnapshotReply) -> bytes:
        """`reply` as one line, newline included: the same bytes that encoding it plainly gives."""
        if reply.snapshot is not self._newest:
            self._body = self._encoded(reply.snapshot)
            self._newest = reply.snapshot
        return msgspec.json.encode({"reply": "snapshot", "re": reply.re, "snapshot": self._body}) + b"\n"

    def _encoded(self, snapshot: FleetSnapshot) -> msgspec.Raw:
        self._views = {view.id: (view, self._view(view)) for view in snapshot.runs}
        fields = {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
        fields["runs"] = [raw for _, raw in self._views.values()]
        return msgspec.Raw(msgspec.json.encode(fields))

    def _view(self, view: RunView) -> msgspec.Raw:
        known = self._views.get(view.id)
        return known[1] if known and known[0] is view else msgspec.Raw(msgspec.json.encode(view))
