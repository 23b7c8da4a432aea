"""What a client asks where room is made: leftovers of dead runs, the trash, and runs that are old."""

from __future__ import annotations

from typing import Literal

from mission_tui.ipc.replies import Accepted, CleanReply, RemovableReply
from mission_tui.ipc.request import AnsweredBy, Request

__all__ = ["Clean", "GetTrash", "Keep", "Prune", "Remove", "Restore"]


class Clean(Request, AnsweredBy[CleanReply], frozen=True, kw_only=True, tag="clean"):
    """List what dead runs left behind; with `remove`, remove exactly the listed keys that still pass the verdict."""

    remove: tuple[str, ...] = ()


class Remove(Request, AnsweredBy[Accepted], frozen=True, kw_only=True, tag="rm"):
    """Move ended runs to the trash; `now` frees their bytes for good, also of runs that lie there."""

    runs: tuple[str, ...]
    now: bool = False


class Restore(Request, AnsweredBy[Accepted], frozen=True, kw_only=True, tag="restore"):
    """Take runs, and checkpoints of runs, back from the trash."""

    runs: tuple[str, ...]


class GetTrash(Request, AnsweredBy[RemovableReply], frozen=True, kw_only=True, tag="trash"):
    """What lies in the trash."""


Keep = Literal["best", "last"]


class Prune(Request, AnsweredBy[RemovableReply], frozen=True, kw_only=True, tag="prune"):
    """What ended before unix time `before_t`: whole runs, or with `keep` their other checkpoints.

    It is only listed, or with `remove` moved to the trash; `now` frees the bytes for good.
    """

    before_t: float
    keep: tuple[Keep, ...] = ()
    remove: bool = False
    now: bool = False
