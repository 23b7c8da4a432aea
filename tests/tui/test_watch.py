"""The tab `watch`: a policy plays frame by frame, as its keys say, and never further than the screen has shown."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.fleet.views.played_frame import ActionHead, Canvas, PlayedFrame
from mission_tui.fleet.views.snapshot import Replay
from mission_tui.ipc import replies
from mission_tui.ipc.client_environment import Origin
from mission_tui.ipc.requests import Act, Evaluate, Play, StopPlay
from mission_tui.tui.screens.run import RunScreen
from mission_tui.tui.screens.watch import _heads, _in_a_line, _verdict
from mission_tui.tui.session import chosen
from mission_tui.tui.state import player_feed
from mission_tui.tui.state.player_feed import PACES, PlayerFeed, PlaySpeed
from mission_tui.tui.terminal.driver import MeteredDriver
from tests.tui.fake_client import FakeClient, evaluation
from tests.tui.fleets import LIVE, NOW, a_fleet
from tests.tui.stage import Stage, staged


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for a person to see anything."""
    paces = tuple(PlaySpeed(pace.word, 100.0, pace.steps) for pace in PACES)
    monkeypatch.setattr(player_feed, "PACES", paces)
    monkeypatch.setattr(player_feed, "_SEEN_S", 0.01)
    monkeypatch.setattr(player_feed, "_IDLE_SHARE", 0.0)


@asynccontextmanager
async def watching(size: tuple[int, int] = (80, 24), **options: Any) -> AsyncIterator[Stage]:
    """The tab, opened by its key from the list."""
    async with staged(size=size, **options) as stage:
        await stage.press("w")
        await stage.until(lambda: isinstance(stage.screen, RunScreen), "the run's screen")
        yield stage


def steps(stage: Stage) -> int:
    """How far the episode is."""
    return stage.client.player.step if stage.client.player else -1


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (200, 50)])
async def test_it_plays_as_soon_as_it_is_opened(size: tuple[int, int]) -> None:
    """Picture, return, step and value of the newest checkpoint, and the next action where there is room."""
    async with watching(size) as stage:
        await stage.until(lambda: steps(stage) > 3, "steps")
        await stage.press("space", "enter")
        await stage.shows("step 0 ")
        text = stage.text()
        assert ("return" in text, "value 12.5" in text, "policy at 11.5M steps" in text) == (True, True, True)
        assert "> 1 " in text or "next action  0 " in text, "what the policy is about to do is seen at every size"
        first = stage.client.asked_for(Play)[0]
        assert (first.checkpoint, first.order.steps, first.order.restart) == (None, 0, False)


async def test_a_frame_that_comes_while_the_screen_is_left_is_drawn_nowhere() -> None:
    """Its widgets are gone before it has closed its player, and the answer to the last question may come between."""
    async with watching() as stage:
        screen = stage.screen
        assert isinstance(screen, RunScreen)
        await stage.until(lambda: steps(stage) > 3, "steps")
        await stage.press("escape")
        await stage.until(lambda: stage.screen is not screen, "the list")
        screen._player.feed._changed()  # it asked the screen for a widget that was gone, which raised


def test_actions_have_the_names_that_the_environment_gives_them() -> None:
    """One below the other and as wide as the widest; what is no plain character of a name is shown as what it is."""
    head = ActionHead(taken=1.0, probabilities=(0.25, 0.75), names=("left", "right\x1b[2J"))
    rows = ["".join(words for words, _ in parts) for parts in _heads((head,), 40, 9)]
    assert [row.split()[:2] for row in rows[1:]] == [["left", "███─────────"], [">", "right␛[2J"]]
    assert "left 25%" in "".join(words for words, _ in _in_a_line((head,)))


def test_values_of_actions_are_bars_from_the_least_to_the_greatest() -> None:
    """With their numbers, in rows and in a line; what only acts shows its action and nothing else."""
    head = ActionHead(taken=1.0, values=(-3.5, 2.0, "nan"), names=("left", "none", "right"))
    title, *rows = ["".join(words for words, _ in parts) for parts in _heads((head,), 40, 9)]
    assert title == "the value of each action"
    assert [row.split() for row in rows[:2]] == [
        ["left", "────────────", "-3.50"],
        [">", "none", "████████████", "2.00"],
    ]
    assert "none 2.00" in "".join(words for words, _ in _in_a_line((head,)))
    acts = (ActionHead(taken=0.25), ActionHead(taken=-1.0))
    assert ["".join(words for words, _ in parts).split() for parts in _heads(acts, 40, 9)][1:] == [
        ["0", "0.250"],
        ["1", "-1.00"],
    ]


