"""`prune` over a real socket: what is old goes with its bytes said first; the best and the last checkpoint stay."""

from __future__ import annotations

import time
from functools import partial

import pytest
from msgspec import structs

from mission_tui.errors import MissionError
from mission_tui.ipc.replies import RemovableReply
from mission_tui.ipc.requests import Keep, Prune, Restore
from mission_tui.records.runs.trash import trashed, tree_bytes
from tests.supervisor.conftest import RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab


def prune(
    lab: RunsRoot, before_t: float, *keep: Keep, remove: bool = False, now: bool = False
) -> list[tuple[str, str | None, int]]:
    """Run, checkpoint and bytes of what would go, or went."""
    reply = lab.ask(lambda id_: Prune(id=id_, before_t=before_t, keep=keep, remove=remove, now=now))
    assert isinstance(reply, RemovableReply)
    return [(item.run, item.checkpoint, item.size_bytes) for item in reply.items]


def checkpoints(lab: RunsRoot, run: str) -> list[str]:
    return sorted(path.name for path in lab.dir(run).checkpoints.iterdir() if path.is_dir())


def saved(lab: RunsRoot, times: int) -> str:
    """An ended run with `times` checkpoints; its mean return rises with every update."""
    (run,) = lab.launch(STUB_UPDATE_S="0.02")
    lab.running(run)
    for _ in range(times - 1):
        known = lab.view(run).last_checkpoint
        lab.act("checkpoint", run)
        lab.until(partial(_saved_since, lab, run, known), 10, "a checkpoint is saved")
    lab.act("stop", run)
    lab.ended(run)
    assert len(checkpoints(lab, run)) == times
    return run


def _saved_since(lab: RunsRoot, run: str, known: str | None) -> bool:
    return lab.view(run).last_checkpoint != known


def test_old_runs_are_listed_with_their_bytes_before_they_go(sim: SimulatedLab) -> None:
    """A dry run changes nothing, what ended later stays, and live runs are passed over."""
    (old,) = sim.launch(spec=stub_spec(64))
    sim.ended(old)
    border = time.time()
    (young,) = sim.launch(spec=stub_spec(64))
    sim.ended(young)
    (live,) = sim.launch()
    sim.running(live)
    size = tree_bytes(sim.dir(old).path)
    assert prune(sim, border) == [(old, None, size)]
    assert sim.view(old).state == "ended"
    assert prune(sim, border, remove=True) == [(old, None, size)]
    assert {view.id for view in sim.snapshot().runs} == {young, live}
    assert [item.run for item in trashed(sim.root)] == [old]
    assert prune(sim, border) == []
    # Of what was shown another shell may have removed some meanwhile.
    words = Prune(id=0, runs=(old, young), before_t=time.time(), remove=True)
    reply = sim.ask(lambda id_: structs.replace(words, id=id_))
    assert isinstance(reply, RemovableReply)
    assert [item.run for item in reply.items] == [young]
    with pytest.raises(MissionError, match="no run matches"):
        sim.ask(lambda id_: structs.replace(words, id=id_, remove=False))


def test_the_last_checkpoint_stays_and_the_others_come_back(sim: SimulatedLab) -> None:
    """The run itself stays and can be resumed; what went is freed only when that is asked."""
    run = saved(sim, 3)
    names = checkpoints(sim, run)
    found = prune(sim, time.time() + 1, "last")
    assert [(where, name) for where, name, _ in found] == [(run, names[0]), (run, names[1])]
    assert all(size > 0 for *_, size in found)
    prune(sim, time.time() + 1, "last", remove=True)
    assert checkpoints(sim, run) == names[2:]
    sim.ask(lambda id_: Restore(id=id_, runs=(run,)))
    assert checkpoints(sim, run) == names
    prune(sim, time.time() + 1, "last", remove=True, now=True)
    assert (checkpoints(sim, run), trashed(sim.root)) == (names[2:], [])


def test_the_checkpoint_of_the_best_return_stays(sim: SimulatedLab) -> None:
    """Returns that fell later do not cost the run its best weights."""
    run = saved(sim, 3)
    names = checkpoints(sim, run)
    metrics = sim.dir(run).metrics
    # As if the return had been best where the second checkpoint was taken: only its row is left.
    update = int(names[1]) // 64
    lines = [line for line in metrics.read_bytes().splitlines(keepends=True) if f'"update":{update},'.encode() in line]
    metrics.write_bytes(b"".join(lines))
    assert [name for _, name, _ in prune(sim, time.time() + 1, "best", "last")] == [names[0]]


def test_a_damaged_newest_checkpoint_does_not_cost_the_one_that_verifies(sim: SimulatedLab) -> None:
    """Both stay: the newest by its name, and the newest that can be resumed from."""
    run = saved(sim, 3)
    names = checkpoints(sim, run)
    (sim.dir(run).checkpoints / names[2] / "weights").write_text("damaged")
    assert [name for _, name, _ in prune(sim, time.time() + 1, "last")] == [names[0]]


def test_a_parked_run_is_nobodys_to_prune(sim: SimulatedLab) -> None:
    """Somebody means to go on with it, however long ago that was."""
    (run,) = sim.launch()
    sim.running(run)
    sim.act("park", run)
    sim.until(lambda: sim.view(run).state == "parked", 10)
    assert prune(sim, time.time() + 1) == []
