"""Faults of identity and of killing (rows K), with real processes."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from signal import SIGKILL

import pytest

from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Resume
from mission_tui.records.runs.checkpoint import newest_verified
from mission_tui.supervisor.host.identity import open_process
from tests.faults.campaign.part import violations_in
from tests.faults.parts import pid_reuse
from tests.supervisor.conftest import Lab, living
from tests.waiting import until

choosing = pytest.mark.skipif(bool(pid_reuse.lacks_choice()), reason=pid_reuse.lacks_choice() or "root chooses")


@pytest.mark.slow
@choosing
@pytest.mark.timeout(60)
def test_k1_an_innocent_process_with_a_recorded_number_is_never_signalled() -> None:
    """Forty before the functions that signal, two before a supervisor that adopts, is asked to kill, and cleans."""
    # On a busy machine others take some of the numbers first; a round without its number shows nothing.
    figures: Counter[str] = Counter()
    for first, wanted, enough in ((0, "numbers reused", 40), (99, "runs adopted", 1)):
        for _ in range(20):
            found, more = violations_in(pid_reuse.PART, range(first, first + enough))
            assert found == []
            figures += more
            if figures[wanted] >= enough:
                break
        assert figures[wanted] >= enough


def test_k7_a_group_whose_leader_is_gone_is_reached_by_the_held_leader_or_left_alone() -> None:
    """The leader has ended and was reaped: where the kernel takes its pidfd for the group, who is left ends too."""
    leader = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 600 & echo $!; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert leader.stdin
    assert leader.stdout
    left = open_process(int(leader.stdout.readline()))
    held = open_process(leader.pid)
    assert left is not None
    assert held is not None
    try:
        leader.stdin.close()
        assert leader.wait(5) == 1
        reached = held.send_to_group(SIGKILL)
        if reached:
            until(lambda: not left.alive(), 5)
        else:
            assert left.alive()
    finally:
        left.send(SIGKILL)
        left.close()
        held.close()
        leader.stdout.close()


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_k8_a_run_that_is_killed_while_it_saves_keeps_a_whole_checkpoint(lab: Lab) -> None:
    """At three moments of a save: the newest verified one is that or the one before, and from it the run goes on."""
    luck = random.Random(8)
    (run,) = lab.launch(STUB_SAVE_S="0.3", STUB_WORKERS="1")
    lab.running(run)
    lab.act("checkpoint", run)
    before = str(lab.wait(run, lambda view: view.last_checkpoint).last_checkpoint)
    for _ in range(3):
        family = lab.family(run)
        lab.running(run, (lab.view(run).update or 0) + 1)
        lab.act("checkpoint", run)
        time.sleep(luck.uniform(0.0, 0.5))
        lab.act("kill", run)
        lab.ended(run)
        until(lambda family=family: not living(family), 10)  # type: ignore[misc]
        newest = newest_verified(lab.dir(run).checkpoints)
        assert newest is not None
        assert newest.name >= before
        before = newest.name
        resumed(lab, run)
        lab.running(run, newest.update + 1)


def resumed(lab: Lab, run: str) -> None:
    """Have the run go on from its newest verified checkpoint."""
    reply = lab.ask(lambda id_: Resume(id=id_, run=run, accept=True))
    assert isinstance(reply, Accepted)
