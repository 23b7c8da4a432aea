"""How an env worker ended, told from its exit status and from what the kernel counts: crash, kill, memory, exit."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OomKills", "exit_reason"]


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
        return f"left with exit code {code} (os._exit)" if code else "left with exit code 0 unasked"
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
