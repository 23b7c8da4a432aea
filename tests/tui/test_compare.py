"""`c`: which runs are put beside each other, and what is seen of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from msgspec.structs import replace

from mission_tui.cli.tables.comparison import comparison_tables
from mission_tui.fleet.comparison import compare
from mission_tui.fleet.comparison_sides import Side, Trace, trace_of
from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.provenance import SettingChange
from mission_tui.fleet.history.course import Moment
from mission_tui.fleet.specs.spec import DRIVER
from mission_tui.ipc import replies
from mission_tui.ipc.requests import Compare
from mission_tui.present.numbers import reading
from mission_tui.present.run_state import asks_for_action
from mission_tui.tui.screens.compare import CompareScreen, comparison
from mission_tui.tui.screens.fleet import FleetScreen
from tests.tui.fleets import LIVE, a_fleet, a_run, ended
from tests.tui.sides import a_side
from tests.tui.stage import Stage, staged
from tests.tui.test_pictures import HOSTILE, at_home, saved_in, texts


def answer(stage: Stage, *sides: Side) -> None:
    """Let the supervisor compare these."""

    def respond(request: Compare) -> replies.OperatorReply:
        found = compare(sides, RETURN, request.by, 200.0)
        return replies.ComparisonReply(re=request.id, comparison=msgspec.to_builtins(found))

    stage.client.answers[Compare] = respond


async def test_one_run_of_a_sweep_is_compared_with_all_of_it() -> None:
    """Its settings against their results, best first, without marking each."""
    swept = [a_run(f"lr-{at}", group="rates", seed=1) for at in range(3)]
    alone = a_run("alone")
    async with staged(a_fleet((alone, *swept))) as stage:
        sides = (a_side(view, 1, 2.0 + at, gamma=0.9 + at / 100) for at, view in enumerate(swept))
        answer(stage, *sides)
        await stage.press("end", "c")
        await stage.until(lambda: isinstance(stage.screen, CompareScreen))
        *_, request = stage.client.asked_for(Compare)
        assert sorted(request.runs) == sorted(view.id for view in swept)
        await stage.shows("best first")


async def test_the_driver_of_a_search_is_not_compared() -> None:
    """It has no return: beside its trials it said that their tasks differ."""
    driver = a_run("hunt-search", group="hunt", preset=f"{DRIVER}cart")
    trials = [a_run(f"hunt-{at}", group="hunt", seed=1) for at in range(2)]
    async with staged(a_fleet((driver, *trials))) as stage:
        answer(stage, *(a_side(view, 1, 2.0 + at) for at, view in enumerate(trials)))
        await stage.press("c")
        await stage.until(lambda: stage.client.asked_for(Compare))
        assert sorted(stage.client.asked_for(Compare)[-1].runs) == sorted(view.id for view in trials)
    async with staged(a_fleet((driver, trials[0]))) as stage:
        await stage.press("j", "c")
        await stage.until(lambda: any("Space marks runs" in toast for toast in stage.toasts()))


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 50)])
async def test_the_detail_of_a_run_of_a_sweep_has_the_table_of_its_settings(size: tuple[int, int]) -> None:
    """Best first, once the cursor rests on it; asked for once while nothing ends, and again when a run has."""
    swept = [ended(f"lr-{at}", 5, group="rates", seed=1) for at in range(3)]
    alone = ended("alone", 6)
    async with staged(a_fleet((alone, *swept)), size=size) as stage:
        answer(stage, *(a_side(view, 1, 2.0 + at, gamma=0.9 + at / 100) for at, view in enumerate(swept)))
        await stage.press("end")
        await stage.shows("gamma")
        (table,) = [at for at, text in enumerate(stage.lines()) if "gamma" in text]
        first, second, *_ = stage.lines()[table + 1 :]
        assert "0.92" in first
        assert "0.91" in second
        await stage.press("up")
        await stage.still()
        assert len(stage.client.asked_for(Compare)) == 1
        await stage.press("home")
        await stage.until(lambda: "gamma" not in stage.text())


async def test_nothing_is_best_before_anything_has_come_of_it() -> None:
    """The table of a sweep that has only begun: the first setting is the first alone."""
    swept = [a_run(f"lr-{at}", group="rates", seed=1) for at in range(3)]
    async with staged(a_fleet(tuple(swept)), size=(160, 50)) as stage:
        sides = [a_side(view, 1, 2.0 + at, gamma=0.9 + at / 100) for at, view in enumerate(swept)]
        answer(stage, *(replace(side, trace=trace_of(())) for side in sides))
        await stage.press("end", "c")
        await stage.shows("best first")
        (table,) = [at for at, text in enumerate(stage.lines()) if "gamma" in text and "verdict" in text]
        assert not any("best" in text for text in stage.lines()[table + 1 : table + 4])


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_marked_runs_are_shown_beside_each_other(size: tuple[int, int]) -> None:
    """A curve with a letter each, results, what differs, and what to mind; Escape goes back."""
    async with staged(size=size) as stage:
        answer(stage, a_side(LIVE[0], 7, 2.0), a_side(LIVE[1], 7, 3.0, gamma=0.9))
        await stage.press("space", "space", "c")
        await stage.until(lambda: isinstance(stage.screen, CompareScreen))
        await stage.shows("ppo.gamma")
        (request,) = stage.client.asked_for(Compare)
        assert request.runs == (LIVE[0].id, LIVE[1].id)
        for text in ("compare 2 runs  ", "to 200", "0/2 open", "0.99", "1 seed of each setting: no interval"):
            await stage.shows(text)
        plot = stage.lines()[1 : size[1] // 3]
        assert any("\u2800" < character < "\u28ff" for row in plot for character in row)
        assert " 400M " in stage.text()
        drawn = "".join(plot)
        assert "A" in drawn
        assert "B" in drawn
        await stage.press("escape")
        assert isinstance(stage.screen, FleetScreen)


async def test_seeds_of_one_setting_are_one_curve_with_their_interval() -> None:
    """Three seeds against one run: the three stand together, and the one is said to be alone."""
    views = [a_run(f"cart-{seed}") for seed in range(4)]
    async with staged(a_fleet(tuple(views)), size=(120, 50)) as stage:
        sides = [a_side(view, seed, 2.0 + seed / 10) for seed, view in enumerate(views[:3])]
        answer(stage, *sides, a_side(views[3], 1, 1.0, gamma=0.9))
        await stage.press(*["space"] * 4, "c")
        await stage.shows("seeds of one setting together")
        await stage.shows("95 % CI of the mean")
        await stage.shows("A-C")
        await stage.shows("1 seed of cart-3: no interval")


async def test_curves_that_are_the_same_have_both_letters() -> None:
    """An exact clone lies on its source; neither letter hides the other."""
    async with staged() as stage:
        answer(stage, a_side(LIVE[0], 7, 2.0), a_side(LIVE[1], 7, 2.0))
        await stage.press("space", "space", "c")
        await stage.shows("count as one")
        await stage.until(lambda: {"A", "B"} <= set("".join(stage.lines()[1:10])))


async def test_one_run_is_compared_with_the_one_before_it() -> None:
    """By when they were made; the oldest has nothing before it, and is told how to mark others."""
    old, new = (a_run(f"heavy-{t}", created_t=float(t)) for t in (1, 2))
    async with staged(a_fleet((old, new))) as stage:
        answer(stage, a_side(old, 7, 1.0), a_side(new, 7, 2.0))
        await stage.press("c")
        await stage.until(lambda: any("Space marks runs" in toast for toast in stage.toasts()))
        await stage.press("j", "c")
        await stage.until(lambda: isinstance(stage.screen, CompareScreen))
        assert stage.client.asked_for(Compare)[0].runs == (old.id, new.id)


async def test_the_older_of_marked_runs_is_the_first() -> None:
    """Whichever is listed first: what came later is held against it."""
    old, new = (a_run(f"heavy-{t}", created_t=float(t)) for t in (1, 2))
    async with staged(a_fleet((new, old))) as stage:
        answer(stage, a_side(old, 7, 1.0), a_side(new, 7, 2.0))
        await stage.press("space", "space", "c")
        await stage.until(lambda: stage.client.asked_for(Compare))
        assert stage.client.asked_for(Compare)[0].runs == (old.id, new.id)


async def test_the_axis_turns_to_seconds_and_back() -> None:
    """`t` asks again for the other one; F5 for the same."""
    async with staged() as stage:
        answer(stage, a_side(LIVE[0], 7, 2.0), a_side(LIVE[1], 7, 3.0))
        await stage.press("space", "space", "c")
        await stage.shows("over timesteps")
        await stage.press("t")
        await stage.shows("over seconds of training")
        await stage.press("f5")
        await stage.until(lambda: len(stage.client.asked_for(Compare)) == 3)
        assert [request.by for request in stage.client.asked_for(Compare)] == ["step", "time", "time"]


async def test_without_a_curve_the_tables_have_the_screen() -> None:
    """Two runs that have not ended an update yet: no empty frame where a chart would be."""
    async with staged() as stage:
        answer(stage, *(replace(a_side(view, 7, 2.0), trace=Trace()) for view in LIVE[:2]))
        await stage.press("space", "space", "c")
        await stage.shows("findings")
        await stage.until(lambda: "findings" in stage.lines()[1])


async def test_what_cannot_be_compared_is_said_on_the_screen() -> None:
    """The supervisor's own sentence."""
    async with staged() as stage:
        stage.client.answers[Compare] = lambda request: replies.Refused(re=request.id, message="no such thing")
        await stage.press("space", "space", "c")
        await stage.shows("no such thing")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_sweep_shows_its_settings_against_its_results(width: int) -> None:
    """Best first, above the runs, with a column for each setting; what is behind says so."""
    runs = [(rate, seed) for rate in (1e-4, 3e-4, 1e-3) for seed in (1, 2, 3)]
    gain = {1e-4: 1.0, 3e-4: 3.0, 1e-3: 2.0}
    sides = [a_side(a_run(f"sweep-{n}"), seed, gain[rate], learning_rate=rate) for n, (rate, seed) in enumerate(runs)]
    found = compare(sides, RETURN)
    title, heads, *rows = [strip.text for strip in comparison(found, width)][:5]
    assert "settings by the return of their seeds at " in title
    assert heads.split()[:3] == ["learning_rate", *(["mean", "n"] if width == 60 else ["median", "mean"])]
    assert [row.split()[:2] for row in rows] == [["D-F", "0.0003"], ["G-I", "0.001"], ["A-C", "0.0001"]]
    assert rows[0].split()[-1] == "best"
    assert "behind by 1" in rows[1]
    assert not any("…" in row for row in rows)
    if width >= 120:
        interval = found.ranking[0].interval
        assert interval is not None
        assert rows[0].split()[2:7] == [
            reading(found.ranking[0].median),
            reading(found.ranking[0].mean),
            reading(interval[0]),
            "to",
            reading(interval[1]),
        ]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_no_figure_of_a_comparison_is_ever_cut(width: int) -> None:
    """Where not all columns fit, whole ones give way; each run keeps its letter, by which its curve is known."""
    views = [a_run(f"heavy-with-a-long-name-{at}") for at in range(6)]
    found = compare([a_side(view, 1_000_000 + at, 2.0 + at) for at, view in enumerate(views)], RETURN, "step", 200.0)
    lines = [strip.text for strip in comparison(found, width)][: 1 + len(views)]
    assert [line.split()[0] for line in lines[1:]] == list("ABCDEF")
    assert not any("…" in word for line in lines for word in line.split()[2:])
    assert all("best" in lines[0] and len(line) == width for line in lines)


