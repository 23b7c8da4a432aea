"""Bytes of runs over a real socket: counted while somebody looks, again after the end, and at once when asked."""

from __future__ import annotations

from mission_tui.ipc.replies import DetailsReply
from mission_tui.ipc.requests import GetDetails
from mission_tui.records.runs.trash import tree_bytes
from tests.supervisor.conftest import stub_spec
from tests.supervisor.simulated_lab import SimulatedLab


def test_a_run_is_counted_while_it_lives_and_again_when_it_has_ended(sim: SimulatedLab) -> None:
    """The size of an ended run is that of its files."""
    (run,) = sim.launch()
    sim.running(run)
    sim.wait(run, lambda view: view.size_bytes)
    sim.act("stop", run)
    sim.ended(run)
    sim.until(lambda: sim.view(run).size_bytes == tree_bytes(sim.dir(run).path), 10, "counted after its end")


def test_details_count_anew(sim: SimulatedLab) -> None:
    """Whoever asks about one run hears what it has now, and so does everyone else."""
    (run,) = sim.launch(spec=stub_spec(64))
    sim.ended(run)
    sim.until(lambda: sim.view(run).size_bytes == tree_bytes(sim.dir(run).path), 10)
    (sim.dir(run).path / "notes").write_bytes(b"x" * 100_000)
    reply = sim.ask(lambda id_: GetDetails(id=id_, run=run))
    assert isinstance(reply, DetailsReply)
    assert reply.view.size_bytes == sim.view(run).size_bytes == tree_bytes(sim.dir(run).path)
