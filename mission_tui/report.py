"""Report a training in one line: `report.update(timesteps=n, approx_kl=kl)`. Standard library only: copy this file.

Calls never raise, and do nothing where mission-tui did not launch the process. What is said becomes lines of a file
that somebody else reads: no thread, no socket. Forks, multiprocessing children and torchrun's other ranks say nothing.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from typing import Any

FILE = "MISSION_TUI_REPORT"  # the variable that names the file; `.stop` beside it asks for a stop
BURST, A_SECOND, LOOK_S, MOST, HELD_BYTES = 10.0, 50.0, 0.25, 256, 1 << 20
_lock, _here = threading.RLock(), list[Any]()  # the reporter, or None where there is to be none, once somebody calls


def update(timesteps: int | None = None, total_timesteps: float | None = None, **metrics: Any) -> None:
    """An update is done, at `timesteps` steps of `total_timesteps`; a metric without a family belongs to `train/`."""
    _tell(_Reporter.update, timesteps, total_timesteps, metrics)


def phase(name: str) -> None:
    """What begins now: "rollout" or "update"; or "starting", "saving", "paused", "ending"."""
    _tell(_Reporter.enter, name)


def episode(r: float, l: int, outcome: str | None = None) -> None:  # noqa: E741 - as Monitor files have it
    """An episode ended with return `r` after `l` steps, in the environment's own word `outcome`."""
    _tell(_Reporter.episode, r, l, outcome)


def checkpoint(path: Any) -> None:
    """The training can go on from the file or folder `path`, which is written."""
    _tell(_Reporter.checkpoint, path)


def should_stop() -> bool:
    """Whether to save and leave. From the first call on SIGTERM asks for that, instead of ending the process."""
    if _here and _here[0] and time.monotonic() < _here[0].look_at:
        return bool(_here[0].stopping)
    return bool(_tell(_Reporter.asked))


def _tell(what: Any, *said: Any) -> Any:
    try:
        if _here and _here[0] is None:
            return None
        with _lock:
            if not _here:
                _here.append(None)  # should it fail, nobody tries again
                if FILE in os.environ and not multiprocessing.parent_process() and os.environ.get("RANK", "0") == "0":
                    _here[0] = _Reporter(os.environ[FILE])
            return _here[0] and what(_here[0], *said)
    except Exception:  # noqa: BLE001 - no training ends for what is said about it
        return None


def _number(value: Any) -> Any:
    """As files have it: by its name if it is not finite; None for what is no number."""
    with suppress(TypeError, ValueError, OverflowError, RuntimeError):
        value = value.item() if hasattr(value, "item") else value
        number = float("" if isinstance(value, (bool, str, bytes)) else value)
        return number if abs(number) < float("inf") else str(number)
    return None


class _Reporter:
    """What was not said yet, and the file; used under the lock."""

    def __init__(self, path: str) -> None:
        self.stop, self.stopping, self.look_at, self.unsaid = path + ".stop", False, 0.0, bytearray(b"\n")
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        os.lockf(self.file, os.F_TLOCK, 0)  # one process of a run reports
        self.ended, self.n, self.outcomes, self.room = deque[Any](maxlen=MOST), 0, Counter[str](), dict[str, Any]()
        self.phase, self.spent = "", dict[str, float]()
        self.phase_at = self.row_at = time.monotonic()
        os.register_at_fork(after_in_child=self.leave)
        self.skipped: Any = None
        atexit.register(self.finish)
        self.say("process", pid=os.getpid())

    def leave(self) -> None:  # a fork has all of this from its parent, and is to have none of it
        _here[:] = [None]
        self.unsaid.clear()
        os.close(self.file)
        if signal.getsignal(signal.SIGTERM) == self.on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def asked(self) -> bool:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.on_sigterm)
        self.look_at = time.monotonic() + LOOK_S
        self.stopping = self.stopping or os.path.exists(self.stop)  # noqa: PTH110
        return self.stopping

    def on_sigterm(self, *_: Any) -> None:
        self.stopping = True

    def enter(self, name: str) -> None:
        name, before, now = str(name)[:40], self.phase, time.monotonic()
        if before in ("rollout", "update"):
            self.spent[before] = self.spent.get(before, 0.0) + now - self.phase_at
        self.phase, self.phase_at = name, now
        if name != before and self.has_room("phase"):
            self.say("phase", phase=name)

    def checkpoint(self, path: Any) -> None:
        self.say("checkpoint", path=os.path.abspath(os.fsdecode(path)))  # noqa: PTH100

    def episode(self, r: Any, length: Any, outcome: Any) -> None:
        self.ended.append((_number(float(r)), int(length)))
        self.n += 1
        if outcome is not None and len(self.outcomes) < MOST:
            self.outcomes["".join(it for it in str(outcome)[:40] if it.isprintable())] += 1

    def update(self, steps: Any, total: Any, metrics: dict[str, Any]) -> None:
        if self.has_room("update"):
            self.row(steps, total, metrics)
        else:  # called many times a second: a row now and then says the same
            self.skipped = steps, total, metrics

    def row(self, steps: Any, total: Any, metrics: dict[str, Any]) -> None:
        self.skipped = None
        self.enter(self.phase)
        numbers = {name: number for name, it in list(metrics.items())[:MOST] if (number := _number(it)) is not None}
        said = {"metrics": numbers, "ended": [*self.ended], "outcomes": self.outcomes, "spent_s": self.spent}
        counts = {"timesteps": steps and max(0, int(steps)), "total_timesteps": total and max(0, int(total))}
        self.say("update", took_s=self.phase_at - self.row_at, phase=self.phase, n=self.n, **counts, **said)
        self.n, self.row_at = 0, self.phase_at
        for each in (self.ended, self.outcomes, self.spent):
            each.clear()

    def has_room(self, kind: str) -> bool:
        now, (room, then) = time.monotonic(), self.room.get(kind, (BURST, 0.0))
        room = min(BURST, room + A_SECOND * (now - then))
        self.room[kind] = room - (room >= 1.0), now
        return bool(room >= 1.0)

    def say(self, what: str, **said: Any) -> None:
        if len(self.unsaid) < HELD_BYTES:
            self.unsaid += json.dumps({"say": what, "t": time.time(), **said}).encode() + b"\n"
        self.write()

    def finish(self) -> None:  # the last update says how far it came
        with suppress(Exception):
            if self.skipped:
                self.row(*self.skipped)
        self.write()

    def write(self) -> None:
        with suppress(OSError):  # the disk is full: lines wait for room, whole
            while self.unsaid:
                del self.unsaid[: os.write(self.file, self.unsaid)]
