"""The whole run in lists, panes and charts; what it is to reach, what happened to it, and another run beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mission_tui.fleet.events.metrics import RETURN, Metric
from mission_tui.fleet.events.provenance import SettingChange
from mission_tui.fleet.history.course import Course, GoalView, Moment, ValueAtUpdate
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import HistoryReply
from mission_tui.ipc.requests import GetHistory
from mission_tui.present import numbers
from mission_tui.present.run_state import goal_words, time_left
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import to_ascii
from mission_tui.tui.plot.canvas import Canvas
from mission_tui.tui.plot.content import (
    Content,
    column_at,
    columns_of,
    content_of,
    first_history,
    ghost_of,
    line_of,
    pane_chart,
    turn_ghost,
)
from mission_tui.tui.plot.curve import set_word
from mission_tui.tui.plot.picture import _write, frame_for, painted, picture
from mission_tui.tui.plot.scale import Scale, scale_of, steady, steady_reach
from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.state.preferences import ChartSettings
from mission_tui.tui.state.run_data import LogTail, RunData
from tests.tui.fleets import a_fleet, a_run, ended, host
from tests.tui.stage import staged

GOAL = GoalView(of="return", value=475.0, source="environment")
VIEW = a_run("one", goal=None, best=None)


def rising(every: int, stretches: int) -> Course:
    """A return that rises by one in each stretch."""
    values = tuple(float(at) for at in range(stretches))
    return Course(every, values, values)


def history(*values: Metric | None, tag: str = RETURN) -> HistoryReply:
    """These values, one an update of 100 timesteps."""
    updates = tuple(range(1, len(values) + 1))
    steps, t = tuple(100 * it for it in updates), tuple(float(it) for it in updates)
    return HistoryReply(re=1, run=VIEW.id, updates=updates, timesteps=steps, t=t, low={tag: values}, high={tag: values})


def chart(
    view: RunView, *values: float, ghost: HistoryReply | None = None, width: int = 60
) -> tuple[Content, list[str]]:
    """The chart of a run with this return, and its picture as text."""
    data = RunData(view.id, LogTail(view.id), history={RETURN: history(*values)})
    if ghost is not None:
        data = structs.replace(data, ghost=ended("old", 9), ghost_word="best", ghosts={RETURN: ghost})
    content = content_of(view, data, ChartSettings(), [(0, RETURN)])
    assert content.scene is not None
    assert content.scene.reach is not None
    frame = frame_for(width, 16, content.scene.reach, ["left"])
    return content, [strip.text for strip in picture(content.scene, frame, painted(content.scene, frame))]


def test_a_line_shows_the_whole_run_and_the_shortest_collapse() -> None:
    """One update at 0 in the middle is a low cell, however many updates a cell stands for."""
    low = tuple(0.0 if at == 20 else 10.0 for at in range(40))
    shown = line_of(a_run("a", course=Course(500, low, (10.0,) * 40)), 20)
    assert shown.count("▁") == 1
    assert line_of(a_run("a", course=rising(500, 40)), 20)[0] == "▁"


def test_a_line_of_a_run_that_was_not_read_whole_says_so() -> None:
    """Its last updates stand behind an ellipsis; nothing is drawn of a run without any."""
    assert line_of(a_run("a", course=None), 20).startswith("…")
    assert line_of(a_run("a", course=None, series={}), 20) == ""


@pytest.mark.parametrize("stretches", range(2, 64))
def test_a_further_stretch_moves_no_column_for_long(stretches: int) -> None:
    """What is past stays where it is, until all columns are used up; most of them always are."""
    before, after = (columns_of(rising(8, many), 40) for many in (stretches, stretches + 1))
    assert len(after) >= 0.7 * 40 or stretches < 8
    moved = before[: len(before) - 1] != after[: len(before) - 1]
    assert not moved or len(before) == 40
    assert column_at(rising(8, stretches), 8 * stretches, 40) < len(before)


def test_a_pane_reaches_to_the_goal_and_marks_what_was_set() -> None:
    """The goal as dots from end to end, its value at the end of the axis; without colours too."""
    rows, ends = pane_chart(rising(8, 40), 20, 2, goal=50.0, marked=[160])
    assert ends == (0.0, 50.0)
    text = [to_ascii("".join(part for part, _ in row)) for row in rows]
    assert text[0].count("'") + text[0].count(":") >= 10
    assert "|" in text[0] + text[1]


def test_an_axis_does_not_magnify_noise_and_reaches_to_the_goal() -> None:
    """499.9 to 500 is a flat line; a goal that would leave the curve no quarter of the axis is not on it."""
    steady, near, far = scale_of([499.9, 500.0]), scale_of([100.0, 300.0], goal=475.0), scale_of([1.0, 9.0], goal=475.0)
    assert steady is not None
    assert near is not None
    assert far is not None
    assert steady.high - steady.low >= 25.0
    assert near.low < 100.0 < 475.0 < near.high
    assert far.high < 475.0 / 4
    assert far.high - far.low >= 0.05 * 475.0


def test_a_chart_names_goal_and_best() -> None:
    """The goal is a line of dots behind the curve, or an arrow where it is far off; the best has a sign over it."""
    view = structs.replace(VIEW, goal=GOAL, best=ValueAtUpdate(400.0, 8, 800), timesteps=1000, update=10)
    content, lines = chart(view, *(50.0 * at for at in range(1, 9)), 380.0, 390.0)
    assert content.aims == ("best 400 at 800", "goal 475")
    assert any("goal 475" in line for line in lines)
    assert any("▾" in line for line in lines)
    assert any("goal 475 ↑" in line for line in chart(view, 1.0, 2.0, 3.0)[1])


def test_words_of_marks_never_cover_each_other_and_the_last_ones_go_first() -> None:
    """Every mark keeps its sign on the axis of places."""
    moments = (Moment(10, 1000, "paused"), Moment(13, 1300, "killed"), Moment(16, 1600, "failed"))
    view = structs.replace(VIEW, moments=moments)
    values = [*[0.0] * 39, 6.0]
    wide, narrow = ("\n".join(chart(view, *values, width=width)[1]) for width in (160, 30))
    assert all(word in wide for word in ("paused", "killed", "failed"))
    assert narrow.count("‖") == wide.count("‖") == 3
    left = [word for word in ("paused", "killed", "failed") if word in narrow]
    assert left == ["paused", "killed", "failed"][: len(left)]


def test_a_word_stands_apart_from_the_sign_of_what_comes_next() -> None:
    """Beside its line where there is room for a blank after it, else before the line with a blank between, or lower."""
    canvas = Canvas(24, 2)
    canvas.glyph(11, 0, "◆", colours.INK)
    _write(canvas, 3, 0, "lr 0.05", colours.KEY)
    assert "".join(text for text, _ in next(iter(canvas.lines())))[3:12] == "lr 0.05 ◆"
    close = Canvas(24, 2)
    close.glyph(17, 0, "◆", colours.INK)
    _write(close, 10, 0, "lr 0.05", colours.KEY)
    assert "".join(text for text, _ in next(iter(close.lines())))[:18].rstrip() == " lr 0.05" + " " * 9 + "◆"


@pytest.mark.parametrize(
    ("diff", "word"),
    [
        (("ppo.learning_rate 0.0003 → 0.0001",), "lr 0.0001"),
        (("ppo.n_epochs 10 → 5", "ppo.clip_range 0.2 → 0.1"), "epochs 5 +1"),
        ((), "set"),
    ],
)
def test_what_was_set_is_said_in_a_word(diff: tuple[str, ...], word: str) -> None:
    """The short name of the setting and its new value."""
    assert set_word(SettingChange(diff, 1, 100)) == word


def test_a_ghost_is_dotted_named_and_goes_ahead() -> None:
    """Without colours it is loose dots; the axis shows half as much again of what it did."""
    values = [float(at) for at in range(1, 21)]
    content, lines = chart(VIEW, *values, ghost=history(*(float(it) / 2 for it in range(1, 61))))
    assert content.aims[-1] == "· old, the best run"
    assert any("old" in line for line in lines)
    assert content.scene is not None
    assert content.scene.reach == (100.0, 2950.0)
    ahead = [to_ascii(line[-12:]) for line in lines[:-2]]
    drawn = "".join(ahead).replace("old", "")
    assert set(drawn) <= set(" '.:")
    assert 2 <= len(drawn.replace(" ", "")) <= 12


def test_the_ghost_is_the_best_or_the_previous_of_the_same_task() -> None:
    """Other tasks, runs that were cut off and the run itself are none; one that is both is not shown twice."""
    best = ended("best", 30, created_t=VIEW.created_t - 20, metrics={RETURN: 20.0})
    before = ended("before", 20, created_t=VIEW.created_t - 10, metrics={RETURN: 2.0})
    other = ended("other", 5, created_t=VIEW.created_t - 5, metrics={RETURN: 99.0}, task="CartPole-v1")
    killed = ended("killed", 4, "killed", created_t=VIEW.created_t - 4, metrics={RETURN: 99.0})
    runs = (VIEW, best, before, other, killed)
    assert ghost_of(VIEW, runs, "best") == best
    assert ghost_of(VIEW, runs, "previous") == before
    settings = ChartSettings()
    assert [turn_ghost(settings, VIEW, runs) and settings.ghost for _ in range(3)] == ["best", "previous", ""]
    assert [turn_ghost(settings, VIEW, (VIEW, best)) and settings.ghost for _ in range(2)] == ["best", ""]
    assert "there is no ghost" in turn_ghost(settings, VIEW, (VIEW, other))
    stopped = ended("stopped", 3, "stopped", created_t=VIEW.created_t - 3, metrics={RETURN: 50.0})
    assert ghost_of(VIEW, (*runs, stopped), "best") == stopped


def test_a_run_that_is_marked_is_the_first_ghost() -> None:
    """Also where another one is drawn; a second one marked beside it means neither, and a killed one is none."""
    best, other, killed = (ended(name, 20, how) for name, how in (("b", "finished"), ("o", "stopped"), ("k", "killed")))
    best = structs.replace(best, metrics={RETURN: 900.0})
    runs, settings = (VIEW, best, other, killed), ChartSettings()
    turn_ghost(settings, VIEW, runs)
    assert ghost_of(VIEW, runs, settings.ghost, settings.ghost_run) == best
    assert "o, the marked run" in turn_ghost(settings, VIEW, runs, {VIEW.id, other.id})
    assert ghost_of(VIEW, runs, settings.ghost, settings.ghost_run) == other
    assert "b, the best run" in turn_ghost(settings, VIEW, runs, {other.id})
    settings = ChartSettings()
    assert "b, the best run" in turn_ghost(settings, VIEW, runs, {other.id, best.id})
    assert "b, the best run" in turn_ghost(ChartSettings(), VIEW, runs, {killed.id})


async def test_a_key_draws_the_ghost_and_takes_it_away() -> None:
    """Its history is asked for once, and its name is on the chart of the run screen and of the detail."""
    live, old = a_run("live", metrics={RETURN: 3.0}), ended("oldest", 30, metrics={RETURN: 20.0})
    async with staged(a_fleet((live, old)), size=(120, 40)) as stage:
        await stage.press("enter")
        await stage.press("G")
        await stage.shows("oldest, the best run")
        asked = [it for it in stage.client.asked_for(GetHistory) if it.run == old.id]
        assert len(asked) == 1
        await stage.press("escape")
        await stage.shows("oldest, the best run")
        await stage.press("G")
        await stage.until(lambda: "the best run  " not in stage.text())
        assert "no ghost" in stage.toasts()


async def test_a_chart_asks_for_no_more_points_than_there_are_dots() -> None:
    """However long the run is: what a key draws costs what the chart is wide."""
    async with staged(a_fleet((a_run("long", update=20_000, course=None),)), size=(120, 40)) as stage:
        await stage.press("enter")
        await stage.shows("return over timesteps")
        asked = [it.points for it in stage.client.asked_for(GetHistory) if it.series == (RETURN,)]
        assert asked[-1] < 2 * 120


@pytest.mark.parametrize(("first", "then", "drawn"), [(3, 43, 2), (4000, 4040, 1)], ids=["young", "long"])
async def test_a_young_run_does_not_wait_for_its_chart(
    monkeypatch: pytest.MonkeyPatch, first: int, then: int, drawn: int
) -> None:
    """Nine seconds after a start it would end at the third update, beside a return that it has never seen; to a long
    run forty updates are a dot, and its chart goes over the line once in ten seconds.
    """
    ends: set[int] = set()
    whole = first_history

    def seen(view: RunView) -> HistoryReply | None:
        if (found := whole(view)) is not None:
            ends.add(found.updates[-1])
        return found

    monkeypatch.setattr("mission_tui.tui.screens.fleet.first_history", seen)
    every = max(1, first // 100)
    young = a_run("young", update=first, course=rising(every, first // every))
    async with staged(a_fleet((young,)), size=(120, 40)) as stage:
        await stage.until(lambda: ends)
        stage.clock.advance(2.5)
        stage.client.show(
            a_fleet((structs.replace(young, update=then, course=rising(every, then // every)),), revision=4)
        )
        await stage.until(lambda: (shown := stage.app.app_context.snapshot) is not None and shown.revision == 4)
        await stage.still()
        assert len(ends) == drawn


async def test_the_list_below_the_screen_of_a_run_asks_for_no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its charts are asked for when they are seen again."""
    monkeypatch.setattr("mission_tui.tui.screens.fleet._REST_S", 3600.0)
    async with staged(a_fleet((a_run("long", update=20_000, course=None),)), size=(120, 40)) as stage:
        fleet = stage.screen
        assert isinstance(fleet, FleetScreen)
        await stage.press("enter")
        await stage.shows("return over timesteps")
        before = len(stage.client.asked_for(GetHistory))
        fleet._rest(fleet._rests_on)
        await stage.still()
        assert len(stage.client.asked_for(GetHistory)) == before
        await stage.press("escape")
        await stage.until(lambda: len(stage.client.asked_for(GetHistory)) > before)