async def test_findings_are_counted_as_the_list_counts_them() -> None:
    """Those that are open now, of every incident of the whole run."""
    async with staged(size=(120, 40)) as stage:
        answer(stage, a_side(LIVE[0], 7, 2.0), a_side(LIVE[1], 7, 3.0))
        await stage.press("space", "space", "c")
        await stage.shows("1/2 open")
        assert "0/2 open" in stage.text()


def test_tables_count_findings_as_the_list_does() -> None:
    """Neither information, nor what is known, nor a symptom below its cause, nor, of a run that is over, its speed."""
    (asks,) = next(asking for view in LIVE if len(asking := asks_for_action(view)) == 1)
    others = (
        structs.replace(asks, id="info-1-1", severity="info"),
        structs.replace(asks, id="kl-1-2", state="acknowledged"),
        structs.replace(asks, id="kl-1-3", part_of=asks.id),
        structs.replace(asks, id="throughput-1-4", rule="throughput"),
    )
    over = structs.replace(LIVE[0], state="ended", outcome="stopped", findings=(asks, *others))
    counted: dict[Severity, int] = {"info": 1, "warning": 3}
    sides = [replace(a_side(view, 7, 2.0), findings=counted) for view in (over, structs.replace(over, state="running"))]
    found = compare(sides, RETURN, "step", None)
    assert [len(asks_for_action(it.view)) for it in sides] == [1, 2]
    assert [row[-1] for row in next(comparison_tables(found))[1].rows] == ["1/3 open", "2/3 open"]
    on_screen = [strip.text.split() for strip in comparison(found, 160)]
    assert [line[-2:] for line in on_screen if line[0] in "AB"][:2] == [["1/3", "open"], ["2/3", "open"]]


