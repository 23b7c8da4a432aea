"""What the keeper admits when even SIGKILL does not end a process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keeper.conftest import KeptRun, alive
from tests.waiting import until

pytestmark = pytest.mark.slow


FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def frozen_group() -> Iterator[Path]:
    """A v1 freezer group: SIGKILL stays pending for its frozen members, as for a process stuck in a driver."""
    group = FREEZER / f"mission-tui-test-{os.getpid()}"
    group.mkdir()
    yield group
    (group / "freezer.state").write_text("THAWED")
    until(lambda: not (group / "tasks").read_text(), what="the thawed processes died")
    group.rmdir()


@pytest.mark.timeout(40)
@pytest.mark.skipif(not os.access(FREEZER / "tasks", os.W_OK), reason="needs root and a v1 freezer to stop SIGKILL")
def test_an_unkillable_trainer_is_admitted(kept: KeptRun, frozen_group: Path) -> None:
    """The keeper stops trying after its deadlines and records pid, state and wait channel of who is left."""
    keeper = kept.start()
    trainer = kept.identity().trainer.pid
    (frozen_group / "tasks").write_text(str(trainer))
    (frozen_group / "freezer.state").write_text("FROZEN")
    until(lambda: (frozen_group / "freezer.state").read_text().strip() == "FROZEN")
    keeper.send_signal(signal.SIGQUIT)
    record = kept.ended(timeout_s=20.0)
    assert (record.code, record.signal, record.asked) == (None, None, "quit")
    assert [(left.pid, left.state) for left in record.left] == [(trainer, "D")]
    assert alive(trainer)
