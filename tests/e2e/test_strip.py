"""The strip's truth on a real training: the shares that it shows are those of the trainer's own seconds."""

from __future__ import annotations

import pytest

from mission_tui.fleet.strip import Strip
from mission_tui.ipc.client import Connection
from mission_tui.ipc.requests import GetStrip
from tests.shell import Shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def asked(fleet: Shell, seconds: float, until: float, most: int) -> Strip:
    """The strip up to `until`."""
    with Connection.connect(fleet.root, start=False) as connection:
        reply = connection.ask(lambda id_: GetStrip(id=id_, seconds=seconds, until=until, most=most))
    return reply.strip


def test_shares_agree_with_the_trainers_own_seconds(fleet: Shell) -> None:
    """Rollout and update of a small training that has ended, in all and in coarse cells: within 2 points."""
    (run,) = fleet.launch("tiny", "--set", "run.total_timesteps=40960")
    assert fleet("wait", run, timeout_s=120).returncode == 0
    rows = [row for row in fleet.rows(run) if row["kind"] == "update"]
    since, until = rows[0]["t"] - rows[0]["rollout_s"] - rows[0]["update_s"], rows[-1]["t"]
    for most in (40, 2_000):
        strip = asked(fleet, until - since, until, most)
        (lane,) = strip.lanes
        assert lane.steps == rows[-1]["timesteps"]
        for phase in ("rollout", "update"):
            shown = sum(span.until - span.since for span in lane.spans if span.phase == phase)
            said = sum(row[f"{phase}_s"] for row in rows)
            assert 100.0 * shown / (until - since) == pytest.approx(100.0 * said / (until - since), abs=2.0)
