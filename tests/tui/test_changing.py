"""Changing a run while it trains, making one like it, and writing about it: what is typed, shown, asked and marked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs
from textual.events import Paste
from textual.widgets import Input

from mission_tui.fleet.events.provenance import SettingChange
from mission_tui.ipc import replies
from mission_tui.ipc.requests import Clone, GetDetails, GetHistory, Label, Note, Rename, Request, Resume, Set
from mission_tui.tui.screens.questions import LineInputScreen
from mission_tui.tui.screens.verdict import VerdictScreen
from tests.tui.fake_client import details, history
from tests.tui.fleets import ENDED, KL_FINDING, LIVE, NOW, a_fleet, a_run, queued
from tests.tui.stage import Stage, staged


async def typed(stage: Stage, key: str, text: str) -> None:
    """Press `key`, write `text` over what stands in the line, and press Enter."""
    await stage.press(key)
    await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
    await stage.still()
    await stage.press(*text, "enter")


@pytest.mark.slow
async def test_settings_are_changed_after_seeing_what_they_do() -> None:
    """`S`: the words are judged first, and set only after a yes; Escape at either question changes nothing."""
    async with staged() as stage:
        await typed(stage, "S", "--set ppo.n_epochs=2")
        await stage.until(lambda: isinstance(stage.screen, VerdictScreen))
        await stage.shows("Change heavy-3f9a while it trains?")
        await stage.shows("asked: ppo.n_epochs=2")
        await stage.press("escape")
        assert [request.accept for request in stage.client.asked_for(Set)] == [False]
        await typed(stage, "S", "ppo.n_epochs=2")
        await stage.until(lambda: isinstance(stage.screen, VerdictScreen))
        await stage.press("y")
        await stage.until(lambda: len(stage.client.asked_for(Set)) == 3)
        last = stage.client.asked_for(Set)[-1]
        assert (last.run, last.assignments, last.accept, last.check_only) == (
            LIVE[0].id, ("ppo.n_epochs=2",), True, False,
        )  # fmt: skip
        await stage.until(lambda: any("from its next update on" in toast for toast in stage.toasts()))


async def test_what_can_be_set_is_listed_with_its_value_and_completed() -> None:
    """`S` lists every setting with its value now; letters of a key leave those that fit, and Tab takes the first."""
    async with staged() as stage:
        await stage.press("S")
        await stage.shows("ppo.ent_coef=")
        await stage.shows("now 0")
        await stage.press(*"epoch")
        await stage.until(lambda: "ppo.ent_coef=" not in stage.text())
        await stage.press("tab", *"2", "enter")
        await stage.until(lambda: [it.assignments for it in stage.client.asked_for(Set)] == [("ppo.n_epochs=2",)])


async def test_a_queued_run_is_changed_before_it_begins() -> None:
    """`S`: any of its settings, and the words speak of its start; a command's too, which cannot be set later."""
    waiting = structs.replace(LIVE[0], state="queued", phase=None, can=())
    async with staged(a_fleet((waiting,))) as stage:
        await typed(stage, "S", "keep.limits.runs=8")
        await stage.until(lambda: isinstance(stage.screen, VerdictScreen))
        await stage.shows("Change heavy-3f9a before it begins?")
        await stage.shows("It keeps its place in the queue, and begins with them.")
        await stage.press("y")
        await stage.until(lambda: any("keep.limits.runs=8 when it begins" in toast for toast in stage.toasts()))
        assert [it.accept for it in stage.client.asked_for(Set)] == [False, True]


