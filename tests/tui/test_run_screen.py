"""The screen of one run: chart, findings, configuration, checkpoints, log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec import structs

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import HistoryReply, LogReply
from mission_tui.ipc.requests import Act, AnsweredBy, GetDetails, GetHistory, GetLog
from mission_tui.tui.screens.run import MOST_BYTES, RunScreen
from mission_tui.tui.state.history import POINTS
from tests.tui.fake_client import a_spec, details
from tests.tui.fleets import ENDED, LIVE, NOW, a_fleet, a_run, queued
from tests.tui.stage import Stage, staged


def charts(stage: Stage) -> list[GetHistory]:
    """The histories that were asked for the big chart: of one metric, not of all, nor for a line of the list."""
    asked = stage.client.asked_for(GetHistory)
    return [request for request in asked if len(request.series) == 1 and not request.is_course]


async def test_enter_opens_the_chosen_run_with_its_return_over_timesteps() -> None:
    """The chart asks for the history of the return, thinned to what the width can show."""
    async with staged() as stage:
        await stage.press("enter")
        await stage.shows("return over timesteps")
        request, *_ = charts(stage)
        assert (request.run, request.series) == (LIVE[0].id, ("rollout/ep_rew_mean",))
        assert request.points <= 2000
        assert "heavy-3f9a ● rollout" in stage.text()


async def test_a_run_that_was_removed_meanwhile_says_so_and_nothing_is_asked_of_it() -> None:
    """Its folder was removed by hand, or somebody else removed it: it does not stand there as finished."""
    run = LIVE[0]
    async with staged() as stage:
        await stage.press("enter")
        await stage.arrive(a_fleet((*LIVE[1:], *ENDED), revision=2))
        await stage.shows("▲ not there any more")
        asked = len(stage.client.asked)
        await stage.press("s")
        assert f"cannot stop {run.name}: not there any more" in stage.toasts()
        assert not [it for it in stage.client.asked[asked:] if isinstance(it, Act)]


async def test_another_metric_is_chosen_with_the_arrows() -> None:
    """Down chooses the next metric and asks for its history."""
    async with staged() as stage:
        await stage.press("enter")
        await stage.until(lambda: charts(stage))
        await stage.press("down")
        await stage.shows("episode length over timesteps")
        assert ("rollout/ep_len_mean",) in [request.series for request in charts(stage)]


async def test_every_metric_has_its_course_and_its_span_over_the_whole_run() -> None:
    """Beside the newest value, in columns where there is room; asked for all at once, and not at every update."""
    async with staged(size=(160, 50)) as stage:
        await stage.press("enter")
        (asked,) = [request for request in stage.client.asked_for(GetHistory) if request.points == POINTS]
        assert {"rollout/ep_rew_mean", "train/value_loss"} <= set(asked.series)
        assert asked.points < 50
        await stage.shows("least")
        (row,) = [line for line in stage.lines() if "explained variance" in line]
        assert "0.710" in row
        assert any(level in row for level in "▁▂▃▄▅▆▇█")
        assert row.split()[-2:] == ["0.480", "10.6"]
        (row,) = [line for line in stage.lines() if "value loss" in line]
        assert row.split()[-2:] == ["0.218", "10.6"], "the newest value lies within its span, whenever that was asked"


async def test_a_narrow_list_tells_the_span_of_the_chosen_metric_below() -> None:
    """At 80 columns there is room for the newest values and a short course alone."""
    async with staged() as stage:
        await stage.press("enter", "down")
        await stage.shows("whole run")
        (span,) = [line for line in stage.lines() if "whole run" in line]
        assert " from 0.480 to 412, whole run" in span


async def test_the_history_is_asked_again_when_the_run_has_advanced() -> None:
    """A snapshot with another update refreshes the chart; one without does not."""
    async with staged() as stage:

        def of_return() -> int:
            return [it.series for it in charts(stage)].count(("rollout/ep_rew_mean",))

        await stage.press("enter")
        await stage.until(lambda: of_return() == 1)
        await stage.arrive(a_fleet(revision=2))
        assert of_return() == 1
        await stage.arrive(a_fleet((a_run("heavy-3f9a", update=1404), *LIVE[1:], *ENDED), revision=3))
        await stage.until(lambda: of_return() == 2)


async def test_config_shows_effective_values_and_why() -> None:
    """`d` shows what was asked beside what runs, and the reason below."""
    async with staged() as stage:
        await stage.press("d")
        await stage.shows("one step takes 9 us")
        (line,) = [line for line in stage.lines() if "ppo.learning_rate" in line]
        assert line.split() == ["ppo.learning_rate", "0.0003", "0.00025"]
        assert len(stage.client.asked_for(GetDetails)) == 1


async def test_the_config_is_held_against_its_preset_as_it_is_now() -> None:
    """Only what differs, with both values; the preset is read anew, not as it was at launch."""
    async with staged() as stage:
        await stage.press("d")
        await stage.shows("v only what differs from its preset")
        stage.app.app_context.resolve = lambda name, words: [a_spec(name, n_steps=512)]
        await stage.press("v")
        await stage.shows("settings differ from preset heavy as it is now")
        (line,) = [line for line in stage.lines() if "ppo.n_steps" in line]
        assert line.split() == ["ppo.n_steps", "256", "512"]
        assert "ppo.learning_rate" not in stage.text()


async def test_a_preset_that_is_gone_says_so() -> None:
    """In place of the differences, with the way on."""

    def gone(name: str, words: object) -> list[Spec]:
        raise PresetError(f"there is no preset '{name}'")

    async with staged() as stage:
        stage.app.app_context.resolve = gone
        await stage.press("d", "v")
        await stage.shows("preset heavy as it is now: there is no preset 'heavy'")


@pytest.mark.slow
async def test_the_config_is_held_against_a_run_that_is_picked() -> None:
    """What really runs in both; then every setting is shown again."""
    async with staged() as stage:
        stage.client.answers[GetDetails] = lambda request: structs.replace(
            details(request.id, LIVE[0]),
            effective={"ppo": {"learning_rate": 2.5e-4 if request.run == LIVE[0].id else 1e-4}},
        )
        await stage.press("d", "v")
        await stage.shows("from preset heavy")
        await stage.press("v", *"wide", "enter")
        await stage.shows("1 of ")
        await stage.shows("settings differ from wide-11c0")
        (line,) = [line for line in stage.lines() if "ppo.learning_rate" in line]
        assert line.split() == ["ppo.learning_rate", "0.00025", "0.0001"]
        await stage.shows("v every setting again")
        await stage.press("v")
        await stage.shows("v only what differs")


async def test_findings_show_cause_and_advice() -> None:
    """The health tab of a run says what is wrong, why, and what would help."""
    async with staged() as stage:
        await stage.press("down", "enter", "]")
        await stage.shows("health 1")
        await stage.shows("cause  100 gradient steps an update")
        await stage.shows("advice fewer epochs --set ppo.n_epochs=10")


@pytest.mark.slow
async def test_checkpoints_show_attempts_and_evaluations() -> None:
    """The newest checkpoint comes first; a verified one is told from one that nobody has read."""
    async with staged() as stage:
        await stage.press("enter", "left", "left", "left")
        await stage.shows("✓ verified")
        text = stage.text()
        assert text.index("011468800") < text.index("009830400")
        assert "11.8 ± 2.41" in text
        assert "from 008192000" in text


@pytest.mark.slow
async def test_the_log_follows_its_end_until_one_scrolls_up() -> None:
    """`l` shows the end; Up stops following; End follows again."""
    async with staged() as stage:
        await stage.press("l")
        await stage.shows("warning: slow step 91 ms")
        await stage.shows("121 lines, following")
        await stage.press("pageup")
        await stage.shows("End follows")
        await stage.press("end")
        await stage.shows("following")


async def test_new_output_appears_while_following() -> None:
    """The next page is asked from where the last one ended."""
    async with staged() as stage:
        await stage.press("l")
        await stage.shows("warning: slow step")
        end = stage.client.asked_for(GetLog)[0]
        assert end.offset is None
        stage.client.answers[GetLog] = lambda request: LogReply(
            re=request.id, run=request.run, attempt=1, text="a new line\n", start=request.offset,
            end=request.offset + 11, size=request.offset + 11,
        )  # fmt: skip
        await stage.arrive(a_fleet(revision=2))
        await stage.shows("a new line")
        assert stage.client.asked_for(GetLog)[1].offset > 0


@pytest.mark.slow
async def test_search_shows_only_matching_lines() -> None:
    """`/` searches the log while typing; Escape shows everything again."""
    async with staged() as stage:
        await stage.press("l")
        await stage.shows("following")
        await stage.press("slash", *"slow|0007")
        await stage.shows("2 lines found")
        assert "[0007] rollout done" in stage.text()
        assert "[0008]" not in stage.text()
        await stage.press("enter", "escape")
        await stage.shows("121 lines, following")


def printing(stage: Stage, text: str) -> None:
    """Let the run have printed `text`."""
    stage.client.answers[GetLog] = lambda request: LogReply(
        re=request.id, run=request.run, attempt=1, text=text if request.offset is None else "", end=len(text),
        start=0 if request.offset is None else len(text), size=len(text),
    )  # fmt: skip


BROKEN = "".join(f"line {n}\n" for n in range(100)) + "Traceback (most recent call last):\n  File x\nKeyError: 'a'\n"


@pytest.mark.slow
async def test_angles_lead_from_error_to_error() -> None:
    """Without a search they are what is sought; the log no longer follows, and the line is marked."""
    async with staged() as stage:
        printing(stage, BROKEN + "".join(f"after {n}\n" for n in range(100)))
        await stage.press("l")
        await stage.shows("203 lines, following")
        await stage.press("<")
        await stage.shows(">KeyError: 'a'")
        await stage.shows("203 lines, End follows")
        await stage.press("<")
        await stage.shows(">Traceback (most")
        await stage.press("<")
        await stage.until(lambda: "no error above this one" in stage.toasts())
        await stage.press(">")
        await stage.shows(">KeyError: 'a'")


def a_file(stage: Stage, text: str) -> None:
    """Let the run's output be `text`, given in pages as asked for."""

    def page(request: GetLog) -> LogReply:
        start = max(0, len(text) - request.limit) if request.offset is None else request.offset
        part = text[start : start + request.limit]
        return LogReply(
            re=request.id, run=request.run, attempt=1, text=part, start=start, end=start + len(part), size=len(text)
        )

    stage.client.answers[GetLog] = page


