"""The link to the supervisor: lost, found again, slow, and the moment of coming back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from mission_tui.ipc.requests import Act, AnsweredBy, GetSnapshot
from mission_tui.tui import snapshot_arrivals
from mission_tui.tui.screens.run import RunScreen
from mission_tui.tui.snapshot_arrivals import DrawRate
from tests.tui.fake_client import Answer, FakeClient
from tests.tui.fleets import NOW, a_fleet, a_run
from tests.tui.stage import Clock, Stage, make_app, staged


async def test_a_lost_supervisor_is_a_banner_and_the_screen_stays() -> None:
    """The runs stay on the screen; the meters' line says that it reconnects; moving still works."""
    async with staged() as stage:
        stage.client.vanish()
        await stage.shows("supervisor gone, reconnecting; runs go on")
        assert "heavy-3f9a" in stage.text()
        await stage.press("down")
        await stage.shows("─ wide-11c0 ─")


async def test_a_run_says_too_that_its_supervisor_is_lost() -> None:
    """Over an hour of looking at one run its numbers would stand, and nothing say that they are old."""
    async with staged() as stage:
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.screen, RunScreen))
        stage.client.vanish()
        await stage.shows("▲ supervisor gone, reconnecting; runs go on")
        assert "heavy-3f9a" in stage.text()
        stage.client.come_back()
        stage.client.snapshot = a_fleet(revision=7)
        await stage.until(lambda: "reconnecting" not in stage.text())


async def test_a_new_supervisor_takes_the_banner_away() -> None:
    """The next snapshot shows meters again, on the same screen with the same choice."""
    async with staged() as stage:
        await stage.press("down")
        stage.client.vanish()
        await stage.shows("reconnecting")
        stage.client.come_back()
        stage.client.snapshot = a_fleet(revision=7)
        await stage.until(lambda: "reconnecting" not in stage.text())
        assert "─ wide-11c0 ─" in stage.text()
        assert "GPU0" in stage.lines()[1]


async def test_a_supervisor_that_never_answered_is_not_called_gone() -> None:
    """On the first visit the banner says why there is none yet, and the screen tries on."""
    client, clock = FakeClient(a_fleet()), Clock()
    client.vanish()
    app = make_app(client, clock)
    async with app.run_test(size=(100, 24)) as pilot:
        stage = Stage(app, client, clock, pilot)
        await stage.shows("no supervisor yet, trying again (the supervisor went away)")
        client.come_back()
        await stage.shows("heavy-3f9a")


async def test_a_supervisor_that_stands_still_is_said_to_and_its_next_word_takes_that_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is stopped ends no link: old numbers are not shown as those of this moment."""
    monkeypatch.setattr(snapshot_arrivals, "_LOOK_S", 0.01)
    monkeypatch.setattr(snapshot_arrivals, "_ANSWER_S", 0.05)
    async with staged() as stage:
        goes_on, asked, client = asyncio.Event(), stage.client.ask, stage.client

        async def ask(make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
            await goes_on.wait()
            return await asked(make)

        monkeypatch.setattr(client, "ask", ask)
        stage.clock.advance(60)
        await stage.shows("the supervisor stands still: all that is shown is of")
        assert "heavy-3f9a" in stage.text()
        goes_on.set()
        await stage.until(lambda: "stands still" not in stage.text())
        assert "GPU0" in stage.lines()[1]


async def test_a_supervisor_that_has_nothing_new_is_not_said_to_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked, it answers, and nothing is shown of that."""
    monkeypatch.setattr(snapshot_arrivals, "_LOOK_S", 0.01)
    async with staged() as stage:
        stage.clock.advance(60)
        await stage.until(lambda: stage.client.asked_for(GetSnapshot))
        await stage.still()
        assert "stands still" not in stage.text()
        assert len(stage.client.asked_for(GetSnapshot)) == 1