async def test_what_a_finding_advises_is_set_without_going_back() -> None:
    """`A`: its words are judged and shown, and set after a yes; without a finding, or without settings in it, it says
    so."""
    advising = structs.replace(LIVE[0], findings=(KL_FINDING,))
    silent = structs.replace(LIVE[0], findings=(structs.replace(KL_FINDING, advice_set=()),))
    async with staged(a_fleet((advising,))) as stage:
        await stage.press("A")
        await stage.until(lambda: isinstance(stage.screen, VerdictScreen))
        await stage.shows("asked: ppo.n_epochs=10")
        await stage.press("y")
        await stage.until(lambda: len(stage.client.asked_for(Set)) == 2)
        assert [(it.assignments, it.accept) for it in stage.client.asked_for(Set)] == [
            (("ppo.n_epochs=10",), False),
            (("ppo.n_epochs=10",), True),
        ]
        await stage.arrive(a_fleet((silent,)))
        await stage.press("A")
        await stage.until(lambda: any("kl-persistent advises no setting: fewer epochs" in it for it in stage.toasts()))
        # A letter that follows a refusal at once would have been typed into what did not open.
        await stage.press("escape")
        await stage.arrive(a_fleet((structs.replace(LIVE[0], findings=()),)))
        await stage.press("A")
        await stage.until(lambda: any("nothing to set" in toast for toast in stage.toasts()))
        assert len(stage.client.asked_for(Set)) == 2


async def test_a_run_that_does_not_train_is_not_asked_about() -> None:
    """`S` on an ended run says why not, and opens nothing."""
    async with staged(a_fleet(ENDED)) as stage:
        await stage.press("S")
        await stage.until(lambda: any("nothing to set" in toast for toast in stage.toasts()))
        assert not isinstance(stage.screen, LineInputScreen)


async def test_a_clone_is_asked_for_with_its_changes_and_can_be_undone() -> None:
    """`N`: Enter starts it, also without a word; `u` would take it back."""
    async with staged() as stage:
        await typed(stage, "N", "run.seed=2 ppo.gamma=0.9")
        await stage.until(lambda: stage.client.asked_for(Clone))
        (request,) = stage.client.asked_for(Clone)
        assert (request.run, request.assignments) == (LIVE[0].id, ("run.seed=2", "ppo.gamma=0.9"))
        await stage.until(stage.app.app_context.undoable)
        assert any("cloned from heavy-3f9a" in toast and "u undoes" in toast for toast in stage.toasts())


@pytest.mark.parametrize(
    ("key", "text", "kind", "asked"),
    [
        ("E", "calm", Rename, {"name": "calm"}),
        ("T", "see the paper", Note, {"text": "see the paper"}),
        ("L", "+a b -c", Label, {"add": ("a", "b"), "remove": ("c",)}),
    ],
)
async def test_what_is_written_of_a_run_is_sent(key: str, text: str, kind: type, asked: dict[str, object]) -> None:
    """`E`, `T` and `L` send one request each; an empty line sends none."""
    async with staged() as stage:
        await typed(stage, key, text)
        await stage.until(lambda: stage.client.asked_for(kind))
        (request,) = stage.client.asked_for(kind)
        assert {name: getattr(request, name) for name in ("run", *asked)} == {"run": LIVE[0].id} | asked
        await stage.press("T", "enter")
        assert len(stage.client.asked_for(Note)) == (kind is Note)


async def test_what_is_pasted_in_several_lines_is_asked_for_as_a_whole() -> None:
    """Settings from somebody's notes, one a line: none of them is left out, and none of them presses a key."""
    async with staged() as stage:
        await stage.press("N")
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
        await stage.still()
        stage.app.post_message(Paste("run.seed=2\r\n  ppo.gamma=0.9\n\n"))
        await stage.still()
        await stage.press("enter")
        await stage.until(lambda: stage.client.asked_for(Clone))
        (request,) = stage.client.asked_for(Clone)
        assert request.assignments == ("run.seed=2", "ppo.gamma=0.9")


async def test_where_only_the_first_pasted_line_is_taken_it_is_said() -> None:
    """The filter is one expression: the other lines are not dropped without a word."""
    async with staged() as stage:
        await stage.press("slash")
        stage.app.post_message(Paste("heavy\nwide\n"))
        await stage.shows("/heavy")
        assert stage.toasts() == ["2 lines were pasted, and this takes one: the first"]


