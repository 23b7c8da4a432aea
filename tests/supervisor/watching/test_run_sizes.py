"""Bytes of runs over a real socket: counted while somebody looks, again after the end, and at once when asked."""

from __future__ import annotations

from mission_tui.ipc.replies import DetailsReply
from mission_tui.ipc.requests import GetDetails
from mission_tui.records.runs.trash import tree_bytes
from tests.supervisor.conftest import Lab, stub_spec
from tests.waiting import until


def test_a_run_is_counted_while_it_lives_and_again_when_it_has_ended(lab: Lab) -> None:
    """The size of an ended run is that of its files."""
    (run,) = lab.launch()
    lab.running(run)
    lab.wait(run, lambda view: view.size_bytes)
    lab.act("stop", run)
    lab.ended(run)
    until(lambda: lab.view(run).size_bytes == tree_bytes(lab.dir(run).path), 10, "counted after its end")


def test_details_count_anew(lab: Lab) -> None:
    """Whoever asks about one run hears what it has now, and so does everyone else."""
    (run,) = lab.launch(spec=stub_spec(64))
    lab.ended(run)
    until(lambda: lab.view(run).size_bytes == tree_bytes(lab.dir(run).path), 10)
    (lab.dir(run).path / "notes").write_bytes(b"x" * 100_000)
    reply = lab.ask(lambda id_: GetDetails(id=id_, run=run))
    assert isinstance(reply, DetailsReply)
    assert reply.view.size_bytes == lab.view(run).size_bytes == tree_bytes(lab.dir(run).path)
