"""The runs as the supervisor holds them: the registry with its journals, and a handle for each run that lives.

Nothing here starts or ends a run. `registry` is for whoever needs only runs and their journals, `machine_state` for
whoever needs only meters, `variables` for secrets; `core` is all of it. `run_on_disk` serves readers too, and so does
the catalog below, which the read-only server offers as the supervisor does: a store of runs, and where their
directories are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Protocol

from mission_tui.errors import UsageError
from mission_tui.fleet.store import Store
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.records.runs.layout import RunDir


class RunCatalog(Protocol):
    """`live` holds the ids of runs of which every row is in the store; `fetch` reads the whole of one that is not."""

    @property
    def store(self) -> Store: ...
    @property
    def live(self) -> Container[str]: ...
    @property
    def fetch(self) -> Callable[[str], None]: ...

    def run_dir(self, run_id: str) -> RunDir: ...
    def record_size(self, run_id: str, size_bytes: int) -> None: ...


def resolve_run(catalog: RunCatalog, ref: str) -> str:
    """The one run that `ref` means. Raises `UsageError` for none or several."""
    found = catalog.store.resolve(ref)
    if len(found) != 1:
        raise UsageError(f"'{ref}' means {len(found)} runs here; name one")
    catalog.fetch(found[0])
    return found[0]


def named_views(catalog: RunCatalog, refs: Sequence[str]) -> tuple[RunView, ...]:
    """The runs that `refs` mean, each once; of a group, oldest first. Raises `UsageError`."""
    ids = dict.fromkeys(run_id for ref in refs for run_id in catalog.store.resolve(ref))
    for run_id in ids:
        catalog.fetch(run_id)
    return tuple(catalog.store.view(run_id) for run_id in ids)
