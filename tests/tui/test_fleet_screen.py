"""The fleet screen: what is listed, what is chosen, what keys that only look do."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from textual.events import Key
from textual.widgets import Input

from mission_tui.fleet.views.snapshot import Restart
from mission_tui.ipc.requests import Act
from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.state.fleet_view_state import SORTS
from mission_tui.tui.widgets.bars import FilterBar
from mission_tui.tui.widgets.run_table import RunTable
from tests.tui.fleets import ENDED, KL_FINDING, LIVE, NOW, a_fleet, a_run, ended
from tests.tui.play import fleet_of
from tests.tui.stage import Stage, staged


def fleet(stage: Stage) -> FleetScreen:
    screen = stage.app.screen_stack[0]
    assert isinstance(screen, FleetScreen)
    return screen


async def test_every_run_has_a_line_with_shape_word_and_health() -> None:
    """At 80 columns each run is one line: shape, name, state word, share done, health."""
    async with staged() as stage:
        lines = stage.lines()
        (heavy,) = [line for line in lines if line.startswith(">● heavy-3f9a")]
        assert "rollout" in heavy
        assert "42%" in heavy
        assert heavy.rstrip().endswith("5-7h")
        assert any(line.startswith(" ● wide-11c0") and "▲ KL" in line for line in lines)
        assert any("✗ heavy-0b1e" in line and "failed" in line and "▲ nan" in line for line in lines)


async def test_header_counts_and_footer_fit_in_80x24() -> None:
    """The first line counts runs and findings, the last one names presets and keys; no line is too long."""
    async with staged() as stage:
        lines = stage.lines()
        assert len(lines) == 24
        assert "3 live 1 queued 5 ended  ▲1" in lines[0]
        assert lines[-1].startswith(" 1 demo 2 fast 3 heavy 4 beast P trio  n new  p pause s stop K kill x more")
        assert all(len(line) <= 80 for line in lines)


async def test_the_header_tells_those_that_wait_and_rest_from_those_that_ended() -> None:
    """A restart with its time, a parked run by its name; with all at once the way out shrinks, and nothing is cut."""
    waits = [
        a_run(f"again-{due}", state="queued", outcome="failed", cause="crashed", restart=Restart(NOW + due, 1, 3))
        for due in (40, 200)
    ]
    parked = ended("rest-0000", 5, "stopped", state="parked")
    async with staged(a_fleet((*LIVE, waits[0], *ENDED))) as stage:
        assert "3 live 1 restarts in 40s 5 ended  ▲1" in stage.lines()[0]
        await stage.arrive(a_fleet((*LIVE, *waits, parked, *ENDED), revision=2))
        assert "3 live 2 restart, next in 39s 1 parked 5 ended  ▲1" in stage.lines()[0]
        assert stage.lines()[0].rstrip().endswith("?")
        asked = structs.replace(waits[0], id="asked", restart=Restart(NOW, 0, 0, "request"))
        await stage.arrive(a_fleet((*LIVE, asked, *ENDED), revision=3))
        assert "3 live 1 queued 5 ended" in stage.lines()[0]
        await stage.arrive(a_fleet((*LIVE, waits[0], parked), revision=50))
        assert "1 restarts now 1 parked 0 ended" in stage.lines()[0]


async def test_a_narrow_header_keeps_what_asks_for_somebody() -> None:
    """At 40 columns the ended runs are not counted, and the findings are."""
    async with staged(size=(40, 10)) as stage:
        assert "3 live 1 queued ▲1" in stage.lines()[0]


async def test_moving_shows_the_chosen_run_below() -> None:
    """Down chooses the next run, and the detail speaks of it."""
    async with staged() as stage:
        await stage.press("down")
        assert fleet(stage).view_state.chosen == LIVE[1].id
        await stage.shows("─ wide-11c0 ─")
        await stage.press("k")
        await stage.shows("─ heavy-3f9a ─")
        await stage.press("end")
        assert fleet(stage).view_state.chosen == ENDED[-1].id
        await stage.press("home")
        assert fleet(stage).view_state.chosen == LIVE[0].id


async def test_the_choice_survives_snapshots() -> None:
    """A new snapshot keeps the chosen run chosen, wherever it now stands."""
    async with staged() as stage:
        await stage.press("down")
        await stage.arrive(a_fleet((a_run("new-0000"), *LIVE, *ENDED), revision=2))
        assert fleet(stage).view_state.chosen == LIVE[1].id


async def test_the_choice_moves_to_the_neighbour_when_its_run_is_gone() -> None:
    """When the chosen run is removed, the one that took its place is chosen."""
    async with staged() as stage:
        await stage.press("down")
        await stage.arrive(a_fleet((LIVE[0], LIVE[2], *ENDED), revision=2))
        assert fleet(stage).view_state.chosen == LIVE[2].id


async def test_tabs_turn_with_brackets_and_sideways() -> None:
    """`]` and right show the next tab of the detail, `[` and left the one before."""
    async with staged() as stage:
        await stage.press("j", "]")
        await stage.shows("100 gradient steps an update")
        await stage.press("right")
        assert fleet(stage).view_state.tab == "config"
        await stage.press("left", "[")
        assert fleet(stage).view_state.tab == "learn"


async def test_filter_works_while_typing_and_escape_removes_it() -> None:
    """Typing after `/` lists only what the expression finds; Escape lists all again and never leaves."""
    async with staged() as stage:
        await stage.press("slash", *"wide|deep")
        await stage.until(lambda: len(fleet(stage).view_state.roster.runs) == 2)
        assert "/wide|deep" in stage.text()
        await stage.press("enter", "down")
        assert fleet(stage).view_state.chosen == LIVE[2].id
        await stage.press("escape")
        await stage.until(lambda: len(fleet(stage).view_state.roster.runs) == 9)


async def test_what_is_typed_ahead_is_the_filter_and_no_command() -> None:
    """On a slow line slash and pattern arrive in one piece; none of its letters pauses or kills anything."""
    async with staged() as stage:
        for key in "/psK":
            stage.app.post_message(Key("slash" if key == "/" else key, key))
        await stage.shows("/ psK")
        await stage.press("enter")
        assert stage.client.asked_for(Act) == []
        assert len(stage.app.screen_stack) == 1


async def test_an_unfinished_expression_filters_nothing_new() -> None:
    """`(` alone is no expression: the list stays as it was and the line says so."""
    async with staged() as stage:
        await stage.press("slash", "left_parenthesis")
        await stage.shows(" ! (")
        assert "not a regular expression yet: missing )" in stage.text()
        assert len(fleet(stage).view_state.roster.runs) == 9


@pytest.mark.slow
async def test_an_endless_filter_is_given_up_and_said() -> None:
    """A search that would freeze the screen is ended: all runs are listed, and its line says why."""
    endless = a_fleet((a_run("a" * 60), *ENDED), revision=2)
    async with staged(endless) as stage:
        await stage.press("slash")
        fleet(stage).query_one(FilterBar).query_one(Input).value = r"(\w+)+=$"
        await stage.shows("takes too long")
        await stage.until(lambda: fleet(stage).view_state.pattern is None)
        assert len(fleet(stage).view_state.roster.runs) == 1 + len(ENDED)


@pytest.mark.slow
async def test_a_filter_that_a_new_run_makes_endless_is_told_of() -> None:
    """What was quick among these names is not among those: the list is whole again, and a line says why."""
    async with staged() as stage:
        await stage.press("slash")
        fleet(stage).query_one(FilterBar).query_one(Input).value = r"^(\w+)+-[0-9a-f]*$"
        await stage.press("enter")
        await stage.until(lambda: fleet(stage).view_state.pattern is not None)
        stage.client.show(a_fleet((a_run("a" * 60), *LIVE), revision=2))
        stage.clock.advance(1)
        await stage.until(lambda: any("takes too long, so nothing is filtered" in told for told in stage.toasts()))
        assert len(fleet(stage).view_state.roster.runs) == 1 + len(LIVE)


@pytest.mark.slow
async def test_a_filter_without_matches_says_how_to_get_back() -> None:
    """No match is a sentence, not an empty screen."""
    async with staged() as stage:
        await stage.press("slash", *"zzz")
        await stage.shows("No run matches. Esc shows all again.")
        await stage.press("escape", "v", "slash", *"heavy-3f")
        await stage.shows("no other run matches")


@pytest.mark.slow
async def test_sorting_turns_through_columns() -> None:
    """`>` sorts by the next column and marks its title; `<` goes back to the order of age."""
    async with staged() as stage:
        await stage.press("greater_than_sign")
        await stage.shows("run▾")
        assert [view.name for view in fleet(stage).view_state.roster.live] == ["deep-77aa", "heavy-3f9a", "wide-11c0"]
        await stage.press("less_than_sign")
        assert [view.name for view in fleet(stage).view_state.roster.live] == [view.name for view in LIVE]


async def test_space_marks_several() -> None:
    """Space marks and goes on; the header counts; Escape unmarks."""
    async with staged() as stage:
        await stage.press("space", "space")
        assert fleet(stage).targets() == LIVE[:2]
        await stage.shows("2 marked")
        await stage.press("escape")
        assert fleet(stage).targets() == (LIVE[2],)


async def test_v_switches_between_table_and_panes() -> None:
    """`v` makes panes of live runs where the width alone would not, and a table again."""
    async with staged(size=(100, 40)) as stage:
        await stage.press("v")
        await stage.shows("┌> heavy-3f9a ● rollout")
        await stage.press("v")
        await stage.until(lambda: "┌" not in stage.text())


async def test_wide_screens_show_panes_above_a_table_of_the_others() -> None:
    """From 120 columns live runs are panes; queued and ended ones are listed below."""
    async with staged(size=(120, 40)) as stage:
        await stage.shows("┌> heavy-3f9a ● rollout")
        await stage.shows("▲ KL outside the trust region")
        assert any(line.startswith(" ◌ beast-0c1d") for line in stage.lines())


async def test_arrows_move_over_panes_as_they_lie_and_on_into_the_list() -> None:
    """Right goes to the pane beside, down to the one below, and from the last row into the list."""
    async with staged(size=(120, 40)) as stage:
        await stage.press("right")
        assert fleet(stage).view_state.chosen == LIVE[1].id
        await stage.press("left", "down")
        assert fleet(stage).view_state.chosen == LIVE[2].id
        await stage.press("down")
        assert fleet(stage).view_state.chosen == "20261121-104207-beast-0c1d"
        await stage.press("up")
        assert fleet(stage).view_state.chosen == LIVE[2].id


async def test_tab_moves_between_list_and_detail() -> None:
    """With the detail focused, down scrolls it and does not choose another run."""
    async with staged() as stage:
        await stage.press("l", "escape", "tab", "]", "]")
        await stage.shows("ppo.batch_size")
        await stage.press("down")
        assert fleet(stage).view_state.chosen == LIVE[0].id
        await stage.shows("2-")


async def test_z_gives_the_list_the_whole_screen() -> None:
    """`z` hides the detail, and shows it again."""
    async with staged() as stage:
        await stage.press("z")
        await stage.until(lambda: "learn" not in stage.text())
        await stage.press("z")
        await stage.shows("learn │ health")


async def test_long_lists_scroll_with_the_choice_in_sight() -> None:
    """With 200 ended runs the last one can be reached, and the title says where the window is, and that not all are
    there: a filter finds none of the others, and those that are still being read are counted.
    """
    runs = tuple(ended(f"old-{n:04d}", n) for n in range(200))
    async with staged(a_fleet(runs)) as stage:
        await stage.press("end")
        await stage.shows(">■ old-0199")
        await stage.shows("-200/200 ")
        await stage.arrive(structs.replace(a_fleet(runs, revision=2), ended_total=5000, unread=1200))
        await stage.shows("-200/200+")
        assert "5000 ended  +1,200 being read" in stage.lines()[0]
        await stage.press("slash", *"zzz")
        await stage.shows("4,800 older runs are not listed here")


async def test_clicks_choose_and_open() -> None:
    """A click on a line chooses its run; a click on a title sorts by it."""
    async with staged() as stage:
        await stage.pilot.click("#runs", offset=(10, 3))
        assert fleet(stage).view_state.chosen == LIVE[2].id
        await stage.pilot.click("#runs", offset=(4, 0))
        await stage.pilot.pause()
        assert fleet(stage).view_state.sort == "run"
        await stage.pilot.click("#detail", offset=(24, 0))
        await stage.until(lambda: fleet(stage).view_state.tab == "health")


async def test_an_empty_fleet_teaches_the_keys() -> None:
    """Without runs the screen names the presets' keys and says that runs go on."""
    async with staged(a_fleet(())) as stage:
        await stage.shows("No runs yet.")
        await stage.shows("1 starts demo: MissionGym, about two minutes")
        await stage.shows("q leaves")


