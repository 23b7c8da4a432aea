"""The trainer of a night: the scripted one where a run's `STUB_UPDATE_S` is set, the real one for everybody else, which
takes no core of its own.

As the real one does, the scripted one outlives a full disk.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Callable

from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.records.atomic import StorageError
from tests.supervisor import stub_trainer


class Patient(stub_trainer.StubTrainer):
    """Waits for room to write a row."""

    def _write(self, make: Callable[[int], MetricRecord]) -> None:
        while True:
            try:
                super()._write(make)
            except StorageError:
                time.sleep(0.1)
            else:
                return


if __name__ == "__main__":
    if "STUB_UPDATE_S" in os.environ:
        stub_trainer.StubTrainer = Patient  # type: ignore[misc]
        sys.exit(stub_trainer.main(sys.argv[1:], os.environ))
    runpy.run_module("tests.unhurried_trainer", run_name="__main__", alter_sys=True)
