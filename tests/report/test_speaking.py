"""A follower speaks for its script: who it is, phases, heartbeats, each row; and takes an order to stop to it."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from mission_tui.ipc.sockets import PROTOCOL, encode
from mission_tui.ipc.telemetry_messages import (
    Heartbeat,
    Order,
    PhaseEntered,
    RowsWritten,
    TelemetryMessage,
    TrainerHello,
)
from tests.report.conftest import Desk
from tests.waiting import until

SCRIPT = """
import time
from mission_tui import report
report.phase("rollout")
report.update(timesteps=10, a=1)
while not report.should_stop():
    time.sleep(0.02)
print("stopped")
"""


class Ears:
    """What a supervisor would be: a socket that hears one trainer at a time."""

    def __init__(self, path: Path) -> None:
        self.opened: list[socket.socket | BinaryIO] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.fspath(path))
        self.listener.listen()
        self.listener.settimeout(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (*self.opened, self.listener):
            each.close()

    def accept(self) -> tuple[socket.socket, Iterator[TelemetryMessage]]:
        """The next link, and what is said on it."""
        link, _ = self.listener.accept()
        link.settimeout(5)
        lines = link.makefile("rb")
        self.opened += [lines, link]
        decoder = msgspec.json.Decoder(TelemetryMessage)
        return link, (decoder.decode(line) for line in lines)


@contextmanager
def followed(desk: Desk) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """The script and its follower, of a run that lives as long as this does."""
    desk.order()
    script = desk.start(SCRIPT)
    with (desk.folder / "lease").open("wb") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        until(desk.reported.exists, 20)
        follower = desk.start("", "-m", "mission_tui.trainer.follow", str(desk.folder), "1")
        try:
            yield script, follower
        finally:
            script.terminate()
            script.communicate(timeout=10)
    assert follower.communicate(timeout=10)[0] == ""
    assert follower.returncode == 0


def test_the_supervisor_hears_what_a_script_says(desk: Desk) -> None:
    """Hello with the nonce, the phase, heartbeats, and each row that is in the file; an order to stop is seen."""
    with Ears(desk.address) as ears, followed(desk) as (script, follower):
        link, said = ears.accept()
        assert next(said) == TrainerHello(PROTOCOL, desk.folder.name, 1, "secret", follower.pid)
        heard: dict[type[TelemetryMessage], TelemetryMessage] = {}
        until(lambda: heard.update({type(it): it for it in [next(said)]}) or len(heard) == 3, 20)
        assert set(heard) == {RowsWritten, PhaseEntered, Heartbeat}
        assert heard[RowsWritten] == RowsWritten(2)
        phase = heard[PhaseEntered]
        assert isinstance(phase, PhaseEntered)
        assert (phase.phase, phase.update, phase.timesteps) == ("rollout", 1, 10)
        link.sendall(encode(Order("keep", keep=("stop",))) + encode(Order("stop")))
        assert script.communicate(timeout=10)[0] == "stopped\n"


def test_a_supervisor_that_comes_back_hears_the_newest_again(desk: Desk) -> None:
    """After the link was lost the next supervisor hears hello, the phase and the last row."""
    with Ears(desk.address) as ears, followed(desk):
        link, said = ears.accept()
        until(lambda: isinstance(next(said), RowsWritten), 20)
        link.shutdown(socket.SHUT_RDWR)
        link.close()
        link, said = ears.accept()
        heard = {type(next(said)) for _ in range(4)}
        assert heard == {TrainerHello, RowsWritten, PhaseEntered, Heartbeat}