async def test_no_gpu_is_said_calmly() -> None:
    """Without a GPU the meters say so and show the processor's last minute instead."""
    async with staged(a_fleet(gpus=())) as stage:
        assert stage.lines()[1].startswith(" no GPU  CPU ")
        assert "RAM 9.0/23G" in stage.lines()[1]


async def test_a_tall_screen_says_what_the_newest_run_brought() -> None:
    """Below the meters; on a small one the rows are for runs, and the run's own lines say it."""
    async with staged(fleet_of("full"), size=(120, 40)) as stage:
        said = "▲ wide-11c0 joined: -4 %: the cores are full; stop one (-7 to -1; 38,400 -> 36,900 steps/s in all)"
        assert stage.lines()[2].strip() == said
    async with staged(fleet_of("full"), size=(80, 24)) as stage:
        assert "joined" not in stage.lines()[2]


async def test_many_wishes_for_a_settled_layout_are_one_picture() -> None:
    """A storm of resizes is drawn once the layout stands, and then once."""
    async with staged() as stage:
        screen = stage.app.screen
        assert isinstance(screen, FleetScreen)
        drawn: list[bool] = []

        def redraw() -> None:
            drawn.append(True)
            FleetScreen.redraw(screen)

        setattr(screen, "redraw", redraw)  # noqa: B010 - a spy
        for _ in range(5):
            screen.redraw_later()
        await stage.until(lambda: drawn, "a picture")
        await stage.still()
        assert len(drawn) == 1
        screen.redraw_later()
        await stage.until(lambda: len(drawn) == 2, "the next picture")


