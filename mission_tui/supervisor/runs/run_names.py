"""Run names: one name means one live run, also while runs are being made or resumed.

Requests are answered at the same time. Between the check of a name and the moment its run is live, one of them may
wait for another process or for the disk, so it holds the name from the check on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from mission_tui.errors import UsageError
from mission_tui.fleet.launch_plan import check_name


class RunNames:
    """`live` gives the names of the runs that have not ended, by id; those that wait for a restart are among them."""

    def __init__(self, live: Callable[[], Mapping[str, str]]) -> None:
        self._live = live
        self._held: dict[str, str] = {}

    def taken_by(self, name: str, run_id: str = "") -> str | None:
        """Which other run than `run_id` has the name now, in words; None where none has."""
        other = next((it for it, its_name in self._live().items() if its_name == name and it != run_id), None)
        if other is not None:
            return f"a live run ({other})"
        return None if self._held.get(name, run_id) == run_id else "a run that is being started"

    def check(self, name: str, run_id: str = "") -> None:
        """Raise `UsageError` for what is no name, and for one that another run than `run_id` has."""
        check_name(name)
        if holder := self.taken_by(name, run_id):
            raise UsageError(f"the name '{name}' is taken by {holder}; choose another, or stop that one first")

    @contextmanager
    def held(self, name: str, run_id: str) -> Iterator[None]:
        """While this lasts only `run_id`, which may not be made yet, has the name. Raises `UsageError` as `check`."""
        self.check(name, run_id)
        self._held[name] = run_id
        try:
            yield
        finally:
            del self._held[name]
