"""Runs roots: who owns one, who else may write there, and whether its file system keeps locks; and which roots this
user has used, with how many runs ended there since the user last looked, for a screen of another root.

Runs, nonces and the lock lie there, so whoever may write there may act for us.

Of used roots there are two small files for each in the user's state folder: its supervisor notes when runs ended, who
looks notes when. Of a root itself nothing is read; it only has to be there. All of it may be lost, and none of it is
worth failing for.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.text import clean
from mission_tui.paths import socket_dir, used_roots_dir
from mission_tui.plain_files import make_folder, open_fresh, open_to_lock, read_given
from mission_tui.records.atomic import write_atomic

SHARED = ("nfs", "nfs4", "cifs", "smb3", "lustre", "fuse", "9p", "beegfs", "gpfs")
"""File systems that other machines may hold too; their locks can be missing, slow or only pretended."""

MOUNTS = Path("/proc/self/mounts")
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_ELSEWHERE = "keep the runs root on a local disk (--runs-dir) and copy ended runs over"


def check_private(root: Path) -> None:
    """Raise `UsageError` when somebody else owns `root` or its `.supervisor`, may write there, or put a link there.

    A group of yours alone may write; a superuser may use what somebody else owns, as in a container. What is not there
    yet belongs to no one else.
    """
    for folder, may_be_link in ((root, True), (root / ".supervisor", False)):
        try:
            facts = folder.stat() if may_be_link else folder.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(f"runs root {root} cannot be used: {error.strerror or error}") from error
        if not stat.S_ISDIR(facts.st_mode):
            raise UsageError(f"runs root {root} cannot be used: {folder} is not a folder; remove it")
        me = os.getuid()
        if facts.st_uid != me and me != 0:
            raise UsageError(
                f"runs root {root} cannot be used: {folder} belongs to user {facts.st_uid}; use a folder of your own"
            )
        if facts.st_mode & stat.S_IWOTH:
            raise UsageError(f"runs root {root} cannot be used: everybody may write in {folder}; `chmod o-w` it")
        if facts.st_mode & stat.S_IWGRP and not _group_of_one(facts.st_gid, me):
            raise UsageError(
                f"runs root {root} cannot be used: group {facts.st_gid} may write in {folder}; `chmod g-w` it"
            )


def owner_beside_superuser(root: Path) -> str:
    """The user who has used `root` so far, where a superuser is about to use it; empty where that is one too."""
    with suppress(OSError):
        if owner := (root / ".supervisor").lstat().st_uid:
            with suppress(KeyError):
                return pwd.getpwuid(owner).pw_name
            return str(owner)
    return ""


def check_locks(folder: Path) -> None:
    """Raise `UsageError` unless `flock` works in `folder`: taken once, and then refused to a second holder.

    Two supervisors, or two trainers of a run, are kept apart by nothing else. Raises `OSError` for a disk that refuses.
    """
    path = folder / f"lock-probe-{os.getpid()}"
    kind, point = file_system(folder)
    where = f"runs root {folder.parent} cannot be used: {kind} at {point}"
    first = open_fresh(path)
    try:
        second = open_to_lock(path)
        try:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(BlockingIOError):
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
                raise UsageError(f"{where} lets two processes hold the same lock; {_ELSEWHERE}")
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise UsageError(f"{where} has no locks ({error.strerror}); {_ELSEWHERE}") from error
            raise
        finally:
            os.close(second)
    finally:
        os.close(first)
        path.unlink(missing_ok=True)


def file_system(path: Path, mounts: Path = MOUNTS) -> tuple[str, Path]:
    """The type of the file system that holds `path`, and where it is mounted: the longest mount point above it."""
    real = path.resolve()
    best, kind = Path("/"), "unknown"
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        _, point, found, *_ = line.split()
        mount = Path(point.encode().decode("unicode_escape"))
        if real.is_relative_to(mount) and len(mount.parts) >= len(best.parts):
            best, kind = mount, found
    return kind, best


def others_may_write(facts: os.stat_result) -> bool:
    """Whether anybody but its owner may write into the folder or file that `facts` are of; a group of one may."""
    everybody, group = facts.st_mode & stat.S_IWOTH, facts.st_mode & stat.S_IWGRP
    return bool(everybody) or (bool(group) and not _group_of_one(facts.st_gid, os.getuid()))


def renamed_by_others(root: Path) -> Path | None:
    """The lowest folder above `root` in which others may rename what leads to it: they may write there, and it is not
    sticky. None where there is none, or none that can be looked at.
    """
    for folder in root.absolute().parents:
        with suppress(OSError):
            facts = folder.stat()
            if others_may_write(facts) and not facts.st_mode & stat.S_ISVTX:
                return folder
    return None


def _group_of_one(group: int, user: int) -> bool:
    """Whether `group` is the private group that many systems give every user."""
    try:
        entry, own = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    return own.pw_gid == group and set(entry.gr_mem) <= {own.pw_name} and entry.gr_name in (own.pw_name, "root")


_ENDS, _SEEN = ".ends", ".seen"
MOST_ENDS = 20
MOST_READ = 8
"""The roots in which a run ended last."""
MOST_KEPT = 32
MOST_BYTES = 8192
OLD_S = 30 * 86400.0
"""Who has not looked for so long does not wait for it."""
PATIENCE_S = 0.25
"""A runs root on a file server that hangs keeps nobody waiting."""


class _EndTimes(Struct, frozen=True):
    """When (unix s) the newest runs ended at `root`, oldest first."""

    root: str
    ended: tuple[float, ...] = ()


class EndedElsewhere(NamedTuple):
    """`runs` ended at `root` since it was looked at; `more`: at least so many."""

    root: str
    runs: int
    more: bool = False

    @property
    def sentence(self) -> str:
        """For people, with what shows them."""
        runs = f"{self.runs}{' or more' if self.more else ''} run{'' if self.runs == 1 else 's'}"
        return f"{runs} ended elsewhere since you last looked: mission-tui --runs-dir {self.root}"


def note_ends(root: Path, ended: Iterable[float], environ: Mapping[str, str], since_t: float = 0.0) -> None:
    """Runs ended at `root` at these unix times; those before `since_t` count only where ends before it are noted.

    Blocks; raises nothing.
    """
    file = _file(root, environ)
    known = _read(file)
    noted = () if known is None else known.ended
    news = {t for t in ended if t > min((since_t, *noted))} - set(noted)
    if not news:
        return
    ends = sorted({*noted, *news})[-MOST_ENDS:]
    with suppress(OSError, MissionError):
        make_folder(file.parent)
        write_atomic(file, msgspec.json.encode(_EndTimes(str(root), tuple(ends))))
        for kind in (_ENDS, _SEEN):
            for old in _newest(file.parent, kind)[MOST_KEPT:]:
                old.unlink(missing_ok=True)


def note_look(root: Path, environ: Mapping[str, str]) -> None:
    """The user looks at `root` now, or has waited for what ended there. Raises nothing."""
    file = _file(root, environ).with_suffix(_SEEN)
    with suppress(OSError):
        make_folder(file.parent)
        file.touch(mode=0o600)


def ended_elsewhere(but: Path, environ: Mapping[str, str]) -> tuple[EndedElsewhere, ...]:
    """Roots other than `but` in which runs ended since they were looked at, as far as that is known in a moment."""
    found: list[EndedElsewhere] = []
    # As with a home folder that hangs: the thread may go on waiting, and nobody waits for it.
    looking = threading.Thread(target=_read_ends, args=(found, socket_dir(but).name, environ), daemon=True)
    looking.start()
    looking.join(PATIENCE_S)
    return tuple(found)


def _read_ends(found: list[EndedElsewhere], but: str, environ: Mapping[str, str]) -> None:
    since_t = time.time() - OLD_S
    for file in _newest(used_roots_dir(environ), _ENDS)[:MOST_READ]:
        known = _read(file) if file.stem != but else None
        if known is None or socket_dir(Path(known.root)).name != file.stem:
            continue
        seen_t = since_t
        with suppress(OSError):
            seen_t = max(seen_t, file.with_suffix(_SEEN).stat().st_mtime)
        ended = sum(t > seen_t for t in known.ended)
        if ended and clean(known.root, MOST_BYTES) == known.root and Path(known.root).is_dir():
            found.append(EndedElsewhere(known.root, ended, more=ended == MOST_ENDS))


def _newest(folder: Path, kind: str) -> list[Path]:
    """The files of one kind, the one written last first."""
    found: list[tuple[float, str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        plain = (it for it in entries if it.name.endswith(kind) and it.is_file(follow_symlinks=False))
        found.extend((entry.stat(follow_symlinks=False).st_mtime, entry.path) for entry in plain)
    return [Path(path) for _, path in sorted(found, reverse=True)]


def _file(root: Path, environ: Mapping[str, str]) -> Path:
    return used_roots_dir(environ) / f"{socket_dir(root).name}{_ENDS}"


def _read(file: Path) -> _EndTimes | None:
    try:
        return msgspec.json.decode(read_given(file, MOST_BYTES), type=_EndTimes)
    except (OSError, ValueError, RecursionError):
        return None
