"""What is told lies over the hints at the bottom, and leaves what is acted on to be read."""

from __future__ import annotations

import pytest
from msgspec import structs
from textual.widgets._toast import Toast

from mission_tui.tui.state.news import merged, rows, shortened
from tests.tui.fleets import LIVE, NAN_FINDING, a_fleet
from tests.tui.stage import Stage, staged


def grown_old(stage: Stage, by_s: float = 2.0) -> None:
    """As if what is told so far had been there for that much longer."""
    for told in stage.app._notifications:
        told.raised_at -= by_s


@pytest.mark.parametrize("keys", [(), ("enter",), ("enter", "l"), ("slash",), ("m",)])
async def test_a_line_that_is_told_covers_the_hints_alone(keys: tuple[str, ...]) -> None:
    """The last line of a log, an advice, the filter that is being typed: all stay in sight."""
    async with staged() as stage:
        if keys:
            await stage.press(*keys)
        stage.app.app_context.toast("checkpoint accepted for heavy-3f9a", seconds=60.0)
        await stage.shows("checkpoint accepted for heavy-3f9a")
        await stage.still()
        assert covered(stage) == {23}


async def test_what_is_told_over_the_launch_form_leaves_its_keys_to_be_read() -> None:
    """The form fills a small screen, and its last line says how a run is started: toasts come at the top."""
    async with staged(size=(80, 24)) as stage:
        await stage.press("n")
        await stage.shows("Ctrl-S start")
        stage.app.app_context.toast("started wide-4fff, deep-eb0e; u undoes for 10 s", seconds=60.0)
        stage.app.app_context.warn(tuple(f"{name}: {LONG.format(76, 129)}" for name in ("wide", "deep")))
        await stage.shows("M has the rest")
        await stage.still()
        assert covered(stage) == {0, 1, 2}
        await stage.shows("Ctrl-S start")


async def test_the_next_deed_takes_the_place_of_the_last_and_of_no_warning() -> None:
    """What one deed has to say stays together."""
    async with staged() as stage:
        stage.app.app_context.toast("16 runs share 2 cores", "warning", seconds=60.0)
        stage.app.app_context.toast("started heavy", seconds=60.0)
        stage.app.app_context.toast("it waits for memory", seconds=60.0)
        await stage.until(lambda: stage.toasts() == ["16 runs share 2 cores", "started heavy", "it waits for memory"])
        grown_old(stage)
        stage.app.app_context.toast("redraws at most 2 times a second", seconds=60.0)
        await stage.until(lambda: stage.toasts() == ["16 runs share 2 cores", "redraws at most 2 times a second"])


LONG = (
    "without a GPU one update computes for about {} s on 1 thread(s), {} h in all for run.total_timesteps = 5,000,000"
)


def covered(stage: Stage) -> set[int]:
    """Rows of the screen over which a toast lies."""
    return {row for toast in stage.screen.query(Toast) for row in range(toast.region.y, toast.region.bottom)}


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (200, 50)])
async def test_what_one_key_brings_covers_three_rows_and_is_whole_in_the_list(size: tuple[int, int]) -> None:
    """Three runs at once, each with its warnings: the first is told, the last row says where the rest is."""
    told = [f"{name}: {LONG.format(*numbers)}" for name, numbers in (("wide", (76, 129)), ("deep", (63, 107)))]
    other = "deep-eb0e waits for a core, so that all run at full speed: runs keep 2 of 2 busy, wide-4fff is live; " * 2
    async with staged(size=size) as stage:
        stage.app.app_context.toast("started wide-4fff, deep-eb0e; u undoes for 10 s", seconds=60.0)
        stage.app.app_context.warn((*told, other, other))
        await stage.shows("M has the rest")
        await stage.still()
        assert set() < covered(stage) <= set(range(size[1] - 3, size[1]))
        assert "started wide-4fff" in stage.text()
        await stage.press("M")
        await stage.shows("Messages of this screen")
        assert {message.sentence for message in stage.app.app_context.messages} >= {*told, other}
        await stage.until(lambda: "107 h" in stage.text() or size[1] < 24, "what was left out of the toast")


async def test_what_is_refused_takes_the_place_of_older_warnings() -> None:
    """The newest is always seen, whatever was told before."""
    async with staged() as stage:
        stage.app.app_context.warn(
            [f"a warning of many words, number {number}: {'so it is ' * 9}" for number in (1, 2)]
        )
        await stage.shows("M has the rest")
        grown_old(stage)
        stage.app.app_context.toast("cannot kill it: it has ended", "error", seconds=60.0)
        await stage.until(lambda: "cannot kill it: it has ended" in stage.toasts())


WARNED = (
    "000122880 is harmed (entropy-collapse since update 300): to go back to 000081920, " + "`findings --apply` " * 4
)


async def test_a_finding_waits_until_a_warning_about_a_key_was_read() -> None:
    """What was just done may have to be undone at once; the finding is in the list of messages meanwhile."""
    found = structs.replace(
        NAN_FINDING, sentence="train/value_loss is nan at update 1,398, and so is all that follows from it"
    )
    ill = a_fleet((structs.replace(LIVE[1], findings=(found,)), *LIVE[2:]), revision=2)
    async with staged(a_fleet(LIVE[1:]), (80, 24)) as stage:
        stage.app.app_context.toast("resume accepted for heavy-3f9a", seconds=60.0)
        stage.app.app_context.warn((WARNED,))
        await stage.until(lambda: len(stage.toasts()) == 2)
        grown_old(stage)
        await stage.arrive(ill)
        await stage.still()
        assert [it.split()[0] for it in stage.toasts()] == ["resume", "000122880"]
        assert any(found.sentence in it.sentence for it in stage.app.app_context.messages)
        grown_old(stage, 6.0)
        await stage.until(lambda: any(found.sentence in it for it in stage.toasts()), "the finding's toast")


async def test_a_finding_is_told_at_once_beside_what_needs_no_room() -> None:
    """Only a warning that would go for it is waited for, not what was told of another finding."""
    async with staged() as stage:
        stage.app.app_context.announce("sick: " + "train/value_loss is nan at update 1,398 " * 5, "error")
        stage.app.app_context.toast("16 runs share 2 cores", "warning", seconds=60.0)
        stage.app.app_context.announce("worse: train/value_loss is nan", "error")
        await stage.until(lambda: stage.toasts()[-2:] == ["16 runs share 2 cores", "worse: train/value_loss is nan"])


def test_sentences_that_differ_in_a_name_are_one() -> None:
    """In numbers too, where the first stands for all; what begins with no name stays as it is."""
    assert merged(["a: no speed is known", "b: no speed is known", "c: no speed is known"]) == [
        "a, b and c: no speed is known"
    ]
    assert merged(["a: takes 16 s", "b: takes 1,290 s", "x: else", "c: takes 3 s"]) == [
        "a: takes 16 s (b and c alike)",
        "x: else",
    ]
    assert merged(["3 runs need 3 cores", "4 runs need 3 cores", "it waits"]) == [
        "3 runs need 3 cores",
        "4 runs need 3 cores",
        "it waits",
    ]


def test_a_shortened_sentence_says_where_the_rest_is_in_as_many_rows() -> None:
    """Whatever the width; what fits is left as it is, unless more follows that does not."""
    for width in (40, 80, 200):
        for most in (1, 2, 3):
            text = shortened("word " * 200, most, width)
            assert rows([text], width) == most
            assert text.endswith("… M has the rest")
            assert shortened("a word", most, width) == "a word"
            assert shortened("a word", most, width, more=True) == "a word… M has the rest"
