"""What charts are drawn from: scales, smoothing, rulers, axes, marks and the picture itself."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from mission_tui.fleet.events.findings import Finding, Severity
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.events.provenance import SettingChange
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import AttemptView, HistoryReply
from mission_tui.tui.plot.canvas import Canvas
from mission_tui.tui.plot.content import Content, content_of, crossed
from mission_tui.tui.plot.curve import Curve, curve_of, marks_of, side_by_side, smoothed
from mission_tui.tui.plot.legend import legend, signs
from mission_tui.tui.plot.picture import Crosshair, frame_for, painted, picture
from mission_tui.tui.plot.scale import Ruler, Scale, scale_of, ticks_over
from mission_tui.tui.state.preferences import AXIS_SCALES, OVERS, AxisScale, ChartSettings, Over
from mission_tui.tui.state.run_data import EXACT, LogTail, RunData
from tests.tui.fake_client import details
from tests.tui.fleets import KL_FINDING, NOW, a_run

RETURN, KL, LOSS = "rollout/ep_rew_mean", "train/approx_kl", "train/value_loss"
VIEW = a_run("heavy-3f9a", findings=(KL_FINDING,))


def a_history(
    tag: str = RETURN, values: tuple[Metric | None, ...] = (1.0, 2.0, 3.0, 4.0), every: int = 1
) -> HistoryReply:
    """Buckets of `every` updates of 100 steps and 10 s each, from update 1 on."""
    updates = tuple(every * (at + 1) for at in range(len(values)))
    return HistoryReply(
        re=1,
        run=VIEW.id,
        updates=updates,
        timesteps=tuple(100 * update for update in updates),
        t=tuple(NOW - 1000 + 10.0 * update for update in updates),
        low={tag: values},
        high={tag: values},
    )


def a_curve(
    slot: int, tag: str, values: tuple[Metric | None, ...], *, kind: AxisScale = "linear", factor: float = 0.0
) -> Curve:
    history = a_history(tag, values)
    return curve_of(slot, tag, history, Ruler(history, "updates").places, kind=kind, factor=factor)


def a_content(
    settings: ChartSettings, *histories: HistoryReply, cross: int | None = None, view: RunView = VIEW
) -> Content:
    """The chart of `VIEW` with these histories, the first metric chosen."""
    known = {tag: history for history in histories for tag in history.low}
    data = RunData(view.id, LogTail(view.id), details(1, view), known)
    content = content_of(view, data, settings, settings.shown(next(iter(known)), known))
    return content if cross is None else crossed(content, data, cross, NOW)


def drawn(content: Content, width: int = 60, height: int = 16) -> list[str]:
    """The picture as text."""
    assert content.scene is not None
    assert content.scene.reach is not None
    sides = [it.side for it in content.scene.sided]
    frame = frame_for(width, height, content.scene.reach, sides)
    return [strip.text for strip in picture(content.scene, frame, painted(content.scene, frame), content.at)]


def said(content: Content, width: int = 80) -> str:
    """The legend as text."""
    return "\n".join(strip.text for strip in legend(content, width))


@given(
    st.lists(st.floats(-1e9, 1e9) | st.floats(allow_nan=False, allow_infinity=False), min_size=1),
    st.sampled_from(AXIS_SCALES),
)
@example([5e-324], "log")
@example([0.0, 1e-323], "linear")
@example([-1.7e308, 1.7e308], "linear")
@example([1.7976931348623157e308], "log")
@example([-1.7e308, 0.0, 5e-324, 1.7976931348623157e308], "symlog")
@example([-5e-324], "symlog")
def test_every_value_has_a_place_on_its_own_scale(values: list[float], kind: AxisScale) -> None:
    """Inside the axis, higher values higher; on a logarithmic one only what is positive."""
    log, scale = kind == "log", scale_of(values, kind)
    places = [scale.share(value) for value in sorted(values) if value > 0 or not log] if scale else []
    assert bool(places) == any(value > 0 or not log for value in values)
    shares = [place for place in places if place is not None]
    ticks = [value for value, _ in scale.ticks(8)] if scale else []
    assert scale is None or None not in map(scale.share, ticks)
    assert len(shares) == len(places)
    assert shares == sorted(shares)
    assert all(0 <= place <= 1 for place in shares)


@given(st.floats(-1e6, 1e6), st.floats(1e-2, 1e6), st.integers(1, 12))
def test_ticks_lie_on_the_axis_and_read_differently(low: float, span: float, most: int) -> None:
    """No more than asked for, inside, and no two with the same words unless the digits cannot tell them apart."""
    scale = Scale(low, low + span)
    ticks = scale.ticks(most)
    assert len(ticks) <= most
    assert all(low - 1e-6 * span <= value <= low + span * (1 + 1e-6) for value, _ in ticks)
    if span > 0.1 * abs(low):
        assert len({word for _, word in ticks}) == len(ticks)


def test_a_logarithmic_axis_counts_in_powers_of_ten() -> None:
    """From decade to decade, and within one in 1, 2, 5."""
    assert [word for _, word in Scale(1e-4, 10, "log").ticks(8)] == ["1e-4", "1e-3", "0.010", "0.100", "1.00", "10"]
    assert [value for value, _ in Scale(0.9, 11, "log").ticks(5)] == pytest.approx([1, 2, 5, 10])


def test_a_symmetric_logarithmic_axis_has_a_place_for_every_sign() -> None:
    """Zero in the middle of equal spans, decades to both sides of it, and no value left out."""
    scale = scale_of([-1000.0, -1.0, 0.0, 1.0, 1000.0], "symlog")
    assert scale is not None
    places = [scale.share(value) for value in (-1000.0, -1.0, 0.0, 1.0, 1000.0)]
    assert places == pytest.approx([0.037, 0.45, 0.5, 0.55, 0.963], abs=0.02)
    assert [word for _, word in scale.ticks(9)] == ["-1,000", "-100", "-10", "-1.00", "0", "1.00", "10", "100", "1,000"]
    learned = scale_of([-2.3, -0.1, 4.75], "symlog")
    assert learned is not None
    assert [word for _, word in learned.ticks(4)] == ["-1.00", "0", "1.00"], "where there is room for few, the far ones"
    content = a_content(ChartSettings(scale="symlog"), a_history(LOSS, (-1000.0, -1.0, 0.0, 1000.0)))
    assert "cannot" not in said(content)
    assert content.entries[0].curve is not None
    assert len(content.entries[0].curve.shown) == 4


def test_smoothing_does_not_depend_on_how_updates_were_put_together() -> None:
    """A value that stands for four updates weighs as four; a constant stays; nan is left out and stays a gap."""
    one_by_one = smoothed([1.0] * 4 + [3.0] * 4, range(1, 9), 0.9)
    assert smoothed([1.0, 3.0], [4, 8], 0.9)[-1] == pytest.approx(one_by_one[-1])
    assert smoothed([5.0] * 5, range(1, 6), 0.99) == pytest.approx([5.0] * 5)
    broken = smoothed([1.0, math.nan, 1.0], [1, 2, 3], 0.5)
    assert math.isnan(broken[1])
    assert broken[2] == pytest.approx(1.0)


def test_what_a_logarithm_cannot_show_is_counted_and_said() -> None:
    """Zero and below on a logarithmic axis; nan and inf on any."""
    curve = a_curve(0, LOSS, (1.0, 0.0, -2.0, "nan", 10.0), kind="log")
    assert (curve.hidden, curve.broken, len(curve.shown)) == ((0.0, -2.0), 1, 2)
    settings = ChartSettings(scale="log")
    text = said(a_content(settings, a_history(LOSS, (1.0, 0.0, -2.0, "nan", 10.0))), 120)
    assert "a log axis cannot draw 2 of 5 points of value loss (-2.00 to 0), which are not above 0" in text
    assert "Y turns to symlog" in text.replace("\n", "")
    assert "1 point nan or inf left out" in text
    assert "cannot" not in said(a_content(ChartSettings(), a_history(LOSS, (1.0, 0.0))))


def test_nothing_positive_leaves_an_empty_logarithmic_chart_that_says_why() -> None:
    """No crash, and no axis of made-up numbers."""
    content = a_content(ChartSettings(scale="log"), a_history(LOSS, (-1.0, -2.0)))
    assert content.scene is not None
    assert content.scene.reach is None
    assert "cannot draw 2 of 2 points of value loss (-2.00 to -1.00)" in said(content, 120)


def test_what_is_left_out_is_said_whole_on_a_narrow_screen() -> None:
    """A whole sentence, folded between words; `17 points no` would be the end of a cut one."""
    settings = ChartSettings(scale="log")
    content = a_content(settings, a_history(LOSS, (1.0, *[0.0] * 17, 10.0)))
    for width in (48, 60, 80):
        text = " ".join(said(content, width).split())
        assert "a log axis cannot draw 17 of 19 points of value loss (0), which are not above 0" in text
        assert "Y turns to symlog, which does" in text


def test_curves_of_one_size_share_an_axis_and_others_do_not() -> None:
    """Two axes have numbers; a third size has its own, and says from where to where it goes."""
    curves = [
        a_curve(0, "a", (0.0, 10.0)),
        a_curve(1, "b", (2.0, 12.0)),
        a_curve(2, "c", (0.01, 0.02)),
        a_curve(3, "d", (1e6, 2e6)),
        a_curve(4, "e", (7.0, 7.0)),
    ]
    assert [(it.curve.tag, it.side) for it in side_by_side(curves, kind="linear")] == [
        ("a", "left"), ("b", "left"), ("c", "right"), ("d", "own"), ("e", "left"),
    ]  # fmt: skip


def test_the_legend_says_which_axis_each_curve_is_read_on() -> None:
    """Letter, name, newest value, axis."""
    settings = ChartSettings()
    assert settings.pin(RETURN)
    assert settings.pin(KL)
    text = said(a_content(settings, a_history(RETURN), a_history(KL, (0.01, 0.02, 0.01, 0.02))), 80)
    assert "A return 12.4    left" in text
    assert "B approx KL 0.012   right" in text


def test_a_metric_keeps_its_letter_when_another_one_goes() -> None:
    """Letters and colours belong to metrics, not to places in a list; one slot stays free for the chosen one."""
    settings = ChartSettings()
    for tag in "abcde":
        assert settings.pin(tag)
    assert not settings.pin("f")
    assert settings.pin("b")
    assert settings.shown("f", set("abcdef")) == [(0, "a"), (1, "f"), (2, "c"), (3, "d"), (4, "e")]
    assert settings.shown("a", {"a", "c"}) == [(0, "a"), (2, "c")]


@pytest.mark.parametrize("over", OVERS)
def test_each_axis_has_round_words_within_its_reach(over: Over) -> None:
    """Steps and updates are whole, durations and times of day are round; none lies outside."""
    history = a_history(values=tuple(float(n) for n in range(90)))
    ruler = Ruler(history, over)
    ticks = ticks_over(over, ruler.places[0], ruler.places[-1], 6)
    assert 2 <= len(ticks) <= 6
    assert all(ruler.places[0] <= place <= ruler.places[-1] for place, _ in ticks)
    assert len({word for _, word in ticks}) == len(ticks)


@pytest.mark.parametrize(
    ("over", "low", "high", "words"),
    [
        ("timesteps", 10_000_000, 10_100_000, ["10M", "10.05M", "10.1M"]),
        ("timesteps", 999_000, 1_001_000, ["999k", "999.5k", "1M", "1.0005M", "1.001M"]),
        ("timesteps", 100_000, 101_000, ["100k", "100.5k", "101k"]),
        ("timesteps", 10_049_000, 10_051_000, ["10.049M", "10.0495M", "10.05M", "10.0505M", "10.051M"]),
        ("timesteps", 7, 7.5, ["7"]),
        ("timesteps", 0, 2_000_000, ["0", "500k", "1M", "1.5M", "2M"]),
        ("run time", 3600, 3620, ["1h00:00", "1h00:05", "1h00:10", "1h00:15", "1h00:20"]),
        ("run time", 86_400, 90_000, ["1d00:00", "1d00:15", "1d00:30", "1d00:45", "1d01:00"]),
        ("run time", 0, 90_000, ["0", "6h00", "12h00", "18h00", "1d00"]),
    ],
)
def test_words_of_an_axis_tell_its_places_apart(over: Over, low: float, high: float, words: list[str]) -> None:
    """Zoomed far in, 10.05M is not called 10M, as its neighbour is."""
    assert [word for _, word in ticks_over(over, low, high, 5)] == words


def test_run_time_leaves_out_the_night_between_two_attempts() -> None:
    """An attempt of 20 s, a pause of an hour, and another one: 30 s after its start is 50 s of run time."""
    history = structs.replace(a_history(values=(1.0, 2.0)), t=(NOW + 20.0, NOW + 3650.0))
    first = AttemptView(
        attempt=1, started_t=NOW, ended_t=NOW + 20, outcome="stopped", cause="", from_checkpoint=None,
        from_timesteps=0,
    )  # fmt: skip
    second = structs.replace(first, attempt=2, started_t=NOW + 3620, ended_t=None, from_timesteps=100)
    assert Ruler(history, "run time", (first, second)).places == (20.0, 50.0)
    assert Ruler(history, "run time").places == (0.0, 3630.0)


def test_a_clock_that_was_set_back_leaves_no_chart_empty() -> None:
    """What came before lies before what came after, on either axis of time; one row's time is lost."""
    began, later = 1_000_000.0, 1_000_000.0 - 172_800.0
    times = (began + 10.0, began + 20.0, later + 30.0, later + 40.0)
    history = structs.replace(a_history(values=(1.0, 2.0, 3.0, 4.0)), t=times)
    attempt = structs.replace(details(1, VIEW).attempts[0], started_t=began, ended_t=None)
    assert Ruler(history, "run time", (attempt,)).places == (0.0, 10.0, 10.0, 20.0)
    assert Ruler(history, "clock", (attempt,)).places == (later + 20.0, later + 30.0, later + 30.0, later + 40.0)


