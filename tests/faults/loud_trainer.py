"""A stub trainer that says a hundred messages a second, with its own hands: the ordinary client would hold most back.

A row every `LOUD_ROW_S` seconds, the first ones quicker; between rows it says its phase again and again.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from mission_tui.fleet.events.outcome import Phase
from mission_tui.ipc.sockets import PROTOCOL, decode, encode
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, TelemetryMessage, TrainerHello
from mission_tui.records.runs.layout import RunDir
from tests.supervisor.stub_trainer import StubTrainer

EVERY_S = 0.01
WARM_ROWS, WARM_ROW_S = 600, 0.15
"""The rules keep samples of up to 512 updates; memory that is measured while those fill up says nothing of a day."""

RETRY_S = 0.5
ORDERS = msgspec.json.Decoder(Order)


class Loud:
    """A connection on which every message goes out at once; what nobody hears is dropped."""

    def __init__(self, path: str, hello: TrainerHello) -> None:
        self._path, self._hello = path, hello
        self._socket: socket.socket | None = None
        self._tried = 0.0
        self._rest = b""

    def say(self, message: TelemetryMessage) -> None:
        if self._socket is None and time.monotonic() - self._tried > RETRY_S:
            self._tried = time.monotonic()
            try:
                self._socket = socket.socket(socket.AF_UNIX)
                self._socket.connect(self._path)
                self._socket.sendall(encode(self._hello))
            except OSError:
                self.close()
        if self._socket is not None:
            try:
                self._socket.sendall(encode(message))
            except OSError:
                self.close()

    def orders(self) -> list[Order]:
        if self._socket is None:
            return []
        try:
            data = self._socket.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.close()
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [decode(line, ORDERS) for line in lines]

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._rest = None, b""


class LoudTrainer(StubTrainer):
    """Says its phase all the time until the next row is due."""

    def _connect(self) -> Any:
        hello = TrainerHello(PROTOCOL, self.run.id, self.attempt, self.environ["MISSION_TUI_NONCE"], os.getpid())
        return Loud(self.environ["MISSION_TUI_TELEMETRY"], hello)

    def _say(self, phase: Phase) -> None:
        super()._say(phase)
        if phase != "rollout" or self.telemetry is None:
            return
        row_s = WARM_ROW_S if self.update < WARM_ROWS else float(self.environ.get("LOUD_ROW_S", "10"))
        due = time.monotonic() + row_s
        next_t = time.monotonic()
        while (left := due - time.monotonic()) > 0 and not self.stopping and not self.paused:
            self.telemetry.send(PhaseEntered("rollout", self.update, self.timesteps, time.time()))
            self._obey()
            next_t += EVERY_S
            time.sleep(max(0.0, min(left, next_t - time.monotonic())))


def main() -> int:
    """Train the attempt that the words name."""
    os.set_inheritable(int(os.environ["MISSION_TUI_LEASE_FD"]), False)
    trainer = LoudTrainer(RunDir(Path(sys.argv[1])), int(sys.argv[2]), None, os.environ)
    signal.signal(signal.SIGTERM, lambda *_: trainer.ask_stop())
    return trainer.train()


if __name__ == "__main__":
    sys.exit(main())