async def test_every_order_is_marked_on_its_whole_title() -> None:
    """Also the shortest column says whole by what is sorted."""
    async with staged() as stage:
        for title in SORTS[1:]:
            await stage.press("greater_than_sign")
            await stage.shows(f"{title}▾")


@pytest.mark.parametrize(("name", "titles"), [("gamma", "lr gamma"), ("n_epochs", "lr +1")])
async def test_a_setting_without_a_column_is_counted(name: str, titles: str) -> None:
    """Two runs that differ in it alone must not look like one setting twice; two short ones fit into 80 cells."""
    runs = [a_run(f"r{at}", varied={"lr": 1e-4 * at, name: value}) for at, value in enumerate((0.9, 0.99))]
    async with staged(a_fleet((*runs, a_run("alone"))), size=(80, 24)) as stage:
        await stage.shows(titles)


@pytest.mark.parametrize(("width", "rate"), [(80, "0.001 → 0 linear"), (84, 1e-4)])
async def test_neither_the_curve_nor_what_is_wrong_gives_way_for_nothing(width: int, rate: Any) -> None:
    """A setting that fits not even in its place leaves the curve; where both fit, what is wrong is whole."""
    finding = structs.replace(KL_FINDING, rule="kl-spike")
    runs = [a_run(f"r{at}", varied={"lr": value}, findings=(finding,)) for at, value in enumerate((rate, 1e-3))]
    async with staged(a_fleet(tuple(runs)), size=(width, 24)) as stage:
        await stage.shows("▲ KL spike")
        assert sum(line[1:5] in ("● r0", "● r1") and "▲ KL spike " in line for line in stage.lines()) == 2
        assert len(stage.app.screen.query_one(RunTable).curved) == 2
        assert ("lr" in stage.text()[:400]) is (width == 84)


@pytest.mark.parametrize("width", [80, 120])
async def test_settings_that_vary_have_columns(width: int) -> None:
    """A title that sorts, and a cell for each run; a run of no sweep has none. On a small terminal fewer of them."""
    runs = [a_run(name, varied={"lr": rate, "n_epochs": 4}) for name, rate in (("one", 3e-3), ("two", 1e-4))]
    async with staged(a_fleet((*runs, a_run("alone"))), size=(width, 24)) as stage:
        if width >= 120:
            await stage.press("v")
            await stage.shows("n_epochs")
        assert fleet(stage).view_state.sorts[-2:] == ("lr", "n_epochs")
        await stage.shows("0.003")
        await stage.press("less_than_sign", "less_than_sign")
        await stage.shows("lr▾")
        assert [view.name for view in fleet(stage).view_state.roster.runs] == ["two", "one", "alone"]