async def test_a_supervisor_of_another_version_is_not_called_gone() -> None:
    """It is there and refuses: the banner says so, all of it, with what helps, and keeps to the terminal's width."""
    async with staged() as stage:
        why = "this supervisor (2.0) speaks protocol 2, the client (1.0) 1: use one version of mission-tui for both"
        stage.app.arrivals.lost(why, "refuses")
        await stage.still()
        said = " ".join(" ".join(line.split()) for line in stage.lines()[1:5])
        assert "▲ the supervisor refuses this screen: leave with q and start mission-tui again" in said
        assert f"({why})" in said
        assert "heavy-3f9a" in stage.text()


async def test_a_key_without_a_supervisor_says_so() -> None:
    """The request fails as a toast; nothing hangs."""
    async with staged() as stage:
        stage.client.vanish()
        await stage.shows("reconnecting")
        await stage.press("p")
        await stage.until(lambda: "no supervisor answers" in stage.toasts())
        assert len(stage.client.asked_for(Act)) == 1


async def test_snapshots_are_drawn_at_most_four_times_a_second() -> None:
    """Of a flood only a few are drawn, however long it lasts here, and the newest when its time has come."""
    async with staged() as stage:
        drawn: set[int] = set()
        begun = time.monotonic()
        for revision in range(2, 40):
            stage.client.show(a_fleet((a_run(f"flood-{revision:04d}"),), revision=revision))
            await stage.pilot.pause()
            assert stage.app.app_context.snapshot is not None
            drawn.add(stage.app.app_context.snapshot.revision)
        # One was drawn before, and one may be due at once.
        assert len(drawn) <= 2 + 4 * (time.monotonic() - begun)
        stage.clock.advance(1)
        await stage.shows("flood-0039")


def test_pace_goes_from_a_quarter_to_four_a_second() -> None:
    """`-` and `+` change how long the next picture waits, within bounds."""
    pace = DrawRate()
    assert pace.due(0.0) == 0.0
    pace.drawn(10.0)
    assert pace.due(10.0) == 0.25
    assert pace.due(10.3) == 0.0
    assert [pace.turn(-1) for _ in range(6)] == [2.0, 1.0, 0.5, 0.25, 0.25, 0.25]
    assert pace.due(10.0) == 4.0
    assert pace.turn(1) == 0.5


async def test_plus_and_minus_change_the_rate() -> None:
    """The keys say the new rate."""
    async with staged() as stage:
        await stage.press("-")
        await stage.until(lambda: "redraws at most 2 times a second" in stage.toasts())
        await stage.press("+")
        await stage.until(lambda: "redraws at most 4 times a second" in stage.toasts())


async def test_coming_back_tells_what_happened_meanwhile() -> None:
    """Two runs ended in the last hour and a half, one of them badly, and a finding opened."""
    async with staged(last_seen_t=NOW - 6000) as stage:
        await stage.shows(": 2 ended (1 failed), 1 finding")


async def test_leaving_tells_when_it_was_seen_and_how_many_go_on() -> None:
    """`q` ends the screen with the time of the last snapshot and the number of live and waiting runs."""
    async with staged() as stage:
        await stage.press("q")
        assert stage.app.return_value == 0
        assert (stage.app.arrivals.last_seen_t, stage.app.arrivals.live) == (NOW, 4)


async def test_a_picture_that_is_due_when_the_program_ends_is_not_drawn() -> None:
    """Its timer may come after the last screen went; there is nothing to draw it on, and nothing to say."""
    async with staged() as stage:
        await stage.press("q")
    stage.app.arrivals._draw()


async def test_a_supervisor_that_was_stopped_stays_stopped_until_f5() -> None:
    """The banner says who did what, and the key that starts it again."""
    async with staged() as stage:
        stage.app.arrivals.lost("no supervisor runs for /home/ada/lab/runs: it was stopped on request", "stopped")
        await stage.shows("the supervisor was stopped on request: F5 starts it again; runs go on")
        stage.client.gone = True
        await stage.press("f5")
        await stage.until(lambda: "refreshed" in stage.toasts())
