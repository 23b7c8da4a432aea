"""A second user of this machine: known only to one sshd and its children, in a mount namespace of their own.

Nothing of this machine is changed: the list of users, and folders that others may not enter on the way to the
interpreter, are covered there by others. It takes root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.shell import REPOSITORY

NAME, UID = "ada", 61234


def lacking() -> str:
    """Why there can be no second user here; empty where there can."""
    if os.getuid() != 0:
        return "a second user takes root"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        return "a second user takes a mount namespace, which this machine does not give"
    return ""


def as_machine(folder: Path, home: Path) -> list[str]:
    """The words before those of an sshd that knows the second user, whose home is `home`; `folder` is for what is laid
    over.
    """
    users = folder / "passwd"
    entry = f"{NAME}:*:{UID}:{UID}:a second user:{home}:/bin/sh\n"
    users.write_text(Path("/etc/passwd").read_text(encoding="utf-8") + entry)
    lines = ["set -e", f"mount --bind {shlex.quote(str(users))} /etc/passwd"]
    needed = dict.fromkeys(map(Path, (sys.base_prefix, sys.prefix, str(REPOSITORY))))
    closed = dict.fromkeys(filter(None, map(_closed, needed)))
    for at, path in enumerate(needed):
        if _closed(path):
            stash = folder / f"stash{at}"
            stash.mkdir()
            lines.append(f"mount --bind {shlex.quote(str(path))} {shlex.quote(str(stash))}")
    lines += [f"mount -t tmpfs -o mode=755 none {shlex.quote(str(top))}" for top in closed]
    for at, path in enumerate(needed):
        if _closed(path):
            lines.append(f"mkdir -p {shlex.quote(str(path))}")
            lines.append(f"mount --bind {shlex.quote(str(folder / f'stash{at}'))} {shlex.quote(str(path))}")
    script = folder / "machine.sh"
    script.write_text("\n".join([*lines, 'exec "$@"']) + "\n")
    return ["unshare", "-m", "sh", str(script)]


def _closed(path: Path) -> Path | None:
    """The first folder above `path` that others may not enter."""
    return next((above for above in [*reversed(path.parents), path] if not above.stat().st_mode & 0o001), None)
