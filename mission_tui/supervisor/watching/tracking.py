"""Runs with `run.track` are passed on by a process beside each, which outlives this one and goes on where it was left.

Whatever becomes of that process, it is one failed duty of its run, and another is started later. One that ended while
a tracker could not be reached is begun again by the next supervisor, for a week.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from msgspec import Struct

from mission_tui.errors import EX_CONFIG, EX_RESUMABLE, DamagedError, MissionError, PresetError, install_words
from mission_tui.fleet.specs.spec import Spec, Tracker
from mission_tui.plain_files import open_fresh, open_plain
from mission_tui.records.atomic import read_json
from mission_tui.records.runs.attempt import TrackState, read_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.run_module import module_words
from mission_tui.supervisor.host.children import Child, start_child
from mission_tui.supervisor.runs.core import Core

TRACKING = "tracking"
NICENESS = 19
AGAIN_S, LONGEST_S = 60.0, 1800.0
OLDEST_S = 7 * 86_400.0
_LAST_BYTES = 2000
log = logging.getLogger(__name__)


def check_tracker(specs: Sequence[Spec]) -> None:
    """Raise `PresetError` for a tracker whose package is not installed here."""
    for spec in specs:
        name = spec.run.track
        if name is not None and find_spec(name) is None:
            raise PresetError(f"run.track = '{name}': {name} is not installed; {install_words(name)}")


class _Tracked(Struct):
    """A run that is passed on: by `child` while that lives, and again from `again_at` (monotonic)."""

    dir: RunDir
    tracker: str
    child: Child | None = None
    again_at: float = 0.0
    wait_s: float = AGAIN_S
    seen: int = 0
    trouble: str = ""
    over: bool = False


class Trackers:
    """The processes of all runs."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._tracked: dict[str, _Tracked] = {}
        self._looked_back = False

    def poll(self, now: float, t: float) -> None:
        """At monotonic `now`, unix time `t`: start what lacks, and journal what fails or works again."""
        if not self._looked_back:
            self._looked_back = True
            self._look_back(t)
        for run in list(self._core.live.values()):
            track = run.spec.run.track if run.spec is not None else None
            if track is not None and run.attempt and run.job_status.trains:
                known = self._tracked.setdefault(run.id, _Tracked(run.dir, track))
                known.over = False
        self._look_at_evaluated()
        for run_id, known in list(self._tracked.items()):
            if run_id not in self._core.store:
                del self._tracked[run_id]
                continue
            self._read_state(run_id, known)
            if known.child is None and known.over:
                del self._tracked[run_id]
            elif known.child is None and now >= known.again_at:
                self._start(run_id, known, now)

    def _look_at_evaluated(self) -> None:
        """Take up runs that have ended and were evaluated since; what passes on one that lives sees that by itself."""
        for run_id in list(self._core.evaluated):
            known = self._tracked.get(run_id)
            if known is not None and known.child is not None:
                continue  # it may be about to end
            self._core.evaluated.discard(run_id)
            if run_id in self._core.live or run_id not in self._core.store:
                continue
            run_dir = self._core.run_dir(run_id)
            try:
                track = read_spec(run_dir.spec).run.track
            except MissionError:
                continue
            if track is not None:
                self._tracked[run_id] = _Tracked(run_dir, track)

    def _look_back(self, t: float) -> None:
        """Take up those that ended before all had arrived."""
        files = [(name, self._core.root.glob(f"*/track-{name}.json")) for name in get_args(Tracker)]
        for tracker, path in [(name, path) for name, paths in files for path in paths]:
            try:
                state, known_t = read_json(path, TrackState), path.stat().st_mtime
            except (DamagedError, OSError):
                continue
            run_dir = RunDir(path.parent)
            recent = state is not None and not state.complete and t - known_t < OLDEST_S
            if state is None or not recent or run_dir.id not in self._core.store:
                continue
            self._core.fetch(run_dir.id)
            foreign = self._core.store.run(run_dir.id).journal.foreign
            if run_dir.id not in self._core.live and not foreign:
                self._tracked[run_dir.id] = _Tracked(run_dir, tracker)

    def _start(self, run_id: str, known: _Tracked, now: float) -> None:
        known.again_at, known.wait_s = now + known.wait_s, min(2 * known.wait_s, LONGEST_S)
        try:
            self._core.check_ours(run_id, "track", starts=True)
            attempt = max(1, self._core.store.run(run_id).journal.attempt)
            environ = self._environ(known.dir, attempt)
            known.child = self._child(run_id, known, environ)
        except (MissionError, OSError) as error:
            self._fail(run_id, known, f"it is not passed on: {error}")

    def _environ(self, run_dir: RunDir, attempt: int) -> Mapping[str, str]:
        """The launching shell's, with its keys, which stand in no file; of its Python nothing, because ours reads."""
        environ = dict(self._core.variables.caller_of(run_dir, attempt).environ)
        return {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}

    def _child(self, run_id: str, known: _Tracked, environ: Mapping[str, str]) -> Child:
        def left(code: int) -> None:
            known.child = None
            # One that has ended and lives on as another attempt is taken up again when that trains.
            known.over = code == 0 or (code == EX_CONFIG and run_id not in self._core.live)
            if code == 0:
                known.wait_s, known.trouble = AGAIN_S, ""
                self._core.done_for(run_id, TRACKING)
            elif code != EX_RESUMABLE:
                how = f"exit code {code}" if code > 0 else f"signal {-code}"
                self._fail(run_id, known, f"its process ended with {how}{_last_words(known.dir.track_log)}")

        words = open_fresh(known.dir.track_log)
        try:
            argv = (*module_words("mission_tui.trainer.tracking"), str(known.dir.path), known.tracker)
            child = start_child(argv, left, cwd="/", env=environ, stdout=words, stderr=words, detached=True)
        finally:
            os.close(words)
        os.setpriority(os.PRIO_PROCESS, child.pid, NICENESS)
        return child

    def _read_state(self, run_id: str, known: _Tracked) -> None:
        """What its process wrote down of how it goes."""
        try:
            path = known.dir.track(known.tracker)
            changed = path.stat().st_mtime_ns
            state = read_json(path, TrackState) if changed != known.seen else None
        except (DamagedError, OSError):
            return
        known.seen = changed
        if state is None:
            return
        if state.trouble:
            self._fail(run_id, known, f"it is tried again, nothing is lost: {state.trouble}")
        elif known.trouble and state.seq:
            known.trouble = ""
            self._core.done_for(run_id, TRACKING)

    def _fail(self, run_id: str, known: _Tracked, why: str) -> None:
        """Journaled once for each reason."""
        if why != known.trouble:
            known.trouble = why
            log.warning("%s: %s", run_id, why)
            self._core.fail_for(run_id, TRACKING, why)


def _last_words(path: Path) -> str:
    """The last line that the process printed; empty where there is none."""
    try:
        descriptor, status = open_plain(path)
        with os.fdopen(descriptor, "rb") as file:
            file.seek(max(0, status.st_size - _LAST_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    said = [line for line in lines if line.strip()]
    return f": {said[-1]}" if said else ""
