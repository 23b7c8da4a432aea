"""Supervised trainings that take long, each made once: what is done stays in a folder, under a hash of its settings.

A campaign may be cut off anywhere: runs that were under way go on from their checkpoints, and one that had none begins
anew. The hash knows settings, the rules of a mission and versions of packages, not our own code: after a change of the
engines, give a fresh folder.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from benchmarks.fleet.lab import Lab, kept
from benchmarks.fleet.shapes import as_options, spec_of
from benchmarks.results import PACKAGES, facts_of_the_machine
from mission_tui.envs import mission_files
from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import FindingChanged, FleetEvent
from mission_tui.fleet.events.metrics import UpdateDone, counted_records
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import MISSION_GYM, Spec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.records.jsonl import read_all

__all__ = [
    "RUNS",
    "Campaign",
    "Done",
    "Job",
    "alone",
    "at_least_one",
    "carry_out",
    "findings_of",
    "put",
    "read_done",
    "tell",
    "updates_of",
    "views_in_time",
]

LOOK_EVERY_S = 1.0
PATIENCE_S = 120.0
RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Job:
    """A training to be made: a shipped preset with `--set` words and a seed, then `episodes` played by its policy."""

    preset: str
    seed: int
    assignments: tuple[str, ...] = ()
    episodes: int = 100

    @property
    def spec(self) -> Spec:
        """What `launch` makes of the words."""
        return spec_of(self.preset, (*self.assignments, f"run.seed={self.seed}"))

    @property
    def name(self) -> str:
        """Names the run and its result: two jobs share it only if they come to the same."""
        return f"{self.preset}-s{self.seed}-{_digest(self)}"

    @property
    def launch_words(self) -> tuple[str, ...]:
        """The words after `mission-tui launch`."""
        return (self.preset, *as_options(self.assignments), "--seed", str(self.seed), "--name", self.name)


@lru_cache(maxsize=1024)
def _digest(job: Job) -> str:
    versions = {name: facts_of_the_machine()[name] for name in PACKAGES if name != "textual"}
    settings = msgspec.to_builtins(replace(job.spec, description=""))
    # Where settings come from is none of them; and results from before it was a part of the spec are as good.
    del settings["profile"]
    del settings["run"]["goal"]  # it is looked at, and changes nothing
    del settings["run"]["values"], settings["keep"]["limits"]["group_runs"]  # of commands, and when it begins
    del settings["run"]["preload"]  # a fork trains what a process that was started anew trains
    del settings["run"]["track"], settings["run"]["track_checkpoints"]  # to whom it is passed on
    if settings["run"]["launcher"] == "local":
        del settings["run"]["launcher"], settings["slurm"], settings["ray"]  # as it was before there were others
    for name in ("algo", *OTHERS):  # as it was before other algorithms could be named
        table = settings["run"] if name == "algo" else settings
        if table[name] is None:
            del table[name]
        elif name != "algo":  # every table began so before one had no `gamma`
            first = {
                field: table[name][field] for field in ("policy", "learning_rate", "gamma") if field in table[name]
            }
            settings[name] = first | table[name]
    if settings["keep"]["checkpoint"]["replay_buffer"] is None:
        del settings["keep"]["checkpoint"]["replay_buffer"]
    del settings["keep"]["checkpoint"]["spread"]  # which checkpoints are still there later
    del settings["evaluate"]["share"]  # when a policy is played, which changes nothing that is learned
    if job.spec.env.id == MISSION_GYM:
        settings["rules"] = [
            file.read_text(encoding="utf-8") for file in mission_files(job.spec.env.config or "standard")
        ]
    return hashlib.sha256(msgspec.json.encode([settings, job.episodes, versions])).hexdigest()[:8]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A finished job: its run (still in the folder), over how many attempts it trained for how many seconds, and the
    document that `evaluate` printed of its final policy.
    """

    name: str
    run: str
    attempts: int
    trained_s: float
    evaluation: dict[str, Any]


def read_done(folder: Path, job: Job) -> Done | None:
    """What `folder` holds of `job`; None where it is still to be done."""
    file = _file(folder, job)
    return msgspec.json.decode(file.read_bytes(), type=Done) if file.exists() else None


def updates_of(folder: Path, done: Done) -> list[UpdateDone]:
    """The updates of a finished run that count, in order."""
    rows, _ = counted_records(Lab(folder / RUNS, {}).rows(done.run))
    return [row for row in rows if isinstance(row, UpdateDone)]


def findings_of(folder: Path, done: Done) -> list[Finding]:
    """What the health rules said of a finished run while it trained, each finding as it stood last."""
    file = Lab(folder / RUNS, {}).dir(done.run).events
    events = read_all(file, FleetEvent)[0] if file.exists() else []
    said = {event.finding.id: event.finding for event in events if isinstance(event, FindingChanged)}
    return list(said.values())


def _file(folder: Path, job: Job) -> Path:
    return folder / f"{job.name}.json"


