"""Fifty runs on a simulated Slurm and a Ray beside two hundred ended ones, under a real supervisor: engines that answer
late, lose answers and answer wrongly cost no run, and are asked about all of them at once.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks.clusters.field import Field, field_of
from benchmarks.fleet.lab import until
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.outcome import OVER
from mission_tui.records.jsonl import read_all
from tests.waiting import until as soon

LIVE, ENDED = 50, 200
LISTS = ("squeue", "GET /api/jobs/")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_many_jobs_are_asked_about_together_and_outlive_lost_and_wrong_answers(tmp_path: Path) -> None:
    """They train, stay as they are through bad answers and an engine's restart, obey, and end as they were asked to."""
    with field_of(tmp_path, ended=ENDED, live=LIVE, row_s=0.5) as field:
        field.all_train(field.ids, 60.0)
        before, begun = field.counts(), time.monotonic()
        field.engine("faults", "0.05", "0.3", "0.4")
        updates = {run: view.update or 0 for run, view in field.lab.views().items()}
        soon(lambda: _advanced(field, updates) == LIVE and _bad(field) >= 6, 60.0, "all go on, answers are bad")
        after, seconds = field.counts(), time.monotonic() - begun
        for what in LISTS:
            # Once a second at most, however many runs there are.
            assert 1 <= after[what] - before.get(what, 0) <= seconds + 3
        field.engine("restart", "2")
        field.engine("faults", "0", "0.2", "0")
        stopped = field.ids[: LIVE // 2]
        accepted = field.lab.cli("stop", *stopped)["runs"]
        assert {run["id"] for run in accepted} == set(stopped)
        until(lambda: all(field.lab.views()[run].state in OVER for run in stopped), 90.0, "the stopped ones end")
        views = field.lab.views()
        assert {views[run].outcome for run in stopped} == {"stopped"}
        assert {views[run].state for run in field.ids[LIVE // 2 :]} == {"running"}
        for run in field.ids:
            events, damage = read_all(field.lab.dir(run).events, FleetEvent)
            assert (damage, [event.seq for event in events]) == ([], list(range(1, len(events) + 1)))
        _pages_are_of_all_runs(field)


def _advanced(field: Field, updates: dict[str, int]) -> int:
    views = field.lab.views()
    return sum((views[run].update or 0) > updates[run] + 2 and views[run].state == "running" for run in field.ids)


def _bad(field: Field) -> int:
    counts = field.counts()
    return counts.get("lost", 0) + counts.get("wrong", 0)


def _pages_are_of_all_runs(field: Field) -> None:
    """Pages of `status` hold every run once, whole, and a filter counts what it leaves."""
    pages = [field.lab.cli("status", "--limit", "100", "--offset", str(at)) for at in (0, 100, 200, 300)]
    shown = [run for page in pages for run in page["runs"]]
    assert [len(page["runs"]) for page in pages] == [100, 100, 50, 0]
    assert {page["total"] for page in pages} == {LIVE + ENDED}
    assert len({run["id"] for run in shown}) == LIVE + ENDED
    assert all(run["update"] for run in shown)
    failed = field.lab.cli("status", "--state", "failed", "--limit", "10")
    assert (len(failed["runs"]), failed["total"]) == (10, ENDED // 4)
    assert {run["outcome"] for run in failed["runs"]} == {"failed"}
