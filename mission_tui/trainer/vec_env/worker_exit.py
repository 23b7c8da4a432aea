"""How an env worker ended: crash, kill, memory, exit, told from its exit status, from what the kernel counts and from
the last it said on stderr.

A worker that dies in native code leaves no exception, only these lines. They are passed on to the attempt's log as they
come; one thread drains all of them, so that no worker ever waits for the trainer to read.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mission_tui.fleet.text import clean

_KEPT_BYTES = 8192
_READ_BYTES = 1 << 16
_SETTLE_S = 0.5
_QUOTED_CHARACTERS = 200
_STDERR = 2
_FATAL = "Fatal Python error"


@dataclass(frozen=True, slots=True)
class OomKills:
    """How many processes the kernel has ended for lack of memory: in our control group and on the machine."""

    group: int | None
    machine: int | None

    @classmethod
    def read(cls, root: Path = Path("/")) -> OomKills:
        """As counted up to now, by control groups of either version and by `/proc/vmstat`."""
        return cls(_of_group(root), _counted(root / "proc/vmstat"))

    def since(self, before: OomKills) -> OomKills:
        """How many more than `before`."""
        return OomKills(_more(self.group, before.group), _more(self.machine, before.machine))


def exit_reason(code: int, meanwhile: OomKills) -> str:
    """What "env worker 3" did. `code` is as `Popen` gives it, `meanwhile` since the worker began."""
    if code >= 0:
        return f"ended with exit code {code} (os._exit)" if code else "ended with exit code 0 without being asked to"
    name = _name(-code)
    if -code != signal.SIGKILL:
        return f"died ({name})"
    if meanwhile.group:
        return f"was killed by the kernel for lack of memory ({name})"
    if meanwhile.machine:
        return f"was killed ({name}), and the kernel killed for lack of memory on this machine meanwhile"
    return f"was killed ({name})"


def _name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name}, signal {number}"
    except ValueError:
        return f"signal {number}"


def _of_group(root: Path) -> int | None:
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if "memory" in controllers.split(","):
            mounted = root / "sys/fs/cgroup/memory"
            own = _counted(mounted / group.lstrip("/") / "memory.oom_control")
            # In a container the group is often mounted as the root of what is seen.
            return own if own is not None else _counted(mounted / "memory.oom_control")
    unified = next((line.removeprefix("0::/") for line in lines if line.startswith("0::")), None)
    return None if unified is None else _counted(root / "sys/fs/cgroup" / unified / "memory.events")


def _counted(path: Path) -> int | None:
    """The number behind the word `oom_kill` in the file."""
    try:
        words = path.read_text(encoding="ascii").split()
        return int(words[words.index("oom_kill") + 1])
    except (OSError, ValueError, IndexError):
        return None


def _more(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


class WorkerStderr:
    """The stderr of all workers of a training."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._wake = os.eventfd(0)
        self._poll.register(self._wake, select.EPOLLIN)
        self._kept: dict[int, bytes] = {}
        self._ended: dict[int, threading.Event] = {}
        self._thread = threading.Thread(target=self._drain, name="last-words", daemon=True)
        self._thread.start()

    def open(self) -> tuple[int, int]:
        """A pipe: the end to ask `of` about, and the end for a worker's stderr, which the caller closes."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._kept[reader], self._ended[reader] = b"", threading.Event()
        self._poll.register(reader, select.EPOLLIN)
        return reader, writer

    def of(self, reader: int) -> str:
        """The end of what was said, after the last of it had half a second to arrive."""
        if reader in self._ended:
            self._ended[reader].wait(_SETTLE_S)
        return self._kept.get(reader, b"").decode("utf-8", "replace")

    def close(self) -> None:
        """Stop listening; whoever still holds the other end of a pipe talks to nobody."""
        if self._poll.closed:
            return
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._poll.close()
        for descriptor in (self._wake, *self._ended):
            os.close(descriptor)
        self._ended.clear()

    def _drain(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._wake:
                    return
                self._take(descriptor)

    def _take(self, reader: int) -> None:
        part = b""
        with suppress(BlockingIOError):
            part = os.read(reader, _READ_BYTES)
            if not part:
                self._poll.unregister(reader)
                self._ended[reader].set()
        if part:
            self._kept[reader] = (self._kept[reader] + part)[-_KEPT_BYTES:]
            # A log that cannot be written costs its lines and nothing else.
            with suppress(OSError):
                os.write(_STDERR, part)


def quote(said: str) -> str:
    """The lines of `said` that tell most, as one: a fatal error with the place it came from, else the last line."""
    lines = [line for line in (clean(line, _QUOTED_CHARACTERS) for line in said.splitlines()) if line]
    fatal = next((number for number, line in enumerate(lines) if line.startswith(_FATAL)), None)
    if fatal is None:
        return lines[-1] if lines else ""
    place = next((line for line in lines[fatal:] if line.startswith("File ")), "")
    return clean(f"{lines[fatal]} {place}", _QUOTED_CHARACTERS)
