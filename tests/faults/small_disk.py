"""Scenes on a disk that is full, out of inodes or read-only: `python -m tests.faults.small_disk FOLDER KIND SCENE...`.

Run it in a mount namespace of its own (`in_namespace`). It mounts a small tmpfs at FOLDER for each trial, leaves only
so much room, acts, makes room again and lets the scene say what is wrong; prints that and what was refused, as JSON.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypedDict

from mission_tui.errors import MissionError
from tests.faults.scenes import SCENES, Scene

__all__ = ["Outcome", "in_namespace", "lacks_namespaces", "trials"]

PAGE_BYTES = 4096
ROOM = range(9)
"""Pages, or inodes, that are left for the act."""


class Outcome(TypedDict):
    """What trials found: `refused` are the sentences of the errors, `wrong` what did not hold."""

    trials: int
    refused: list[str]
    wrong: list[str]


@cache
def lacks_namespaces() -> str:
    """Why no small disk can be mounted here, or nothing."""
    tried = subprocess.run([*_unshare(), "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"no mount namespace here: {tried.stderr.strip()[:80]}"


def in_namespace(folder: Path, kind: str, *scenes: str) -> Outcome:
    """What trials of `kind` ("full", "inodes" or "readonly") find, in a process with its own mounts."""
    done = subprocess.run(
        [*_unshare(), sys.executable, "-m", "tests.faults.small_disk", str(folder), kind, *scenes],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    outcome: Outcome = json.loads(done.stdout)
    return outcome


def _unshare() -> list[str]:
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-r", "-m"]


def trials(folder: Path, kind: str, scenes: list[str]) -> Outcome:
    """Every scene with every amount of room."""
    outcome = Outcome(trials=0, refused=[], wrong=[])
    for name in scenes:
        for room in ROOM if kind != "readonly" else (0,):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,nr_inodes=200", "none", str(folder)], check=True)
            try:
                outcome["wrong"] += [
                    f"{name}, {kind}, room {room}: {it}" for it in _try(folder, kind, name, room, outcome)
                ]
            finally:
                # Busy if a refused act left something open: a supervisor would leak it with every try.
                subprocess.run(["umount", str(folder)], check=True)
            outcome["trials"] += 1
    return outcome


def _try(folder: Path, kind: str, name: str, room: int, outcome: Outcome) -> Iterator[str]:
    scene, place, filler = SCENES[name], folder / "scene", folder / "filler"
    place.mkdir()
    filler.mkdir()
    scene.prepare(place)
    told: list[str] = []
    _take_room(folder, filler, kind, room)
    try:
        _act(scene, place, told)
    except MissionError as refusal:
        outcome["refused"].append(str(refusal))
    except Exception as error:  # noqa: BLE001 - anything but our own errors is what is looked for
        yield f"raised {type(error).__name__}: {error}"
    finally:
        if kind == "readonly":
            subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
        shutil.rmtree(filler)
    yield from scene.wrong(place, told)


def _act(scene: Scene, place: Path, told: list[str]) -> None:
    scene.act(place, told.append)


def _take_room(folder: Path, filler: Path, kind: str, room: int) -> None:
    if kind == "readonly":
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    elif kind == "inodes":
        with suppress(OSError):
            for number in range(1000):
                (filler / str(number)).symlink_to("nowhere")
        for number in range(room):
            (filler / str(number)).unlink()
    else:
        left = filler / "left"
        left.write_bytes(bytes(room * PAGE_BYTES))
        with (filler / "rest").open("wb", buffering=0) as file:
            try:
                while file.write(bytes(PAGE_BYTES)) == PAGE_BYTES:
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - a program, not a test
        left.unlink()


if __name__ == "__main__":
    print(json.dumps(trials(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])))