def test_nothing_is_said_of_a_critic_where_there_is_none() -> None:
    """ARS has a policy alone."""
    frame = PlayedFrame(
        picture="", drawn="state", checkpoint="1", timesteps=1, seed=0, step=0, episode_return=0.0, value=2.0
    )
    assert "".join(words for words, _ in _verdict(frame)).split() == ["value", "2.00", "by", "the", "critic"]
    assert _verdict(structs.replace(frame, value=None)) == []


def test_bars_of_several_heads_begin_below_each_other() -> None:
    """Whatever the names of what each takes."""
    heads = [ActionHead(taken=float(at), probabilities=(0.25, 0.75), names=("E", "SE")) for at in (0, 1)]
    rows = ["".join(words for words, _ in parts) for parts in _heads(heads, 40, 9)][1:]
    assert [row.index("█") for row in rows] == [8, 8]


async def test_one_frame_is_asked_for_at_a_time() -> None:
    """While an answer is awaited no other is asked for, whatever is pressed."""
    async with watching() as stage:
        await stage.until(lambda: steps(stage) > 3, "steps")
        asked = stage.client.asked_for
        ask, going, most, gate = stage.client.ask, 0, 0, asyncio.Event()

        async def slow(make: Any) -> Any:
            nonlocal going, most
            going += 1
            most = max(most, going)
            try:
                await gate.wait()
                return await ask(make)
            finally:
                going -= 1

        stage.client.ask = slow  # type: ignore[method-assign]
        before = len(asked(Play))
        await stage.press("greater_than_sign", "enter", "full_stop", "full_stop")
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert (len(asked(Play)) - before, most) == (0, 1)
        gate.set()
        await stage.until(lambda: len(asked(Play)) > before, "asked again")
        assert most == 1


async def test_a_terminal_that_is_behind_is_asked_nothing_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames are dropped before they are made, and keys are not: a step that is pressed waits for its turn."""
    async with watching() as stage:
        await stage.until(lambda: steps(stage) > 3, "steps")
        behind = True
        stage.app.app_context.line_load = lambda: (0, 0.01 if behind else 0.0)
        await stage.until(lambda: True)
        await asyncio.sleep(0.1)
        before = len(stage.client.asked_for(Play))
        await asyncio.sleep(0.2)
        assert len(stage.client.asked_for(Play)) - before <= 1
        await stage.press("l")
        assert stage.screen._tab == "log"  # type: ignore[attr-defined]
        await stage.press("w")
        behind = False
        await stage.until(lambda: len(stage.client.asked_for(Play)) > before + 3, "it goes on")


async def test_what_a_frame_writes_bounds_how_often_they_come() -> None:
    """60 KB a second: frames of 6 KB come ten times, whatever the pace."""
    async with watching() as stage:
        written = 0

        def load() -> tuple[int, float]:
            nonlocal written
            written += 6_000
            return written, 0.0

        stage.app.app_context.line_load = load
        await stage.until(lambda: steps(stage) > 0, "steps")
        loop = asyncio.get_running_loop()
        began, before = loop.time(), len(stage.client.asked_for(Play))
        await asyncio.sleep(1.0)
        many = (len(stage.client.asked_for(Play)) - before) / (loop.time() - began)
        assert 0 < many <= 11


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_the_screen_writes_while_it_shows_frames_stays_below_its_bound(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 KB a second with something to spare, over any ten seconds, however much the cost of frames varies."""
    monkeypatch.undo()
    monkeypatch.setattr(player_feed, "_IDLE_SHARE", 0.0)
    chance, written = random.Random(seed), [(0.0, 0)]
    loop = VirtualLoop()

    class Client:
        origin = Origin(cwd="", python="", environ={}, limits=ProcessLimits())
        player = FakeClient(a_fleet())

        async def ask(self, make: Any) -> Any:
            await asyncio.sleep(0.004)
            return await self.player.ask(make)

        def start(self, work: Any) -> None:
            works.append(loop.create_task(work))

        def line_load(self) -> tuple[int, float]:
            return written[-1][1], 0.0

    def shown() -> None:
        cost = chance.randrange(6_000, 30_000)
        written.append((loop.time(), written[-1][1] + cost))

    async def watch() -> None:
        feed = PlayerFeed(Client(), "run", lambda: Canvas(colours="256"), shown)
        feed.start()
        await asyncio.sleep(60.0)
        feed.close()

    works: list[asyncio.Task[None]] = []
    loop.run_until_complete(watch())
    loop.run_until_complete(asyncio.gather(*works))
    loop.close()
    assert len(written) > 100
    for t, before in written:
        within = [size for at, size in written if at <= t + 10.0]
        assert (within[-1] - before) / 10.0 < 0.95 * player_feed.LINE_BYTES_S