def test_the_clock_has_round_times_of_day(utc: None) -> None:
    """Whole minutes, whatever second the run began in."""
    history = a_history(values=tuple(float(n) for n in range(90)))
    ruler = Ruler(history, "clock")
    for place, word in ticks_over("clock", ruler.places[0], ruler.places[-1], 6):
        assert place % 60 == 0
        assert word == time.strftime("%H:%M", time.gmtime(place))


def test_marks_have_their_places() -> None:
    """Checkpoints by update, resumes and evaluations by timesteps, findings as the stretch in which they were open."""
    history = structs.replace(
        a_history(values=tuple(float(n) for n in range(1403))),
        timesteps=tuple(8192 * n for n in range(1, 1404)),
        changes=(SettingChange(("ppo.ent_coef 0 → 0.01",), 700, 700 * 8192), SettingChange(("waits",))),
    )
    found = marks_of(VIEW, details(1, VIEW), history, Ruler(history, "updates"))
    places = [(mark.kind, mark.place, mark.attempt) for mark in found.marks]
    assert ("checkpoint", 1200.0, 0) in places
    assert ("resume", 1000.0, 2) in places
    assert ("set", 700.0, 0) in places
    assert sum(kind == "set" for kind, *_ in places) == 1
    assert [(band.first, band.last) for band in found.bands] == [(1204.0, 1403.0)]
    (judged,) = found.judged
    assert (judged.place, judged.mean, judged.low, judged.high) == (1400.0, 11.82, 11.34, 12.3)


