"""Attempts as processes of this machine: the order, the detached keeper, and both found again by identity.

`MISSION_TUI_TRAINER` (a module name, or the path of a script) names the program started as trainer, for trainers that
speak `docs/trainer-protocol.md`; without it that is `mission_tui.trainer`.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mission_tui.errors import EX_RESUMABLE, DamagedError, MissionError
from mission_tui.fleet.spec import Spec
from mission_tui.paths import socket_dir
from mission_tui.records.attempt import LaunchOrder, read_identity
from mission_tui.records.layout import RunDir
from mission_tui.supervisor.children import start_child
from mission_tui.supervisor.identity import Process, see, verify
from mission_tui.supervisor.launchers import Found

__all__ = ["Caller", "LeaseHeldError", "LocalLauncher", "attempt_order", "forget_marks"]

GRACE_S = 30.0
OUTPUT_CAP_BYTES = 64 << 20
_OURS = frozenset(f"MISSION_TUI_{name}" for name in ("RUN", "RUN_DIR", "ATTEMPT", "NONCE", "TELEMETRY"))


class LeaseHeldError(MissionError):
    """A process of an earlier attempt still owns the run."""

    exit_code = EX_RESUMABLE


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose interpreter, folder and environment an attempt runs with: the client's, never the supervisor's."""

    python: str
    cwd: str
    environ: Mapping[str, str]

    @classmethod
    def of(cls, order: LaunchOrder) -> Caller:
        """Who launched the attempt of `order`."""
        environ = {name: value for name, value in order.env.items() if name not in _OURS}
        return cls(python=order.argv[0], cwd=order.cwd, environ=environ)


def forget_marks(environ: MutableMapping[str, str]) -> None:
    """Drop a run's marker that this process was started with: who is started from here belongs to other runs."""
    for name in _OURS:
        environ.pop(name, None)


def attempt_order(
    root: Path, run: RunDir, attempt: int, spec: Spec, caller: Caller, checkpoint: str | None
) -> LaunchOrder:
    """The complete order of an attempt, with a fresh nonce."""
    nonce = secrets.token_hex(16)
    trainer = os.environ.get("MISSION_TUI_TRAINER", "mission_tui.trainer")
    program = [trainer] if os.sep in trainer else ["-m", trainer]
    resume = [] if checkpoint is None else ["--checkpoint", checkpoint]
    threads = str(spec.run.threads or 1)
    env = dict(caller.environ) | {
        "MISSION_TUI_RUN": run.id,
        "MISSION_TUI_RUN_DIR": str(run.path),
        "MISSION_TUI_ATTEMPT": str(attempt),
        "MISSION_TUI_NONCE": nonce,
        "MISSION_TUI_TELEMETRY": str(socket_dir(root) / "telemetry.sock"),
        "PYTHONFAULTHANDLER": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    return LaunchOrder(
        run=run.id,
        attempt=attempt,
        argv=(caller.python, *program, str(run.path), str(attempt), *resume),
        cwd=caller.cwd,
        env=env,
        nonce=nonce,
        grace_s=GRACE_S,
        output_cap_bytes=OUTPUT_CAP_BYTES,
    )


class LocalLauncher:
    """The embedded engine: a keeper per attempt, in a session of its own."""

    def submit(self, run: RunDir, order: LaunchOrder) -> Process:
        """Start the keeper of the written order. Raises `LeaseHeldError`, or `MissionError` when it cannot start."""
        if not self.is_free(run):
            raise LeaseHeldError(f"{run.id} is still owned by a process of an earlier attempt; `clean` shows which")
        argv = [sys.executable, "-m", "mission_tui.keeper", str(run.path), str(order.attempt)]
        try:
            child = start_child(argv, lambda _code: None, cwd="/", detached=True)
            keeper = see(child.pid)
        except OSError as error:
            raise MissionError(f"the keeper of {run.id} could not be started: {error}") from error
        assert keeper is not None
        return keeper

    def is_free(self, run: RunDir) -> bool:
        """Whether the lease, which keeper and trainer of an attempt share, is free."""
        try:
            descriptor = os.open(run.lease, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def is_coming(self, run: RunDir, attempt: int) -> bool:
        """Whether a process names `attempt` as a keeper does before it has the lease. Nobody is signalled for that."""
        words = b"\0" + os.fsencode(run.path) + b"\0" + str(attempt).encode() + b"\0"
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if words in command.read_bytes():
                    return True
        return False

    def find(self, run: RunDir, attempt: int) -> Found:
        """Who of `attempt` lives, by `identity.json`; a damaged one identifies nobody."""
        try:
            identity = read_identity(run.attempt(attempt).identity)
        except (DamagedError, OSError):
            identity = None
        if identity is None:
            return Found(None)
        keeper = verify(identity.keeper, identity.boot_id)
        trainer = verify(identity.trainer, identity.boot_id)
        return Found(identity, keeper.process, trainer.process, keeper.verdict, trainer.verdict)
