"""Copies of a runs root beside the living original, and every verb on the copies: the original must not notice.

A round is one `cp -a` of the root as it is (every other one is adopted), a supervisor of its own for the copy, and
verbs in random order on all its runs. The original trains through all rounds; after each, its files, its processes and
what is shown of it are checked.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import AttemptEnded, FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.specs.spec import LaunchItem, RunSpec, Spec
from mission_tui.ipc.replies import Accepted, CleanReply, Launched
from mission_tui.ipc.requests import (
    Act,
    Apply,
    Clean,
    Clone,
    Evaluate,
    Export,
    Film,
    GetDetails,
    GetSnapshot,
    Label,
    Launch,
    Note,
    Prune,
    Remove,
    Rename,
    Request,
    Restore,
    Resume,
    Set,
    Shutdown,
    Undo,
)
from mission_tui.paths import socket_dir
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.layout import RunDir, run_dirs
from tests.faults.campaign.part import Part, Tell, Violation, chance
from tests.supervisor.conftest import REPOSITORY, Lab, living, opened_lab, stub_spec
from tests.waiting import until

__all__ = ["PART"]

VERBS_A_ROUND = 24
SEEN_S = 20.0

Ask = Callable[[str, random.Random], Callable[[int], Request]]


def _going_on() -> dict[str, object]:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    return {"cwd": "/", "python": sys.executable, "environ": environ}


def _act(verb: str, run: str, _dice: random.Random) -> Callable[[int], Request]:
    return lambda id_: Act(id=id_, verb=verb, runs=(run,))  # type: ignore[arg-type]


ASKED: Mapping[str, Ask] = {
    **{verb: partial(_act, verb) for verb in ("stop", "kill", "pause", "freeze", "park", "checkpoint")},
    "status": lambda _run, _dice: lambda id_: GetSnapshot(id=id_),
    "details": lambda run, _dice: lambda id_: GetDetails(id=id_, run=run),
    "resume": lambda run, _dice: lambda id_: Resume(id=id_, run=run, accept=True, **_going_on()),  # type: ignore[arg-type]
    "branch": lambda run, _dice: lambda id_: Resume(id=id_, run=run, branch=True, accept=True, **_going_on()),  # type: ignore[arg-type]
    "clone": lambda run, _dice: lambda id_: Clone(id=id_, run=run, exact=True, accept=True, **_going_on()),  # type: ignore[arg-type]
    "apply": lambda run, _dice: lambda id_: Apply(id=id_, run=run, finding="nan-1-1", **_going_on()),  # type: ignore[arg-type]
    "set": lambda run, _dice: lambda id_: Set(id=id_, run=run, assignments=("ppo.learning_rate=0.001",), accept=True),
    "evaluate": lambda run, _dice: lambda id_: Evaluate(id=id_, run=run, episodes=1),
    "export": lambda run, _dice: lambda id_: Export(id=id_, run=run, path="/nowhere/policy.zip"),
    "film": lambda run, _dice: lambda id_: Film(id=id_, run=run, path="/nowhere/policy.gif"),
    "rename": lambda run, dice: lambda id_: Rename(id=id_, run=run, name=f"copied-{dice.randrange(1000)}"),
    "note": lambda run, _dice: lambda id_: Note(id=id_, run=run, text="of the copy"),
    "label": lambda run, _dice: lambda id_: Label(id=id_, run=run, add=("copied",)),
    "undo": lambda run, _dice: lambda id_: Undo(id=id_, runs=(run,)),
    "rm": lambda run, dice: lambda id_: Remove(id=id_, runs=(run,), now=dice.random() < 0.5),
    "restore": lambda run, _dice: lambda id_: Restore(id=id_, runs=(run,)),
    "prune": lambda _run, _dice: lambda id_: Prune(id=id_, before_t=time.time() + 1, remove=True),
    "shutdown": lambda _run, _dice: lambda id_: Shutdown(id=id_, with_runs=True),
}


@dataclass(frozen=True, slots=True)
class _Original:
    """The living root: a run that trains with workers, one that is frozen, a command, one that waits for the first."""

    lab: Lab
    trains: str
    frozen: str
    command: str
    waits: str
    pids: dict[str, tuple[int | None, int | None]]
    started: dict[str, bytes]

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.trains, self.frozen, self.command, self.waits)


def _original(lab: Lab) -> _Original:
    lab.start()
    (trains,) = lab.launch(STUB_WORKERS="1")
    (frozen,) = lab.launch()
    spec = Spec(preset="command", run=RunSpec(command=("/bin/bash", "-c", "while :; do sleep 1; done")))
    (command,) = lab.launch(spec=spec)
    item = LaunchItem(spec=stub_spec(64 * 2), after=(trains,))
    reply = lab.ask(lambda id_: Launch(id=id_, items=(item,), **_going_on()))  # type: ignore[arg-type]
    assert isinstance(reply, Launched)
    waits = reply.runs[0].id
    lab.running(trains, 2)
    lab.running(frozen, 2)
    lab.wait(command, lambda view: view.pids.trainer is not None)
    lab.act("checkpoint", trains)
    lab.act("freeze", frozen)
    lab.wait(frozen, lambda view: view.state == "frozen")
    lab.wait(trains, lambda view: view.last_checkpoint is not None)
    views = {run: lab.view(run).pids for run in (trains, frozen, command)}
    pids = {run: (each.keeper, each.trainer) for run, each in views.items()}
    return _Original(lab, trains, frozen, command, waits, pids, {run: _attempt(lab.dir(run)) for run in pids})


def _attempt(run: RunDir) -> bytes:
    folder = run.attempt(1)
    return folder.launch.read_bytes() + folder.identity.read_bytes()


def _harm(original: _Original, done: int) -> Iterator[Violation]:
    """What of the original is not as it was; `done` updates it had before."""
    lab = original.lab
    for run, pids in original.pids.items():
        view = lab.view(run)
        if (view.pids.keeper, view.pids.trainer) != pids or view.attempt != 1:
            yield f"{run} has processes {view.pids} in attempt {view.attempt}, and had {pids}"
        if view.state != ("frozen" if run == original.frozen else view.state) or view.state == "ended":
            yield f"{run} is {view.state} {view.outcome}: {view.cause}"
        if view.flags:
            yield f"{run} is {view.flags}"
        if _attempt(lab.dir(run)) != original.started[run]:
            yield f"{run}: order or identity were written"
        if lab.dir(run).attempts() != [1] or lab.dir(run).attempt(1).exit.exists():
            yield f"{run} has attempts {lab.dir(run).attempts()}, exit.json: {lab.dir(run).attempt(1).exit.exists()}"
    waits = lab.view(original.waits)
    if waits.state != "queued" or lab.dir(original.waits).metrics.exists():
        yield f"{original.waits} waits for a run that trains, and is {waits.state}"
    for run in original.runs:
        yield from _doubled(lab.dir(run))
    if not _goes_on(original, done):
        yield f"{original.trains} does not train: {done} updates before and now"


def _doubled(run: RunDir) -> Iterator[Violation]:
    records = read_all(run.metrics, MetricRecord)[0] if run.metrics.exists() else []
    events, damage = read_all(run.events, FleetEvent)
    updates = [record.update for record in records if isinstance(record, UpdateDone)]
    if [record.seq for record in records] != list(range(1, len(records) + 1)) or len(updates) != len(set(updates)):
        yield f"{run.id} has rows twice, or lacks some"
    if damage or [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield f"{run.id} has events twice, or lacks some"
    if any(isinstance(event, AttemptEnded) for event in events):
        yield f"{run.id} was written down as ended"


def _updates(original: _Original) -> int:
    records = read_all(original.lab.dir(original.trains).metrics, MetricRecord)[0]
    return sum(isinstance(record, UpdateDone) for record in records)


def _goes_on(original: _Original, done: int) -> bool:
    with suppress(AssertionError):
        until(lambda: _updates(original) > done, SEEN_S)
        return True
    return False


def _verbs(copy: Lab, original: _Original, dice: random.Random, tell: Tell) -> None:
    """As many verbs as a round has, in random order; what is refused is refused."""
    names = [*ASKED, "clean", "restart"]
    for name in dice.sample(names * 2, VERBS_A_ROUND):
        run = dice.choice(original.runs)
        if name == "restart" or copy.supervisor is None or copy.supervisor.poll() is not None:
            with suppress(OSError):
                if copy.supervisor is not None:
                    copy.supervisor.send_signal(signal.SIGKILL)
                    copy.supervisor.wait(5)
            copy.start()
        try:
            if name == "clean":
                _clean(copy)
            elif name != "restart":
                reply = copy.ask(ASKED[name](run, dice))
                tell("verbs that were taken", isinstance(reply, Accepted))
        except (MissionError, OSError):
            tell("verbs that were refused", 1)
        tell("verbs", 1)


def _adopt(copy: Lab) -> None:
    """As a person may have done: from then on no seal keeps the copy from anything."""
    for run in run_dirs(copy.root):
        copy.seals.adopt(run, socket_dir(copy.root) / "telemetry.sock")


def _clean(copy: Lab) -> None:
    listed = copy.ask(lambda id_: Clean(id=id_))
    assert isinstance(listed, CleanReply)
    copy.ask(lambda id_: Clean(id=id_, remove=tuple(stale.key for stale in listed.stale)))


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    with tempfile.TemporaryDirectory(prefix="mission-tui-copies-") as name:
        root = Path(name) / "runs"
        with opened_lab(root) as lab:
            original = _original(lab)
            # The command's `sleep` comes and goes; keepers, trainers and workers stay.
            family = [*lab.family(original.trains), *lab.family(original.frozen), *lab.family(original.command)[:2]]
            for index in rounds:
                done = _updates(original)
                copied = Path(name) / f"copy-{index}"
                subprocess.run(["cp", "-a", root, copied], check=True)
                with opened_lab(copied) as copy:
                    if index % 2 == 0:
                        _adopt(copy)
                    copy.start()
                    _verbs(copy, original, chance(seed, index), tell)
                found = list(_harm(original, done))
                if len(living(family)) != len(family):
                    found.append("a process of the original is gone")
                yield from (f"round {index}: {violation}" for violation in found)
                if found:
                    return
            yield from _end(original)


def _end(original: _Original) -> Iterator[Violation]:
    """At last the original obeys as ever, and finishes."""
    lab = original.lab
    for run in (original.trains, original.frozen, original.command):
        lab.act("stop", run)
    for run in (original.trains, original.frozen, original.command):
        if (outcome := lab.ended(run).outcome) != "stopped":
            yield f"{run} ended as {outcome}, and was stopped"
    if (outcome := lab.ended(original.waits).outcome) != "finished":
        yield f"{original.waits} ended as {outcome}, and was to finish"


PART = Part("copies", ("L1",), 60, _run)
