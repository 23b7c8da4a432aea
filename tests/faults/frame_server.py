"""`python -m tests.faults.frame_server FOLDER`: both planes behind sockets in a process whose memory can be watched.

Prints "ready" when it listens, and ends when its input does.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from mission_tui.ipc.server import Session, serve_operator
from mission_tui.ipc.sockets import OPERATOR_SOCKET, TELEMETRY_SOCKET
from mission_tui.ipc.telemetry_messages import TelemetryMessage
from mission_tui.ipc.telemetry_server import TrainerLink, serve_telemetry
from tests.ipc.serving import Desk

NONCE = "secret"


async def serve(folder: Path) -> None:
    """Serve until standard input ends."""
    desk = Desk()
    desk.held.set()

    def forget(_: Session) -> None:
        for seen in (desk.watches, desk.handled, desk.finished):
            seen.clear()

    def admit(link: TrainerLink) -> bool:
        return link.hello.nonce == NONCE

    def heard(_: TrainerLink, message: TelemetryMessage) -> None:
        assert not hasattr(message, "op")

    def gone(_: TrainerLink) -> None:
        return

    operator = await serve_operator(folder / OPERATOR_SOCKET, folder, desk.handle, forget)
    telemetry = await serve_telemetry(folder / TELEMETRY_SOCKET, admit, heard, gone)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await operator.close()
    await telemetry.close()


if __name__ == "__main__":
    logging.disable()
    asyncio.run(serve(Path(sys.argv[1])))
