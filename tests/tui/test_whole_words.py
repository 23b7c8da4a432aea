"""Nothing is cut off, run together or hinted at in vain, at the sizes that people have."""

from __future__ import annotations

import re

import pytest
from msgspec import structs
from rich.cells import cell_len

from mission_tui.fleet.views.seed_group import SeedGroup
from mission_tui.tui.drawing.strips import clause, fit_middle, fit_name, whole_hints
from mission_tui.tui.screens.questions import Choices, Picker
from mission_tui.tui.sections.tabs import learn
from mission_tui.tui.state.fleet_view_state import RUN_TABS
from mission_tui.tui.state.presets import PresetChoice
from mission_tui.tui.widgets.charts import ComparisonChart
from mission_tui.tui.widgets.detail import tab_line
from mission_tui.tui.widgets.run_table import GROUP_CELLS
from tests.tui.fleets import KL_FINDING, LIVE, NOW, a_fleet, ended
from tests.tui.sides import a_side
from tests.tui.stage import PRESETS, staged
from tests.tui.test_compare import answer
from tests.tui.test_seed_groups import seed

SIZES = [(80, 24), (120, 40), (160, 50), (200, 60)]


@pytest.mark.parametrize(
    ("ends", "width", "said"),
    [
        ((0.2821, 1.2437), 10, "0.28..1.24"),
        ((0.2821, 1.2437), 11, "0.282..1.24"),
        ((-1.442, -0.0712), 10, "-1.4..-0.1"),
        ((-1234.0, -1100.0), 12, "-1.2k..-1.1k"),
        ((5.18, 6.37), 10, "5.18..6.37"),
        ((-12.31, -9.84), 10, "-12..-10"),
    ],
)
def test_the_quartiles_of_seeds_keep_their_ends(ends: tuple[float, float], width: int, said: str) -> None:
    """Fewer digits rather than a cut figure."""
    values = (ends[0], ends[0], sum(ends) / 2, ends[1], ends[1])
    group = SeedGroup(tuple(seed(at, value) for at, value in enumerate(values)))
    assert GROUP_CELLS[""](group, 0.0, width)[0] == said


async def test_an_empty_fleet_folds_long_descriptions_and_hints_at_nothing_that_needs_a_run() -> None:
    """Every word of what a digit starts; no key that would only say that no run is chosen."""
    about = "everything a big machine has: 64 x 512 transitions, 1024-512-512-256 and then some more of it"
    presets = (*PRESETS[:3], PresetChoice("beast", about, "4"))
    async with staged(a_fleet(()), presets=presets) as stage:
        said = " ".join(stage.text().split())
        assert f"4 starts beast: {about}" in said
        footer = stage.lines()[-1]
        assert "n new" in footer
        assert "? help" in footer
        assert not any(word in footer for word in ("pause", "stop", "kill", "resume", "more", "open"))


@pytest.mark.parametrize("size", SIZES[2:])
async def test_list_and_detail_beside_each_other_are_apart(size: tuple[int, int]) -> None:
    """The last column's words do not run into the tabs or the headline."""
    runs = (*LIVE, *(ended(f"old-{n:04d}", 5) for n in range(40)))
    async with staged(a_fleet(runs), size=size) as stage:
        titles = next(line for line in stage.lines() if " ETA" in line)
        assert "ETA ─ " in titles


LONG = structs.replace(
    KL_FINDING,
    sentence="100% of episodes end at the limit of 360 steps and 0% succeed since they began",
    cause="an episode of 62 steps returns -1.61, -0.026 a step; episodes end in the limit of steps nearly always",
    advice_set=(),
    advice="see that the goal can be reached in the time there is, and make a step towards it worth something",
)


@pytest.mark.parametrize("size", SIZES)
async def test_finding_cause_and_advice_of_the_chosen_run_are_told_whole(size: tuple[int, int]) -> None:
    """Half an advice is none; the chart gives way to it."""
    async with staged(a_fleet((structs.replace(LIVE[0], findings=(LONG,)), *LIVE[1:])), size=size) as stage:
        lines = stage.lines()
        top = next(at for at, line in enumerate(lines) if "learn │" in line)
        left = lines[top].index("─ heavy")
        said = " ".join(" ".join(line[left:] for line in lines[top:]).split())
        assert f"{LONG.sentence} (since update 1,204)" in said
        assert f"cause {LONG.cause}" in said
        assert f"advice {LONG.proposal}" in said