LONG = "begin\n" + "KeyError: 'far back'\n" + f"{'x' * 999}\n" * 1_200 + "the end\n"


@pytest.mark.slow
async def test_an_error_is_found_far_back_in_a_long_log() -> None:
    """The line of keys says that the end alone is known; `<` asks for earlier pages until it finds one."""
    async with staged() as stage:
        a_file(stage, LONG)
        await stage.press("l")
        await stage.shows("lines, last 64K of 1.1M, following")
        await stage.press("<")
        await stage.shows(">KeyError: 'far back'")
        assert len(stage.client.asked_for(GetLog)) < 10
        assert stage.toasts() == []


@pytest.mark.slow
async def test_how_far_back_was_looked_is_said() -> None:
    """`no error` is a claim about a stretch of the log, not about all of it; the next key looks further."""
    async with staged() as stage:
        a_file(stage, LONG + f"{'y' * 999}\n" * 6_000)
        await stage.press("l", "<")
        await stage.until(lambda: stage.toasts() == ["no error in the 4.0M before; < looks further back"])
        await stage.press("<")
        await stage.shows(">KeyError: 'far back'")


@pytest.mark.slow
async def test_home_and_end_are_those_of_the_output() -> None:
    """Home reads its beginning, the pages after it come while scrolling, and End follows the newest again."""
    async with staged() as stage:
        a_file(stage, LONG)
        await stage.press("l", "v")
        await stage.shows("the end")
        await stage.press("home")
        await stage.shows("begin")
        await stage.shows("lines, first 64K of 1.1M, End follows")
        asked = len(stage.client.asked_for(GetLog))
        await stage.press(*["pagedown"] * 6)
        await stage.until(lambda: len(stage.client.asked_for(GetLog)) > asked)
        await stage.shows("first 128K")
        await stage.press("end")
        await stage.shows("the end")
        await stage.shows("last 64K of 1.1M, following")


