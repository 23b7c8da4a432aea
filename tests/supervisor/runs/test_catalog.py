"""Which runs the words of a request mean, for verbs that only look: of any age, each once, a group as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, RunCreated
from mission_tui.fleet.events.outcome import Finished
from mission_tui.fleet.store import SNAPSHOT_ENDED, Store
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.runs import named_views
from tests.fleet.recorded import empty_store


@dataclass
class Kept:
    """A store of ended runs, each of which would be read from its directory when it is wanted."""

    store: Store = field(default_factory=empty_store)
    live: tuple[str, ...] = ()
    fetched: list[str] = field(default_factory=list)

    @property
    def fetch(self) -> Callable[[str], None]:
        return self.fetched.append

    def run_dir(self, run_id: str) -> RunDir:
        return RunDir(Path("/lab") / run_id)

    def record_size(self, run_id: str, size_bytes: int) -> None:
        raise NotImplementedError


def test_a_group_is_all_its_runs_however_old() -> None:
    """Those beyond the newest of a snapshot too; a run's own name counts before a group's, as for every verb."""
    runs = Kept()
    for number in range(SNAPSHOT_ENDED + 5):
        run_id = f"20261121-{number:06d}-demo-0000"
        group = "sweep" if number in (1, 2, SNAPSHOT_ENDED) else "run-9" if number < 6 else None
        runs.store.add_run(run_id, f"/lab/{run_id}", None)
        runs.store.apply(run_id, RunCreated(1, float(number), f"run-{number}", "demo", group=group))
        runs.store.apply(run_id, AttemptStarting(2, float(number), 1))
        runs.store.apply(run_id, AttemptEnded(3, number + 0.5, 1, Finished(None)))
    named = [view.name for view in named_views(runs, ("sweep", "run-9", "run-1"))]
    assert named == ["run-1", "run-2", f"run-{SNAPSHOT_ENDED}", "run-9"]
    assert len(runs.fetched) == 4
    with pytest.raises(UsageError, match=r"no run matches 'sweeb'; did you mean 'sweep'\?"):
        named_views(runs, ("sweeb",))
