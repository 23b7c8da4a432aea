"""A supervisor for a runs root, started on demand: at most one process is started however many clients want one.

The supervisor is named, never imported. What it inherits from the client that happens to start it means nothing to
later runs: a run's environment is captured by the client that launches it.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from mission_tui.errors import NoSupervisorError, UsageError
from mission_tui.fleet.text import clean
from mission_tui.ipc.sockets import OPERATOR_SOCKET, connect
from mission_tui.paths import socket_dir

__all__ = ["captured_environ", "ensure_supervisor", "operator_socket"]

SUPERVISOR = "mission_tui.supervisor"
LOOK_EVERY_S = 0.02
PATIENCE_AFTER_EXIT_S = 1.0
LOG_TAIL_BYTES = 4096
COMMAND_CHARACTERS = 4096

# fmt: off
CAPTURED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "DISPLAY",
    "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "NO_COLOR", "MUJOCO_GL", "PYOPENGL_PLATFORM", "SDL_VIDEODRIVER",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE",
})
CAPTURED_FAMILIES = (
    "LC_", "CONDA_", "CUDA_", "NVIDIA_", "NCCL_", "CUBLAS_", "TORCH_", "TORCHINDUCTOR_", "TRITON_",
    "OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOMP_", "MALLOC_", "WANDB_", "HF_", "XDG_",
)
# fmt: on


def captured_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of a client's environment that a run it launches gets, and the words of this client for its record.

    Values that are not valid text are left out.
    """
    captured = {
        name: value
        for name, value in environ.items()
        if (name in CAPTURED or name.startswith(CAPTURED_FAMILIES)) and _is_text(name + value)
    }
    command = shlex.join(["mission-tui", *sys.argv[1:]])[:COMMAND_CHARACTERS]
    return captured | ({"MISSION_TUI_COMMAND": command} if _is_text(command) else {})


def operator_socket(root: Path) -> Path:
    """Where the supervisor of `root` answers clients."""
    return socket_dir(root) / OPERATOR_SOCKET


def ensure_supervisor(root: Path, timeout_s: float = 5.0) -> None:
    """Return once a supervisor of the runs root answers, started by us or by another client.

    Raises `UsageError` when the runs root cannot be made or written, `NoSupervisorError` with the last line of the
    supervisor's log when none answers within `timeout_s`.
    """
    if _answers(root):
        return
    state = _writable_state(root)
    deadline = time.monotonic() + timeout_s
    turn = os.open(state / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _start_or_wait(root, state, turn, deadline)
    finally:
        os.close(turn)


def _start_or_wait(root: Path, state: Path, turn: int, deadline: float) -> None:
    """Whoever gets the turn starts the process; everybody waits for the socket."""
    child: subprocess.Popen[bytes] | None = None
    while not _answers(root):
        now = time.monotonic()
        if child is None and _take(turn) and not _answers(root):
            child = _spawn(root, state)
        elif child is not None and child.returncode:
            deadline = min(deadline, now + PATIENCE_AFTER_EXIT_S)
        if now >= deadline:
            died = child is not None and bool(child.returncode)
            raise NoSupervisorError(f"no supervisor for {root}: {_why(state / 'supervisor.log', died)}")
        time.sleep(LOOK_EVERY_S)


def _answers(root: Path) -> bool:
    try:
        connect(operator_socket(root), timeout_s=1.0).close()
    except OSError:
        return False
    return True


def _take(turn: int) -> bool:
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _spawn(root: Path, state: Path) -> subprocess.Popen[bytes]:
    """Start the supervisor in its own session. It works from `/`, so that no folder is held by it."""
    package_parent = str(Path(__file__).resolve().parents[2])
    search = os.pathsep.join(filter(None, (package_parent, os.environ.get("PYTHONPATH"))))
    with (state / "supervisor.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", SUPERVISOR, "--runs-dir", os.fspath(root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, "PYTHONPATH": search},
            start_new_session=True,
        )
    # A long-lived client (the screen) would otherwise keep a supervisor that left as a zombie.
    threading.Thread(target=child.wait, name="reap-supervisor", daemon=True).start()
    return child


def _writable_state(root: Path) -> Path:
    state = root / ".supervisor"
    if not _is_text(os.fspath(root)):
        raise UsageError(f"runs root {clean(repr(root))} cannot be used: its name is not valid UTF-8")
    try:
        state.mkdir(parents=True, exist_ok=True)
        probe = state / f"probe-{os.getpid()}-{threading.get_ident()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(
            f"runs root {root} cannot be used: {error.strerror or error}; give another with --runs-dir"
        ) from error
    return state


def _why(log: Path, died: bool) -> str:
    said = _last_line(log)
    outcome = "it ended at once" if died else "it did not answer in time"
    return f"{outcome}; {log} ends with: {said}" if said else f"{outcome} and {log} says nothing"


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        lines = []
    return next((said for line in reversed(lines) if (said := clean(line, 300))), "")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