@pytest.mark.slow
async def test_angles_show_a_found_line_among_the_others() -> None:
    """What was printed around it is what one wants to know next."""
    async with staged() as stage:
        printing(stage, BROKEN)
        await stage.press("l", "slash", *"line 4[27]", "enter")
        await stage.shows("2 lines found")
        assert "line 41" not in stage.text()
        await stage.press("<")
        await stage.shows(">line 47")
        assert "line 46" in stage.text()
        await stage.press("<")
        await stage.shows(">line 42")


@pytest.mark.slow
async def test_v_cuts_long_lines_at_the_edge() -> None:
    """And folds them again."""
    async with staged() as stage:
        printing(stage, "x" * 100 + "END\nlast\n")
        await stage.press("l")
        await stage.shows("END")
        await stage.press("v")
        await stage.until(lambda: "END" not in stage.text())
        await stage.shows("x…")
        await stage.press("v")
        await stage.shows("END")


@pytest.mark.slow
async def test_what_is_copied_is_whole_lines_without_control_characters() -> None:
    """All lines that a search found, as one sees them; and a sentence says what was copied."""
    async with staged() as stage:
        printing(stage, "one\n" + "two\x1b]0;owned\x07" + "y" * 100 + "\nthree\n")
        await stage.press("l", "slash", *"two|three", "enter")
        await stage.shows("2 lines found")
        await stage.press("O")
        assert stage.app.clipboard == "two\u241b]0;owned\u2407" + "y" * 100 + "\nthree\n"
        (said,) = stage.toasts()
        assert said == "copied 2 lines of the log (124B) to the terminal's clipboard"


