"""``python -m mission_tui.trainer.tracking RUN_DIR [TRACKER] [--once]``: one run, passed on as its files grow.

It reads files and talks to a tracker, so whatever happens to it costs the training nothing. What the tracker has taken
stands in `track-NAME.json`, and the next process goes on from there. What fails is tried again, ever more seldom; once
the run has ended for a day at most.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from mission_tui.errors import EX_CONFIG, EX_RESUMABLE, EX_UNAVAILABLE, DamagedError, MissionError
from mission_tui.fleet.text import clean
from mission_tui.plain_files import open_folder
from mission_tui.records.atomic import read_json, write_json
from mission_tui.records.runs.attempt import TrackState, lease_is_held, read_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.tracking.news import News, NewsReader, about, evaluations
from mission_tui.trainer.tracking.trackers import Tracker, connect

LOOK_S = 2.0
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 300.0
AFTER_END_S = 86_400.0
"""So long after its end a run that cannot be passed on is tried again by this process."""

UNOWNED_S = 60.0
"""A run that nobody owns for so long, and nobody has said to be over, is left to the next supervisor."""

_WHY_CHARACTERS = 300
log = logging.getLogger(__name__)


class Forwarding:
    """What one process does for the run `run_dir`: `step` by step, with its state on disk after each."""

    def __init__(self, run_dir: RunDir, tracker: str | None = None, *, once: bool = False) -> None:
        spec = read_spec(run_dir.spec)
        name = tracker or spec.run.track
        if name is None:
            raise MissionError(f"{run_dir.id} names no tracker; say which one")
        self._run_dir, self._name, self._once = run_dir, name, once
        self._checkpoints = spec.run.track_checkpoints
        self.state = read_state(run_dir, name) or TrackState(name)
        self._written: TrackState | None = None
        self._tracker: Tracker | None = None
        self._reading: NewsReader | None = None

    def step(self) -> bool:
        """Pass on what is new; whether the run has ended and all of it has arrived. Raises whatever a tracker does."""
        if self._tracker is None:
            self._connect()
        assert self._tracker is not None
        assert self._reading is not None
        news = self._reading.read()
        self._pass_on(self._tracker, news)
        for played in evaluations(self._run_dir, self.state.played):
            self._tracker.played(played)
            self.state.played += (played.file,)
        self.state.seq, self.state.event = news.seq, news.event
        over = not news.behind and (bool(news.ended) or self._once)
        if over:
            self._tracker.end(news.ended or "stopped")
            self._tracker = None
        self.state.complete = over and bool(news.ended)
        self._write("")
        return over

    def fail(self, error: BaseException) -> None:
        """What could not be passed on is tried again by another connection, from where the last one was."""
        said = clean(str(error).strip().partition("\n")[0] or type(error).__name__, _WHY_CHARACTERS)
        if not isinstance(error, MissionError):
            said = f"{self._name}: {said}"
            log.warning("%s", said, exc_info=error)
        if self._tracker is not None:
            self._tracker.leave()
        self._tracker = self._reading = None
        self._write(said)

    def _connect(self) -> None:
        facts = about(self._run_dir)
        state = self.state
        tracker = connect(self._name, facts, self._run_dir.path, state.handle, online=state.online)
        state.handle, state.where, state.online = tracker.handle, tracker.where, not tracker.local
        seq = state.seq if tracker.known is None else tracker.known
        self._reading = NewsReader(self._run_dir, seq, state.event)
        self._tracker = tracker
        tracker.settle(facts)

    def _pass_on(self, tracker: Tracker, news: News) -> None:
        if news.resettled:
            tracker.settle(about(self._run_dir))
        done = 0
        for at, timesteps in news.backs:
            tracker.points(news.points[done:at])
            tracker.back_to(timesteps)
            done = at
        if news.points[done:]:
            tracker.points(news.points[done:])
        for told in news.told:
            tracker.tell(told)
        for saved in news.saved if self._checkpoints else ():
            tracker.save(saved)

    def _write(self, trouble: str) -> None:
        """A disk that refuses costs what would be sent twice by the next process."""
        self.state.trouble = trouble
        now = structs.replace(self.state)
        if now != self._written:
            with suppress(MissionError):
                write_json(self._run_dir.track(self._name), now)
                self._written = now


def read_state(run_dir: RunDir, tracker: str) -> TrackState | None:
    """How far it came; None where it was not passed on yet, or where that cannot be read."""
    with suppress(DamagedError, OSError):
        return read_json(run_dir.track(tracker), TrackState)
    return None


def main(words: Sequence[str]) -> int:
    """0 once all has arrived, 69 when it was given up, 75 if another process does it already, 78 for what never can."""
    once = "--once" in words
    folder, *named = [word for word in words if word != "--once"]
    run_dir = RunDir(Path(folder))
    lock = open_folder(run_dir.path)
    # What libraries write beside the run, checkpoints among it, is as private as the run itself.
    before = os.umask(0o077)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        forwarding = Forwarding(run_dir, next(iter(named), None), once=once)
        return _until_over(run_dir, forwarding, once=once)
    except BlockingIOError:
        return EX_RESUMABLE
    except (MissionError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return EX_CONFIG
    finally:
        os.umask(before)
        os.close(lock)


def _until_over(run_dir: RunDir, forwarding: Forwarding, *, once: bool) -> int:
    wait_s, unowned_since = FIRST_WAIT_S, None
    while True:
        begun = time.monotonic()
        try:
            if forwarding.step():
                return 0
            wait_s, pause_s = FIRST_WAIT_S, LOOK_S
        except Exception as error:  # noqa: BLE001 - a tracker's library may raise anything
            forwarding.fail(error)
            wait_s, pause_s = min(2 * wait_s, LONGEST_WAIT_S), wait_s
            if once:
                print(forwarding.state.trouble, file=sys.stderr)  # noqa: T201
                return EX_UNAVAILABLE
        if not run_dir.spec.exists():
            return 0  # somebody removed it
        if lease_is_held(run_dir.lease):
            unowned_since = None
        elif unowned_since is None:
            unowned_since = begun
        elif begun - unowned_since > (AFTER_END_S if forwarding.state.trouble else UNOWNED_S):
            return EX_UNAVAILABLE
        time.sleep(pause_s)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