async def test_a_name_that_an_ended_run_has_too_is_warned_of() -> None:
    """As on the command line: from then on only their ids tell the two apart."""
    notes = ("heavy-3f9a is called calm from now on", "so is a run that has ended, 20260101-000000-calm-1111")
    async with staged() as stage:
        stage.client.answers[Rename] = lambda request: replies.Accepted(re=request.id, runs=(request.run,), notes=notes)
        await typed(stage, "E", "calm")
        await stage.until(lambda: any("so is a run that has ended" in toast for toast in stage.toasts()))
        assert any(f"{LIVE[0].name} is now called calm" in toast for toast in stage.toasts())


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_what_was_set_and_written_is_on_the_runs_screen(size: tuple[int, int]) -> None:
    """In its head since which update, with labels and note; on the curve as a line that the title explains."""
    change = SettingChange(("ppo.learning_rate 0.0003 → 0.0001",), 700, 700 * 8192)
    view = structs.replace(LIVE[0], changes=(change,), labels=("paper",), note="see the appendix")
    async with staged(a_fleet((view,)), size=size) as stage:
        stage.client.answers[GetHistory] = lambda request: structs.replace(
            history(request.id, view.id, request.series, 500, 400), changes=(change,)
        )
        await stage.press("enter")
        await stage.shows("set after update 700: ppo.learning_rate 0.0003 → 0.0001")
        await stage.shows("+paper  “see the appendix”")
        await stage.shows("│ set")
        await stage.until(lambda: sum("│" in line[12 : size[0] - 30] for line in stage.lines()) > 5, "a vertical line")


async def test_a_change_that_waits_says_so() -> None:
    """Until the trainer has taken it over it is not called set."""
    view = structs.replace(LIVE[0], changes=(SettingChange(("ppo.ent_coef 0 → 0.01",)),))
    async with staged(a_fleet((view,))) as stage:
        await stage.press("enter")
        await stage.shows("to be set at the next update: ppo.ent_coef 0 → 0.01")


async def test_the_journal_tells_what_was_done_and_by_whom() -> None:
    """The newest first, a long note whole, and a name with an escape sequence as what it is."""
    text = "the learning rate was lowered because the reward had not moved for fifty updates in a row"
    entries = (
        replies.AuditEntry(t=NOW - 120, what="pause", by="command line, pts/3"),
        replies.AuditEntry(t=NOW - 60, what="note", detail=text, by="\x1b[31mscreen"),
        replies.AuditEntry(t=NOW - 30, what="ended", detail="stopped: stopped on request"),
    )
    async with staged() as stage:
        stage.client.answers[GetDetails] = lambda request: structs.replace(
            details(request.id, LIVE[0]), audit_log=entries
        )
        await stage.press("J")
        await stage.shows("command line, pts/3")
        lines = [line for line in stage.lines()[4:-1] if " ended " in line or " note " in line or " pause  " in line]
        assert [line.split()[1] for line in lines] == ["ended", "note", "pause"]
        assert "\u241b[31mscreen" in lines[1]
        assert text in " ".join(" ".join(line[51:] for line in stage.lines()).split())


async def test_a_run_to_which_nothing_was_done_says_so() -> None:
    """Not an empty tab."""
    async with staged() as stage:
        stage.client.answers[GetDetails] = lambda request: structs.replace(details(request.id, LIVE[0]), audit_log=())
        await stage.press("enter", "J")
        await stage.shows("nothing was done to it yet")


async def test_labels_are_found_by_the_filter() -> None:
    """`/paper` leaves the runs that bear the label."""
    labelled = structs.replace(LIVE[0], labels=("paper",))
    async with staged(a_fleet((labelled, *LIVE[1:]))) as stage:
        await stage.press("slash", *"paper")
        await stage.until(lambda: LIVE[1].name not in stage.text())
        assert LIVE[0].name in stage.text()


