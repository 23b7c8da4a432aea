"""Keys that act on runs: which request each sends, for which runs, and what is asked first."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from mission_tui.fleet.resume.verdict import Change, Remedy, ResumeVerdict
from mission_tui.ipc.replies import Accepted, CleanReply, Evaluated, LeftoverRow, Progress, Refused, VerdictReply
from mission_tui.ipc.requests import Act, Clean, Evaluate, GetSnapshot, Remove, Restore, Resume
from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.screens.questions import ConfirmScreen, LeftoversScreen
from mission_tui.tui.screens.sheets import ErrorScreen, EvaluationScreen
from mission_tui.tui.screens.verdict import VerdictScreen
from mission_tui.tui.verbs import acts as verbs
from tests.tui.fake_client import details, evaluation
from tests.tui.fleets import ENDED, LIVE, a_fleet, a_run, queued
from tests.tui.stage import Stage, staged


def acts(stage: Stage) -> list[tuple[str, tuple[str, ...]]]:
    return [(request.verb, request.runs) for request in stage.client.asked_for(Act)]


@pytest.mark.parametrize(
    ("key", "verb"), [("p", "pause"), ("F", "freeze"), ("B", "park"), ("s", "stop"), ("C", "checkpoint")]
)
async def test_a_key_asks_for_its_verb_on_the_chosen_run(key: str, verb: str) -> None:
    """`p`, `F`, `B`, `s` and `C` act at once on the chosen run, and what was accepted is said."""
    async with staged() as stage:
        await stage.press(key)
        await stage.until(lambda: acts(stage))
        assert acts(stage) == [(verb, (LIVE[0].id,))]
        await stage.until(lambda: f"{verb} accepted for heavy-3f9a" in stage.toasts())


async def test_marked_runs_are_acted_on_together() -> None:
    """One request for all marked runs, whatever the cursor is on."""
    async with staged() as stage:
        await stage.press("space", "space", "end", "s")
        await stage.until(lambda: acts(stage))
        assert acts(stage) == [("stop", (LIVE[0].id, LIVE[1].id))]


async def test_kill_asks_naming_the_run_and_what_is_lost() -> None:
    """`K` asks; Escape leaves the run alone; Enter is not a yes; `y` kills."""
    async with staged() as stage:
        await stage.press("K")
        await stage.until(lambda: isinstance(stage.screen, ConfirmScreen))
        await stage.shows("Kill heavy-3f9a?")
        await stage.shows("everything after checkpoint 011468800 is lost")
        await stage.press("enter")
        assert isinstance(stage.screen, ConfirmScreen)
        await stage.press("escape")
        assert acts(stage) == []
        await stage.press("K", "y")
        await stage.until(lambda: acts(stage))
        assert acts(stage) == [("kill", (LIVE[0].id,))]


async def test_the_question_whether_to_kill_takes_the_gentler_key_that_it_names() -> None:
    """`s` there stops the run, and the way out is seen on a narrow screen too."""
    async with staged(size=(45, 30)) as stage:
        await stage.press("K")
        await stage.shows("n or Esc leave it")
        await stage.press("s")
        await stage.until(lambda: acts(stage))
        assert acts(stage) == [("stop", (LIVE[0].id,))]


async def test_k_moves_up_and_never_kills() -> None:
    """The small letter is a movement."""
    async with staged() as stage:
        await stage.press("j", "k")
        assert not isinstance(stage.screen, ConfirmScreen)
        fleet = stage.screen
        assert isinstance(fleet, FleetScreen)
        assert fleet.targets() == (LIVE[0],)


async def test_a_verb_that_does_not_apply_says_why() -> None:
    """Stopping an ended run asks nobody and says how it stands."""
    async with staged() as stage:
        await stage.press("end", "s")
        await stage.until(lambda: "nothing to stop: demo-0001 is lost" in stage.toasts())
        assert acts(stage) == []


async def test_a_refusal_is_told_in_its_own_words() -> None:
    """The supervisor's sentence becomes a toast."""
    async with staged() as stage:
        stage.client.answers[Act] = lambda request: Refused(re=request.id, message="heavy-3f9a is about to end")
        await stage.press("p")
        await stage.until(lambda: "heavy-3f9a is about to end" in stage.toasts())


