"""Attempts as processes of this machine: the order, the detached keeper, and both found again by identity and lease.

`MISSION_TUI_TRAINER` (a module name, or the path of a script) names the program started as trainer, for trainers that
speak the messages of `ipc/telemetry_messages.py`; without it that is `mission_tui.trainer`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from mission_tui.errors import EX_RESUMABLE, DamagedError, MissionError
from mission_tui.fleet.specs.secrecy import is_harmless
from mission_tui.fleet.specs.spec import Spec
from mission_tui.paths import socket_dir
from mission_tui.procfs import read_stat
from mission_tui.records.runs.attempt import Identity, LaunchOrder, read_identity
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.children import start_child
from mission_tui.supervisor.host.identity import Process, Verification, open_process, verify
from mission_tui.supervisor.host.lease import (
    Holder,
    holders_of,
    holds,
    holds_another,
    is_free,
    is_marked_for,
    marker_of,
    was_ordered_here,
)
from mission_tui.supervisor.launchers import Found
from mission_tui.supervisor.launchers.caller import OURS, Caller, program, with_spec_env
from mission_tui.supervisor.launchers.interpreter import as_module

__all__ = ["LocalLauncher", "attempt_order", "trainer_environ", "withheld_names"]

OUTPUT_CAP_BYTES = 64 << 20


class LeaseHeldError(MissionError):
    """A process of an earlier attempt still owns the run."""

    exit_code = EX_RESUMABLE


def attempt_order(
    root: Path, run: RunDir, attempt: int, spec: Spec, caller: Caller, checkpoint: str | None
) -> LaunchOrder:
    """The complete order of an attempt, with a fresh nonce. Raises `PresetError` for what is named and is not there."""
    caller = with_spec_env(spec, caller)
    words: tuple[str, ...] = ()
    if spec.run.command is None:
        words, caller = _trainer(spec, caller)
    nonce = os.urandom(16).hex()
    env = dict(caller.environ) | {
        "MISSION_TUI_RUN": run.id,
        "MISSION_TUI_RUN_DIR": ".",
        "MISSION_TUI_ATTEMPT": str(attempt),
        "MISSION_TUI_NONCE": nonce,
        "MISSION_TUI_TELEMETRY": str(socket_dir(root) / "telemetry.sock"),
    }
    env |= trainer_environ(spec)
    if spec.run.command is None:
        argv = (*words, ".", str(attempt))
        argv = argv if checkpoint is None else (*argv, "--checkpoint", checkpoint)
    else:
        argv = program(spec.run, caller, attempt)
        env["MISSION_TUI_REPORT"] = str(run.attempt(attempt).reported.relative_to(run.path))
        env |= {} if spec.run.seed is None else {"MISSION_TUI_SEED": str(spec.run.seed)}
    return LaunchOrder(
        run=run.id,
        attempt=attempt,
        argv=argv,
        cwd=caller.cwd,
        env=env,
        nonce=nonce,
        grace_s=spec.run.grace_s,
        output_cap_bytes=OUTPUT_CAP_BYTES,
        python=caller.python,
        limits=caller.limits,
        withheld=withheld_names(env, caller, spec),
        from_file=tuple(sorted(caller.from_file)),
        run_dir_at=len(words) if spec.run.command is None else None,
    )


def trainer_environ(spec: Spec) -> dict[str, str]:
    """What every attempt of `spec` is given beside its caller's variables: where it crashes is said, and its threads.

    A command keeps the threads that it would have in the shell, unless the spec says how many.
    """
    said = {"PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
    if spec.run.command is not None and spec.run.threads is None:
        return said
    return said | _threads(spec.run.threads or 1)


def _trainer(spec: Spec, caller: Caller) -> tuple[tuple[str, ...], Caller]:
    trainer = os.environ.get("MISSION_TUI_TRAINER", "mission_tui.trainer")
    return ((caller.python, trainer), caller) if os.sep in trainer else as_module(spec, caller, trainer)


def _threads(count: int) -> dict[str, str]:
    libraries = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(libraries, str(count)) | {"OMP_WAIT_POLICY": "PASSIVE"}


def withheld_names(env: Mapping[str, str], caller: Caller, spec: Spec) -> tuple[str, ...]:
    """Those of an order's variables whose values are never written down."""
    return tuple(name for name, value in env.items() if _is_withheld(name, value, caller, spec))


