"""The fence of a run: the file `fence` in its directory names the newest attempt, and an earlier one ends itself.

No lock is relied on across hosts: an engine may lose sight of a trainer that goes on, and a node that was cut off may
come back. So whoever writes in a run directory asks first whether a newer attempt was begun: at the start, before each
checkpoint gets its name, and before any other write once ten seconds have passed. Standard library only.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from mission_tui.errors import EX_RESUMABLE
from mission_tui.plain_files import read_plain

FENCE = "fence"
FENCE_S = 10.0
_MOST_BYTES = 4096


class Fence:
    """What one attempt asks before it writes. A first attempt that was never followed finds no file, and goes on."""

    def __init__(self, run_dir: Path, attempt: int, token: str) -> None:
        """`token` is the nonce of the attempt's order, empty for one that was started by hand."""
        self._path = run_dir / FENCE
        self._attempt = attempt
        self._token = token
        self._process = os.getpid()
        self._next = 0.0

    def overtaken_by(self) -> int | None:
        """The attempt that is named instead of this one, if one is. What cannot be read now is asked again later."""
        self._next = _now() + FENCE_S
        with suppress(OSError, ValueError, RecursionError, AttributeError):
            import json  # every command loads the name of the file, few ask

            named = json.loads(read_plain(self._path, _MOST_BYTES))
            attempt, token = named.get("attempt"), named.get("token")
            if isinstance(attempt, int) and attempt >= self._attempt:
                twice = attempt == self._attempt and bool(token and self._token) and token != self._token
                return attempt if attempt > self._attempt or twice else None
        return None

    @property
    def due(self) -> bool:
        """Whether ten seconds have passed since it was asked; they count while the machine sleeps, too."""
        return _now() >= self._next

    def check(self) -> None:
        """End this process at once, with exit code 75 and nothing written, where a newer attempt is named."""
        newer = self.overtaken_by()
        if newer is None or os.getpid() != self._process:
            return
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{describe_overtaken(self._attempt, newer)}\n")
            sys.stderr.flush()
        # Whatever would be put in order on the way out would be written.
        os._exit(EX_RESUMABLE)

    def check_if_due(self) -> None:
        """As `check`, at most once in ten seconds."""
        if self.due:
            self.check()


def describe_overtaken(attempt: int, newer: int) -> str:
    """Why an attempt ends itself, as a sentence."""
    how = "attempt was started a second time" if newer == attempt else f"run goes on as attempt {newer}"
    return f"attempt {attempt} ends itself without writing anything more: the {how}, as the run's file `fence` says"


def fence_document(attempt: int, token: str) -> bytes:
    """The contents of `fence` once `attempt` is about to begin."""
    import json

    return json.dumps({"attempt": attempt, "token": token}).encode() + b"\n"


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
