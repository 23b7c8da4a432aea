"""The supervisor of a runs root, started on demand: at most one process is started however many clients want one. And
which runs roots of this user have one: each socket folder says whose it is and how many runs go on there.

The supervisor is named, never imported. What it inherits from the client that happens to start it means nothing to
later runs: a run's environment is captured by the client that launches it. Only where a value of that is known no more,
and its name is no secret's, what the supervisor inherited stands in (`supervisor/runs/variables.py`).

What a folder says are two files beside the sockets, which are replaced whole, and count for nothing unless a supervisor
of ours listens. Folders that are not ours alone, or name a root that is not theirs, are passed over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from mission_tui.errors import NoSupervisorError, UsageError
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import OtherRoot
from mission_tui.ipc.client_environment import is_text
from mission_tui.ipc.sockets import OPERATOR_SOCKET, connect, is_private
from mission_tui.paths import STOPPED, socket_dir
from mission_tui.plain_files import make_folder, open_fresh, open_plain, open_to_append, open_to_lock, read_plain

SUPERVISOR = "mission_tui.supervisor"
READONLY_SERVER = "mission_tui.supervisor.readonly.server"
REPLAY_SERVER = "mission_tui.supervisor.readonly.replay"
STARTING_S = 20.0
"""A start takes a third of a second, and on a machine that is busy with everything else some ten; one that died is seen
at once."""

LOOK_EVERY_S = 0.02
PATIENCE_AFTER_EXIT_S = 1.0
LOG_TAIL_BYTES = 4096
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def operator_socket(root: Path) -> Path:
    """Where the supervisor of `root` answers clients."""
    return socket_dir(root) / OPERATOR_SOCKET


def was_stopped(root: Path) -> bool:
    """Whether the last supervisor of the runs root ended because somebody asked it to."""
    return (root / ".supervisor" / STOPPED).exists()


def ensure_supervisor(root: Path, timeout_s: float = STARTING_S) -> None:
    """Return once a supervisor of the runs root answers, started by us or by another client.

    Raises `UsageError` when the runs root cannot be made or written, `NoSupervisorError` with the last line of the
    supervisor's log when none answers within `timeout_s`.
    """
    if _answers(root):
        return
    state = _writable_state(root)
    deadline = time.monotonic() + timeout_s
    try:
        turn = open_to_lock(state / "start.lock")
    except OSError as error:
        raise UsageError(f"runs root {root} cannot be used: {error.filename}: {error.strerror}") from error
    try:
        _start_or_wait(root, state, turn, deadline)
    finally:
        os.close(turn)


def _start_or_wait(root: Path, state: Path, turn: int, deadline: float) -> None:
    """The process that gets the lock starts the supervisor; all wait for the socket."""
    child: subprocess.Popen[bytes] | None = None
    while not _answers(root):
        now = time.monotonic()
        if child is None and _take(turn) and not _answers(root):
            child = _spawn(root, state)
        elif child is not None and child.returncode:
            deadline = min(deadline, now + PATIENCE_AFTER_EXIT_S)
        if now >= deadline:
            died = child is not None and bool(child.returncode)
            # Ours left in order because another one has the lock.
            left = child is not None and child.returncode == 0
            held = _held_elsewhere(root, state / "lock") if left else ""
            raise NoSupervisorError(f"no supervisor for {root}: {held or _why(state / 'supervisor.log', died)}")
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
    try:
        descriptor = _log_of(state / "supervisor.log")
    except OSError as error:
        raise NoSupervisorError(
            f"no supervisor for {root}: {state / 'supervisor.log'}: {_refusal(error, root)}"
        ) from error
    with os.fdopen(descriptor, "ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", SUPERVISOR, "--runs-dir", os.fspath(root.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_with_package(os.environ),
            start_new_session=True,
        )
    # A long-lived client (the screen) would otherwise keep a supervisor that left as a zombie.
    with suppress(RuntimeError):  # at the limit of threads: it was started all the same
        threading.Thread(target=child.wait, name="reap-supervisor", daemon=True).start()
    return child


def _log_of(path: Path) -> int:
    """The log to append to; one that is none of ours alone, or has a second name elsewhere, is left to that."""
    try:
        return open_to_append(path)
    except OSError:
        return open_fresh(path)


def _with_package(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which this very package is found, wherever it was started from."""
    package_parent = str(Path(__file__).resolve().parents[2])
    return {**environ, "PYTHONPATH": os.pathsep.join(filter(None, (package_parent, environ.get("PYTHONPATH"))))}


