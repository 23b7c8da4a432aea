"""`V`: what is tried on branches of a run, what they say, and what becomes of them."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.fleet.events.trials import TrialBranch
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Restore, Try
from mission_tui.tui.screens.questions import LineInputScreen
from mission_tui.tui.screens.verdict import TrialScreen
from tests.tui.fleets import ENDED, KL_FINDING, NAN_FINDING, TRIAL, a_fleet, a_run
from tests.tui.stage import staged

SICK = a_run("sick-11c0", findings=(KL_FINDING,), last_checkpoint="011468800")
JUDGED = a_run("sick-11c0", findings=(KL_FINDING,), last_checkpoint="011468800", trials=(TRIAL,))


@pytest.fixture(autouse=True)
def looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for a person to read the sheet."""
    monkeypatch.setattr("mission_tui.tui.terminal.typed_ahead.PAUSE_S", 0.001)


async def test_the_advice_of_the_finding_stands_there_to_be_tried() -> None:
    """Enter tries it, from before the finding; what was typed besides is budget and seeds."""
    async with staged(a_fleet((SICK, *ENDED))) as stage:
        stage.client.answers[Try] = lambda it: Accepted(re=it.id, runs=("a", "b"), notes=("trial 1 of sick-11c0",))
        await stage.press("V")
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
        await stage.shows("ppo.n_epochs=10")
        await stage.press("end", *" --budget 30u --seeds=5", "enter")
        await stage.until(lambda: stage.client.asked_for(Try))
        (asked,) = stage.client.asked_for(Try)
        assert (asked.run, asked.do, asked.finding) == (SICK.id, "begin", KL_FINDING.id)
        assert (asked.assignments, asked.budget, asked.seeds) == ((), "30u", 5)
        await stage.until(lambda: any("V shows how it stands" in toast for toast in stage.toasts()))
        assert stage.app.app_context.undo_stack[-1].runs == ("a", "b")


async def test_other_settings_are_tried_as_they_are_typed() -> None:
    """The finding still says from where."""
    async with staged(a_fleet((SICK, *ENDED))) as stage:
        stage.client.answers[Try] = lambda it: Accepted(re=it.id, runs=("a",), notes=("trial 1",))
        await stage.press("V")
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
        await stage.press(*"ppo.clip_range=0.1", "enter")
        await stage.until(lambda: stage.client.asked_for(Try))
        (asked,) = stage.client.asked_for(Try)
        assert (asked.finding, asked.assignments) == (KL_FINDING.id, ("ppo.clip_range=0.1",))


async def test_what_is_tried_of_another_algorithm_is_asked_for_in_its_words() -> None:
    """The example in the empty line is a setting that a run of SAC has."""
    async with staged(a_fleet((structs.replace(SICK, algo="sac", findings=()), *ENDED))) as stage:
        await stage.press("V")
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
        await stage.shows("sac.learning_rate=1e-4")


async def test_an_advised_schedule_is_one_word_of_the_line() -> None:
    """With the blanks in its braces: it is the advice as long as it is left as it is, and a setting when it is not."""
    rate = "ppo.learning_rate={ start = 1e-4, end = 0.0 }"
    advised = structs.replace(KL_FINDING, advice_set=(rate, "ppo.n_epochs=4"))
    async with staged(a_fleet((structs.replace(SICK, findings=(advised,)), *ENDED))) as stage:
        changed = (rate, "ppo.n_epochs=4", "ppo.clip_range=0.1")
        for typed, wanted in ((" --seeds 5", ()), (" ppo.clip_range=0.1", changed)):
            stage.client.answers[Try] = lambda it: Accepted(re=it.id, runs=("a",), notes=("trial 1",))
            many = len(stage.client.asked_for(Try))
            await stage.press("V")
            await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
            await stage.press("end", *typed, "enter")
            await stage.until(lambda: len(stage.client.asked_for(Try)) > many)  # noqa: B023
            assert stage.client.asked_for(Try)[-1].assignments == wanted
            await stage.until(lambda: not isinstance(stage.screen, LineInputScreen))


