"""A trainer that trains nothing: it says the records of a real training again, one row every two seconds.

Started by a real keeper under a real supervisor (`MISSION_TUI_TRAINER`), it speaks the trainer protocol and costs next
to nothing, so that what is measured beside it is the screen and the supervisor. `REPLAY_S` sets another time.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

from msgspec import structs

from benchmarks.health.trace import TRACES, read_trace
from mission_tui.fleet.events.metrics import MetricRecord, TrainingEnded, TrainingStarted
from mission_tui.fleet.events.outcome import Phase
from mission_tui.ipc.sockets import PROTOCOL
from mission_tui.ipc.telemetry import Telemetry
from mission_tui.ipc.telemetry_messages import PhaseEntered, RowsWritten, TrainerHello
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.layout import RunDir

__all__ = ["main"]

ROLLOUT_SHARE = 0.6


class Replay:
    """One attempt that goes through the rows of a trace again and again, until it is told to end."""

    def __init__(self, run: RunDir, environ: Mapping[str, str]) -> None:
        hello = TrainerHello(PROTOCOL, run.id, 1, environ["MISSION_TUI_NONCE"], os.getpid())
        self._telemetry = Telemetry(Path(environ["MISSION_TUI_TELEMETRY"]), hello)
        self._log = AppendLog(run.metrics, sync_every_s=1.0)
        self._every_s = float(environ.get("REPLAY_S", "2.0"))
        self._rows = read_trace(_trace_for(run.id)).updates
        self._update = self._timesteps = 0
        self.ending = False

    def train(self) -> None:
        """Rows until `ending`."""
        self._write(TrainingStarted(0, 1, time.time()))
        while not self.ending:
            row = self._rows[self._update % len(self._rows)]
            self._say("rollout")
            self._wait(ROLLOUT_SHARE)
            self._say("update")
            self._wait(1.0 - ROLLOUT_SHARE)
            self._update += 1
            self._timesteps += self._rows[0].timesteps
            self._write(structs.replace(row, attempt=1, update=self._update, timesteps=self._timesteps, t=time.time()))
        self._write(TrainingEnded(0, 1, self._update, self._timesteps, time.time(), "stopped"))
        self._log.close()
        self._telemetry.close()

    def _wait(self, share: float) -> None:
        time.sleep(0.0 if self.ending else share * self._every_s)

    def _write(self, record: MetricRecord) -> None:
        written = self._log.append(lambda seq: structs.replace(record, seq=seq))
        self._telemetry.send(RowsWritten(written.seq))

    def _say(self, phase: Phase) -> None:
        self._telemetry.send(PhaseEntered(phase, self._update, self._timesteps, time.time()))


def _trace_for(run: str) -> Path:
    """A healthy trace by the run's name, so that runs differ, and differ alike in every campaign."""
    traces = sorted(TRACES.glob("healthy-*.jsonl.gz"))
    name = run[16:-5]
    return traces[crc32(name.encode()) % len(traces)]


def main(words: list[str], environ: Mapping[str, str]) -> int:
    """Replay in place of the attempt that the words name."""
    os.set_inheritable(int(environ["MISSION_TUI_LEASE_FD"]), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replay = Replay(RunDir(Path(words[0])), environ)

    def end(*_: object) -> None:
        replay.ending = True

    signal.signal(signal.SIGTERM, end)
    replay.train()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