@pytest.mark.parametrize(("key", "kind"), [("S", Set), ("N", Clone), ("R", Resume)])
async def test_what_is_refused_is_corrected_and_not_typed_anew(key: str, kind: type[Request]) -> None:
    """The line opens again with the words and the reason; a second Enter asks again."""
    fleet = a_fleet(ENDED) if key == "R" else a_fleet()
    async with staged(fleet) as stage:
        stage.client.answers[kind] = lambda request: replies.Refused(re=request.id, message="no such key")
        await typed(stage, key, "ppo.lr=3")
        await stage.shows("no such key")
        assert stage.screen.query_one(Input).value == "ppo.lr=3"
        await stage.press("x", "enter")
        await stage.until(lambda: len(stage.client.asked_for(kind)) == 2)
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
        assert stage.screen.query_one(Input).value == "ppo.lr=3x"


async def test_what_saved_nothing_is_not_asked_with_which_settings() -> None:
    """`R` says at once that there is nothing to go on from, and which key begins anew."""
    lost = structs.replace(ENDED[0], last_checkpoint=None)
    async with staged(a_fleet((lost,))) as stage:
        await stage.press("R")
        await stage.until(lambda: any("N starts a run like it" in toast for toast in stage.toasts()))
        assert not isinstance(stage.screen, LineInputScreen)


async def test_a_run_that_is_held_is_refused_other_settings_before_any_are_typed() -> None:
    """`R` says what comes first, as the answer to whatever would be typed could only be a refusal."""
    held = (a_run("held", state="paused"), a_run("ice", state="frozen"), queued("late"))
    async with staged(a_fleet(held)) as stage:
        for first in ("it is paused; let it go on (r)", "it is frozen; let it go on (r)", "S changes what"):
            await stage.press("R")
            await stage.until(lambda first=first: any(first in toast for toast in stage.toasts()))  # type: ignore[misc]
            assert not isinstance(stage.screen, LineInputScreen)
            await stage.press("down")


async def test_a_sheet_is_not_covered_by_what_was_told_before() -> None:
    """Its last line names the keys that it takes."""
    async with staged() as stage:
        stage.app.app_context.toast("something of before", seconds=60)
        await stage.shows("something of before")
        await stage.press("S")
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
        await stage.shows("Esc back")
        assert stage.toasts() == []


async def test_a_run_that_trains_and_has_saved_nothing_saves_first() -> None:
    """`R` says so on its line, and asks for the verdict as of any other."""
    async with staged(a_fleet((a_run("fresh", last_checkpoint=None),))) as stage:
        stage.client.answers[Resume] = lambda request: replies.Refused(re=request.id, message="no such key")
        await typed(stage, "R", "ppo.lr=3")
        await stage.shows("no such key")
        await stage.shows("It has no checkpoint: one is")
        assert stage.client.asked_for(Resume)[0].check_only

        async def never(make: Any) -> Any:
            await asyncio.Event().wait()
            yield make

        stage.client.stream = never  # type: ignore[method-assign]
        await stage.press("enter")
        await stage.shows("waits until its next update is saved   Esc back")


async def test_a_verdict_that_nobody_waits_for_any_more_does_not_come() -> None:
    """Esc turns away from the line and from what it asked: a sheet later on would take keys meant for another."""
    async with staged(a_fleet((a_run("fresh", last_checkpoint=None),))) as stage:
        real, saved = stage.client.stream, asyncio.Event()

        async def late(make: Any) -> Any:
            await saved.wait()
            async for reply in real(make):
                yield reply

        stage.client.stream = late  # type: ignore[method-assign]
        await typed(stage, "R", "ppo.n_epochs=3")
        await stage.shows("waits until its next update is saved")
        await stage.press("escape")
        await stage.until(lambda: not isinstance(stage.screen, LineInputScreen))
        saved.set()
        await stage.pilot.pause()
        await stage.still()
        assert stage.client.asked_for(Resume) == []
        assert not isinstance(stage.screen, VerdictScreen)
