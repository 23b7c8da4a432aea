"""Which runs roots of this user have a supervisor: each socket folder says whose it is and how many runs go on there.

Both files lie beside the sockets, are replaced whole, and count for nothing unless a supervisor of ours listens.
Folders that are not ours alone, or name a root that is not theirs, are passed over.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mission_tui.fleet.views.snapshot import OtherRoot
from mission_tui.ipc.sockets import OPERATOR_SOCKET, connect, is_private
from mission_tui.paths import socket_dir

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
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            facts = os.fstat(descriptor)
            if stat.S_ISREG(facts.st_mode) and facts.st_size <= _MOST_BYTES:
                return os.read(descriptor, _MOST_BYTES)
        finally:
            os.close(descriptor)
    return b""


def _replace(path: Path, data: bytes) -> None:
    """Readers see the old file or the new one. Nothing is synced: the folder does not outlive the boot."""
    if not is_private(path.parent):
        raise OSError(errno.EPERM, "not a folder of ours alone", str(path.parent))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, 0o600)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
