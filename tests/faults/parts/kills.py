"""SIGKILL at random moments, of supervisor, keeper, trainer or worker, under eight runs with sixty-four stub workers.

After each kill the invariants are checked: nothing doubled, no gap in a record, nothing acknowledged lost, a cause for
every end, nobody left ten seconds later, and no signal to a stranger.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Literal

import psutil

from mission_tui.errors import MissionError
from mission_tui.fleet.views.snapshot import RunView
from tests.faults.campaign.part import Part, Tell, Violation, chance
from tests.faults.witness import Witness, watched
from tests.waiting import until

__all__ = ["PART", "under_fire"]

Whom = Literal["supervisor", "keeper", "trainer", "worker"]

TURNS: tuple[Whom, ...] = (
    "supervisor", "keeper", "supervisor", "trainer", "supervisor", "worker", "supervisor", "keeper", "supervisor",
    "trainer", "worker",
)  # fmt: skip
"""Of 1,100 rounds 500 kill a supervisor, and 200 each of the others."""
RUNS, WORKERS = 8, 8
BACK_S = 20.0
"""For eight runs to be adopted on a machine that is busy with them; how fast it is, part `adopt` says."""


def under_fire(rounds: Iterable[int], seed: int, tell: Tell, runs: int, workers: int) -> Iterator[Violation]:
    """Rounds over one runs root; a round with a violation is followed by a fresh one."""
    pending = iter(rounds)
    index = next(pending, None)
    while index is not None:
        with watched() as witness:
            sound = True
            while sound and index is not None:
                luck = chance(seed, index)
                try:
                    _fill(witness, luck, runs, workers)
                    found = list(_round(witness, luck, TURNS[index % len(TURNS)], tell))
                except (AssertionError, MissionError, psutil.Error) as error:
                    found = [f"{type(error).__name__}: {error}; {_standing(witness)}"]
                yield from (f"round {index}, {TURNS[index % len(TURNS)]}: {violation}" for violation in found)
                sound = not found
                index = next(pending, None)


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    yield from under_fire(rounds, seed, tell, RUNS, WORKERS)


def _fill(witness: Witness, luck: random.Random, runs: int, workers: int) -> None:
    """Have `runs` runs training: what is paused goes on, what has ended is resumed or replaced."""
    lab = witness.lab
    shown = lab.snapshot().runs
    views = [view for view in shown if view.state != "ended"]
    for view in views:
        if view.state in ("paused", "frozen"):
            with suppress(MissionError):  # it may just have gone on, or be stopping
                witness.resume(view.id)
    ended = [view.id for view in shown if view.state == "ended" and view.last_checkpoint]
    for _ in range(runs - len(views)):
        if ended and luck.random() < 0.5:
            witness.resume(ended.pop())
        else:
            witness.launch(1, STUB_WORKERS=str(workers), STUB_UPDATE_S="0.2")
    for view in lab.snapshot().runs:
        if view.state not in ("ended", "stopping"):
            until(partial(_trains, witness, view.id), 30, view.id)
    if not witness.strangers:
        witness.add_strangers(witness.known[0])


def _trains(witness: Witness, run: str) -> bool:
    """Whether it does, or has ended; a pause that was on its way to the trainer is taken back."""
    view = witness.lab.view(run)
    if view.state == "paused":
        with suppress(MissionError):
            witness.resume(run)
    return view.state == "ended" or bool(view.state == "running" and view.connected and view.update)


def _round(witness: Witness, luck: random.Random, whom: Whom, tell: Tell) -> Iterator[Violation]:
    live = [view for view in witness.lab.snapshot().runs if view.state == "running" and view.pids.keeper]
    if whom == "supervisor":
        _acting_until_killed(witness, luck, [view.id for view in live])
        yield from _adopted(witness, live)
    else:
        yield from _one_of(witness, luck, whom, luck.choice(live))
    tell(f"{whom}s killed", 1)
    yield from witness.wrong()


def _acting_until_killed(witness: Witness, luck: random.Random, runs: list[str]) -> None:
    """Ask for things as fast as they are answered until the supervisor is gone."""
    supervisor = witness.lab.supervisor
    assert supervisor is not None
    timer = threading.Timer(luck.uniform(0.0, 0.4), supervisor.kill)
    timer.start()
    while supervisor.poll() is None:
        with suppress(MissionError, OSError):
            verb, run = luck.choice(("pause", "resume", "checkpoint", "checkpoint", "stop", "kill")), luck.choice(runs)
            # One end a round at most, so that most rounds find all runs at work.
            if verb in ("stop", "kill") and (run != runs[0] or luck.random() < 0.7):
                witness.lab.snapshot()
            elif verb == "resume":
                witness.resume(run)
            else:
                witness.act(verb, run)
    timer.join()
    supervisor.wait(5)


def _adopted(witness: Witness, before: list[RunView]) -> Iterator[Violation]:
    """The next supervisor holds the same processes, or says how they ended."""
    lab = witness.lab
    lab.start()
    for old in before:
        view = lab.wait(old.id, lambda v: v.state == "ended" or v.connected, BACK_S)
        same = (view.pids.keeper, view.pids.trainer) == (old.pids.keeper, old.pids.trainer)
        if view.state != "ended" and not same and view.attempt == old.attempt:
            yield f"{old.id} was adopted as {view.pids} instead of {old.pids}"
        if view.state == "ended" and view.outcome not in ("stopped", "killed"):
            yield f"{old.id} ended as {view.outcome} ({view.cause}) by the death of a supervisor"


def _one_of(witness: Witness, luck: random.Random, whom: Whom, view: RunView) -> Iterator[Violation]:
    """SIGKILL to a process of one run, now and then with the supervisor; then the run is ended and must be gone."""
    lab, run = witness.lab, view.id
    family = lab.family(run)
    victim = {"keeper": view.pids.keeper, "trainer": view.pids.trainer}.get(whom)
    time.sleep(luck.uniform(0.0, 0.3))
    os.kill(victim or luck.choice([member.pid for member in family[2:]]), signal.SIGKILL)
    if luck.random() < 0.25:
        time.sleep(luck.uniform(0.0, 0.1))
        lab.kill_supervisor()
        lab.start()
    if whom == "trainer":
        ended = lab.ended(run, BACK_S)
        if (ended.outcome, ended.kind) != ("failed", "crash"):
            yield f"{run}: its killed trainer shows as {ended.outcome}, {ended.kind}: {ended.cause}"
    else:
        wanted = "keeperless" if whom == "keeper" else None
        lab.wait(run, lambda v: v.connected and (wanted is None or wanted in v.flags), BACK_S)
        verb = luck.choice(("stop", "kill"))
        witness.act(verb, run)
        ended = lab.ended(run, BACK_S)
        expected = {"stop": "stopped", "kill": "killed"}[verb]
        if ended.outcome != expected:
            yield f"{run}: asked to {verb} without its {whom}, it ended as {ended.outcome}: {ended.cause}"
    yield from witness.left(family, f"{run} had ended")


def _standing(witness: Witness) -> str:
    with suppress(Exception):
        return "; ".join(f"{v.name} {v.state} {v.outcome or ''} {v.flags}" for v in witness.lab.snapshot().runs[:9])
    return "the supervisor does not answer"


PART = Part("kills", ("S1", "S5", "S6", "W1"), 1100, _run)