def test_ranges_and_goals_are_said_in_few_words() -> None:
    """One unit, at most seven characters; as one where both ends nearly agree."""
    ranges = [(190.0, 280.0), (200.0, 205.0), (40_000.0, 55_000.0), (10.0, 400.0), (None, None)]
    assert [numbers.duration_range(*it) for it in ranges] == ["3-5m", "3m22", "11-16h", "<7m", "-"]
    said = [
        structs.replace(GOAL, trend="nearer", low_s=190.0, high_s=280.0),
        structs.replace(GOAL, trend="nearer", low_s=4.0, high_s=28.0),
        structs.replace(GOAL, trend="nearer", low_s=20.0, high_s=95.0),
        structs.replace(GOAL, trend="nearer", low_s=0.0, high_s=0.0),
        structs.replace(GOAL, trend="none"),
        structs.replace(GOAL, trend="beyond"),
        structs.replace(GOAL, reached=ValueAtUpdate(480.0, 9, 9000)),
        GoalView(of="success", value=0.8, source="run.goal", newest=0.42),
    ]
    assert [goal_words(structs.replace(VIEW, goal=goal)) for goal in said] == [
        "goal 475 in 3-5m",
        "goal 475 in <1m",
        "goal 475 in <2m",
        "goal 475 nearly reached",
        "goal 475: no trend",
        "goal 475 not within the budget",
        "goal 475 reached at 9k",
        "goal success 80%, now 42%",
    ]