async def test_resume_without_changes_goes_on() -> None:
    """`r` asks once; nothing to accept means no question."""
    async with staged() as stage:
        await stage.press("end", "r")
        await stage.until(lambda: stage.client.asked_for(Resume))
        (request,) = stage.client.asked_for(Resume)
        assert (request.run, request.accept, request.python) == (ENDED[-1].id, False, "/usr/bin/python3")


async def test_of_several_runs_those_that_can_go_on_are_resumed() -> None:
    """A paused seed goes on without a refusal for each of its group that waits; such a one alone is asked for."""
    runs = (a_run("held", state="paused"), queued("late"), queued("later"))
    async with staged(a_fleet(runs)) as stage:
        await stage.press("space", "space", "space", "r")
        await stage.until(lambda: "not resumed: late and later (queued)" in stage.toasts())
        assert [it.run for it in stage.client.asked_for(Resume)] == [runs[0].id]
        await stage.press("escape", "end", "r")
        await stage.until(lambda: [it.run for it in stage.client.asked_for(Resume)][1:] == [runs[2].id])


WARNING = ResumeVerdict(
    grade="warn",
    changes=(
        Change("run.seed", "7", "8", "note", "other start states"),
        Change("env.n_envs", "32", "64", "warn", "twice the gradient steps an update", "ppo.n_epochs=2"),
    ),
)


async def test_a_warning_is_shown_and_accepted_with_y() -> None:
    """The verdict's changes are listed, the worst first; `y` sends the resume again, accepted."""
    async with staged() as stage:
        stage.client.answers[Resume] = lambda request: VerdictReply(
            re=request.id, run=request.run, verdict=WARNING, accept_needed=True
        )
        await stage.press("end", "r")
        await stage.until(lambda: isinstance(stage.screen, VerdictScreen))
        await stage.shows("env.n_envs: 32 → 64")
        text = stage.text()
        assert text.index("env.n_envs") < text.index("run.seed")
        assert "instead: ppo.n_epochs=2" in text
        await stage.press("y")
        await stage.until(lambda: len(stage.client.asked_for(Resume)) == 2)
        assert stage.client.asked_for(Resume)[1].accept


async def test_a_warning_can_be_left() -> None:
    """Escape resumes nothing."""
    async with staged() as stage:
        stage.client.answers[Resume] = lambda request: VerdictReply(
            re=request.id, run=request.run, verdict=WARNING, accept_needed=True
        )
        await stage.press("r")
        await stage.until(lambda: isinstance(stage.screen, VerdictScreen))
        await stage.press("escape")
        assert len(stage.client.asked_for(Resume)) == 1


async def test_a_refused_resume_shows_why_and_cannot_be_accepted() -> None:
    """`y` does nothing when another environment would be another run."""
    verdict = ResumeVerdict(grade="refuse", changes=(Change("env.id", "A-v0", "B-v0", "refuse", "another task"),))
    async with staged() as stage:
        stage.client.answers[Resume] = lambda request: VerdictReply(
            re=request.id, run=request.run, verdict=verdict, accept_needed=False
        )
        await stage.press("r")
        await stage.until(lambda: isinstance(stage.screen, VerdictScreen))
        await stage.shows("another task")
        await stage.press("y")
        assert isinstance(stage.screen, VerdictScreen)
        assert len(stage.client.asked_for(Resume)) == 1


GRAVE = ResumeVerdict(
    grade="refuse",
    changes=(
        Change("ppo.batch_size", "64", "32", "warn", "too large steps", "x", (Remedy("reset-adam", "Adam anew"),)),
        Change("env.normalize", "not set", "obs true", "refuse", "other inputs", "leave it", override=True),
        Change("ppo.net_arch", "8", "16", "refuse", "no fit", "branch", (Remedy("branch", "a new run"),)),
    ),
)