async def test_of_too_many_lines_the_last_are_copied() -> None:
    """A terminal may drop what is too long without a word, so that the sentence says how many it got."""
    async with staged() as stage:
        printing(stage, "".join(f"line {n:095}\n" for n in range(1000)))
        await stage.press("l", "slash", *"line", "enter")
        await stage.shows("1000 lines found")
        await stage.press("O")
        assert stage.app.clipboard.count("\n") == MOST_BYTES // 101
        assert stage.app.clipboard.endswith("999\n")
        assert "the last 486 of them" in stage.toasts()[0]


async def test_metrics_are_copied_with_their_tags() -> None:
    """As the files call them, with newest, least and greatest value."""
    async with staged() as stage:
        await stage.press("enter")
        await stage.shows("whole run")
        await stage.press("O")
        assert "train/value_loss  0.218  0.218  10.6" in stage.app.clipboard.splitlines()


async def test_escape_goes_back_one_layer() -> None:
    """From the run to the fleet, and from there nowhere."""
    async with staged() as stage:
        await stage.press("enter")
        assert isinstance(stage.screen, RunScreen)
        await stage.press("escape")
        assert len(stage.app.screen_stack) == 1
        await stage.press("escape", "escape")
        assert stage.app.is_running


@pytest.mark.slow
async def test_an_ended_run_says_how_it_ended() -> None:
    """Outcome, kind, cause, when, after how long, and from where it can go on."""
    async with staged(a_fleet((ENDED[1],))) as stage:
        await stage.press("enter")
        await stage.shows("failed (nan): policy loss became nan at update 311; 1h ago after 11m40;")
        await stage.shows("checkpoint 002457600")