def test_of_a_wide_range_the_time_when_the_disk_may_be_full_first_is_said() -> None:
    """`<111d` hid that it may be tomorrow."""
    wide = host(disk_full_in_s=200_000.0, disk_full_low_s=68_400.0, disk_full_high_s=111 * 86_400.0)
    assert numbers.until_full(wide) == "19h00 or later"


def test_no_forecast_is_of_no_time_at_all() -> None:
    """The end of a budget is at least a second away, a goal and a full disk a minute; what is due is due now."""
    ends = [(0.2, None, None), (0.0, 0.0, 0.4), (3.0, 0.0, 6.0), (42.0, None, None), (None, None, None)]
    runs = [structs.replace(VIEW, eta_s=eta_s, eta_low_s=low, eta_high_s=high) for eta_s, low, high in ends]
    assert [time_left(run) for run in runs] == ["<1s", "<1s", "<6s", "42s", "-"]
    full = [(0.0, None, None), (20.0, 0.0, 31.0), (90.0, 4.0, None), (90.0, 50.0, 170.0), (9000.0, 8000.0, None)]
    disks = [host(disk_full_in_s=at, disk_full_low_s=low, disk_full_high_s=high) for at, low, high in full]
    assert [numbers.until_full(disk) for disk in disks] == ["<1m", "<1m", "<1m or later", "<3m", "2h13 or later"]
    assert [numbers.due(seconds) for seconds in (-3.0, 0.4, 0.6, 75.0)] == ["now", "now", "in 1s", "in 1m15"]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(1.0, 1.02))