@pytest.mark.slow
async def test_each_remedy_is_one_key_and_is_judged_before_it_is_agreed_to() -> None:
    """The keys go down the screen, refusals first; what was picked adds up, and only `y` starts anything."""
    async with staged() as stage:
        stage.client.answers[Resume] = lambda request: VerdictReply(
            re=request.id, run=request.run, verdict=WARNING if request.remedies else GRAVE, accept_needed=False
        )
        await stage.press("end", "r")
        await stage.shows("1 override: resume although this is refused")
        await stage.shows("2 branch: a new run")
        await stage.shows("3 reset-adam: Adam anew")
        assert "y resume" not in stage.text()
        await stage.press("1")
        await stage.until(lambda: len(stage.client.asked_for(Resume)) == 2)
        await stage.shows("chosen: --override env.normalize")
        await stage.press("3")
        await stage.shows("chosen: --remedy reset-adam:ppo.batch_size --override env.normalize")
        last = stage.client.asked_for(Resume)[-1]
        assert (last.remedies, last.overrides) == (("reset-adam:ppo.batch_size",), ("env.normalize",))
        assert (last.check_only, last.accept) == (True, False)
        await stage.press("0")
        await stage.until(lambda: len(stage.client.asked_for(Resume)) == 4)
        assert stage.client.asked_for(Resume)[-1].remedies == ()
        await stage.shows("3 reset-adam: Adam anew")
        await stage.press("3")
        await stage.shows("chosen: --remedy reset-adam")
        await stage.press("y")
        await stage.until(lambda: stage.client.asked_for(Resume)[-1].accept)
        assert stage.client.asked_for(Resume)[-1].remedies == ("reset-adam:ppo.batch_size",)


async def test_other_settings_are_typed_and_judged_before_anything_starts() -> None:
    """`R` takes `--set` words; even a change that needs no accepting is shown, and a remedy keeps the words."""
    async with staged() as stage:
        stage.client.answers[Resume] = lambda request: VerdictReply(
            re=request.id, run=request.run, verdict=GRAVE if not request.remedies else WARNING, accept_needed=True
        )
        await stage.press("end", "R")
        await stage.shows("with other settings")
        await stage.press(*"ppo.n_epochs=5", "enter")
        await stage.shows("asked: ppo.n_epochs=5")
        first = stage.client.asked_for(Resume)[0]
        assert (first.assignments, first.check_only) == (("ppo.n_epochs=5",), True)
        await stage.press("3")
        await stage.shows("chosen: --remedy reset-adam")
        await stage.press("y")
        await stage.until(lambda: stage.client.asked_for(Resume)[-1].accept)
        last = stage.client.asked_for(Resume)[-1]
        assert (last.assignments, last.remedies) == (("ppo.n_epochs=5",), ("reset-adam:ppo.batch_size",))


async def test_an_older_checkpoint_is_gone_on_from_where_the_line_names_it() -> None:
    """Tab names those that there are, newest first; a remedy that is chosen then is judged from the same one."""
    async with staged() as stage:
        stage.client.answers[Resume] = lambda request: VerdictReply(
            re=request.id, run=request.run, verdict=WARNING, accept_needed=True
        )
        await stage.press("end", "R")
        await stage.shows("--checkpoint=NAME")
        await stage.press(*"--checkpoint", "enter")
        await stage.shows("--checkpoint needs a name")
        await stage.press(*"=", "tab")
        newest = max(details(1, ENDED[-1]).checkpoints, key=lambda it: it.t).name
        await stage.shows(f"--checkpoint={newest}")
        await stage.press(*" ppo.n_epochs=5", "enter")
        await stage.shows(f"asked: ppo.n_epochs=5 --checkpoint={newest}")
        await stage.press("y")
        await stage.until(lambda: stage.client.asked_for(Resume)[-1].accept)
        assert {it.checkpoint for it in stage.client.asked_for(Resume)} == {newest}
        assert stage.client.asked_for(Resume)[-1].assignments == ("ppo.n_epochs=5",)