async def test_lines_that_are_left_hold_what_would_be_cut() -> None:
    """An ended run has a headline more; advice is cut last, and of the others what comes last is cut first."""
    killed = ended("heavy-3f9a", 3, "killed", cause="killed by hand", findings=(LONG,))
    said = {height: " ".join(strip.text for strip in learn(killed, None, 80, height, NOW)) for height in (8, 9, 10)}
    assert [LONG.proposal.split()[-1] in text for text in said.values()] == [True, True, True]
    assert [LONG.cause.split()[-1] in text for text in said.values()] == [False, False, True]


async def test_a_tall_screen_is_filled_with_charts() -> None:
    """At 200x60 the chosen run's KL is drawn below its return, and at most a few rows are left blank."""
    async with staged(size=(200, 60)) as stage:
        await stage.shows("approx KL ")
        assert " return 12.4 " in stage.text()
        blank = [line for line in stage.lines() if not line.strip(" │")]
        assert len(blank) < 4


async def test_a_pane_says_what_it_runs_in_words_that_fit() -> None:
    """A description that is too long gives way to the preset and its environment."""
    about = "MissionGym's small mission, learned while you watch it for a while"
    runs = (structs.replace(LIVE[0], description=about, findings=()), *LIVE[1:])
    async with staged(a_fleet(runs), size=(200, 60)) as stage:
        assert "│ goal 14 in 1-3h  heavy on MissionGym-v0 " in stage.text()
        assert "learned while yo" not in stage.text()


@pytest.mark.slow
@pytest.mark.parametrize(("key", "size"), [("x", SIZES[0]), ("x", SIZES[-1]), ("colon", SIZES[0])])
async def test_every_choice_of_a_menu_can_be_read_whole(key: str, size: tuple[int, int]) -> None:
    """In its line where there is room for all, else below the list while the cursor is on it."""
    async with staged(size=size) as stage:
        await stage.press(key)
        await stage.until(lambda: isinstance(stage.screen, Picker))
        choices = stage.screen.query_one(Choices).choices
        unread = {choice.detail for choice in choices}
        for _ in choices:
            said = " ".join(stage.text().replace("│", " ").split())
            unread = {detail for detail in unread if " ".join(detail.split()) not in said}
            await stage.press("down")
        assert unread == set()


async def test_words_that_nothing_has_are_answered() -> None:
    """An empty palette says why."""
    async with staged() as stage:
        await stage.press("colon", *"zzz")
        await stage.shows("nothing has all of these words")
        await stage.shows("Esc back")


@pytest.mark.parametrize("size", SIZES)
async def test_compared_curves_take_what_the_tables_leave(size: tuple[int, int]) -> None:
    """No field of blank rows below short tables; long ones leave the chart two fifths."""
    async with staged(size=size) as stage:
        answer(stage, a_side(LIVE[0], 7, 2.0), a_side(LIVE[1], 7, 3.0, gamma=0.9))
        await stage.press("space", "space", "c")
        await stage.shows("ppo.gamma")
        await stage.still()
        assert sum(not line.strip() for line in stage.lines()) < 3
        assert stage.screen.query_one(ComparisonChart).size.height >= (size[1] - 2) * 2 // 5


@pytest.mark.parametrize("columns", [40, 80])
async def test_a_toast_is_folded_within_the_screen(columns: int) -> None:
    """Whole words, whatever the width."""
    said = "5 runs at once keep 5 cores busy, and there are 2"
    async with staged(size=(columns, 24)) as stage:
        stage.app.app_context.toast(said)
        await stage.until(lambda: stage.toasts() and "keep" in stage.text())
        await stage.still()
        toast = stage.screen.query_one("Toast")
        assert 0 <= toast.region.x < toast.region.right <= columns
        lines = [line[toast.region.x : toast.region.right] for line in stage.lines()]
        assert " ".join(" ".join(lines[toast.region.y : toast.region.bottom]).replace("▎", " ").split()) == said


