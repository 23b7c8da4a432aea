"""Moving through a replay: the moment is always in sight, keys add up, and nothing rings or acts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.views.snapshot import FleetSnapshot, HostMeters, Replay
from mission_tui.ipc.replies import OperatorReply, SnapshotReply
from mission_tui.ipc.requests import GetStrip, GoTo
from mission_tui.tui.widgets.bars import share_of
from tests.tui.fleets import NOW, a_fleet
from tests.tui.stage import Stage, staged

SPAN = Replay(NOW - 7200.0, NOW + 3600.0)


def past(t: float) -> FleetSnapshot:
    """The usual fleet, as one of the past."""
    fleet = a_fleet()
    return structs.replace(fleet, t=t, replay=SPAN, revision=int(t))


def test_a_moment_outside_the_span_stands_at_its_end() -> None:
    """A clock that was set must not draw a bar as long as the years between."""
    assert [share_of(Replay(10.0, 20.0), t) for t in (0.0, 10.0, 15.0, 20.0, 1.8e9)] == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert share_of(Replay(10.0, 10.0), 5.0) == 1.0


def arriving(stage: Stage) -> Callable[[Any], OperatorReply]:
    """Goes to the asked moment, and shows it to whoever watches."""

    def go(request: GoTo) -> OperatorReply:
        stage.client.show(past(min(max(request.t, SPAN.since), SPAN.until)))
        return SnapshotReply(re=request.id, snapshot=stage.client.snapshot)

    return go


@asynccontextmanager
async def replaying(size: tuple[int, int] = (80, 24)) -> AsyncIterator[Stage]:
    """A replay on the stage."""
    async with staged(past(NOW), size, readonly=True) as stage:
        stage.client.answers[GoTo] = arriving(stage)
        yield stage


def asked(stage: Stage) -> list[float]:
    """The moments gone to, from now on the stage counted."""
    return [request.t - NOW for request in stage.client.asked_for(GoTo)]


async def test_the_first_line_says_that_it_is_the_past() -> None:
    """In words, with the moment; below, where it lies and which keys move it; on the run's own screen too."""
    async with replaying() as stage:
        for _ in range(2):
            assert stage.lines()[0].startswith(" REPLAY ")
            assert "1h ago" in stage.lines()[0]
            assert "H now" in stage.text()
            assert "─●─" in stage.text()
            await stage.press("enter")
            await stage.shows("Esc back")
            await stage.still()


async def test_meters_that_nobody_kept_are_no_dashes() -> None:
    """One sentence in their place."""
    fleet = past(NOW)
    unmeasured = HostMeters("gpu-box", 8, gpu_note="no meters of this moment: they are kept for a day")
    async with staged(structs.replace(fleet, host=unmeasured, gpus=()), readonly=True) as stage:
        assert stage.lines()[1].strip() == "no meters of this moment: they are kept for a day"


async def test_the_strip_is_that_of_the_moment() -> None:
    """It ends where the replay stands, says so, and is asked for once of each moment."""
    async with replaying((160, 50)) as stage:
        await stage.press("comma")
        then = time.strftime("%H:%M:%S", time.localtime(NOW - 60))
        await stage.shows(f"{then}│")
        assert "now│" not in stage.text()
        stage.clock.advance(60)
        stage.app.arrivals.redraw_screens()
        await stage.still()
        assert [request.until - NOW for request in stage.client.asked_for(GetStrip)] == [0, -60]


async def test_keys_go_back_and_on() -> None:
    """By a step, which other keys make smaller and larger."""
    async with replaying() as stage:
        await stage.press("comma")
        await stage.until(
            lambda: stage.app.app_context.snapshot and stage.app.app_context.snapshot.t == NOW - 60, "a minute back"
        )
        await stage.press("right_parenthesis", "comma")
        await stage.shows("10m back")
        await stage.until(lambda: asked(stage) == [-60, -660])
        await stage.press("left_parenthesis", "left_parenthesis", "full_stop")
        await stage.until(lambda: asked(stage)[-1] == -650, "ten seconds on")