async def test_a_branch_is_started_from_the_verdict_that_refuses() -> None:
    """Its key shows what will differ; `y` makes another run and leaves this one alone."""
    async with staged() as stage:
        stage.client.answers[Resume] = lambda request: (
            Accepted(re=request.id, runs=(ENDED[0].id,), notes=("new-1 begins with the weights of old",))
            if request.accept
            else VerdictReply(re=request.id, run=request.run, verdict=GRAVE, accept_needed=request.branch)
        )
        await stage.press("end", "r")
        await stage.shows("2 branch: a new run")
        await stage.press("2")
        await stage.shows("Start a new run from")
        await stage.shows("y start the new run")
        await stage.press("y")
        await stage.until(lambda: "new-1 begins with the weights of old; u undoes for 10 s" in stage.toasts())
        assert stage.client.asked_for(Resume)[-1].branch


async def test_evaluate_shows_progress_and_the_result_with_its_interval() -> None:
    """`e` plays 100 episodes with the newest checkpoint and shows mean, interval and the share won."""
    async with staged() as stage:
        stage.client.progress = [Progress(re=0, done=40, total=100)]
        await stage.press("e")
        await stage.until(lambda: isinstance(stage.screen, EvaluationScreen))
        await stage.shows("11.8 ± 2.41")
        await stage.shows("11.3 to 12.3")
        await stage.shows("88%")
        assert stage.client.asked_for(Evaluate)[0].run == LIVE[0].id


async def test_an_evaluation_that_was_left_tells_its_result() -> None:
    """Escape hides the progress; the result then comes as a toast."""
    import asyncio

    from mission_tui.tui.verbs.looking import evaluate

    async with staged() as stage:
        gate = asyncio.Event()
        stream = stage.client.stream

        async def slow(make):  # type: ignore[no-untyped-def]
            yield Progress(re=1, done=1, total=100)
            await gate.wait()
            async for reply in stream(make):
                yield reply

        stage.client.stream = slow  # type: ignore[method-assign]
        stage.client.answers[Evaluate] = lambda request: Evaluated(re=request.id, result=evaluation(request.run))
        stage.app.app_context.start(evaluate(stage.app.app_context, (LIVE[0],)))
        await stage.shows("1/100 episodes")
        await stage.press("escape")
        gate.set()
        await stage.until(lambda: any("11.8 ± 2.41 over 100 episodes" in toast for toast in stage.toasts()))


async def test_a_run_without_checkpoint_is_not_evaluated() -> None:
    """The key says what to press first."""
    from tests.tui.fleets import a_run

    async with staged(a_fleet((a_run("young-0001", last_checkpoint=None),))) as stage:
        await stage.press("e")
        await stage.until(lambda: any("C saves one" in toast for toast in stage.toasts()))
        assert not stage.client.asked_for(Evaluate)


async def test_an_ended_run_without_checkpoint_is_not_said_to_get_one() -> None:
    """`C` is refused for a run that is over, so nothing points to it."""
    from tests.tui.fleets import a_run

    over = a_run("over-0001", state="ended", outcome="killed", last_checkpoint=None)
    async with staged(a_fleet((over,))) as stage:
        await stage.press("e")
        await stage.until(lambda: any("nothing was saved" in toast for toast in stage.toasts()))
        assert not any("C saves one" in toast for toast in stage.toasts())


LEFT = (
    LeftoverRow(
        key="p1", kind="process", verdict="ours", run="heavy-0b1e", pid=4711, age_s=300.0, memory_bytes=1 << 28
    ),
    LeftoverRow(key="p2", kind="process", verdict="unverifiable", pid=4712, command="python train.py"),
    LeftoverRow(key="s1", kind="shm", verdict="ours", name="psm_1a2b"),
)