def test_ends_of_small_charts_rarely_move(low: float, span: float, by: float) -> None:
    """They hold what is drawn, with at most a quarter more; a run that grows by 2 % at a time moves them seldom."""
    reach, later = steady_reach(low, low + span), steady_reach(low, low + span * by)
    assert reach[0] == low
    assert low + span <= reach[1] + 1e-6
    assert reach[1] - low <= 1.3 * span + 1e-6
    assert later[1] >= reach[1] - 1e-6
    scale = steady(Scale(low, low + span))
    assert scale.low <= low < low + span <= scale.high + 1e-6
    assert scale.high - scale.low <= 1.3 * span + 1e-6
    moves = {steady_reach(0.0, 100.0 * 1.02**at) for at in range(100)}
    assert len(moves) < 16


async def test_the_list_asks_for_the_whole_return_of_ended_runs_in_sight_and_for_each_once() -> None:
    """Without the cursor: those that are known by their end alone, one after the other; no more when it is answered."""
    old = tuple(structs.replace(ended(f"old-{at}", 9), course=None, update=9) for at in range(3))
    known = structs.replace(ended("known", 9), course=rising(1, 9), update=9)
    async with staged(a_fleet((*old, known)), (100, 24)) as stage:

        def asked() -> list[str]:
            return [it.run for it in stage.client.asked_for(GetHistory) if it.is_course]

        await stage.until(lambda: len(asked()) >= 3, "three runs are asked for")
        await stage.arrive(a_fleet((*old, known), revision=2))
        await stage.still()
        assert sorted(asked()) == sorted(view.id for view in old)


async def test_a_screen_without_a_column_of_curves_asks_for_none() -> None:
    """At 60 columns a line has no room for one."""
    old = structs.replace(ended("old", 9), course=None, update=9)
    async with staged(a_fleet((old,)), (60, 20)) as stage:
        await stage.still()
        assert not [it for it in stage.client.asked_for(GetHistory) if it.is_course]