async def test_keys_that_come_fast_add_up() -> None:
    """While one moment is being read, the next are counted, and only their sum is gone to."""
    async with replaying() as stage:
        await stage.press(*["comma"] * 5)
        await stage.until(lambda: asked(stage)[-1:] == [-300], "five minutes back")
        assert len(asked(stage)) <= 5
        await stage.press("right_parenthesis", "right_parenthesis", *["comma"] * 9)
        await stage.until(lambda: asked(stage)[-1] == -7200.0, "no further than the first run")


async def test_a_time_can_be_typed() -> None:
    """What is no time is asked for again, with why beside what was typed, and nothing moves."""
    async with replaying() as stage:
        await stage.press("g")
        await stage.shows("Go to")
        await stage.press(*"soon", "enter")
        await stage.shows("'soon' is not a time")
        assert asked(stage) == []


async def test_h_leads_there_and_back() -> None:
    """Ten minutes back from now; from a replay to now, of the same runs root."""
    async with staged() as stage:
        await stage.press("comma")
        await stage.until(lambda: any("this is the present" in toast for toast in stage.toasts()))
        await stage.press("H")
        assert (stage.app.next_root, stage.app.next_replay_t) == (a_fleet().runs_root, a_fleet().t - 600)
    async with replaying() as stage:
        await stage.press("H")
        assert (stage.app.next_root, stage.app.next_replay_t) == (a_fleet().runs_root, None)


async def test_the_next_screen_goes_on_with_what_was_chosen_and_marked() -> None:
    """A key that acts at once acts there on the run that it would have acted on before."""
    async with staged() as stage:
        await stage.press("down", "space", "down")
        left_as = stage.app.view_state
        chosen, marked = left_as.chosen, set(left_as.marked)
    assert marked
    async with staged(view_state=left_as.for_another_screen()) as stage:
        assert (stage.app.view_state.chosen, stage.app.view_state.marked) == (chosen, marked)
        await stage.shows("1 marked")


async def test_keys_that_act_say_that_this_is_the_past() -> None:
    """And how one comes to where they do."""
    async with replaying() as stage:
        await stage.press("K")
        await stage.until(lambda: any("read-only: H goes to now" in toast for toast in stage.toasts()))


async def test_memory_alone_is_a_meter() -> None:
    """Of a moment of which the processors were not kept, the rest is shown."""
    fleet = past(NOW)
    host = HostMeters("gpu-box", 8, gpu_note="no GPU meters kept", ram_used=3 << 30, ram_total=8 << 30)
    async with staged(structs.replace(fleet, host=host, gpus=()), readonly=True) as stage:
        assert "RAM 3.0/8.0G" in stage.lines()[1]


async def test_before_the_first_run_there_was_nothing() -> None:
    """The line says so at its left end, and nowhere else; a moment without runs is no lesson in starting some."""
    async with replaying() as stage:
        assert "nothing before" not in stage.text()
        await stage.press(*[")"] * 4, "comma")
        await stage.shows("nothing before ")
        await stage.arrive(structs.replace(past(NOW), runs=()))
        await stage.shows("No run was there at this moment.")
        assert "elsewhere" not in stage.text()


async def test_what_was_found_then_does_not_ring_now() -> None:
    """A critical finding that appears while one scrubs is no news."""
    async with replaying() as stage:
        fleet = past(NOW + 1)
        nan = Finding("9", "nan", "critical", 5, 5, "loss is NaN", "lr", "lower it")
        ill = structs.replace(fleet.runs[0], findings=(nan,))
        await stage.arrive(structs.replace(fleet, runs=(ill, *fleet.runs[1:])))
        assert stage.toasts() == []


async def test_what_has_no_meaning_in_the_past_is_said_and_not_asked() -> None:
    """F5 and `c` open nothing and show no error."""
    async with replaying() as stage:
        for key, said in (("f5", "a replay does not change by itself"), ("c", "runs are compared as they are now")):
            await stage.press(key)
            await stage.until(lambda said=said: any(said in toast for toast in stage.toasts()))  # type: ignore[misc]
            assert all(told.severity == "information" for told in stage.app._notifications)
            assert len(stage.app.screen_stack) == 1