async def test_clean_lists_leftovers_and_removes_only_what_is_ours() -> None:
    """`X` shows all, says what is never touched, and `y` names exactly the others."""
    async with staged() as stage:
        stage.client.answers[Clean] = lambda request: CleanReply(
            re=request.id,
            stale=tuple(
                LeftoverRow(key=s.key, kind=s.kind, verdict=s.verdict, removed=s.key in request.remove) for s in LEFT
            )
            if request.remove
            else LEFT,
        )
        await stage.press("X")
        await stage.until(lambda: isinstance(stage.screen, LeftoversScreen))
        await stage.shows("unsure ones are never removed: if one is yours")
        await stage.shows("pid 4711")
        await stage.pilot.resize_terminal(40, 15)
        await stage.shows("y remove the 2 of ours   Esc back")
        await stage.press("y")
        await stage.until(lambda: len(stage.client.asked_for(Clean)) == 2)
        assert stage.client.asked_for(Clean)[1].remove == ("p1", "s1")
        await stage.until(lambda: "removed 2 of 2" in stage.toasts())


async def test_clean_with_nothing_to_find_says_so() -> None:
    """No sheet opens for an empty list."""
    async with staged() as stage:
        await stage.press("X")
        await stage.until(lambda: "nothing was left behind by dead runs" in stage.toasts())


async def test_y_copies_the_id() -> None:
    """The whole id goes to the clipboard."""
    async with staged() as stage:
        await stage.press("y")
        await stage.until(lambda: stage.app.clipboard == LIVE[0].id)


async def test_the_menu_offers_actions_with_their_keys() -> None:
    """`x` lists what can be done with the run; the action's own key carries it out."""
    async with staged() as stage:
        await stage.press("x")
        await stage.shows("save a checkpoint, then end")
        await stage.press("s")
        await stage.until(lambda: acts(stage))
        assert acts(stage) == [("stop", (LIVE[0].id,))]


async def test_the_menu_offers_what_means_something_for_the_run() -> None:
    """Of an ended run it can be resumed or removed; nothing is offered that would only be told that it is over."""
    async with staged() as stage:
        await stage.press("end", "x")
        await stage.shows("move an ended run to the trash")
        assert "hold at the next update" not in stage.text()
        assert "end at once, unsaved" not in stage.text()


async def test_the_menu_of_several_names_the_run_that_an_action_is_for_alone() -> None:
    """While runs are marked the cursor is on another one, whose label or note it would be."""
    async with staged(size=(120, 50)) as stage:
        await stage.press("space", "space", "x")
        await stage.shows("heavy-3f9a and wide-11c0")
        assert f"{LIVE[2].name} alone: put labels on it" in stage.text()