@pytest.mark.slow
async def test_a_run_that_left_the_list_keeps_its_last_picture() -> None:
    """Undoing it elsewhere does not take the screen away."""
    async with staged() as stage:
        await stage.press("enter")
        await stage.arrive(a_fleet(ENDED, revision=2))
        assert "heavy-3f9a" in stage.text()


async def test_verbs_apply_to_the_shown_run() -> None:
    """`p` on a run's screen pauses that run."""
    from mission_tui.ipc.requests import Act

    async with staged() as stage:
        await stage.press("down", "enter", "p")
        await stage.until(lambda: stage.client.asked_for(Act))
        assert stage.client.asked_for(Act)[0].runs == (LIVE[1].id,)


@pytest.mark.slow
async def test_z_shows_the_chart_alone() -> None:
    """The metric list and the headline give way, and come back."""
    async with staged() as stage:
        await stage.press("enter")
        await stage.shows("explained variance")
        await stage.press("z")
        await stage.until(lambda: "explained variance" not in stage.text())
        await stage.press("escape")
        await stage.shows("explained variance")


async def test_an_unanswered_question_says_why() -> None:
    """When the supervisor refuses details, its sentence stands where they would."""
    from mission_tui.ipc.replies import Refused

    async with staged() as stage:
        stage.client.answers[GetDetails] = lambda request: Refused(re=request.id, message="the run directory is gone")
        await stage.press("d")
        await stage.shows("the run directory is gone")


@pytest.mark.slow
async def test_several_metrics_stay_on_the_chart() -> None:
    """Space keeps the chosen one with its letter, and all that are drawn are asked for; again lets it go."""
    async with staged(size=(120, 36)) as stage:
        await stage.press("enter", "space", "down", "down")
        await stage.shows("A return 12.4    left")
        await stage.shows("B approx KL 0.012   right")
        asked = [request.series for request in stage.client.asked_for(GetHistory)]
        assert ("rollout/ep_rew_mean",) in asked
        assert ("train/approx_kl",) in asked
        await stage.press("up", "up", "space")
        await stage.shows("return over timesteps")


@pytest.mark.slow
async def test_scale_smoothing_and_axis_have_keys() -> None:
    """Each is said below the chart, with the key that changes it."""
    async with staged() as stage:
        await stage.press("enter")
        await stage.shows("t over timesteps")
        await stage.press("Y", "}", "}", "t", "t")
        await stage.shows("Y logarithmic")
        await stage.shows("{} EMA 0.8, ~5 updates")
        await stage.shows("over run time")
        await stage.press("Y")
        await stage.shows("Y symlog")
        await stage.press("Y", "{", "{", "t", "t")
        await stage.shows("Y linear")
        await stage.shows("{} raw")


def fives(request: GetHistory) -> HistoryReply:
    """A return of a hundredth of the update, in buckets of five updates, or one update alone if that is asked for."""
    last = request.to_update or 1400
    updates = tuple(range(max(5, request.from_update), last + 1, 5))
    values = tuple(update / 100 for update in updates)
    one = request.from_update == request.to_update
    return HistoryReply(
        re=request.id, run=request.run, updates=updates, timesteps=tuple(8192 * update for update in updates),
        t=tuple(NOW + update for update in updates),
        low=dict.fromkeys(request.series, values if one else tuple(value - 0.04 for value in values)),
        high=dict.fromkeys(request.series, values),
    )  # fmt: skip


async def test_the_crosshair_prints_the_values_of_one_update() -> None:
    """Tab puts it on the newest; arrows move it instead of turning tabs; Esc takes only it away."""
    async with staged() as stage:
        stage.client.answers[GetHistory] = fives
        await stage.press("enter")
        await stage.shows("return over timesteps")
        await stage.press("tab")
        await stage.shows("│ 14                 update 1,400")
        await stage.press("home", "right")
        await stage.shows("│ 0.35               update 35 ")
        alone = [it for it in stage.client.asked_for(GetHistory) if it.points == 1]
        assert (alone[0].from_update, alone[-1].from_update, alone[-1].to_update) == (1400, 35, 35)
        await stage.press("escape")
        await stage.until(lambda: "update 35" not in stage.text())
        assert isinstance(stage.screen, RunScreen)


