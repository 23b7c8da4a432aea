"""How a trainer is started: the order is read, the run's lease is taken, and one process is spawned with clean signals.

Two trainers of one run cannot live at once: the lease is a file lock that keeper and trainer share until both are gone.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from pathlib import Path
from typing import NamedTuple

from mission_tui.errors import EX_RESUMABLE, MissionError

__all__ = ["LeaseHeldError", "Order", "StartError", "read_order", "start_trainer", "take_lease"]

LEASE_VARIABLE = "MISSION_TUI_LEASE_FD"


class StartError(MissionError):
    """The trainer could not be started."""


class LeaseHeldError(StartError):
    """Another attempt of the run is alive."""

    exit_code = EX_RESUMABLE


class Order(NamedTuple):
    """What `launch.json` asks for, with its secrets; `grace_s` is the time between TERM and KILL."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    nonce: str
    grace_s: float
    output_cap_bytes: int


def read_order(path: Path) -> Order:
    """The order in `path`, with the values of withheld variables that standard input holds. Raises `StartError`."""
    try:
        table = json.loads(path.read_bytes())
        if table.get("withheld"):
            table["env"] |= _whispered()
        order = Order(
            argv=[str(word) for word in table["argv"]],
            cwd=str(table["cwd"]),
            env={str(name): str(value) for name, value in table["env"].items()},
            nonce=str(table["nonce"]),
            grace_s=float(table["grace_s"]),
            output_cap_bytes=int(table["output_cap_bytes"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StartError(f"cannot use {path}: {error!r}; launch the run again") from error
    if not order.argv:
        raise StartError(f"cannot use {path}: argv is empty; launch the run again")
    return order


def _whispered() -> dict[str, str]:
    """What the launcher said in memory alone; afterwards nobody can read it here again."""
    with open(0, "rb", closefd=False) as said:
        raw = said.read()
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)
    return dict(json.loads(raw)) if raw else {}


def take_lease(path: Path) -> int:
    """The descriptor of the locked lease file. Raises `LeaseHeldError` if another attempt has it, else `StartError`."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LeaseHeldError(f"{path} is held by another attempt of this run; stop that one first") from error
    except OSError as error:
        raise StartError(f"cannot lock {path}: {error.strerror}; put the runs on a local file system") from error
    return descriptor


def start_trainer(order: Order, lease: int, output: int) -> int:
    """Spawn the trainer and return its pid: own group, default signals but no HUP, no input, all output to `output`.

    It is not tied to this process: a trainer survives its keeper. Raises `StartError`.
    """
    os.set_inheritable(lease, True)
    try:
        os.chdir(order.cwd)
    except OSError as error:
        raise StartError(f"cannot enter the working folder {order.cwd}: {error.strerror}") from error
    try:
        return os.posix_spawn(
            order.argv[0],
            order.argv,
            {**order.env, LEASE_VARIABLE: str(lease)},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setpgroup=0,
            setsigmask=[],
            # HUP stays ignored: the kernel sends it to a stopped group whose keeper is killed (POSIX, orphaned groups).
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGHUP},
        )
    except (OSError, ValueError) as error:
        raise StartError(f"cannot start {order.argv[0]}: {error}") from error
    finally:
        os.chdir("/")