async def test_an_order_that_waits_for_its_answer_is_said_to_be_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a line that hangs it waits for many seconds; whoever pressed the key sees that it was taken."""
    monkeypatch.setattr(verbs, "LATE_S", 0.0)
    async with staged() as stage:
        ask, answered = stage.client.ask, asyncio.Event()

        async def slow(make: Callable[[int], Any]) -> Any:
            if isinstance(make(0), Act):
                await answered.wait()
            return await ask(make)

        monkeypatch.setattr(stage.client, "ask", slow)
        await stage.press("s")
        await stage.until(lambda: "stop heavy-3f9a: no answer yet" in stage.toasts())
        answered.set()
        await stage.until(lambda: "stop accepted for heavy-3f9a" in stage.toasts())


async def test_one_run_that_cannot_go_on_keeps_no_other_from_it() -> None:
    """Each of several is resumed, or says why not."""
    runs = (a_run("ice", state="paused"), a_run("held", state="paused"))
    async with staged(a_fleet(runs)) as stage:
        refused = Refused(re=1, message="cannot resume ice now: its trainer is not connected")
        stage.client.answers[Resume] = lambda request: (
            refused if request.run == runs[0].id else Accepted(re=request.id, runs=(request.run,))
        )
        await stage.press("space", "space", "r")
        await stage.until(lambda: "resume accepted for held" in stage.toasts())
        assert refused.message in stage.toasts()


async def test_the_palette_finds_an_action_by_typing() -> None:
    """`:` then a part of the name and Enter does it."""
    async with staged() as stage:
        await stage.press("colon")
        await stage.shows("type a part of it")
        await stage.press(*"pau", "enter")
        await stage.until(lambda: acts(stage))
        assert acts(stage) == [("pause", (LIVE[0].id,))]


async def test_the_palette_opens_a_run_by_name() -> None:
    """Runs are found too."""
    async with staged() as stage:
        await stage.press("ctrl+p", *"open wide", "enter")
        await stage.shows("wide-11c0 ● update")
        assert len(stage.app.screen_stack) == 2


async def test_f5_reads_presets_and_state_again() -> None:
    """A new snapshot is asked for instead of waited for."""
    async with staged() as stage:
        await stage.press("f5")
        await stage.until(lambda: stage.client.asked_for(GetSnapshot))
        await stage.until(lambda: "refreshed" in stage.toasts())
        await stage.until(lambda: "packages: torch 2.13.0 -> torch 2.14.0" in " ".join(stage.toasts()))


async def test_ctrl_z_without_a_shell_says_so_instead_of_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """A screen that nobody could bring back is not stopped."""
    monkeypatch.setattr("os.getppid", os.getpid)
    async with staged() as stage:
        await stage.press("ctrl+z")
        await stage.until(lambda: any("q leaves" in toast for toast in stage.toasts()))


async def test_killing_a_waiting_run_loses_nothing() -> None:
    """The question says so."""
    async with staged() as stage:
        await stage.press("down", "down", "down", "K")
        await stage.shows("beast-0c1d: has learned nothing yet")


async def test_ctrl_c_leaves_nothing_and_reminds() -> None:
    """The habit of pressing it neither ends the screen nor reaches a run."""
    async with staged() as stage:
        await stage.press("ctrl+c")
        await stage.until(lambda: any(toast.startswith("q leaves") for toast in stage.toasts()))
        assert stage.app.is_running
        assert not stage.client.asked_by_hand


async def test_an_error_of_the_screen_becomes_a_sheet_and_the_screen_lives() -> None:
    """A bug in a verb shows its trace; Escape goes on."""

    async def broken() -> None:
        raise KeyError("[/bold] oops")

    async with staged() as stage:
        stage.app.app_context.start(broken())
        await stage.until(lambda: isinstance(stage.screen, ErrorScreen))
        await stage.shows("all runs go on")
        await stage.press("escape")
        assert stage.screen is stage.app.screen_stack[0]


async def test_del_moves_an_ended_run_to_the_trash_and_u_takes_it_back() -> None:
    """At once, with the way back on the toast; a second `u` asks for nothing more."""
    async with staged() as stage:
        await stage.press("end", "delete")
        await stage.until(lambda: stage.client.asked_for(Remove))
        (asked,) = stage.client.asked_for(Remove)
        (run,) = asked.runs
        assert run in {view.id for view in ENDED}
        assert not asked.now
        await stage.until(lambda: any("to the trash: u brings back for 10 s" in toast for toast in stage.toasts()))
        await stage.press("u")
        await stage.until(lambda: stage.client.asked_for(Restore))
        assert stage.client.asked_for(Restore)[0].runs == (run,)
        await stage.press("u")
        await stage.until(lambda: any("nothing to undo" in toast for toast in stage.toasts()))
        assert len(stage.client.asked_for(Restore)) == 1


async def test_del_leaves_a_live_run_alone() -> None:
    """It says what the run does, and asks for nothing."""
    async with staged() as stage:
        await stage.press("delete")
        await stage.until(lambda: any("nothing to remove: heavy-3f9a is" in toast for toast in stage.toasts()))
        assert not stage.client.asked_for(Remove)