@pytest.mark.parametrize(
    "result", [{"mean": "nan"}, {}, {"checkpoint": "x", "mean": 1.0}, {"checkpoint": "000000100", "mean": True}]
)
def test_evaluations_that_are_none_are_passed_over(result: dict[str, object]) -> None:
    """Any program may have written there."""
    history = a_history()
    broken = structs.replace(details(1, VIEW), evaluations=({"checkpoint": "000000100"} | result,))
    assert marks_of(VIEW, broken, history, Ruler(history, "updates")).judged == ()


def test_the_picture_shows_curve_marks_band_and_evaluation_without_colours() -> None:
    """Each has a sign of its own, and a line below says what they mean."""
    values = tuple(10 * math.sin(n / 100) for n in range(1403))
    history = structs.replace(a_history(values=values), timesteps=tuple(8192 * n for n in range(1, 1404)))
    content = a_content(ChartSettings(), history)
    lines = drawn(content)
    assert len(lines) == 16
    assert {len(line) for line in lines} == {60}
    assert "▲ KL ░" in lines[0]
    assert any("■" in line for line in lines[:-2])
    assert all(sign in lines[-2] for sign in "↓2■┴")
    assert content.scene is not None
    (meaning,) = signs(content.scene.marks, 60)
    assert meaning.text.split() == ["↓", "saved", "■", "eval", "95", "%", "CI", "2", "resumed", "▲░", "finding"]
    (narrow,) = signs(content.scene.marks, 22)
    assert narrow.text.split() == ["↓", "saved", "2", "resumed"], "none is cut amid its word"