async def test_the_best_branch_takes_the_place_and_u_gives_it_back() -> None:
    """`t` on the sheet of a trial that helps; nothing else has to be typed."""
    async with staged(a_fleet((JUDGED, *ENDED))) as stage:
        stage.client.answers[Try] = lambda it: Accepted(re=it.id, runs=("a",), notes=(f"done: {it.do}",))
        await stage.press("V")
        await stage.until(lambda: isinstance(stage.screen, TrialScreen))
        await stage.shows("helps: return 15.5 against 12.4")
        await stage.press("t")
        await stage.until(lambda: [it.do for it in stage.client.asked_for(Try)] == ["take"])
        await stage.until(lambda: any("u takes it back" in toast for toast in stage.toasts()))
        await stage.press("u")
        await stage.until(lambda: [it.do for it in stage.client.asked_for(Try)] == ["take", "return"])


async def test_one_key_cleans_up_and_u_brings_back() -> None:
    """`d` on the sheet moves all branches to the trash; they come back as one."""
    async with staged(a_fleet((JUDGED, *ENDED))) as stage:
        stage.client.answers[Try] = lambda it: Accepted(
            re=it.id, runs=("a", "b"), notes=("2 branches are in the trash",)
        )
        stage.client.answers[Restore] = lambda it: Accepted(re=it.id, runs=it.runs)
        await stage.press("V")
        await stage.until(lambda: isinstance(stage.screen, TrialScreen))
        await stage.press("d")
        await stage.until(lambda: [it.do for it in stage.client.asked_for(Try)] == ["discard"])
        await stage.until(lambda: any("u brings them back" in toast for toast in stage.toasts()))
        await stage.press("u")
        await stage.until(lambda: [it.runs for it in stage.client.asked_for(Restore)] == [("a", "b")])


async def test_nothing_is_taken_that_has_not_won() -> None:
    """Without *helps* the key does nothing, and the sheet does not name it."""
    assert TRIAL.verdict is not None
    noisy = structs.replace(TRIAL, verdict=structs.replace(TRIAL.verdict, says="too noisy"))
    async with staged(a_fleet((a_run("sick-11c0", last_checkpoint="011468800", trials=(noisy,)), *ENDED))) as stage:
        await stage.press("V")
        await stage.until(lambda: isinstance(stage.screen, TrialScreen))
        assert "take its place" not in stage.text()
        await stage.press("t")
        await stage.still()
        assert isinstance(stage.screen, TrialScreen)
        assert stage.client.asked_for(Try) == []


async def test_a_branch_that_stands_says_so_beside_how_far_it_is() -> None:
    """A paused one holds up the verdict; its number alone reads like one that trains."""
    going = structs.replace(TRIAL, verdict=None)
    number, first = TRIAL.plan.number, TRIAL.plan.from_update
    run = a_run("sick-11c0", last_checkpoint="011468800", trials=(going,))
    marks = [TrialBranch(run.id, number, arm, 1) for arm in ("control", "advised")]
    paused = a_run("tried-control-1", branch_of=marks[0], state="paused", update=first + 4)
    trains = a_run("tried-advised-1", branch_of=marks[1], update=first + 3)
    async with staged(a_fleet((run, paused, trains))) as stage:
        await stage.press("V")
        await stage.until(lambda: isinstance(stage.screen, TrialScreen))
        await stage.shows(f"4 of {TRIAL.plan.updates}, paused")
        await stage.shows(f"3 of {TRIAL.plan.updates} ")


async def test_something_else_is_tried_from_the_sheet() -> None:
    """`n` asks for other settings and leaves the branches of the last trial where they are."""
    async with staged(a_fleet((JUDGED, *ENDED))) as stage:
        await stage.press("V")
        await stage.until(lambda: isinstance(stage.screen, TrialScreen))
        await stage.press("n")
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))


async def test_another_try_from_a_branch_is_about_the_finding_of_its_run() -> None:
    """The branch may be just as sick, but its findings are not known to the run that is tried."""
    mark = TrialBranch(JUDGED.id, TRIAL.plan.number, "control", 1)
    branch = a_run("sick-11c0-try1-control-1", branch_of=mark, findings=(NAN_FINDING,))
    async with staged(a_fleet((branch, JUDGED))) as stage:
        stage.client.answers[Try] = lambda it: Accepted(re=it.id, runs=("a",), notes=("trial 2",))
        await stage.press("V")
        await stage.until(lambda: isinstance(stage.screen, TrialScreen))
        await stage.press("n")
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
        await stage.shows("ppo.n_epochs=10")
        await stage.press("enter")
        await stage.until(lambda: stage.client.asked_for(Try))
        (asked,) = stage.client.asked_for(Try)
        assert (asked.run, asked.finding) == (JUDGED.id, KL_FINDING.id)