def views_in_time(lab: Lab) -> dict[str, RunView]:
    """Every run; on a busy machine the supervisor is late now and then, and what trains goes on meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return lab.views()
        except MissionError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(LOOK_EVERY_S)


class Campaign:
    """Jobs that are carried out in a lab, `at_once` at a time; `failures` says of whom it gave up why."""

    def __init__(self, lab: Lab, folder: Path, jobs: Sequence[Job], at_once: int) -> None:
        self._lab, self._folder, self._at_once = lab, folder, at_once
        self._begun: dict[Job, tuple[str, int] | None] = {}
        """What had been begun of each, as run and attempt, before it was asked to go on."""
        self.left = [job for job in jobs if read_done(folder, job) is None]
        self.failures: dict[str, str] = {}

    def step(self) -> None:
        """Take what has finished, give up what failed, begin what there is room for."""
        newest = self._newest()
        waiting: list[tuple[Job, RunView | None]] = []
        live = 0
        for job in list(self.left):
            view = newest.get(job.name)
            if view is not None and view.outcome == "finished":
                self._take(job, view)
            elif view is not None and (view.state not in OVER or self._is_asked(job, view)):
                live += 1
            elif view is not None and job in self._begun:
                self._give_up(job, f"{view.outcome or view.state}: {view.cause or 'nobody knows why'}")
            else:
                waiting.append((job, view))
        for job, view in waiting[: max(0, self._at_once - live)]:
            self._begin(job, view)

    def _is_asked(self, job: Job, view: RunView) -> bool:
        """Whether it has been asked to go on, and this is how it stood before."""
        return self._begun.get(job) == (view.id, view.attempt)

    def _newest(self) -> dict[str, RunView]:
        """The newest run of each name: one that could not go on is followed by another of its name."""
        views = sorted(views_in_time(self._lab).values(), key=lambda view: view.created_t)
        return {view.name: view for view in views}

    def _begin(self, job: Job, view: RunView | None) -> None:
        self._begun[job] = None
        if view is not None and view.last_checkpoint is not None and self._resumed(view):
            self._begun[job] = view.id, view.attempt
            tell(f"{job.name}: goes on at {view.timesteps or 0:,} steps")
            return
        try:
            self._lab.launch(*job.launch_words)
        except subprocess.CalledProcessError as error:
            self._give_up(job, f"`launch` refused with exit code {error.returncode}")
        else:
            tell(f"{job.name}: begun")

    def _resumed(self, view: RunView) -> bool:
        try:
            self._lab.cli("resume", view.id)
        except subprocess.CalledProcessError:
            return False
        return True

    def _take(self, job: Job, view: RunView) -> None:
        try:
            evaluation = self._lab.cli("evaluate", view.id, "--episodes", str(job.episodes))
        except subprocess.CalledProcessError as error:
            self._give_up(job, f"`evaluate` refused with exit code {error.returncode}")
            return
        trained_s = round(view.trained_s, 1)
        done = Done(name=job.name, run=view.id, attempts=view.attempt, trained_s=trained_s, evaluation=evaluation)
        put(_file(self._folder, job), done)
        self.left.remove(job)
        tell(f"{job.name}: return {float(evaluation['mean']):.1f}, trained for {trained_s:.0f} s")

    def _give_up(self, job: Job, why: str) -> None:
        self.left.remove(job)
        self.failures[job.name] = why
        tell(f"{job.name}: given up; {why}")


def carry_out(jobs: Sequence[Job], folder: Path, at_once: int, seconds: float = math.inf) -> dict[str, str]:
    """Do what is not done yet, for at most so many seconds; what then trains is stopped and goes on the next time.

    Returns why, by name, for each job that was given up. Raises `UsageError` while another campaign is at work there.
    """
    deadline = time.monotonic() + seconds
    if all(read_done(folder, job) is not None for job in jobs):
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with alone(folder), kept(folder / RUNS) as lab:
            campaign = Campaign(lab, folder, jobs, at_once)
            while True:
                campaign.step()
                if not campaign.left or time.monotonic() >= deadline:
                    break
                time.sleep(LOOK_EVERY_S)
    except KeyboardInterrupt:
        tell("interrupted: what trained has been stopped, each with a checkpoint; the same command goes on")
        sys.exit(128 + signal.SIGINT)
    if campaign.left:
        tell(f"time is over with {len(campaign.left)} of {len(jobs)} trainings left; the same command goes on")
    return campaign.failures


def at_least_one(word: str) -> int:
    """For `--at-once`. Raises `ArgumentTypeError` below one, where nothing would ever begin."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word} is no number from 1 on")
    return int(word)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Whoever leaves a folder stops what trains in it, the runs of another campaign too."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another campaign is at work in {folder}: wait for it, or give another --folder"
            ) from None
        yield


def put(file: Path, facts: msgspec.Struct) -> None:
    """Make `file` hold them; it bears its name only when it is whole."""
    half = file.with_suffix(".half")
    half.write_bytes(msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n")
    half.replace(file)


def tell(sentence: str) -> None:
    """To whoever watches the campaign."""
    print(sentence, file=sys.stderr, flush=True)