async def test_what_happened_is_marked_on_the_curves() -> None:
    """With the letter of its run and a word; of many runs nothing, because theirs could not be told apart."""
    changes, moments = (SettingChange(("ppo.n_epochs 5 → 4",), 30, 30 * 8192),), (Moment(80, 80 * 8192, "paused"),)
    changed = structs.replace(LIVE[0], changes=changes, moments=moments, findings=())
    plain = structs.replace(LIVE[1], findings=())
    async with staged(size=(120, 40)) as stage:
        answer(stage, a_side(changed, 7, 2.0), a_side(plain, 7, 3.0))
        await stage.press("space", "space", "c")
        await stage.shows("A epochs 4")
        await stage.shows("A paused")
        assert "B " + "paused" not in stage.text()
        answer(stage, *(a_side(changed, at, 2.0) for at in range(5)))
        await stage.press("f5")
        await stage.until(lambda: "A epochs 4" not in stage.text(), "nothing of many")


async def test_keys_of_every_screen_work_on_the_comparison_too(tmp_path: Path) -> None:
    """Its help, a repaint, and its curves and the whole screen as files; the last line names the first of them."""
    hostile = structs.replace(LIVE[0], name=HOSTILE)
    async with staged(a_fleet((hostile, *LIVE[1:])), size=(120, 40)) as stage:
        at_home(stage, tmp_path)
        answer(stage, a_side(hostile, 7, 2.0), a_side(LIVE[1], 7, 3.0, gamma=0.9))
        await stage.press("space", "space", "c")
        await stage.shows("ppo.gamma")
        assert "? help" in stage.lines()[-1]
        await stage.press("question_mark")
        await stage.shows("the same runs as they are now")
        await stage.press("escape", "ctrl+l", "ctrl+s")
        await stage.until(lambda: list(tmp_path.glob("*-compare-*.svg")), "the curves")
        (curves,) = [path for path in saved_in(tmp_path) if path.suffix == ".svg"]
        said = " ".join(texts(curves.read_bytes()))
        assert "return of 2 runs" in said
        assert f"B {LIVE[1].name}" in said
        await stage.press("f12")
        await stage.until(lambda: list(tmp_path.glob("*-screen-*.svg")), "the screen")
