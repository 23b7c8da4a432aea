"""Compare over a real socket: live runs, ended ones and damaged files, as a screen gets them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.comparison import Comparison
from mission_tui.ipc.replies import ComparisonReply
from mission_tui.ipc.requests import Compare, Set
from tests.supervisor.conftest import Lab, RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab

pytestmark = pytest.mark.slow


def compared(lab: RunsRoot, *runs: str, **more: Any) -> Comparison:
    """What the supervisor says of them."""
    reply = lab.ask(lambda id_: Compare(id=id_, runs=runs, **more))
    assert isinstance(reply, ComparisonReply)
    return msgspec.convert(reply.comparison, Comparison)


@pytest.mark.slow
def test_a_live_run_is_compared_with_an_ended_one(lab: Lab) -> None:
    """By name, in the order asked for, with what was set meanwhile; a supervisor that knows neither says the same."""
    spec = stub_spec()
    (ended,) = lab.launch(spec=stub_spec(640), name="short")
    (live,) = lab.launch(spec=structs.replace(spec, ppo=structs.replace(spec.ppo, gamma=0.9)), name="long")
    lab.ended(ended)
    lab.running(live, 20)  # longer than the other: areas are of the time that both trained
    lab.ask(lambda id_: Set(id=id_, run=live, assignments=("ppo.ent_coef=0.01",)))
    found = compared(lab, "long", "short", by="time", threshold=1.0)
    assert [run.id for run in found.runs] == [live, ended]
    assert [(run.state, run.outcome) for run in found.runs][1] == ("ended", "finished")
    assert {row.name: row.values for row in found.settings}["ppo.gamma"] == (0.9, 0.99)
    assert {row.name: row.values for row in found.settings}["ppo.ent_coef"] == (0.01, 0.0)
    assert found.runs[1].result.timesteps == lab.view(ended).timesteps
    assert found.runs[1].result.peak_rss_bytes is not None
    assert any("long has not ended" in note for note in found.notes)
    lab.act("kill", live)
    lab.ended(live)
    lab.kill_supervisor()
    lab.start()
    again = compared(lab, "long", "short", by="time", threshold=1.0)
    assert (again.settings, again.runs[1]) == (found.settings, found.runs[1])


def test_a_damaged_row_costs_that_row(sim: SimulatedLab) -> None:
    """The rest is compared; a run named twice is one, and one alone is refused."""
    first, second = sim.launch(2, spec=stub_spec(640))
    sim.ended(first)
    sim.ended(second)
    whole = compared(sim, first, second)
    path = sim.dir(first).metrics
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"garbage\n", *lines[4:]]))
    found = compared(sim, first, second)
    assert found.runs[0].result.updates == whole.runs[0].result.updates
    assert len(found.curves[0].x) == len(whole.curves[0].x) - 1
    with pytest.raises(UsageError, match="takes 2 to 64 runs, and these are 1"):
        compared(sim, first, first)