def start_readonly_server(root: Path, at: float | None = None) -> socket.socket:
    """The link to a process of our own that reads the runs root and changes nothing; it ends when the link is closed.

    With `at` it shows the fleet as it was at that unix time, and can be told to go to another.

    Raises `UsageError` when the runs root cannot be listed, `NoSupervisorError` when no process can be started.
    """
    try:
        os.scandir(root).close()
    except OSError as error:
        raise UsageError(f"runs root {root} cannot be read: {error.strerror or error}") from error
    ours, theirs = socket.socketpair()
    with theirs:
        module, moment = (READONLY_SERVER, []) if at is None else (REPLAY_SERVER, ["--at", repr(at)])
        place = ["--runs-dir", os.fspath(root.resolve()), "--fd", str(theirs.fileno())]
        argv = [sys.executable, "-P", "-m", module, *place, *moment]
        quiet = subprocess.DEVNULL
        try:
            child = subprocess.Popen(
                argv,
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
                cwd="/",
                env=_with_package(os.environ),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise NoSupervisorError(f"{root} cannot be read: {sys.executable} cannot be started: {error}") from error
    threading.Thread(target=child.wait, name="reap-reader", daemon=True).start()
    return ours


def _writable_state(root: Path) -> Path:
    state = root / ".supervisor"
    if not is_text(os.fspath(root)):
        raise UsageError(f"runs root {clean(repr(root))} cannot be used: its name is not valid UTF-8")
    try:
        make_folder(state)
        probe = state / f"probe-{os.getpid()}-{threading.get_ident()}"
        os.close(open_fresh(probe))
        probe.unlink()
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and state.is_symlink():
            why = f"{state} is a symbolic link, and none is followed there; remove it"
            raise UsageError(f"runs root {root} cannot be used: {why}") from error
        raise UsageError(
            f"runs root {root} cannot be used: {_refusal(error, root)}, or give another with --runs-dir"
            if error.errno in _NO_ROOM
            else f"runs root {root} cannot be used: {error.strerror or error}; give another with --runs-dir"
        ) from error
    return state


def _refusal(error: OSError, root: Path) -> str:
    """Why the disk of `root` refused; of a full one whether bytes or names are used up, which look alike."""
    why = error.strerror or str(error)
    if error.errno not in _NO_ROOM:
        return why
    try:
        disk = os.statvfs(root)
    except OSError:
        return why
    if disk.f_files and disk.f_favail == 0:
        return f"{why}: its disk has no inodes left (`df -i`); remove files there"
    return f"{why}; free some space there"


def _held_elsewhere(root: Path, lock: Path) -> str:
    """Who has the lock of a supervisor that has no socket here, in a sentence; empty where that is not so."""
    if operator_socket(root).exists():
        return ""
    try:
        descriptor = open_plain(lock)[0]
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = clean(os.read(descriptor, 20).decode("ascii", "replace"))
    else:
        return ""
    finally:
        os.close(descriptor)
    try:
        owner = f"of user {Path(f'/proc/{pid}').stat().st_uid}"
    except (OSError, ValueError):
        owner = "not visible from here"
    return (
        f"process {pid} ({owner}) is its supervisor, but has no socket in {socket_dir(root)}: it may be another "
        "user's, or have another /tmp (a container, a service with PrivateTmp); use it from where it was started, or "
        "end it there, which leaves its runs alone"
    )


def _why(log: Path, died: bool) -> str:
    said = _last_line(log)
    outcome = "it ended at once" if died else "it did not answer in time"
    # What it would have said may have found no room either.
    if _is_full(log.parent):
        return f"{outcome}: the disk of {log.parent} is full; free some space there"
    return f"{outcome}; {log} ends with: {said}" if said else f"{outcome} and {log} says nothing"


def _is_full(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LEAST_ROOM_BYTES or bool(disk.f_files and not disk.f_favail)


def _last_line(log: Path) -> str:
    try:
        with os.fdopen(open_plain(log)[0], "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        lines = []
    return next((said for line in reversed(lines) if (said := clean(line, 300))), "")


_LEAST_ROOM_BYTES = 64 << 10

_ROOT, _LIVE = "root", "live"
_MOST_BYTES = 4096
"""The longest path that Linux knows."""
_ANSWER_S = 0.2


def name_root(root: Path) -> None:
    """Say in the socket folder of `root` whose it is. Raises `OSError`."""
    _replace(socket_dir(root) / _ROOT, os.fsencode(root))


def write_live_count(root: Path, live: int) -> None:
    """Say beside the sockets of `root` how many runs live or wait there. Raises `OSError`."""
    _replace(socket_dir(root) / _LIVE, f"{live}\n".encode("ascii"))


def unname_root(root: Path) -> None:
    """Remove the socket folder of `root` if nothing else is in it."""
    folder = socket_dir(root)
    with suppress(OSError):
        (folder / _LIVE).unlink(missing_ok=True)
        (folder / _ROOT).unlink(missing_ok=True)
        folder.rmdir()


def socket_folders() -> Iterator[Path]:
    """Every socket folder of this user that nobody else can have touched, by name."""
    everyone = socket_dir(Path("/")).parent
    with suppress(OSError):
        yield from sorted(folder for folder in everyone.iterdir() if is_private(folder))


def named_root(folder: Path) -> Path | None:
    """The runs root that the socket folder says it belongs to; None when it does not say."""
    named = _read(folder / _ROOT)
    return Path(os.fsdecode(named)) if named.startswith(b"/") and b"\0" not in named else None


def live_roots(but: Path | None = None) -> tuple[OtherRoot, ...]:
    """Runs roots of this user at which a supervisor listens, by path, without `but`."""
    found = []
    for folder in socket_folders():
        root = named_root(folder)
        if root is None or (but is not None and folder == socket_dir(but)):
            continue
        if socket_dir(root) == folder and root.is_dir() and _listens(folder / OPERATOR_SOCKET):
            said = _read(folder / _LIVE).strip()
            found.append(OtherRoot(str(root), int(said) if said.isdigit() else None))
    return tuple(sorted(found, key=lambda other: other.root))


def _listens(path: Path) -> bool:
    with suppress(OSError):
        connect(path, _ANSWER_S).close()
        return True
    return False


def _read(path: Path) -> bytes:
    """A short plain file; nothing of any other."""
    with suppress(OSError):
        return read_plain(path, _MOST_BYTES)
    return b""


def _replace(path: Path, data: bytes) -> None:
    """Readers see the old file or the new one. Nothing is synced: the folder does not outlive the boot."""
    if not is_private(path.parent):
        raise OSError(errno.EPERM, "not a folder of ours alone", str(path.parent))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = open_fresh(temporary)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
