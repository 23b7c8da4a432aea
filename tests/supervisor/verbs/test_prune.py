"""`prune` over a real socket: what is old goes with its bytes said first; the best and the last checkpoint stay."""

from __future__ import annotations

import time
from functools import partial

import pytest

from mission_tui.ipc.replies import RemovableReply
from mission_tui.ipc.requests import Keep, Prune, Restore
from mission_tui.records.runs.trash import trashed, tree_bytes
from tests.supervisor.conftest import Lab, stub_spec
from tests.waiting import until


def prune(
    lab: Lab, before_t: float, *keep: Keep, remove: bool = False, now: bool = False
) -> list[tuple[str, str | None, int]]:
    """Run, checkpoint and bytes of what would go, or went."""
    reply = lab.ask(lambda id_: Prune(id=id_, before_t=before_t, keep=keep, remove=remove, now=now))
    assert isinstance(reply, RemovableReply)
    return [(item.run, item.checkpoint, item.size_bytes) for item in reply.items]


def checkpoints(lab: Lab, run: str) -> list[str]:
    return sorted(path.name for path in lab.dir(run).checkpoints.iterdir() if path.is_dir())


def saved(lab: Lab, times: int) -> str:
    """An ended run with `times` checkpoints; its mean return rises with every update."""
    (run,) = lab.launch(STUB_UPDATE_S="0.02")
    lab.running(run)
    for _ in range(times - 1):
        known = lab.view(run).last_checkpoint
        lab.act("checkpoint", run)
        until(partial(_saved_since, lab, run, known), 10, "a checkpoint is saved")
    lab.act("stop", run)
    lab.ended(run)
    assert len(checkpoints(lab, run)) == times
    return run


def _saved_since(lab: Lab, run: str, known: str | None) -> bool:
    return lab.view(run).last_checkpoint != known


@pytest.mark.slow
def test_old_runs_are_listed_with_their_bytes_before_they_go(lab: Lab) -> None:
    """A dry run changes nothing, what ended later stays, and live runs are passed over."""
    (old,) = lab.launch(spec=stub_spec(64))
    lab.ended(old)
    border = time.time()
    (young,) = lab.launch(spec=stub_spec(64))
    lab.ended(young)
    (live,) = lab.launch()
    lab.running(live)
    size = tree_bytes(lab.dir(old).path)
    assert prune(lab, border) == [(old, None, size)]
    assert lab.view(old).state == "ended"
    assert prune(lab, border, remove=True) == [(old, None, size)]
    assert {view.id for view in lab.snapshot().runs} == {young, live}
    assert [item.run for item in trashed(lab.root)] == [old]
    assert prune(lab, border) == []


@pytest.mark.slow
def test_the_last_checkpoint_stays_and_the_others_come_back(lab: Lab) -> None:
    """The run itself stays and can be resumed; what went is freed only when that is asked."""
    run = saved(lab, 3)
    names = checkpoints(lab, run)
    found = prune(lab, time.time() + 1, "last")
    assert [(where, name) for where, name, _ in found] == [(run, names[0]), (run, names[1])]
    assert all(size > 0 for *_, size in found)
    prune(lab, time.time() + 1, "last", remove=True)
    assert checkpoints(lab, run) == names[2:]
    lab.ask(lambda id_: Restore(id=id_, runs=(run,)))
    assert checkpoints(lab, run) == names
    prune(lab, time.time() + 1, "last", remove=True, now=True)
    assert (checkpoints(lab, run), trashed(lab.root)) == (names[2:], [])


@pytest.mark.slow
def test_the_checkpoint_of_the_best_return_stays(lab: Lab) -> None:
    """Returns that fell later do not cost the run its best weights."""
    run = saved(lab, 3)
    names = checkpoints(lab, run)
    metrics = lab.dir(run).metrics
    # As if the return had been best where the second checkpoint was taken: only its row is left.
    update = int(names[1]) // 64
    lines = [line for line in metrics.read_bytes().splitlines(keepends=True) if f'"update":{update},'.encode() in line]
    metrics.write_bytes(b"".join(lines))
    assert [name for _, name, _ in prune(lab, time.time() + 1, "best", "last")] == [names[0]]


@pytest.mark.slow
def test_a_damaged_newest_checkpoint_does_not_cost_the_one_that_verifies(lab: Lab) -> None:
    """Both stay: the newest by its name, and the newest that can be resumed from."""
    run = saved(lab, 3)
    names = checkpoints(lab, run)
    (lab.dir(run).checkpoints / names[2] / "weights").write_text("damaged")
    assert [name for _, name, _ in prune(lab, time.time() + 1, "last")] == [names[0]]


def test_a_parked_run_is_nobodys_to_prune(lab: Lab) -> None:
    """Somebody means to go on with it, however long ago that was."""
    (run,) = lab.launch()
    lab.running(run)
    lab.act("park", run)
    until(lambda: lab.view(run).state == "parked", 10)
    assert prune(lab, time.time() + 1) == []
