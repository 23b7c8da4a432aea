"""Foreign text is shown as it is: it is never markup, moves no cursor, reorders nothing, and crashes nothing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.provenance import SettingChange
from mission_tui.fleet.views.snapshot import FleetSnapshot, MachineView, RunView
from mission_tui.ipc.replies import LogReply
from mission_tui.ipc.requests import GetDetails, GetLog
from mission_tui.tui.drawing.glyphs import to_ascii
from mission_tui.tui.drawing.strips import fit, fold, literal, wrap
from mission_tui.tui.state.presets import PresetChoice
from tests.tui.fake_client import details
from tests.tui.fleets import GPU, NOW, a_fleet, a_run, host
from tests.tui.stage import Stage, staged

HOSTILE = (
    "[/",
    "[/]",
    "[bold]loud[/bold]",
    "[@click=app.leave]press me[/]",
    "[red",
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b]52;c;aGk=\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "zero\u200bwidth",
    "a\tb\rc\nd\x00e\x7f",
    "日本語の名前",
    "Z\u0351\u036b\u0343a\u0323l\u0348go",
    "🚀" * 30,
    "\ud800",
)


EVERYTHING = " ".join(HOSTILE)


def hostile_run(text: str, at: int) -> RunView:
    """A live run with `text` wherever foreign text can stand in a run."""
    finding = Finding("f", text, "warning", 3, 9, text, text, text, (text,), evidence=({text: 1.0},))
    return a_run(
        text,
        id=f"run-{at}",
        preset=text,
        description=text,
        note=text,
        labels=(text,),
        changes=(SettingChange((text,), 3, 400),),
        env_id=text,
        group=text,
        findings=(finding,),
        metrics={"rollout/ep_rew_mean": "nan", text: 1.0},
        outcomes={text: 3},
        last_checkpoint=text,
    )


def hostile_fleet() -> FleetSnapshot:
    """One run for each text, one with all of them, an ended one, and a machine whose names are no better."""
    live = tuple(hostile_run(text, at) for at, text in enumerate((EVERYTHING, *HOSTILE)))
    dead = structs.replace(
        hostile_run(EVERYTHING, 99), state="ended", outcome="failed", kind="unknown", cause=EVERYTHING, ended_t=NOW
    )
    fleet = a_fleet((*live, dead), gpus=(structs.replace(GPU, name=EVERYTHING),))
    far = (MachineView(name=EVERYTHING, lost_t=NOW, why=EVERYTHING), MachineView(name=EVERYTHING, meters=host()))
    near = host(name=EVERYTHING, gpu_note=EVERYTHING)
    return structs.replace(fleet, runs_root=f"/{EVERYTHING}", host=near, hosts=far)


def assert_harmless(stage: Stage) -> None:
    """Nothing that is painted is a control, a format character or half of one."""
    for line in stage.lines():
        assert not [char for char in line if unicodedata.category(char) in ("Cc", "Cf", "Cs")], repr(line)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 45)], ids=["narrow", "wide"])
async def test_every_screen_shows_it_literally(size: tuple[int, int]) -> None:
    """Names, causes, findings, presets, host, settings, logs: all runs, tabs and sheets are visited."""
    presets = (PresetChoice(EVERYTHING, EVERYTHING, "1"), PresetChoice("broken", key="2", error=EVERYTHING))
    async with staged(hostile_fleet(), size=size, presets=presets) as stage:
        view = stage.client.snapshot.runs[0]
        stage.client.answers[GetDetails] = lambda request: structs.replace(
            details(request.id, view), effective={"reasons": {EVERYTHING: EVERYTHING}, "ppo": {"x": EVERYTHING}}
        )
        stage.client.answers[GetLog] = lambda request: LogReply(
            re=request.id, run=request.run, attempt=1, text="\n".join(HOSTILE), start=0, end=10, size=10
        )
        for _ in HOSTILE:
            await stage.press("down")
            assert_harmless(stage)
        for keys in (["end"], ["home"], ["]"], ["]"], ["]"], ["]"], ["enter"], ["]"], ["]"], ["]"], ["]"], ["escape"]):
            await stage.press(*keys)
            await stage.pilot.pause(0.05)
            assert_harmless(stage)
        for key in ("x", "colon", "question_mark", "n", "K", "e"):
            await stage.press(key)
            await stage.pilot.pause(0.05)
            assert_harmless(stage)
            await stage.press("escape")
        stage.app.app_context.toast(EVERYTHING, "error")
        await stage.pilot.pause(0.05)
        assert_harmless(stage)
        assert stage.app.is_running


async def test_markup_is_visible_as_text() -> None:
    """Brackets stay brackets, in the list and in a toast."""
    async with staged(a_fleet((a_run("[/] [bold]x"),))) as stage:
        await stage.shows(">● [/] [bold]x")
        await stage.press("p")
        await stage.shows("pause accepted for [/] [bold]x")


async def test_a_click_on_foreign_text_runs_no_action() -> None:
    """`[@click=...]` in a name is text, so clicking on it only chooses the run."""
    async with staged(a_fleet((a_run("[@click=app.leave]go[/]"),))) as stage:
        await stage.pilot.click("#runs", offset=(8, 1))
        await stage.pilot.pause()
        assert stage.app.is_running


def test_controls_become_pictures_and_hidden_characters_dots() -> None:
    """A reader sees that something was there."""
    assert literal("a\x1b[31m\u202eb\tc\x7f") == "a␛[31m·b c␡"
    assert literal("plain [/] text") == "plain [/] text"


@pytest.mark.slow
@given(st.text(max_size=60), st.integers(1, 40))
def test_fitting_gives_exactly_the_cells_asked_for(text: str, width: int) -> None:
    """Whatever the text, a cell of a table has its width, so columns never shift."""
    from rich.cells import cell_len

    assert cell_len(fit(text, width)) == width
    assert cell_len(fit(text, width, "right")) == width


@given(st.text(max_size=120), st.integers(2, 40))
@example("000000000000\u093a\u093a\u093a\u093a", 3)
@example("000000000000 ", 2)
def test_folded_lines_never_exceed_the_width(text: str, width: int) -> None:
    """Neither by words nor by cells."""
    from rich.cells import cell_len

    assert all(cell_len(line) <= width for line in wrap(text, width))
    assert all(cell_len(line) <= width for line in fold(text, width, 5))


@given(st.text(max_size=60))
def test_the_ascii_form_has_the_same_width_and_no_other_characters(text: str) -> None:
    """The last resort of a terminal without UTF-8 keeps the layout."""
    from rich.cells import cell_len

    assert to_ascii(text).isascii()
    assert to_ascii(text).isprintable()
    assert cell_len(to_ascii(text)) == cell_len(literal(text))