def test_words_of_findings_that_begin_together_do_not_write_into_each_other() -> None:
    """The gravest keeps its word whole; one that has room farther on keeps its own."""
    values = tuple(10 * math.sin(n / 100) for n in range(1403))
    history = structs.replace(a_history(values=values), timesteps=tuple(8192 * n for n in range(1, 1404)))

    def found(rule: str, severity: Severity, first: int) -> Finding:
        return structs.replace(KL_FINDING, rule=rule, severity=severity, first_update=first, last_update=first + 300)

    view = structs.replace(
        VIEW,
        findings=(
            found("ratio", "info", 100),
            found("kl-persistent", "critical", 120),
            found("clip-fraction", "info", 180),
            found("grad-norm", "info", 900),
        ),
    )
    top = drawn(a_content(ChartSettings(), history, view=view))[0]
    assert [word for word in ("ratio", "KL", "clip", "gradient") if word in top] == ["KL", "gradient"]
    slow = structs.replace(found("throughput", "warning", 700), last_update=1200)
    both = structs.replace(view, findings=(structs.replace(view.findings[1], last_update=1400), slow))
    assert "░▲ slow ░" in drawn(a_content(ChartSettings(), history, view=both))[0], "its own sign, inside a graver band"
    cause, symptom = view.findings[1], structs.replace(view.findings[3], first_update=140, part_of=view.findings[1].id)
    told = structs.replace(view, findings=(cause, structs.replace(symptom, severity="critical")))
    assert "◆ KL ░" in drawn(a_content(ChartSettings(), history, view=told))[0]