class VirtualLoop(asyncio.SelectorEventLoop):
    """Waiting passes its time, which is no other."""

    def __init__(self) -> None:
        super().__init__(_Jumping(self))
        self.now = 0.0

    def time(self) -> float:
        return self.now


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not (ready := super().select(0)):
            self._loop.now += timeout or 0.0
        return ready


async def test_pixels_that_the_line_does_not_carry_are_half_blocks() -> None:
    """Three frames that are dear, and the rest is characters; v turns pixels off and is kept."""
    async with watching() as stage:
        stage.app.app_context.picture_cell = lambda: (10, 20)
        for cost, cells in ((14_000, {(10, 20)}), (16_000, {(10, 20), None})):
            written = 0

            def load(cost: int = cost) -> tuple[int, float]:
                nonlocal written
                written += cost
                return written, 0.0

            stage.app.app_context.line_load = load
            await stage.until(lambda: steps(stage) > 0, "steps")
            before = len(stage.client.asked_for(Play))
            await stage.until(lambda: len(stage.client.asked_for(Play)) > before + 5, "frames")  # noqa: B023
            assert {it.order.canvas.cell for it in stage.client.asked_for(Play)[before + 1 :]} == cells
    async with watching() as stage:
        stage.app.app_context.picture_cell = lambda: (10, 20)
        await stage.until(lambda: stage.client.asked_for(Play)[-1].order.canvas.cell == (10, 20), "pixels")
        await stage.press("v")
        await stage.until(lambda: stage.client.asked_for(Play)[-1].order.canvas.cell is None, "none")
        assert chosen(stage.app).watch_pixels == "off"