async def test_a_menu_says_how_many_choices_it_has_where_not_all_are_seen() -> None:
    """On a low screen the title counts; on a high one it does not need to."""
    async with staged() as stage:
        await stage.press("x", "down")
        await stage.until(lambda: re.search(r"heavy-3f9a   2/\d\d ", stage.text()))
        await stage.pilot.resize_terminal(120, 50)
        await stage.until(lambda: re.search(r"│ heavy-3f9a +│", stage.text()))


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (60, "the policy is frozen: KL < 1e-05 and nothing clipped, twice"),
        (57, "the policy is frozen: KL < 1e-05 and nothing clipped"),
        (40, "the policy is frozen"),
        (12, "the policy …"),
    ],
)
def test_a_sentence_ends_with_a_clause_that_fits(width: int, said: str) -> None:
    """A pane has one line for what is wrong; a first clause that says nothing yet is no end."""
    assert clause("update 61: you set the learning rate x 100 (0.0005 → 0.05)", 40).startswith("update 61: you set")
    assert clause("the policy is frozen: KL < 1e-05 and nothing clipped, twice", width) == said


def test_a_name_that_is_cut_keeps_its_last_part() -> None:
    """Seeds of one launch differ there; a long last part is cut in the middle like any other text."""
    assert fit_name("standard-lr3e-4-ent0.01-s2", 16) == "standard-lr3…-s2"
    assert fit_name("standard-lr3e-4-ent0.01 x3", 16) == "standard-lr3… x3"
    assert fit_name("heavy-3f9a-try1-control x3", 23) == "heavy-3f9a-…-control x3"
    assert fit_name("heavy-3f9a-try1-control x3", 18) == "heavy-…-control x3"
    assert fit_name("standard-lr3e-4 x3", 16) == "standard-lr3… x3"
    assert fit_name("short-1", 10) == "short-1   "
    assert fit_name("a-name-whose-end-is-rather_enlarged", 12) == fit_middle("a-name-whose-end-is-rather_enlarged", 12)
    for width in range(1, 30):
        assert cell_len(fit_name("standard-lr3e-4-ent0.01-s2", width)) == width


@pytest.mark.parametrize("tab", ["learn", "health", "journal", "log"])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_tab_is_cut(tab: str, width: int) -> None:
    """The shown one is always in sight with its neighbours; a sign at the end says that there are more."""
    text = tab_line(LIVE[0], tab, width, focused=False, named=False, names=RUN_TABS).text
    words = [word for word in re.split(r"[^a-z]+", text) if word]
    assert tab in words
    assert set(words) <= set(RUN_TABS)
    assert ("‹" in text, "›" in text) == (words[0] != RUN_TABS[0], words[-1] != RUN_TABS[-1])
    noted = tab_line(LIVE[0], tab, width, focused=False, note="1-4/9  PgDn rows", named=False, names=RUN_TABS).text
    assert ("PgDn" in noted) <= ("PgDn rows" in noted), "what is said beside them is whole, or not there"


def test_hints_are_whole_or_not_there() -> None:
    """The last one stays: it is how one gets away."""
    hints = " Ctrl-S start  Ctrl-T try  Tab next  Esc back"
    assert whole_hints(hints, 80) == hints
    assert whole_hints(hints, 40) == " Ctrl-S start  Ctrl-T try  Esc back"
    assert whole_hints(hints, 12) == " Esc back"


@pytest.mark.parametrize("size", [(60, 20), (80, 24)])
async def test_a_long_toast_leaves_the_first_hints_in_sight(size: tuple[int, int]) -> None:
    """Of a paused run that is how it goes on."""
    paused = structs.replace(LIVE[0], state="paused", phase=None)
    async with staged(a_fleet((paused, *LIVE[1:])), size) as stage:
        stage.app.app_context.toast("4 runs need 4 cores and you have 2: " + "each at half speed " * 5, seconds=60.0)
        await stage.until(lambda: any("half" in line for line in stage.lines()[-3:]))
        assert stage.lines()[-1].startswith(" r resume ")
