"""Processes of dead runs: told once with the key that helps, counted on the top line, shown with what they hold."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.views.snapshot import FleetSnapshot, StaleRun, stale_sentence
from mission_tui.ipc.replies import LeftoverRow
from mission_tui.tui.screens.questions import LeftoversScreen
from mission_tui.tui.state.news import StaleNews
from tests.tui.fake_client import FakeClient
from tests.tui.fleets import GIB, a_fleet
from tests.tui.stage import Clock, Stage, make_app, staged

HEAVY = StaleRun(run="heavy", name="heavy-3f9a", processes=3, memory_bytes=GIB, vram_bytes=3 * GIB)
WIDE = StaleRun(run="wide", name="wide-11c0", processes=1)


def with_stale(*stale: StaleRun, **more: Any) -> FleetSnapshot:
    """A day's fleet with leftovers."""
    return structs.replace(a_fleet(**more), stale=stale)


def test_news_are_told_once_and_again_when_there_are_more() -> None:
    """Sizes are said where they are known; fewer than before is no news; gone and back is."""
    news = StaleNews()
    assert news.update(with_stale()) is None
    said = news.update(with_stale(HEAVY))
    assert said is not None
    assert said.startswith("3 stale processes of heavy-3f9a, holding 1.0G and 3.0G of VRAM: X ")
    assert news.update(with_stale(HEAVY)) is None
    assert str(news.update(with_stale(HEAVY, WIDE))).startswith("4 stale processes of 2 dead runs")
    assert news.update(with_stale(WIDE)) is None
    assert news.update(with_stale()) is None
    assert str(news.update(with_stale(WIDE))).startswith("1 stale process of wide-11c0: X ")


def test_none_is_nothing_to_say() -> None:
    """No sentence without a process."""
    assert stale_sentence(()) == ""


async def test_the_screen_says_it_at_the_first_snapshot_and_counts_it_on_top() -> None:
    """A toast and, at 80 columns too, the count with its key; both go when a snapshot has none."""
    client = FakeClient(with_stale(HEAVY))
    app = make_app(client, Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        stage = Stage(app, client, Clock(), pilot)
        await stage.shows("3 stale X")
        assert any("3 stale processes of heavy-3f9a" in toast for toast in stage.toasts())
        assert len(stage.lines()[0].rstrip()) <= 80


@pytest.mark.slow
async def test_the_count_goes_with_the_processes() -> None:
    """Nothing stale, nothing said."""
    async with staged() as stage:
        assert "stale" not in stage.text()
        await stage.arrive(with_stale(HEAVY, revision=50))
        await stage.shows("3 stale X")
        await stage.arrive(with_stale(revision=51))
        await stage.until(lambda: "stale" not in stage.text())


def test_gpu_memory_is_shown_beside_memory() -> None:
    """The list of leftovers says what each holds."""
    held = LeftoverRow(
        key="k", kind="process", verdict="ours", run="r", pid=7, age_s=60, memory_bytes=GIB, vram_bytes=3 * GIB
    )
    text = "\n".join(strip.text for strip in LeftoversScreen((held,)).lines(120))
    assert "1.0G + 3.0G VRAM" in text


def test_at_80_columns_it_still_says_whose_and_what() -> None:
    """Verdict, kind, number or file and run stay; the long words of a process and long paths give way."""
    run = "20261121-154627-heavy-3f9a"
    stale = (
        LeftoverRow(
            key="a", kind="process", verdict="ours", run=run, pid=28583, age_s=9, memory_bytes=GIB, command="x " * 80
        ),
        LeftoverRow(
            key="b", kind="file", verdict="ours", run=run, name=f"/lab/{run}/attempts/1/.exit.json.room", age_s=9
        ),
        LeftoverRow(key="c", kind="shm", verdict="unverifiable", run=run, name="/dev/shm/psm_4f5a", memory_bytes=4096),
    )
    lines = [strip.text for strip in LeftoversScreen(stale).lines(72)]
    assert max(map(len, lines)) <= 72
    for line, words in zip(
        lines,
        (
            ("ours", "process", "pid 28583", "heavy-3f9a", "1.0G"),
            ("file", ".exit.json.room"),
            ("unsure", "shm", "psm_4f5a"),
        ),
        strict=False,
    ):
        assert all(word in line for word in words), line


async def test_a_full_disk_takes_the_line_of_the_meters() -> None:
    """Nothing is more urgent there; what it means is said, and it goes with the fullness."""
    full = structs.replace(
        a_fleet(revision=60), host=structs.replace(a_fleet().host, disk_full=True, disk_free=1 << 20)
    )
    async with staged() as stage:
        await stage.arrive(full)
        await stage.shows("disk full, 1.0M left: nothing starts, runs go on and save when there is room")
        await stage.arrive(a_fleet(revision=61))
        await stage.until(lambda: "disk full" not in stage.text())