async def test_a_half_block_counts_as_the_bytes_that_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a line carries are bytes: three for a character that is no ASCII."""
    monkeypatch.setattr(LinuxDriver, "write", lambda _driver, _data: None)
    driver = MeteredDriver(App[None]())
    for data in ("▀▀", "\x1b[0m"):
        driver.write(data)
    assert (driver.given, driver.given_bytes) == (6, 10)


async def test_frames_that_are_dear_in_all_colours_come_in_256() -> None:
    """Pictures that the line cannot carry four times a second, not one screen that was painted anew."""
    async with watching() as stage:
        stage.app.app_context.picture_colours = lambda: "full"
        for cost, colours in ((14_000, {"full"}), (16_000, {"full", "256"})):
            written = 0

            def load(cost: int = cost) -> tuple[int, float]:
                nonlocal written
                written += cost
                return written, 0.0

            stage.app.app_context.line_load = load
            await stage.until(lambda: steps(stage) > 0, "steps")
            before = len(stage.client.asked_for(Play))
            await stage.until(lambda: len(stage.client.asked_for(Play)) > before + 5, "frames")  # noqa: B023
            asked = {it.order.canvas.colours for it in stage.client.asked_for(Play)[before + 1 :]}
            assert asked == colours


async def test_space_holds_and_a_full_stop_is_one_step() -> None:
    """Nothing is asked for while it is held."""
    async with watching() as stage:
        await stage.until(lambda: steps(stage) > 3, "steps")
        await stage.press("space")
        await stage.shows("held: Space goes on")
        held = steps(stage)
        await asyncio.sleep(0.1)
        assert steps(stage) == held
        await stage.press("full_stop")
        await stage.until(lambda: steps(stage) == (held + 1) % 51, "one step")
        await stage.press("space")
        await stage.until(lambda: steps(stage) not in (held, held + 1), "it goes on")


async def test_faster_is_more_steps_a_frame() -> None:
    """+ and - turn the pace while this tab is shown, and how often the screen redraws elsewhere."""
    async with watching() as stage:
        await stage.until(lambda: steps(stage) > 0, "steps")
        await stage.press("plus", "plus")
        await stage.shows("60 steps/s")
        await stage.until(lambda: stage.client.asked_for(Play)[-1].order.steps == 5, "five steps a frame")
        await stage.press("minus")
        await stage.shows("24 steps/s")
        await stage.press("l", "minus")
        await stage.until(lambda: any("redraws at most" in toast for toast in stage.toasts()), "the redraw pace")


async def test_an_episode_ends_is_seen_and_the_next_begins() -> None:
    """Enter does not wait for the end; g plays the seed that is typed, and says which numbers are none."""
    async with watching() as stage:
        await stage.press("plus", "plus", "plus", "plus")
        await stage.until(lambda: any(it.order.steps == 50 for it in stage.client.asked_for(Play)), "fast")
        await stage.shows("over: captured")
        await stage.until(lambda: stage.client.player is not None and stage.client.player.seed > 10_001, "the next one")
        await stage.press("space")
        await stage.shows("held")
        assert stage.client.player is not None
        seed = stage.client.player.seed
        await stage.press("enter")
        await stage.until(lambda: stage.client.player is not None and stage.client.player.seed == seed + 1, "Enter")
        await stage.press("g")
        await stage.shows("Seed of the episode")
        await stage.press("x", "enter")
        await stage.shows("a seed is a whole number")
        await stage.press("backspace", "7", "7", "enter")
        await stage.until(lambda: stage.client.player is not None and stage.client.player.seed == 77, "seed 77")


async def test_a_slider_goes_over_the_checkpoints() -> None:
    """In the same episode; the newest that came meanwhile is named with its key."""
    async with watching() as stage:
        await stage.shows("(3 of 3)")
        await stage.press("home")
        await stage.shows("policy at 8.2M steps (1 of 3)")
        await stage.shows("2 newer: End takes that at 11.5M")
        last = stage.client.asked_for(Play)[-1]
        assert last.checkpoint == "008192000"
        assert next(it for it in stage.client.asked_for(Play) if it.checkpoint == "008192000").order.seed is not None
        await stage.press("greater_than_sign")
        await stage.shows("policy at 9.8M steps (2 of 3)")
        await stage.press("end")
        await stage.shows("(3 of 3)")
        await stage.press("less_than_sign")
        await stage.shows("(2 of 3)")


@pytest.mark.parametrize("leave", ["l", "escape", "q"])
async def test_leaving_the_tab_ends_the_player(leave: str) -> None:
    """Another tab, another screen; whoever leaves the program hangs up, which ends it too."""
    async with watching() as stage:
        await stage.until(lambda: steps(stage) > 3, "steps")
        await stage.press(leave)
        if leave == "q":
            return
        await stage.until(lambda: stage.client.asked_for(StopPlay), "stopped")
        many = len(stage.client.asked_for(Play))
        await asyncio.sleep(0.1)
        assert len(stage.client.asked_for(Play)) == many


async def test_a_reel_is_chosen_and_played_again() -> None:
    """`f` has the episodes that an evaluation with a reel found: choosing one plays its seed with its checkpoint; an
    evaluation that looks for them, and lines that film what is seen, stand below them.
    """
    reel = {name: {"seed": seed, "return": 8.0, "steps": 40} for name, seed in (("best", 41), ("worst", 7))}
    async with watching() as stage:
        await stage.until(lambda: steps(stage) > 3, "steps")
        player = stage.screen._player  # type: ignore[attr-defined]
        details = player._data.details
        oldest = details.checkpoints[0].name
        odd = {"checkpoint": ["\x1b[31m"], "reel": {"best": {"seed": 1}}}
        judged = evaluation(LIVE[0].id) | {"checkpoint": oldest, "reel": reel}
        without = evaluation(LIVE[0].id) | {"reel": None}
        player._data.details = structs.replace(details, evaluations=(judged, without, odd))
        await stage.press("f")
        for words in ("the best", "return 8", "seed 41", "the worst", "evaluate", "film this episode"):
            await stage.shows(words)
        await stage.press("down", "enter")
        await stage.until(lambda: any(it.order.seed == 7 for it in stage.client.asked_for(Play)), "played again")
        assert next(it for it in stage.client.asked_for(Play) if it.order.seed == 7).checkpoint == oldest
        await stage.press("f", "down", "down", "enter")
        await stage.until(lambda: bool(stage.client.asked_for(Evaluate)), "evaluated")
        asked = stage.client.asked_for(Evaluate)[0]
        assert (asked.reel, asked.checkpoint) == (True, oldest)
        await stage.press("escape", "f", "down", "down", "down", "enter")
        await stage.shows(f"--checkpoints {oldest} --seed")


@pytest.mark.parametrize(("opened", "key", "seed"), [((), "b", 10041), (("w",), "w", 10007), (("enter",), "m", 10003)])
async def test_an_evaluation_shows_its_reel(opened: tuple[str, ...], key: str, seed: int) -> None:
    """Best, median and worst episode, and a key for each that plays it again with its checkpoint, wherever one was."""
    async with staged(size=(160, 40)) as stage:
        await stage.press(*opened, "e")
        for words in ("best episode", "return 16.4 in 400 steps, captured, seed 10041", "w plays the worst"):
            await stage.shows(words)
        assert stage.client.asked_for(Evaluate)[-1].reel
        await stage.press(key)
        await stage.until(lambda: any(it.order.seed == seed for it in stage.client.asked_for(Play)), "played again")
        again = next(it for it in stage.client.asked_for(Play) if it.order.seed == seed)
        assert again.checkpoint == "011468800"
        assert isinstance(stage.screen, RunScreen)


async def test_nothing_plays_behind_another_screen() -> None:
    """A sheet over it holds it; it goes on when the sheet is closed."""
    async with watching() as stage:
        await stage.until(lambda: steps(stage) > 3, "steps")
        await stage.press("question_mark")
        await stage.shows("Keys")
        await asyncio.sleep(0.05)
        many = len(stage.client.asked_for(Play))
        await asyncio.sleep(0.1)
        assert len(stage.client.asked_for(Play)) <= many + 1
        await stage.press("escape")
        await stage.until(lambda: len(stage.client.asked_for(Play)) > many + 3, "it goes on")


async def test_a_failure_is_one_sentence_and_enter_tries_again() -> None:
    """What the player said, with the key; nothing is asked for until then."""
    async with watching() as stage:
        await stage.until(lambda: steps(stage) > 3, "steps")
        stage.client.answers[Play] = lambda request: replies.Refused(
            re=request.id, message="an environment raised boom"
        )
        await stage.shows("an environment raised boom")
        await stage.shows("(Enter tries again)")
        many = len(stage.client.asked_for(Play))
        await asyncio.sleep(0.1)
        assert len(stage.client.asked_for(Play)) == many
        del stage.client.answers[Play]
        await stage.press("enter")
        await stage.until(lambda: len(stage.client.asked_for(Play)) > many, "it tries again")
        await stage.until(lambda: "boom" not in stage.text(), "the sentence is gone")


async def test_what_cannot_play_says_why() -> None:
    """A read-only screen, a replay, a command and a run without a checkpoint start nothing."""
    command = structs.replace(LIVE[0], can=("stop", "kill"))
    unsaved = structs.replace(LIVE[0], last_checkpoint=None)
    new = structs.replace(unsaved, state="starting")
    past = structs.replace(a_fleet(), replay=Replay(since=NOW - 3600, until=NOW))
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"readonly": True}, "this screen is read-only and starts no process"),
        ({"snapshot": past, "readonly": True}, "a replay shows the past and starts nothing"),
        ({"snapshot": a_fleet((command,))}, "nothing to watch: it runs a command"),
        ({"snapshot": a_fleet((new,))}, "no checkpoint yet to be played: C saves one"),
        ({"snapshot": a_fleet((unsaved,)), "readonly": True}, "this screen is read-only and starts no process"),
    )
    for options, sentence in cases:
        async with watching(**options) as stage:
            await stage.shows(sentence)
            assert (stage.client.asked_for(Play), stage.client.asked_for(Act)) == ([], [])


async def test_a_run_without_a_checkpoint_is_asked_for_one() -> None:
    """Once, as `C` would, and the screen says so."""
    async with watching(snapshot=a_fleet((structs.replace(LIVE[0], last_checkpoint=None),))) as stage:
        await stage.shows("no checkpoint yet to be played: one was asked for")
        await stage.arrive(a_fleet((structs.replace(LIVE[0], last_checkpoint=None, update=LIVE[0].update or 1),)))
        await stage.press("l", "w")
        await stage.shows("no checkpoint yet to be played: one was asked for")
        assert [(it.verb, it.runs) for it in stage.client.asked_for(Act)] == [("checkpoint", (LIVE[0].id,))]


async def test_it_plays_once_there_is_a_checkpoint() -> None:
    """Without a key: the tab was waiting for it."""
    async with watching(snapshot=a_fleet((structs.replace(LIVE[0], last_checkpoint=None),))) as stage:
        await stage.shows("no checkpoint yet")
        await stage.arrive(a_fleet((LIVE[0],)))
        await stage.until(lambda: steps(stage) > 0, "it plays")


async def test_ascii_terminals_get_shades_and_plain_signs() -> None:
    """Nothing else than ASCII is painted."""
    async with watching(environ={"LC_ALL": "C", "HOME": "/home/ada"}) as stage:
        await stage.until(lambda: steps(stage) > 3, "steps")
        await stage.press("space")
        await stage.still()
        assert stage.text().isascii()
        assert stage.client.asked_for(Play)[0].order.canvas.colours == "none"
