"""The supervisor's own cores, niceness, `ulimit`s and umask: the same ones, whichever shell has started it.

Runs have those of the shells that launch them. What this process was started with and cannot get rid of (a hard limit
that was lowered, niceness where it may not be taken back) bounds them all, and each launch that it makes poorer says
so.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

from mission_tui.errors import UsageError
from mission_tui.fleet.process_limits import UNLIMITED, ProcessLimits, cores_in, shortfalls
from mission_tui.fleet.resume.verdict import Change
from mission_tui.ipc.captured import SCHEDULERS, captured_limits

STACK_BYTES = 8 << 20
LEAST_FILES = 64
"""Open files with which a supervisor of a few runs can work; with ten it has none left for whoever asks."""
_AS_THEY_ARE = frozenset({"RLIMIT_STACK", "RLIMIT_CORE", "RLIMIT_OFILE", "RLIMIT_RTTIME"})
_REMEDY = "`mission-tui supervisor stop`, then launch from this shell: runs go on"
_own: list[ProcessLimits] = []


def take_fixed_limits() -> None:
    """All cores, no niceness, every limit as high as it may be, files for us alone. What is refused stays as it is.

    Raises `UsageError` where too few files may be open to answer anybody.
    """
    os.umask(0o077)
    with suppress(OSError):
        known = max(os.sysconf("SC_NPROCESSORS_CONF"), *os.sched_getaffinity(0))
        # The kernel leaves out what the cpuset of this process does not have.
        os.sched_setaffinity(0, range(known + 1))
    with suppress(OSError):
        if os.sched_getscheduler(0) in (SCHEDULERS["batch"], SCHEDULERS["idle"]):
            os.sched_setscheduler(0, SCHEDULERS["other"], os.sched_param(0))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    adjustment = Path("/proc/self/oom_score_adj")
    with suppress(OSError, ValueError):
        if int(adjustment.read_text(encoding="ascii")) > 0:
            adjustment.write_text("0", encoding="ascii")
    for name in dir(resource):
        if name.startswith("RLIMIT_") and name not in _AS_THEY_ARE:
            _raise_limit(getattr(resource, name))
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_STACK)
        soft = STACK_BYTES if hard == UNLIMITED else min(STACK_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    _own[:] = [captured_limits()]
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= files < LEAST_FILES:
        raise UsageError(
            f"only {files} files may be open here (ulimit -Hn), and a supervisor needs {LEAST_FILES}: "
            "start it from a shell that may have more"
        )


def _raise_limit(number: int) -> None:
    soft, hard = resource.getrlimit(number)
    if number == resource.RLIMIT_NOFILE:
        most = int(Path("/proc/sys/fs/nr_open").read_text(encoding="ascii"))
    else:
        most = UNLIMITED
    for wanted in ((most, most), (hard, hard)):
        if wanted == (soft, hard):
            return
        with suppress(OSError, ValueError):
            resource.setrlimit(number, wanted)
            return


def limits_lacking(wanted: ProcessLimits | None) -> tuple[Change, ...]:
    """A note for each limit that an attempt asks for and cannot be given here."""
    if wanted is None or not _own:
        return ()
    why = f"the supervisor was started from a shell with less and cannot give more; {_REMEDY}"
    return tuple(
        Change(f"limit {name}", asked, given, "note", why) for name, asked, given in shortfalls(wanted, _own[0])
    )


def said_of_limits(wanted: ProcessLimits | None) -> tuple[str, ...]:
    """The same as one sentence for whoever launches; empty where nothing is lacking."""
    lacking = [
        f"{change.name.removeprefix('limit ')} {change.was}, has {change.now}" for change in limits_lacking(wanted)
    ]
    if not lacking:
        return ()
    return (f"asked for {'; '.join(lacking)}: the supervisor was started from a shell with less; {_REMEDY}",)


def limit_process(pid: int, limits: ProcessLimits) -> None:
    """Set `limits`, but for umask and niceness, for the process `pid`, a child of ours that has just been started."""
    if limits.cores is not None:
        with suppress(OSError, ValueError):
            os.sched_setaffinity(pid, cores_in(limits.cores))
    for name, (soft, hard) in limits.rlimits.items():
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is None:
            continue
        try:
            now, most = resource.prlimit(pid, number)
            bound = (soft, hard) if most == UNLIMITED else (_lower(soft, most), _lower(hard, most))
            if bound != (now, most):
                resource.prlimit(pid, number, bound)
        except (OSError, ValueError):
            continue


def _lower(wanted: int, most: int) -> int:
    return most if wanted == UNLIMITED else min(wanted, most)
