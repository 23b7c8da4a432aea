"""What a client sends of itself with what it launches: its environment and its limits, as they are now."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from mission_tui.fleet.process_limits import ProcessLimits, core_list

SCHEDULERS = {"other": 0, "batch": 3, "idle": 5}
"""The kernel's numbers (sched(7)). Real-time policies are not among them: whoever has one wants it for one process."""

_RESET_ON_FORK = 0x40000000
COMMAND_CHARACTERS = 4096

# fmt: off
NOT_PASSED_ON = frozenset({
    # Of the service manager's talk with the calling process: a run that answered it would speak for a stranger.
    "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "MAINPID",
    "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE",
    # Of the calling terminal: a run has none, and the window may be another's tomorrow.
    "TMUX", "TMUX_PANE", "STY", "WINDOW", "WINDOWID", "COLUMNS", "LINES", "TERMCAP", "SSH_TTY", "GPG_TTY",
    # Of the calling shell itself; `PWD` is set to the folder that the run works in.
    "_", "PWD", "OLDPWD", "SHLVL",
})
# fmt: on
OUR_PREFIX, OUR_SETTINGS = "MISSION_TUI_", frozenset({"MISSION_TUI_RUNS", "MISSION_TUI_KERNELS"})


class Origin(TypedDict):
    """The folder, interpreter, environment and limits of a client, as requests that launch something carry them."""

    cwd: str
    python: str
    environ: dict[str, str]
    limits: ProcessLimits


def origin_of(cwd: Path, environ: Mapping[str, str]) -> Origin:
    """This client's, which works in `cwd` with `environ`."""
    return Origin(cwd=str(cwd), python=sys.executable, environ=captured_environ(environ), limits=captured_limits())


def captured_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """A client's environment as a run that it launches gets it: all of it but what belongs to the client alone.

    Of our own variables only the runs root goes along, for a script that calls `mission-tui` itself, and the switch of
    the trainer's kernels; added are the words of this client, for the record. What is not valid text cannot be said in
    JSON and is left out.
    """
    captured = {
        name: value
        for name, value in environ.items()
        if name not in NOT_PASSED_ON
        and (name in OUR_SETTINGS or not name.startswith(OUR_PREFIX))
        and is_text(name + value)
    }
    command = shlex.join(["mission-tui", *sys.argv[1:]])[:COMMAND_CHARACTERS]
    return captured | ({"MISSION_TUI_COMMAND": command} if is_text(command) else {})


def captured_limits() -> ProcessLimits:
    """Cores, niceness, `ulimit`s, umask as they are now. What cannot be read is left out; it never raises."""
    import resource

    names = (name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE")
    rlimits = {name.removeprefix("RLIMIT_").lower(): resource.getrlimit(getattr(resource, name)) for name in names}
    policy = os.sched_getscheduler(0) & ~_RESET_ON_FORK
    umask = re.search(r"^Umask:\s*([0-7]+)", _read("/proc/self/status"), re.MULTILINE)
    adjusted = _read("/proc/self/oom_score_adj").strip()
    return ProcessLimits(
        cores=core_list(os.sched_getaffinity(0)),
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        scheduler=next((name for name, number in SCHEDULERS.items() if number == policy), None),
        # Asked of the kernel, not by setting another one: other threads may be making files.
        umask=int(umask[1], 8) if umask else None,
        oom_score_adj=int(adjusted) if adjusted.lstrip("-").isdigit() else None,
        rlimits=rlimits,
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def is_text(value: str) -> bool:
    """Whether `value` can be said in JSON: text of the system that is no UTF-8 cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