def test_several_curves_bear_their_letters() -> None:
    """So that they can be told apart without colours; one alone needs none."""
    settings = ChartSettings()
    for tag in (RETURN, KL):
        settings.pin(tag)
    both = "\n".join(drawn(a_content(settings, a_history(RETURN), a_history(KL, (0.4, 0.3, 0.2, 0.1))))[:-2])
    assert both.count("A") >= 1
    assert both.count("B") >= 1
    assert "A" not in "\n".join(drawn(a_content(ChartSettings(), a_history(RETURN))))


def test_a_gap_is_not_bridged() -> None:
    """Between two values that are none there is nothing to join."""
    whole = drawn(a_content(ChartSettings(), a_history(values=(1.0, 1.0, 1.0, 1.0))))
    broken = drawn(a_content(ChartSettings(), a_history(values=(1.0, "nan", "nan", 1.0))))
    dots = [
        "".join(lines).count("⠒") + "".join(lines).count("⠤") + "".join(lines).count("⣀") for lines in (whole, broken)
    ]
    assert dots[0] > 20 > dots[1]


def test_the_crosshair_prints_what_the_update_was() -> None:
    """The least and greatest of a bucket of several updates, until the value of the update itself is known."""
    history = structs.replace(a_history(every=5), high={RETURN: (1.5, 2.5, 3.25, 4.5)})
    assert "update 15" not in said(a_content(ChartSettings(), history))
    words = " ".join(said(a_content(ChartSettings(), history, cross=15), 100).split())
    assert "│ 3…3.25 update 15 1,500 steps after 2h14" in words
    known = RunData(VIEW.id, LogTail(VIEW.id), None, {RETURN: history})
    known.history[EXACT] = structs.replace(
        a_history(values=(3.14159,)), updates=(15,), low={RETURN: (3.14159,)}, high={RETURN: (3.14159,)}
    )
    settings = ChartSettings()
    exact = crossed(content_of(VIEW, known, settings, settings.shown(RETURN, {RETURN})), known, 15, NOW)
    assert "│ 3.14159 update 15" in " ".join(said(exact).split())
    assert sum("│" in line[20:] or "●" in line for line in drawn(exact)) > 8