async def test_a_click_puts_the_crosshair_there() -> None:
    """The mouse does what the keys do."""
    async with staged() as stage:
        stage.client.answers[GetHistory] = fives
        await stage.press("enter")
        await stage.shows("return over timesteps")
        await stage.pilot.click("#chart", offset=(9, 5))
        await stage.shows("update 25 ")


async def test_the_chart_stays_until_the_next_metric_is_known() -> None:
    """Title and curve change together, with the answer; a late one is said to be awaited, not waited for in silence."""
    async with staged() as stage:
        await stage.press("enter")
        await stage.shows("return over timesteps")
        silent = asyncio.Event()
        answered = stage.client.stream

        async def late(make: Callable[[int], AnsweredBy[Any]]) -> AsyncIterator[Any]:
            await silent.wait()
            async for reply in answered(make):
                yield reply

        stage.client.stream = late  # type: ignore[method-assign]
        await stage.pilot.press("end")
        await stage.pilot.pause()
        await stage.shows(">steps/s")
        # On a busy machine the answer may be late already.
        assert "return over timesteps" in stage.text() or "steps/s: asking…" in stage.text()
        await stage.shows("steps/s: asking…")
        assert "steps/s over timesteps" not in stage.text()
        silent.set()
        await stage.shows("steps/s over timesteps")
        assert [it.series for it in charts(stage)].count(("steps_per_s",)) == 1


async def test_names_that_differ_at_their_end_stay_different() -> None:
    """What is too long for the list loses its middle."""
    metrics = {f"custom/what_somebody_calls_it_{name}": 1.0 for name in ("first", "second")}
    async with staged(a_fleet((a_run("heavy-3f9a", metrics=metrics), *ENDED))) as stage:
        await stage.press("enter")
        await stage.shows("it_first")
        assert "t_second" in stage.text()


async def test_a_run_without_an_update_says_what_to_press() -> None:
    """The chart has nothing to draw, and the footer nothing that would only be refused."""
    waiting = queued("late")
    young = a_run("young-01", update=None, timesteps=None, metrics={}, series={}, last_checkpoint=None)
    async with staged(a_fleet((young, waiting))) as stage:
        stage.client.answers[GetHistory] = lambda request: HistoryReply(
            re=request.id, run=request.run, updates=(), timesteps=(), t=(), low={}, high={}
        )
        await stage.press("enter")
        await stage.shows("no update yet; l shows what it prints")
        assert "e evaluate" not in stage.lines()[-1]
        await stage.press("escape", "down", "enter")
        await stage.shows("not begun; s takes it out of the queue")
        assert "p pause" not in stage.lines()[-1]
        await stage.press("e")
        await stage.until(lambda: "late has no checkpoint to evaluate yet: it is queued" in stage.toasts())
    async with staged(a_fleet((structs.replace(young, can=()),))) as stage:
        stage.client.answers[GetHistory] = lambda request: HistoryReply(
            re=request.id, run=request.run, updates=(), timesteps=(), t=(), low={}, high={}
        )
        await stage.press("enter")
        await stage.shows("curves need run.follow, --hook or report")


async def test_a_run_that_waits_for_long_reasons_keeps_its_name() -> None:
    """What it waits for stands whole below its name, and not in its place."""
    cause = "waits for its group: many-16 is live, and keep.limits.group_runs (launch -j) allows 1 of many-43e0 at once"
    async with staged(a_fleet((structs.replace(queued("many-56"), cause=cause),))) as stage:
        await stage.press("enter")
        await stage.shows("many-56 ◌ queued")
        await stage.shows("allows 1 of many-43e0")
