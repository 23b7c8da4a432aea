"""Changes of state on disk, each as one act that may be cut off or refused anywhere, and what must hold after it.

`python -m tests.faults.scenes` carries them out for whoever writes a scene and its folder to it: each in a forked child
that waits until it is traced, so that a tracer counts nothing but the act's own system calls.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from mission_tui.errors import CheckpointError, MissionError
from mission_tui.fleet.events.journal import AttemptEnded, FleetEvent, RunCreated
from mission_tui.records.atomic import StorageError, write_json
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.attempt import LaunchOrder, read_launch, read_spec
from mission_tui.records.runs.checkpoint import newest_verified, prune, verify_checkpoint
from mission_tui.records.runs.layout import RunDir, supervisor_dir
from mission_tui.records.runs.seal import Seals
from mission_tui.records.runs.trash import move_to_trash, purge, restore_from_trash, trashed
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.lifecycle.adoption import adopting, load_ended
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.run_directory import create_run, half_made, remove_run, sweep_up
from mission_tui.supervisor.runs.run_on_disk import finish, read_fleet
from tests.records.journal import paused, write_journal
from tests.records.saving import save

__all__ = ["RECORDED", "SCENES", "SURPRISE", "SURPRISED", "Scene"]

PR_SET_PTRACER = 0x59616D61
SURPRISE = "surprise"
SURPRISED = 5
"""The exit status of an act that raised anything but our own errors."""

RECORDED = Path(__file__).parents[1] / "fixtures" / "format-1" / "20261121-040628-recorded-2aa5"
HALF = b'{"type":"paused","seq":3,"t":10'

Acknowledge = Callable[[str], None]


class Scene(ABC):
    """One change of state."""

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """The old state."""

    @abstractmethod
    def act(self, folder: Path, acknowledge: Acknowledge) -> None:
        """The change; whatever it acknowledges must be there afterwards."""

    @abstractmethod
    def wrong(self, folder: Path, acknowledged: list[str]) -> Iterator[str]:
        """What does not hold, whether the act came to its end or not. The next writer gets to work here too."""


class _Journal(Scene):
    """A journal with a torn tail is opened and appended to."""

    def prepare(self, folder: Path) -> None:
        write_journal(folder / "events.jsonl", 2)
        with (folder / "events.jsonl").open("ab") as file:
            file.write(HALF)

    def act(self, folder: Path, acknowledge: Acknowledge) -> None:
        log = AppendLog(folder / "events.jsonl")
        for _ in range(4):
            with suppress(StorageError):
                acknowledge(str(log.append(paused).seq))
        log.close()

    def wrong(self, folder: Path, acknowledged: list[str]) -> Iterator[str]:
        path = folder / "events.jsonl"
        newest = int(acknowledged[-1]) if acknowledged else 2
        before, _ = read_all(path, FleetEvent)
        if before != [paused(seq) for seq in range(1, len(before) + 1)]:
            yield f"records {[record.seq for record in before]} are not a row without gaps"
        if not newest <= len(before) <= newest + 1:
            yield f"{len(before)} records, {newest} acknowledged"
        if not any(HALF in path.read_bytes() for path in folder.iterdir()):
            yield "the torn tail is nowhere"
        log = AppendLog(path)
        log.append(paused)
        log.close()
        if read_all(path, FleetEvent) != ([*before, paused(len(before) + 1)], []):
            yield "the next writer did not go on where the records end"


class _Save(Scene):
    """A checkpoint is saved beside an earlier one."""

    timesteps = 200

    def prepare(self, folder: Path) -> None:
        save(folder, 100)

    def act(self, folder: Path, acknowledge: Acknowledge) -> None:
        save(folder, self.timesteps, attempt=2)
        acknowledge("saved")

    def wrong(self, folder: Path, acknowledged: list[str]) -> Iterator[str]:
        newest = newest_verified(folder)
        taken = None if newest is None else (newest.timesteps, newest.attempt)
        if taken not in ((100, 1), (self.timesteps, 2)):
            yield f"the newest verified checkpoint is {taken}"
        if acknowledged and taken != (self.timesteps, 2):
            yield f"a save was acknowledged, and the newest verified checkpoint is {taken}"
        save(folder, 300, attempt=3)
        if list(folder.glob(".tmp-*")):
            yield "the next save left something behind"


class _Replace(_Save):
    """A checkpoint takes the name of one at the same step."""

    timesteps = 100


class _Prune(Scene):
    """Retention removes old checkpoints."""

    def prepare(self, folder: Path) -> None:
        for timesteps in (100, 200, 300):
            save(folder, timesteps)

    def act(self, folder: Path, acknowledge: Acknowledge) -> None:
        prune(folder, 1, ())
        acknowledge("pruned")

    def wrong(self, folder: Path, acknowledged: list[str]) -> Iterator[str]:
        newest = newest_verified(folder)
        if newest is None or newest.timesteps != 300:
            yield f"the newest verified checkpoint is {newest and newest.timesteps}"
        for path in folder.glob("0*"):
            try:
                verify_checkpoint(path)
            except CheckpointError as error:
                yield f"half a checkpoint bears a name: {error}"
        # Not that all others are gone: one whose manifest could not be read at that moment stays until the next time.
        prune(folder, 1, ())
        save(folder, 400)
        if sorted(path.name for path in folder.iterdir()) != ["000000300", "000000400", "latest"]:
            yield "the next writer did not clear up"


class _Whole(Scene):
    """A whole file is replaced."""

    def prepare(self, folder: Path) -> None:
        write_json(folder / "identity.json", {"number": 1, "text": "x" * 5000})

    def act(self, folder: Path, acknowledge: Acknowledge) -> None:
        write_json(folder / "identity.json", {"number": 2, "text": "y" * 9000})
        acknowledge("written")

    def wrong(self, folder: Path, acknowledged: list[str]) -> Iterator[str]:
        held = json.loads((folder / "identity.json").read_bytes())
        if (held["number"], len(held["text"])) not in ((1, 5000), (2, 9000)):
            yield "neither the old nor the new file"
        if acknowledged and held["number"] != 2:
            yield "an acknowledged file is the old one"


class _Create(Scene):
    """A run directory comes into being."""

    def prepare(self, folder: Path) -> None:
        supervisor_dir(folder).mkdir(parents=True)

    def act(self, folder: Path, acknowledge: Acknowledge) -> None:
        run = RunDir(folder / RECORDED.name)
        order = LaunchOrder(run=run.id, attempt=1, argv=("true",), cwd="/", nonce="n")
        spec = RECORDED / "spec.toml"
        create_run(folder, Seals(bytes(32)), run, read_spec(spec), order, [spec], "recorded", None)
        acknowledge("created")

    def wrong(self, folder: Path, acknowledged: list[str]) -> Iterator[str]:
        run = RunDir(folder / RECORDED.name)
        if run.path.exists():
            order = read_launch(run.attempt(1).launch)
            events, damage = read_all(run.events, FleetEvent)
            whole = order is not None and len(events) == 1 and isinstance(events[0], RunCreated) and not damage
            if not whole or read_spec(run.spec) != read_spec(RECORDED / "spec.toml"):
                yield "half a run directory bears its name"
            if (run.snapshot / "spec.toml").read_bytes() != (RECORDED / "spec.toml").read_bytes():
                yield "a run directory with other rules bears its name"
        elif acknowledged:
            yield "an acknowledged run does not exist"
        sweep_up(half_made(folder))
        if list(supervisor_dir(folder).iterdir()):
            yield "something of a run that was being made stays"


class _Remove(Scene):
    """A run directory goes."""

    def prepare(self, folder: Path) -> None:
        supervisor_dir(folder).mkdir(parents=True)
        shutil.copytree(RECORDED, folder / RECORDED.name)

    def act(self, folder: Path, acknowledge: Acknowledge) -> None:
        remove_run(folder, RunDir(folder / RECORDED.name))
        acknowledge("removed")

    def wrong(self, folder: Path, acknowledged: list[str]) -> Iterator[str]:
        there = folder / RECORDED.name
        if there.exists() and _files(there) != _files(RECORDED):
            yield "half a removed run bears its name"
        if acknowledged and there.exists():
            yield "a removed run is there"
        sweep_up(half_made(folder))
        if list(supervisor_dir(folder).iterdir()):
            yield "something of a removed run stays"


class _Trash(Scene):
    """A run directory goes to the trash and comes back."""

    def prepare(self, folder: Path) -> None:
        supervisor_dir(folder).mkdir(parents=True)
        shutil.copytree(RECORDED, folder / RECORDED.name)

    def act(self, folder: Path, acknowledge: Acknowledge) -> None:
        item = move_to_trash(folder, RunDir(folder / RECORDED.name))
        acknowledge("thrown away")
        restore_from_trash(folder, item)
        acknowledge("put back")

    def wrong(self, folder: Path, acknowledged: list[str]) -> Iterator[str]:
        there, lying = folder / RECORDED.name, trashed(folder)
        places = [path for path in (there, *(item.path for item in lying)) if path.exists()]
        if len(places) != 1 or _files(places[0]) != _files(RECORDED):
            yield f"the run is not whole in one place: {places}"
        if acknowledged and acknowledged[-1] == "put back" and not there.exists():
            yield "a run that was put back is not there"
        for item in lying:
            restore_from_trash(folder, item)
        if not there.exists():
            yield "the run does not come back"


class _Purge(Scene):
    """What lies in the trash is freed."""

    def prepare(self, folder: Path) -> None:
        supervisor_dir(folder).mkdir(parents=True)
        shutil.copytree(RECORDED, folder / RECORDED.name)
        move_to_trash(folder, RunDir(folder / RECORDED.name))

    def act(self, folder: Path, acknowledge: Acknowledge) -> None:
        purge(folder, trashed(folder)[0])
        acknowledge("purged")

    def wrong(self, folder: Path, acknowledged: list[str]) -> Iterator[str]:
        lying = trashed(folder)
        if any(_files(item.path) != _files(RECORDED) for item in lying):
            yield "half a run lies in the trash"
        if acknowledged and lying:
            yield "what was purged lies in the trash"
        sweep_up(half_made(folder))
        if list(supervisor_dir(folder).iterdir()):
            yield "something of what was purged stays"


class _Adopt(Scene):
    """A supervisor finds a run that ended unseen, its journal torn: it mends and says how the run ended."""

    def prepare(self, folder: Path) -> None:
        supervisor_dir(folder).mkdir(parents=True)
        run = RunDir(folder / RECORDED.name)
        shutil.copytree(RECORDED, run.path)
        run.events.write_bytes(b"".join(run.events.read_bytes().splitlines(keepends=True)[:-1]) + HALF)
        _seal(run)

    def act(self, folder: Path, acknowledge: Acknowledge) -> None:
        # Nothing is acknowledged: what a disk refuses is held in memory, and found again by the next supervisor.
        asyncio.run(_adopt_all(folder))

    def wrong(self, folder: Path, acknowledged: list[str]) -> Iterator[str]:
        run = RunDir(folder / RECORDED.name)
        recorded, _ = read_all(RECORDED / "events.jsonl", FleetEvent)
        for times in ((0, 1), (1,)):
            events, _ = read_all(run.events, FleetEvent)
            if events[: len(recorded) - 1] != recorded[:-1]:
                yield f"of {len(recorded) - 1} earlier records {len(events)} are left"
            ended = [event for event in events if isinstance(event, AttemptEnded) and event.attempt == 2]
            if len(ended) not in times:
                yield f"the attempt ended {len(ended)} times"
            if any(event.outcome != recorded[-1].outcome for event in ended):
                yield "the attempt ended otherwise"
            if not any(HALF in path.read_bytes() for path in run.path.glob("events.jsonl*")):
                yield "the torn tail is nowhere"
            # A disk that was made again has other inodes, which a disk that lost its power has not.
            _seal(run)
            asyncio.run(_adopt_all(folder))


def _seal(run: RunDir) -> None:
    Seals.of(os.environ).adopt(run, run.path / "telemetry.sock")


async def _adopt_all(root: Path) -> None:
    core = Core(root, {"local": LocalLauncher()})
    live, ended = read_fleet(root)
    for found in live:
        finish(adopting(core, found))
    for found in ended:
        load_ended(core, found)
    for run in core.live.values():
        run.release()
    core.machine.gpu.close()


SCENES: dict[str, Scene] = {
    "journal": _Journal(),
    "save": _Save(),
    "replace": _Replace(),
    "prune": _Prune(),
    "whole": _Whole(),
    "create": _Create(),
    "remove": _Remove(),
    "trash": _Trash(),
    "purge": _Purge(),
    "adopt": _Adopt(),
}


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _perform(scene: Scene, folder: Path, say: int) -> None:
    """The whole life of a child: it tells what it acknowledges by a call that nobody traces."""

    def acknowledge(text: str) -> None:
        os.writev(say, [text.encode(), b"\n"])

    status = 1
    try:
        scene.act(folder, acknowledge)
        status = 0
    except MissionError:
        pass
    except BaseException as error:  # noqa: BLE001 - the edge of the process: what it is, is what we want to know
        status = SURPRISED
        os.writev(say, [f"{SURPRISE} {type(error).__name__}: {error}\n".encode()])
    os._exit(status)


def _warm_up() -> None:
    """Act everything once: what Python opens at first use is not part of an act."""
    for scene in SCENES.values():
        with tempfile.TemporaryDirectory(prefix="mission-tui-faults-") as name:
            scene.prepare(Path(name))
            told: list[str] = []
            scene.act(Path(name), told.append)


def main() -> None:
    # Where only ancestors may trace, this lets the tracer in that our own parent starts.
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
    _warm_up()
    for line in sys.stdin:
        name, _, folder = line.rstrip("\n").partition(" ")
        (go, let_go), (hear, say) = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
            os.read(go, 1)
            _perform(SCENES[name], Path(folder), say)
        print(child, flush=True)
        sys.stdin.readline()
        os.write(let_go, b"!")
        os.close(say)
        with os.fdopen(hear, encoding="utf-8") as said:
            told = said.read().splitlines()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for descriptor in (go, let_go):
            os.close(descriptor)
        print(json.dumps([status, told]), flush=True)


if __name__ == "__main__":
    main()
