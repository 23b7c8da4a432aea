"""The one way in which the screen asks what is asked again while it is answered: one at a time, and the newest wins."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from mission_tui.errors import MissionError, UsageError
from mission_tui.tui.client import LatestQuery


class Asked:
    """A query whose answers come when the test lets them; `taken` are those that counted."""

    def __init__(self, *, settle_s: float = 0.0, takes_all: bool = False) -> None:
        self.questions: list[str] = []
        self.taken: list[tuple[str, str | MissionError]] = []
        self._answers: asyncio.Queue[str | MissionError] = asyncio.Queue()
        self.first = asyncio.Event()
        self._works: set[asyncio.Task[None]] = set()
        self.query = LatestQuery(self._start, self._ask, self._take, settle_s=settle_s, takes_all=takes_all)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    async def _ask(self, question: str) -> str:
        self.questions.append(question)
        self.first.set()
        answer = await self._answers.get()
        if isinstance(answer, MissionError):
            raise answer
        return answer

    def _take(self, question: str, answer: str | MissionError) -> None:
        self.taken.append((question, answer))

    async def request(self, *questions: str) -> None:
        """Ask these, and wait until the first of them is on its way."""
        for question in questions:
            self.query.request(question)
        await self.settle()

    async def answer(self, answer: str | MissionError) -> None:
        """Let the answer that is awaited come."""
        self._answers.put_nowait(answer)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_of_questions_that_come_meanwhile_the_last_is_asked_next() -> None:
    """Never two at once; the answer to an outdated one does not count."""
    asked = Asked()
    await asked.request("a")
    await asked.request("b", "c")
    assert asked.questions == ["a"]
    await asked.answer("of a")
    assert (asked.questions, asked.taken) == (["a", "c"], [])
    await asked.answer("of c")
    assert asked.taken == [("c", "of c")]
    assert not asked.query.is_open


async def test_the_same_question_can_be_asked_again_while_it_is_answered() -> None:
    """What changed in between is in the second answer, so the first does not count."""
    asked = Asked()
    await asked.request("a")
    await asked.request("a")
    await asked.answer("old")
    await asked.answer("new")
    assert (asked.questions, asked.taken) == (["a", "a"], [("a", "new")])


async def test_answers_that_join_one_another_all_count() -> None:
    """Pages of a log: the newest is asked next, and the one before is kept."""
    asked = Asked(takes_all=True)
    await asked.request("a")
    await asked.request("b")
    await asked.answer("of a")
    await asked.answer("of b")
    assert asked.taken == [("a", "of a"), ("b", "of b")]


async def test_what_was_dropped_does_not_count() -> None:
    """The sheet was closed, or another run is shown; a later question is asked as ever."""
    asked = Asked(takes_all=True)
    await asked.request("a")
    await asked.request("b")
    asked.query.drop()
    await asked.answer("of a")
    assert (asked.questions, asked.taken) == (["a"], [])
    await asked.request("c")
    await asked.answer("of c")
    assert asked.taken == [("c", "of c")]


async def test_a_refusal_is_an_answer() -> None:
    """Of the newest question; that of an outdated one is nobody's concern any more."""
    asked = Asked()
    await asked.request("a")
    await asked.request("b")
    await asked.answer(UsageError("no a"))
    refusal = UsageError("no b")
    await asked.answer(refusal)
    assert asked.taken == [("b", refusal)]


async def test_a_burst_is_one_question() -> None:
    """Asked once nothing newer has come for a while."""
    asked = Asked(settle_s=0.02)
    await asked.request("a", "ab", "abc")
    assert asked.questions == []
    async with asyncio.timeout(5):
        await asked.first.wait()
    await asked.answer("of abc")
    assert (asked.questions, asked.taken) == (["abc"], [("abc", "of abc")])
