"""Run directories that are damaged or made to harm, among healthy ones: one row each, and nobody else notices.

`typed` puts a value that nobody can mean into every field of every file, `odd` an odd kind of thing in the place of
every file and folder. A real supervisor takes them in, many at once; then each is asked for, and the process that only
looks shows the same rows. Nobody waits over two seconds, nothing is carried out, nothing outside is touched.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from mission_tui.errors import MissionError
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc.client import Connection
from mission_tui.ipc.replies import SnapshotReply
from mission_tui.ipc.requests import GetDetails, GetHistory, GetLog, GetSnapshot
from tests.faults.campaign.part import Part, Tell, Violation, memory_folder
from tests.faults.odd_runs import Case, Ground, odd_cases, typed_cases
from tests.supervisor.conftest import Lab, opened_lab

__all__ = ["ODD_PART", "TYPED_PART"]

AT_ONCE = 60
WAIT_S = 2.0
HEALTHY = 3


def _run_of(cases: Callable[[], list[Case]], what: str) -> Callable[[Iterable[int], int, Tell], Iterator[Violation]]:
    def run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
        shuffled = cases()
        random.Random(f"{seed}").shuffle(shuffled)
        left = iter(rounds)
        while batch := [shuffled[index % len(shuffled)] for index in islice(left, AT_ONCE)]:
            with memory_folder() as folder:
                yield from _shown(folder, batch)
            tell(what, len(batch))

    return run


def _shown(folder: Path, cases: Sequence[Case]) -> Iterator[Violation]:
    ground = Ground(folder)
    names: dict[str, str] = {}
    for what, spoil in cases:
        run = ground.made()
        names[run.id] = what
        spoil(ground, run)
    healthy = [ground.made("well").id for _ in range(HEALTHY)]
    with opened_lab(ground.root) as lab:
        began = time.monotonic()
        lab.start()
        snapshot = lab.snapshot()
        # A process that begins on a busy machine takes its time; what is measured is what a client then waits for.
        if (took_s := time.monotonic() - began) > 10 * WAIT_S:
            yield f"the first answer came after {took_s:.1f} s"
        deadline = time.monotonic() + 30.0
        while snapshot.unread and time.monotonic() < deadline:
            snapshot = lab.snapshot()
        yield from _rows(snapshot, names, healthy, "the supervisor")
        yield from _asked(lab, names, healthy)
        with Connection.connect_readonly(ground.root) as looking:
            seen = looking.ask(lambda id_: GetSnapshot(id=id_))
            assert isinstance(seen, SnapshotReply)
            yield from _rows(seen.snapshot, names, healthy, "who only looks")
        if lab.supervisor is None or lab.supervisor.poll() is not None:
            yield f"the supervisor has left: {sorted(names.values())}"
    yield from (f"{it}, by one of {sorted(names.values())}" for it in ground.touched())


def _rows(snapshot: FleetSnapshot, names: dict[str, str], healthy: Sequence[str], who: str) -> Iterator[Violation]:
    rows = [view.id for view in snapshot.runs]
    for run, what in names.items():
        if rows.count(run) != 1:
            yield f"{who} shows {rows.count(run)} rows of a run of which {what}"
    views = {view.id: view for view in snapshot.runs}
    for run in healthy:
        view = views.get(run)
        if view is None or view.outcome != "finished" or {*view.flags} - {"foreign"} or view.update != 3:
            yield f"{who} shows a healthy run as {view and (view.outcome, view.flags, view.update)}"


def _asked(lab: Lab, names: dict[str, str], healthy: Sequence[str]) -> Iterator[Violation]:
    with Connection.connect(lab.root, start=False) as connection:
        for run in (*names, *healthy):
            for make in (
                lambda id_, run=run: GetDetails(id=id_, run=run),
                lambda id_, run=run: GetLog(id=id_, run=run, attempt=1),
                lambda id_, run=run: GetHistory(id=id_, run=run, series=("rollout_s",)),
            ):
                began = time.monotonic()
                try:
                    connection.ask(make)
                except MissionError as error:
                    if run in healthy or "failed at this request" in str(error):
                        yield f"{names.get(run, 'nothing')}: {error}"
                if (took_s := time.monotonic() - began) > WAIT_S:
                    yield f"{names.get(run, 'nothing')}: an answer took {took_s:.1f} s"


TYPED_PART = Part("typed", ("C9",), len(typed_cases()), _run_of(typed_cases, "typed directories"))
ODD_PART = Part("odd", ("C9",), len(odd_cases()), _run_of(odd_cases, "odd directories"))