def test_a_smoothed_curve_is_read_off_too() -> None:
    """Beside the value of the update stands the moving average that the line shows there."""
    settings = ChartSettings()
    assert settings.pin(KL)
    settings.smooth(1)
    histories = a_history(RETURN, (0.0, 4.0, 4.0)), a_history(KL, (0.4, 0.4, 0.4))
    words = " ".join(said(a_content(settings, *histories, cross=2), 120).split())
    assert "A approx KL 0.4 EMA 0.400" in words
    assert "B return 4 EMA 2.67" in words


@pytest.mark.parametrize("width", [30, 50, 80, 200])
@pytest.mark.parametrize("cross", [None, 2])
def test_what_the_legend_says_of_an_axis_is_never_cut(width: int, cross: int | None) -> None:
    """Half a range would be read as a value; names are cut before."""
    settings, tags = ChartSettings(), ("train/a_rather_long_name_of_a_metric", LOSS, KL, RETURN)
    for tag in tags:
        assert settings.pin(tag)
    settings.smooth(2)
    histories = [a_history(tag, (10.0**at, 3.0 * 10**at, 2.0 * 10**at)) for at, tag in enumerate(tags)]
    lines = said(a_content(settings, *histories, cross=cross), width).splitlines()
    assert {len(line) for line in lines} == {width}
    if width >= 50:
        assert sum(word in ("left", "right", "own") for line in lines for word in line.split()) == len(tags)
        assert cross is not None or "own 92…308" in " ".join(lines)


def test_the_crosshair_moves_by_columns_and_stays_on_its_update() -> None:
    """Always to the end of a bucket, at least a column on; at the ends of the run it stays."""
    history = a_history(values=tuple(float(n) for n in range(400)))
    ruler, cross = Ruler(history, "updates"), Crosshair()
    frame = frame_for(60, 16, (ruler.places[0], ruler.places[-1]), ["left"])
    cross.turn(ruler)
    assert cross.update == 400
    cross.step(ruler, frame, 1)
    assert cross.update == 400
    cross.step(ruler, frame, -1)
    assert cross.update is not None
    assert frame.column(cross.update) == frame.columns - 2
    cross.point(ruler, 123.4)
    assert cross.update == 123
    cross.step(ruler, frame, -frame.columns)
    assert cross.update == 1
    cross.turn(ruler)
    assert cross.update is None


@given(
    st.lists(st.tuples(st.integers(-9, 90), st.integers(-9, 90)), max_size=12), st.integers(0, 20), st.integers(0, 9)
)
def test_a_canvas_has_its_size_whatever_is_drawn(places: list[tuple[int, int]], columns: int, rows: int) -> None:
    """Dots outside are not drawn, and no row grows."""
    canvas = Canvas(columns, rows)
    canvas.stroke(places, colour := Canvas(1, 1)._inks[0])
    canvas.glyph(columns, rows, "x", colour)
    lines = ["".join(text for text, _ in parts) for parts in canvas.lines()]
    assert [len(line) for line in lines] == [columns] * rows
