"""A process that a client can start in place of the supervisor: counts its starts, answers, and leaves when told to.

Files in the runs root steer it: `broken` holds what it says before it dies, `late` makes it slow to answer.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import time
from pathlib import Path

from mission_tui.ipc.replies import Accepted, SnapshotReply
from mission_tui.ipc.requests import GetSnapshot, OperatorRequest, Shutdown
from mission_tui.ipc.server import Session, serve_operator
from mission_tui.ipc.start import operator_socket
from tests.ipc.serving import snapshot


async def serve(root: Path) -> None:
    """Answer snapshots until a shutdown is asked for."""
    leave = asyncio.Event()

    async def handle(request: OperatorRequest, session: Session) -> None:
        if isinstance(request, GetSnapshot):
            session.send(SnapshotReply(re=request.id, snapshot=snapshot(1)))
        elif isinstance(request, Shutdown):
            session.send(Accepted(re=request.id, runs=()))
            leave.set()

    listener = await serve_operator(operator_socket(root), root, handle, lambda _session: None)
    await leave.wait()
    await listener.close()


def main() -> int:
    root = Path(sys.argv[2])
    with (root / "started").open("a") as started:
        started.write(f"{os.getpid()} {os.getsid(0)} {Path.cwd()}\n")
    if (root / "broken").exists():
        print("warming up\n" + (root / "broken").read_text(), file=sys.stderr)
        return 1
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if (root / "late").exists():
            time.sleep(0.5)
        asyncio.run(serve(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
