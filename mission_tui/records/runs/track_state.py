"""`track-NAME.json`: how far a run was passed on to a tracker, as the process that does it says."""

from __future__ import annotations

from msgspec import Struct


class TrackState(Struct, omit_defaults=True):
    """Lines up to `seq` of the metrics and `event` of the events have arrived at `where`, where the run is `handle`.

    `online`: not on this machine alone. `complete`: its newest attempt has ended and all of it is there. `trouble` is
    why nothing arrives now, empty while it does. `played` are the files of `evaluate` that have arrived.
    """

    tracker: str
    seq: int = 0
    event: int = 0
    handle: str = ""
    where: str = ""
    online: bool = False
    complete: bool = False
    trouble: str = ""
    played: tuple[str, ...] = ()
