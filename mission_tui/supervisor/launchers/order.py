"""The order of an attempt: which program it is, in which folder, with which variables and limits, whichever launcher
starts it.

`MISSION_TUI_TRAINER` (a module name, or the path of a script) names the program started as trainer, for trainers that
speak the messages of `ipc/telemetry_messages.py`; without it that is `mission_tui.trainer`. `MISSION_TUI_ROAD=mailbox`
has trainers of this machine, too, speak by files, as where the socket cannot be reached.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mission_tui.fleet.specs.consistency import THREAD_VARIABLES
from mission_tui.fleet.specs.secrecy import is_harmless
from mission_tui.fleet.specs.spec import LAUNCHERS, Spec
from mission_tui.paths import socket_dir
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers.caller import OURS, Caller, as_module, program, with_spec_env

OUTPUT_CAP_BYTES = 64 << 20
SEALED = "--sealed="
"""How the word of a keeper begins that says the SHA-256 of its order's document (`keeper/child.py`)."""


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
    if spec.run.launcher != LAUNCHERS[0] or os.environ.get("MISSION_TUI_ROAD") == "mailbox":
        env["MISSION_TUI_MAILBOX"] = "1"
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
        preload=spec.run.preload,
    )


def keeper_words(run: RunDir, order: LaunchOrder, digest: str) -> list[str]:
    """The words of the keeper of the written order, whose document has this SHA-256."""
    return [str(run.path), str(order.attempt), f"{SEALED}{digest}"]


def trainer_environ(spec: Spec) -> dict[str, str]:
    """What every attempt of `spec` is given beside its caller's variables: where it crashes is said, and its threads.

    A command keeps the threads that it would have in the shell, unless the spec says how many.
    """
    said = {"PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
    if spec.run.command is not None and spec.run.threads is None:
        return said
    return said | thread_variables(spec.run.threads or 1)


def _trainer(spec: Spec, caller: Caller) -> tuple[tuple[str, ...], Caller]:
    trainer = os.environ.get("MISSION_TUI_TRAINER", "mission_tui.trainer")
    return ((caller.python, trainer), caller) if os.sep in trainer else as_module(spec, caller, trainer)


def thread_variables(count: int) -> dict[str, str]:
    """What tells libraries to use `count` threads, and to sleep while they wait."""
    return dict.fromkeys(THREAD_VARIABLES, str(count)) | {"OMP_WAIT_POLICY": "PASSIVE"}


def withheld_names(env: Mapping[str, str], caller: Caller, spec: Spec) -> tuple[str, ...]:
    """Those of an order's variables whose values are never written down."""
    return tuple(name for name, value in env.items() if _is_withheld(name, value, caller, spec))


def _is_withheld(name: str, value: str, caller: Caller, spec: Spec) -> bool:
    on_record = name in OURS or spec.run.env.get(name) == value
    return not on_record and (name in caller.secrets or not is_harmless(name, value))
