"""The ground a runs root stands on: whose it is, who else may write there, and whether its file system keeps locks.

Runs, nonces and the lock lie there, so whoever may write there may act for us.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from mission_tui.errors import UsageError
from mission_tui.plain_files import open_fresh, open_to_lock

SHARED = ("nfs", "nfs4", "cifs", "smb3", "lustre", "fuse", "9p", "beegfs", "gpfs")
"""File systems that other machines may hold too; their locks can be missing, slow or only pretended."""

MOUNTS = Path("/proc/self/mounts")
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_ELSEWHERE = "keep the runs root on a local disk (--runs-dir) and copy ended runs over"


def check_private(root: Path) -> None:
    """Raise `UsageError` when somebody else owns `root` or its `.supervisor`, may write there, or put a link there.

    A group of yours alone may write; a superuser may use what somebody else owns, as in a container. What is not there
    yet is nobody's.
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


def _group_of_one(group: int, user: int) -> bool:
    """Whether `group` is the private group that many systems give every user."""
    try:
        entry, own = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    return own.pw_gid == group and set(entry.gr_mem) <= {own.pw_name} and entry.gr_name in (own.pw_name, "root")
