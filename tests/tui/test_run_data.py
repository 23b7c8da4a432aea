"""Asking about the shown run: no question twice at once, none in a hurry, none for what is not on the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from mission_tui.errors import MissionError
from mission_tui.ipc.replies import Refused
from mission_tui.ipc.requests import AnsweredBy, GetDetails, GetHistory, GetLog, Request
from mission_tui.tui.state.run_data import RunDataLoader
from tests.tui.fake_client import FakeClient
from tests.tui.fleets import LIVE, a_fleet, a_run, ended
from tests.tui.stage import Clock

Answer = TypeVar("Answer")


class FakeDesk:
    """Asks a fake client at once, or keeps the work until `work` is awaited."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.client = FakeClient(a_fleet((*LIVE, ended("done-0001", 5))))
        self.work: list[Coroutine[Any, Any, None]] = []

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        return await self.client.ask(make)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(work)

    async def done(self) -> None:
        while self.work:
            await self.work.pop(0)

    def asked(self, kind: type[Request]) -> int:
        return len(self.client.asked_for(kind))


@pytest.fixture
def desk() -> FakeDesk:
    return FakeDesk()


async def test_each_tab_asks_only_for_its_own(desk: FakeDesk) -> None:
    """Health and config need the details, which are asked for once; log the log; learn a metric's history."""
    loader = RunDataLoader(desk, lambda: None)
    for tab, series in (("health", ()), ("config", ()), ("log", ()), ("learn", ("steps_per_s",))):
        loader.request(LIVE[0], tab, series)
        await desk.done()
    assert [type(request) for request in desk.client.asked] == [GetDetails, GetLog, GetHistory]


async def test_a_question_is_not_asked_while_it_is_open(desk: FakeDesk) -> None:
    """Snapshots come faster than answers."""
    loader = RunDataLoader(desk, lambda: None)
    for _ in range(5):
        desk.clock.advance(9)
        loader.request(LIVE[0], "log")
    assert len(desk.work) == 1
    await desk.done()


async def test_unchanged_facts_are_not_asked_again(desk: FakeDesk) -> None:
    """Configuration is asked for again only when state, attempt or checkpoint changed."""
    loader = RunDataLoader(desk, lambda: None)
    for view in (LIVE[0], LIVE[0], a_run("heavy-3f9a", last_checkpoint="020000000")):
        desk.clock.advance(60)
        loader.request(view, "config")
        await desk.done()
    assert desk.asked(GetDetails) == 2


async def test_a_live_log_is_asked_for_once_a_second_and_an_ended_one_once(desk: FakeDesk) -> None:
    """What cannot grow is not asked for."""
    loader = RunDataLoader(desk, lambda: None)
    for _ in range(8):
        desk.clock.advance(0.5)
        loader.request(LIVE[0], "log")
        await desk.done()
    assert desk.asked(GetLog) == 4
    for _ in range(8):
        desk.clock.advance(0.5)
        loader.request(ended("done-0001", 5), "log")
        await desk.done()
    assert desk.asked(GetLog) == 5


async def test_an_answer_about_another_run_is_dropped(desk: FakeDesk) -> None:
    """The person has moved on before it came."""
    calls: list[int] = []
    loader = RunDataLoader(desk, lambda: calls.append(1))
    loader.request(LIVE[0], "config")
    loader.data_of(LIVE[1])
    await desk.done()
    assert loader.data is not None
    assert loader.data.details is None
    assert not calls


async def test_a_failed_question_says_why_and_is_asked_again(desk: FakeDesk) -> None:
    """The sentence is kept until an answer comes; the next try waits its second."""
    loader = RunDataLoader(desk, lambda: None)
    desk.client.vanish()
    loader.request(LIVE[0], "config")
    await desk.done()
    assert loader.data is not None
    assert loader.data.trouble == "no supervisor answers"
    desk.client.come_back()
    loader.request(LIVE[0], "config")
    assert not desk.work
    desk.clock.advance(1.5)
    loader.request(LIVE[0], "config")
    await desk.done()
    assert loader.data.details is not None
    assert loader.data.trouble is None


async def test_a_fake_client_refuses_like_a_real_one(desk: FakeDesk) -> None:
    """Unknown requests are `MissionError`s, so tests cannot pass on a silent None."""
    from mission_tui.ipc.requests import Export

    with pytest.raises(MissionError):
        await asyncio.wait_for(desk.ask(lambda id_: Export(id=id_, run="r", path="/x")), 1)


async def test_a_curve_below_a_list_is_asked_for_as_fast_as_the_run_outgrows_it(desk: FakeDesk) -> None:
    """Every two seconds while an eighth of it is missing, then once in ten."""
    loader = RunDataLoader(desk, lambda: None)
    reached = (3, 30, 31, 32, 300)
    asked = []
    for update in reached:
        desk.clock.advance(2.5)
        view = a_run("heavy-3f9a", update=update)
        desk.client.snapshot = a_fleet((view,))
        loader.request_history(view, "steps_per_s", 80)
        await desk.done()
        asked.append(desk.asked(GetHistory))
    assert asked == [1, 2, 2, 2, 3]


async def test_an_update_is_read_off_once(desk: FakeDesk) -> None:
    """An answer ends the asking, and a refusal is asked about again no sooner than a second later."""
    loader = RunDataLoader(desk, lambda: None)
    for update in (700, 700, 700, 705):
        loader.request_exact(LIVE[0], update, ("steps_per_s",))
        await desk.done()
    desk.client.answers[GetHistory] = lambda request: Refused(re=request.id, message="no")
    for _ in range(3):
        loader.request_exact(LIVE[0], 710, ("steps_per_s",))
        await desk.done()
    assert desk.asked(GetHistory) == 3
    assert loader.data_of(LIVE[0]).trouble == "no"
