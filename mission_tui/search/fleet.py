"""How the driver asks a supervisor for runs: it starts one where there is none, and tries again until one answers.

A request whose answer was lost may have been carried out, so runs are looked for by their names before they are
launched again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from mission_tui import report
from mission_tui.errors import MissionError, NoSupervisorError, PresetError, UsageError
from mission_tui.fleet.specs.spec import LaunchItem, is_driver
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.captured import Origin, origin_of
from mission_tui.ipc.client import Connection
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act, Answer, AnsweredBy, GetNamed, Launch, Resume
from mission_tui.ipc.sockets import ConnectionLostError
from mission_tui.ipc.start import was_stopped

_AGAIN_S = 2.0


class StopAskedError(Exception):
    """Somebody asked the driver to stop."""


class Fleet:
    """The runs of one group, through the supervisor of their runs root."""

    def __init__(self, root: Path, group: str) -> None:
        self._root, self._group = root, group
        self._connection: Connection | None = None

    def members(self) -> list[RunView]:
        """Every run of the group but its driver, oldest first."""
        return [view for view in self._named(self._group) if view.group == self._group and not is_driver(view.preset)]

    def views(self, runs: Sequence[str]) -> dict[str, RunView]:
        """By id; one that was removed is absent."""
        try:
            return {view.id: view for view in self._named(*runs)}
        except UsageError:
            found = {}
            for run in runs:
                with suppress(UsageError):
                    (found[run],) = self._named(run)
            return found

    def launched(self, items: Sequence[LaunchItem]) -> list[str]:
        """The ids of the runs `items`, which are on disk then. Those that are there already are not made again.

        Raises `PresetError` and `UsageError` for what can never be launched.
        """
        return self._launched(items, "")

    def anew(self, item: LaunchItem, run: str) -> str:
        """The id of another run of `item`, which begins in the place of `run`. Raises as `launched`."""
        return self._launched((item,), run)[0]

    def _launched(self, items: Sequence[LaunchItem], instead_of: str) -> list[str]:
        origin = origin_of(Path.cwd(), os.environ)
        while True:
            # The newest of a name: an older one was begun again.
            named = {view.name: view.id for view in self.members()}
            known = {name: run for name, run in named.items() if run != instead_of}
            missing = tuple(item for item in items if item.name not in known)
            if not missing:
                return [known[item.name or ""] for item in items]
            try:
                reply = self._once(partial(_launch, missing, origin))
            except (PresetError, UsageError):
                raise
            except MissionError as error:
                self._pause(str(error))  # a full disk, or the supervisor went away
                continue
            made = dict(zip((item.name for item in missing), (view.id for view in reply.runs), strict=True))
            return [(known | made)[item.name] for item in items]

    def stop(self, runs: Sequence[str]) -> None:
        """Ask `runs` (ids) to save and end; those that have ended already are passed over."""
        for run in runs:
            with suppress(UsageError):
                self._ask(partial(_stop, run))

    def resumed(self, run: str) -> bool:
        """Whether the run goes on from its last checkpoint now."""
        try:
            return isinstance(self._ask(lambda id_: Resume(id=id_, run=run, accept=True)), Accepted)
        except MissionError as error:
            say(f"{run} cannot go on, so it begins again: {error}")
            return False

    def _named(self, *refs: str) -> tuple[RunView, ...]:
        return self._ask(lambda id_: GetNamed(id=id_, refs=refs)).runs

    def _ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        """The answer, of however many supervisors. Raises `StopAskedError`, and the error that a refusal is."""
        while True:
            try:
                return self._once(make)
            except (ConnectionLostError, NoSupervisorError) as error:
                self._pause(str(error))

    def _once(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        if self._connection is None:
            # One that was stopped on purpose is started by a person.
            self._connection = Connection.connect(self._root, start=not was_stopped(self._root))
        try:
            return self._connection.ask(make)
        except ConnectionLostError:
            self._connection.close()
            self._connection = None
            raise

    def _pause(self, why: str) -> None:
        say(f"{why}; asking again")
        until = time.monotonic() + _AGAIN_S
        while time.monotonic() < until:
            if report.should_stop():
                raise StopAskedError
            time.sleep(0.1)


def _stop(run: str, id_: int) -> Act:
    return Act(id=id_, verb="stop", runs=(run,))


def _launch(items: tuple[LaunchItem, ...], origin: Origin, id_: int) -> Launch:
    return Launch(id=id_, items=items, **origin)


def say(sentence: str) -> None:
    """A line of the driver's output."""
    print(f"{time.strftime('%H:%M:%S')}  {sentence}", flush=True)  # noqa: T201 - its log