def _is_withheld(name: str, value: str, caller: Caller, spec: Spec) -> bool:
    on_record = name in OURS or spec.run.env.get(name) == value
    return not on_record and (name in caller.secrets or not is_harmless(name, value))


def _pass_secrets(secrets: Mapping[str, str]) -> int:
    """A descriptor to read `secrets` from, once and by the keeper alone: in memory, complete before it is started."""
    descriptor = os.memfd_create("secrets", os.MFD_CLOEXEC)
    os.write(descriptor, msgspec.json.encode(dict(secrets)))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class LocalLauncher:
    """The embedded engine: a keeper per attempt, in a session of its own."""

    def submit(self, run: RunDir, order: LaunchOrder) -> Process:
        """Start the keeper of the written order. Raises `LeaseHeldError`, or `MissionError` when it cannot start."""
        if not self.is_free(run):
            raise LeaseHeldError(f"{run.id} is still owned by a process of an earlier attempt; `clean` shows which")
        argv = [sys.executable, "-P", "-m", "mission_tui.keeper", str(run.path), str(order.attempt)]
        try:
            whispered = _pass_secrets({name: order.env[name] for name in order.withheld if name in order.env})
            try:
                child = start_child(argv, lambda _code: None, cwd="/", stdin=whispered, detached=True)
            finally:
                os.close(whispered)
            keeper = open_process(child.pid)
        except OSError as error:
            raise MissionError(f"the keeper of {run.id} could not be started: {error}") from error
        assert keeper is not None
        return keeper

    def is_free(self, run: RunDir) -> bool:
        """Whether the lease, which keeper and trainer of an attempt share, is free."""
        return is_free(run)

    def holders(self, run: RunDir, nonce: str) -> list[Holder]:
        """Who of the visible processes holds the lease; it reads all of /proc."""
        return holders_of(run, nonce)

    def is_coming(self, run: RunDir, attempt: int) -> bool:
        """Whether a process names `attempt` as a keeper does before it has the lease. Nobody is signalled for that."""
        words = b"\0" + os.fsencode(run.path) + b"\0" + str(attempt).encode() + b"\0"
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if words in command.read_bytes():
                    return True
        return False

    def find(self, run: RunDir, attempt: int) -> Found:
        """Who of `attempt` lives, by `identity.json` and the lease; a damaged identity identifies nobody."""
        try:
            identity = read_identity(run.attempt(attempt).identity)
        except (DamagedError, OSError):
            identity = None
        if identity is None:
            return Found(None)
        if not was_ordered_here(run, attempt):
            return Found(identity)
        keeper = _proven(verify(identity.keeper, identity.boot_id), lambda process: holds(process.pid, run))
        trainer = _proven(
            verify(identity.trainer, identity.boot_id),
            lambda process: _is_trainer(process, run, identity, keeper.process),
        )
        return Found(identity, keeper.process, trainer.process, keeper.verdict, trainer.verdict)


def _proven(seen: Verification, proves: Callable[[Process], bool | None]) -> Verification:
    """`seen`, if the lease says so too of the process that is held; it is let go of otherwise."""
    if seen.process is None:
        return seen
    proof = proves(seen.process)
    # What was read is of this process only if its number has not been given away meanwhile.
    if proof and seen.process.alive():
        return seen
    seen.process.close()
    return Verification("unverifiable" if proof is None else "stranger")


def _is_trainer(process: Process, run: RunDir, identity: Identity, keeper: Process | None) -> bool | None:
    """Whether it holds the lease; a command may have closed it: then, whether the proven keeper is its parent, or,
    where nobody holds the lease any more, whether it was started with this attempt's variables.
    """
    proof = holds(process.pid, run)
    if proof:
        return True
    if keeper is not None:
        stat = read_stat(process.pid)
        return stat is not None and stat.parent == keeper.pid and keeper.alive()
    marker = marker_of(process.pid)
    marked = marker is not None and is_marked_for(marker, run) and marker["MISSION_TUI_NONCE"] == identity.nonce
    if not marked or not is_free(run):
        return proof
    # Its keeper is gone. One of another directory's, which was here before this one, is that one's.
    stat = read_stat(process.pid)
    return stat is not None and not any(holds_another(pid, run) for pid in (process.pid, stat.parent))
