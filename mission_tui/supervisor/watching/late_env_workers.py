"""Late env workers as the kernel sees them: what their trainer says of them, with their state and place added."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec import structs

from mission_tui.fleet.events.processes import MOST_LATE, EnvWorkers, LateWorker
from mission_tui.fleet.text import clean
from mission_tui.supervisor.meters.process_files import read_state

__all__ = ["with_process_state"]

_PLACE_CHARS = 40


def with_process_state(said: EnvWorkers | None) -> EnvWorkers | None:
    """`said`, with a look at each late process. Costs nothing where none is late."""
    if said is None or not said.late:
        return said
    return structs.replace(said, late=tuple(map(_seen, said.late[:MOST_LATE])))


def _seen(late: LateWorker) -> LateWorker:
    state = read_state(late.pid) or "Z"
    return structs.replace(late, state=state, waits_in=_place(late.pid) if state in "DS" else "")


def _place(pid: int) -> str:
    """The kernel function that it waits in; empty where the kernel keeps that to itself."""
    with suppress(OSError):
        name = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii", errors="replace")
        return "" if name == "0" else clean(name, _PLACE_CHARS)
    return ""
