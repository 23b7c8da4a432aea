"""The findings of a run on its screen: list, curve, words, readings, and the keys that act on one of them."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.provenance import SettingChange
from mission_tui.fleet.history.course import Moment
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc.replies import Accepted, Refused, VerdictReply
from mission_tui.ipc.requests import Apply, Clone, GetDetails, GetHistory, Mark
from mission_tui.tui.screens.run import RunScreen
from mission_tui.tui.screens.verdict import VerdictScreen
from mission_tui.tui.sections.health import finding_lines
from mission_tui.tui.state.history import evidence_points, evidence_start, rewritten, stretch
from mission_tui.tui.widgets.charts import BAND
from tests.tui.fake_client import details
from tests.tui.fleets import ENDED, ENTROPY_FINDING, KL_FINDING, NAN_FINDING, NOW, a_fleet, a_run
from tests.tui.stage import Stage, staged

RUN = "20261121-104207-sick-11c0"
ALL = (NAN_FINDING, KL_FINDING, ENTROPY_FINDING)


def sick(*findings: Finding, revision: int = 1, silenced: tuple[str, ...] = ()) -> FleetSnapshot:
    return a_fleet((a_run("sick-11c0", findings=findings, silenced=silenced), *ENDED), revision=revision)


def marks(stage: Stage) -> list[tuple[str, str, str, str]]:
    return [(it.run, it.mark, it.finding, it.rule) for it in stage.client.asked_for(Mark)]


def test_the_stretch_shows_what_was_before_the_finding() -> None:
    """An open one is drawn to the newest update, one that is over a little beyond its end; never before the start."""
    assert evidence_start(KL_FINDING) == 1197
    assert stretch(KL_FINDING) == (1197 - 100, None)
    over = structs.replace(KL_FINDING, state="cleared", last_update=1210)
    assert stretch(over) == (1197 - 40, 1250)
    assert stretch(structs.replace(KL_FINDING, first_update=3)) == (0, None)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_words_fit_any_width(width: int) -> None:
    """Columns of evidence give way from the right; nothing sticks out."""
    wide = structs.replace(KL_FINDING, evidence=({f"train/column_{n}": 1e-9 * n for n in range(30)},))
    for finding in (*ALL, wide, structs.replace(KL_FINDING, evidence=())):
        assert all(strip.cell_length == width for strip in finding_lines(finding, width, NOW))


def test_the_column_that_the_curve_shows_comes_first() -> None:
    """After the place; it is the last one to be left out."""
    row = {"train/clip_range": 0.2, "update": 9.0, "train/approx_kl": 0.05, "timesteps": 4096.0}
    shown = finding_lines(structs.replace(KL_FINDING, evidence=(row,)), 30, NOW)
    assert shown[-2].text.split() == ["update", "steps", "KL"]
    assert shown[-1].text.split() == ["9", "4.1k", "0.050"]


def test_a_resume_from_before_an_incident_rewrites_its_history() -> None:
    """What was seen then is in the finding's own rows; a resume from after it leaves the history as it was."""
    finding = structs.replace(KL_FINDING, id="kl-persistent-1-1204")
    first, second = details(1, a_run("sick-11c0")).attempts
    for start, expected in ((8192 * 1190, True), (8192 * 1300, False), (None, True)):
        later = structs.replace(second, from_timesteps=start)
        known = structs.replace(details(1, a_run("sick-11c0")), attempts=(first, later))
        assert rewritten(finding, known) is expected
        assert not rewritten(structs.replace(finding, id="kl-persistent-2-1204"), known)
    assert evidence_points(finding)[0] == (1200.0, 0.044, 0.044)
    assert len(evidence_points(finding)) == 5


async def test_a_finding_of_an_earlier_attempt_is_drawn_as_it_was_seen() -> None:
    """The curve of today went over the same updates under other settings, and would show something else."""
    earlier = structs.replace(KL_FINDING, id="kl-persistent-1-1204", state="cleared", last_update=1300)
    async with staged(sick(earlier)) as stage:
        await stage.press("h")
        await stage.shows("approx KL as seen in attempt 1")


async def test_h_leads_to_the_worst_finding_on_its_curve(utc: None) -> None:
    """Sentence, time, cause, advice; the curve of its signal around it, with limit, band and what was looked at."""
    async with staged(sick(*ALL)) as stage:
        await stage.press("h")
        await stage.shows("critical  since 11:05, update 1,398; 6 updates so far")
        await stage.press("down")
        await stage.shows("limit 0.040")
        await stage.shows(BAND * 10)
        for said in ("8 updates looked at", "cause  100 gradient steps", "advice fewer epochs --set ppo.n_epochs=10"):
            assert said in stage.text()
        request = stage.client.asked_for(GetHistory)[-1]
        assert (request.series, request.from_update, request.to_update) == (("train/approx_kl",), 1097, None)


async def test_what_was_set_is_marked_on_the_curve_of_a_finding() -> None:
    """With its word, as on the chart of the run, and so is a pause."""
    first = KL_FINDING.first_update
    view = sick(KL_FINDING).runs[0]
    marked = structs.replace(
        view,
        changes=(SettingChange(("ppo.n_epochs 5 → 4",), first - 40, first * 8192),),
        moments=(Moment(first - 100, first * 8192, "paused"),),
    )
    async with staged(a_fleet((marked,)), size=(160, 50)) as stage:
        await stage.press("h")
        await stage.shows("epochs 4")
        assert "paused" in stage.text()


async def test_the_evidence_of_an_open_finding_is_kept_fresh() -> None:
    """It is asked for again when the run has advanced, and that of a finding that is over is not."""
    async with staged(sick(KL_FINDING, ENTROPY_FINDING)) as stage:

        def asked(tag: str) -> int:
            return sum(tag in request.series for request in stage.client.asked_for(GetHistory))

        def advanced(update: int) -> FleetSnapshot:
            later = a_run("sick-11c0", findings=(KL_FINDING, ENTROPY_FINDING), update=update)
            return a_fleet((later, *ENDED), revision=update)

        await stage.press("h")
        await stage.until(lambda: asked("train/approx_kl") == 1)
        await stage.arrive(advanced(1404))
        await stage.until(lambda: asked("train/approx_kl") == 2)
        await stage.press("down")
        await stage.until(lambda: asked("policy/entropy_ratio") == 1)
        await stage.arrive(advanced(1405))
        await stage.still()
        assert asked("policy/entropy_ratio") == 1


async def test_the_list_keeps_its_place_when_findings_move() -> None:
    """The chosen finding stays chosen when a worse one appears above it."""
    async with staged(sick(KL_FINDING, ENTROPY_FINDING)) as stage:
        await stage.press("h")
        await stage.shows("KL outside the trust region")
        await stage.arrive(sick(*ALL, revision=2))
        await stage.shows(">▲ warning      KL outside")


async def test_symptoms_are_folded_under_their_cause_and_counted_with_it() -> None:
    """One line tells how many and which; choosing it unfolds them. The list of runs shows one finding, as grave as they
    are, and `a` follows the advice of the cause.
    """
    cause = structs.replace(ENTROPY_FINDING, id="after-change-1-1190", rule="after-change", sentence="you set it x 100")
    cause = structs.replace(cause, first_update=1190, severity="critical", state="open", undo="back")
    symptoms = [structs.replace(it, part_of=cause.id) for it in (KL_FINDING, NAN_FINDING)]
    async with staged(sick(cause, *symptoms)) as stage:
        await stage.shows("◆ change")
        await stage.press("h")
        await stage.shows("+ 2 since: KL, NaN")
        await stage.shows("since  warning at 1,204: KL outside")
        assert "▲   warning" not in stage.text()
        await stage.press("down")
        await stage.shows(">▲   warning")
        assert "+ 2 since" not in stage.text()
        await stage.press("up")
        await stage.shows("+ 2 since")


async def test_without_an_earlier_checkpoint_the_advice_fills_the_line_of_a_new_run() -> None:
    """`a`: there is nothing to go back to, so a new run like it, with the advised settings, is what is offered."""
    async with staged(sick(KL_FINDING)) as stage:
        stage.client.answers[Apply] = lambda request: Refused(re=request.id, message="no checkpoint from before 1,204")
        stage.client.answers[GetDetails] = lambda request: structs.replace(
            details(request.id, a_run("sick-11c0")), checkpoints=()
        )
        await stage.press("a")
        await stage.shows("A new run like sick-11c0")
        await stage.shows("sick-11c0 has no checkpoint from before update 1,204, and goes on")
        await stage.press("enter")
        await stage.until(lambda: [it.assignments for it in stage.client.asked_for(Clone)] == [("ppo.n_epochs=10",)])


async def test_advice_that_takes_nothing_back_saves_a_running_run_first() -> None:
    """`a`: what a slow run without a checkpoint has learned is kept; the advice fills the line of `R`."""
    slow = structs.replace(KL_FINDING, id="throughput-1-1204", rule="throughput", advice_set=("env.vec=split",))
    async with staged(a_fleet((a_run("slow-11c0", findings=(slow,), last_checkpoint=None),))) as stage:
        stage.client.answers[Apply] = lambda request: Refused(re=request.id, message="no checkpoint")
        stage.client.answers[GetDetails] = lambda request: structs.replace(
            details(request.id, a_run("slow-11c0")), checkpoints=()
        )
        await stage.press("a")
        await stage.shows("Stop slow-11c0 and resume it with other settings")
        await stage.shows("env.vec=split")
        await stage.shows("It has no checkpoint: one is")


async def test_of_lack_of_memory_it_says_only_from_where_it_goes_on() -> None:
    """The checkpoint need not be from before the finding: no policy is worse for it."""
    full = structs.replace(KL_FINDING, id="out-of-memory-1-1204", rule="out-of-memory", severity="critical")
    fewer = ResumeVerdict("warn", (Change("env.n_envs", "4", "2", "warn", "half of them"),))
    async with staged(sick(full)) as stage:
        stage.client.answers[Apply] = lambda request: VerdictReply(
            re=request.id, run=RUN, verdict=fewer, accept_needed=True, checkpoint="000123000"
        )
        await stage.press("a")
        await stage.shows("from 000123000.")
        assert "from before" not in stage.text()


@pytest.mark.slow
async def test_a_filter_leaves_what_it_finds() -> None:
    """By any word of a finding, its rule and state too; Escape shows all again, another tab begins unfiltered."""
    async with staged(sick(*ALL)) as stage:
        await stage.press("h")
        await stage.press("slash", *"cleared|ent_coef")
        await stage.shows("1/3 found")
        assert "KL outside" not in stage.text()
        await stage.press("enter", "escape")
        await stage.shows("KL outside")
        await stage.press("slash", *"nothing like it")
        await stage.shows("no finding matches; Esc shows all again")
        await stage.press("enter", "left", "right")
        await stage.shows("KL outside")


async def test_the_last_line_shows_every_value_beside_its_limits() -> None:
    """And without any finding the table is all there is."""
    async with staged(sick(KL_FINDING)) as stage:
        await stage.press("h", "end")
        await stage.shows("explained variance       0.710  < 0.050      < -0.500     24 of 30 updates")
        assert "advice" not in stage.text()
    async with staged(sick()) as stage:
        await stage.press("h")
        await stage.shows("ok: no rule has anything to say")
        await stage.shows("5 of 8 updates")


async def test_the_chosen_metric_shows_its_limits_above_its_curve() -> None:
    """In the curve's own units. The list flags a newest value that has passed them; as a warning once that is one."""
    high = a_run("sick-11c0", metrics={"rollout/ep_rew_mean": 1.0, "train/approx_kl": 0.048})
    async with staged(a_fleet((high,)), size=(120, 36)) as stage:
        await stage.press("enter", "down", "down")
        await stage.shows("approx KL over timesteps   ▲ > 0.040   ◆ > 0.080")
        assert ">approx KL ! 0.048" in " ".join(stage.text().split())
        await stage.arrive(a_fleet((structs.replace(high, findings=(KL_FINDING,)),), revision=2))
        assert ">approx KL ▲ 0.048" in " ".join(stage.text().split())


async def test_a_limit_above_a_narrow_curve_is_whole() -> None:
    """At 80 columns it was cut to `◆ > 0`, which is another limit."""
    high = a_run("sick-11c0", metrics={"rollout/ep_rew_mean": 1.0, "train/approx_kl": 0.048})
    async with staged(a_fleet((high,)), size=(80, 24)) as stage:
        await stage.press("enter", "down", "down")
        await stage.shows("approx KL over timesteps   ▲ > 0.040")
        await stage.shows("◆ > 0.080")


async def test_a_finding_without_a_curve_is_words_alone() -> None:
    """A rule may have no signal to draw; then nothing is asked for."""
    bare = structs.replace(KL_FINDING, signal="", threshold=None)
    async with staged(sick(bare)) as stage:
        await stage.press("h")
        await stage.shows("advice fewer epochs")
        assert [asked for asked in stage.client.asked_for(GetHistory) if asked.run == RUN] == []
        assert "incident" not in stage.text()


async def test_advice_is_applied_after_the_changes_were_seen() -> None:
    """`a` asks what would change and says that a live run is stopped for it; `y` asks for it, accepted."""
    async with staged(sick(*ALL)) as stage:
        await stage.press("h", "down", "a")
        await stage.shows("Stop sick-11c0 and go on as advised?")
        await stage.shows("ppo.n_epochs: 20 → 10")
        await stage.shows("000009832")
        await stage.shows("without going back: Esc, then A")
        (check,) = stage.client.asked_for(Apply)
        assert (check.run, check.finding, check.check_only, check.accept) == (RUN, KL_FINDING.id, True, False)
        await stage.press("enter", "escape")
        assert len(stage.client.asked_for(Apply)) == 1
        await stage.press("a")
        await stage.until(lambda: isinstance(stage.screen, VerdictScreen))
        await stage.press("y")
        await stage.until(lambda: len(stage.client.asked_for(Apply)) == 3)
        done = stage.client.asked_for(Apply)[-1]
        assert (done.finding, done.check_only, done.accept) == (KL_FINDING.id, False, True)
        assert done.checkpoint == "000009832"
        assert (done.cwd, done.python) == ("/home/ada/lab", "/usr/bin/python3")
        await stage.until(lambda: "the advice of kl-persistent is applied to sick-11c0" in stage.toasts())


async def test_an_ended_run_is_not_said_to_be_stopped() -> None:
    """The question fits what will happen. What was agreed to is not told again, what the machine lacks is."""
    run = a_run("sick-11c0", state="ended", outcome="failed", kind="nan", phase=None, findings=(NAN_FINDING,))

    def answer(request: Apply) -> Accepted | VerdictReply:
        if request.accept:
            changed, lacks = "ppo.learning_rate: 0.1 -> 0.05: smaller steps", "2 runs need 3 cores"
            return Accepted(re=request.id, runs=(RUN,), notes=(changed, lacks), warnings=(lacks,))
        return VerdictReply(re=request.id, run=RUN, verdict=ResumeVerdict("safe"), accept_needed=False)

    async with staged(a_fleet((run,))) as stage:
        stage.client.answers[Apply] = answer
        await stage.press("a")
        await stage.shows("Go on with sick-11c0 as advised?")
        assert "stopped" not in stage.text()
        await stage.press("y")
        await stage.until(lambda: "2 runs need 3 cores" in stage.toasts())
        assert not any("smaller steps" in toast for toast in stage.toasts())


async def test_a_refused_advice_can_only_be_read() -> None:
    """Neither a refusing verdict nor a refusal by the supervisor is asked about."""
    never = ResumeVerdict("refuse", (Change("env.id", "a", "b", "refuse", "another task"),))
    async with staged(sick(KL_FINDING)) as stage:
        stage.client.answers[Apply] = lambda request: VerdictReply(
            re=request.id, run=RUN, verdict=never, accept_needed=False
        )
        await stage.press("a")
        await stage.shows("sick-11c0 cannot be resumed like this")
        await stage.press("y", "escape")
        stage.client.answers[Apply] = lambda request: Refused(re=request.id, message="no checkpoint from before 1,204")
        await stage.press("a")
        await stage.until(lambda: "no checkpoint from before 1,204" in stage.toasts())
        assert all(it.check_only for it in stage.client.asked_for(Apply))


async def test_a_finding_is_acknowledged_and_opened_again() -> None:
    """`i` on the chosen one; what it does now follows from the state that the snapshot shows."""
    async with staged(sick(*ALL)) as stage:
        await stage.press("h", "down", "i")
        await stage.until(lambda: marks(stage) == [(RUN, "acknowledged", KL_FINDING.id, "")])
        known = structs.replace(KL_FINDING, state="acknowledged")
        await stage.arrive(sick(NAN_FINDING, known, revision=2))
        await stage.shows("· acknowledged KL outside")
        await stage.press("i")
        await stage.until(lambda: marks(stage)[1:] == [(RUN, "open", KL_FINDING.id, "")])


async def test_a_rule_is_silenced_and_no_longer() -> None:
    """`I` is about the rule of the chosen finding, and the run says which are silent."""
    async with staged(sick(KL_FINDING)) as stage:
        await stage.press("h", "I")
        await stage.until(lambda: marks(stage) == [(RUN, "silenced", "", "kl-persistent")])
        silent = structs.replace(KL_FINDING, state="silenced")
        await stage.arrive(sick(silent, revision=2, silenced=("kl-persistent",)))
        await stage.press("i")
        await stage.until(lambda: any("I ends that" in toast for toast in stage.toasts()))
        await stage.press("I")
        await stage.until(lambda: marks(stage)[1:] == [(RUN, "open", "", "kl-persistent")])


async def test_what_is_over_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where nothing is open the keys say so instead of asking."""
    monkeypatch.setattr("mission_tui.tui.terminal.typed_ahead.PAUSE_S", 0.001)
    async with staged(sick(ENTROPY_FINDING)) as stage:
        for key, verb in (("a", "apply"), ("i", "acknowledge"), ("I", "silence")):
            await stage.press(key)
            await stage.until(lambda verb=verb: any(f"nothing to {verb}: sick" in it for it in stage.toasts()))  # type: ignore[misc]
        await stage.press("h", "i")
        await stage.until(lambda: "nothing to acknowledge: this finding is over" in stage.toasts())
        assert marks(stage) == []


async def test_on_the_fleet_screen_the_keys_mean_the_worst_finding() -> None:
    """Of the chosen run, whatever its tab shows."""
    async with staged(sick(KL_FINDING, NAN_FINDING)) as stage:
        await stage.press("i")
        await stage.until(lambda: marks(stage) == [(RUN, "acknowledged", NAN_FINDING.id, "")])


async def test_a_readonly_screen_marks_nothing() -> None:
    """Findings can be read there, and the keys that change something are neither offered nor answered."""
    async with staged(sick(KL_FINDING), readonly=True) as stage:
        await stage.press("h", "i", "I", "a")
        await stage.shows("advice fewer epochs")
        assert marks(stage) == []
        assert stage.client.asked_for(Apply) == []
        assert "silence" not in stage.lines()[-1]


async def test_the_list_of_an_ended_run_names_the_last_update() -> None:
    """`now` is for what still trains."""
    over = structs.replace(ENDED[0], findings=(KL_FINDING,))
    async with staged(a_fleet((over,))) as stage:
        await stage.press("h")
        await stage.shows("1,204-1,403")
        assert "-now" not in stage.text()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_is_in_sight_is_said_as_it_is(size: tuple[int, int]) -> None:
    """Once the findings have their rows, and not with the next snapshot: a later drawing changes nothing."""
    async with staged(sick(*ALL), size) as stage:
        for key in ("h", "down", "down", "up", "up"):
            await stage.press(key)
            await stage.still()
            seen = stage.lines()
            screen = stage.screen
            assert isinstance(screen, RunScreen)
            screen.redraw()
            await stage.still()
            assert stage.lines() == seen, key


async def test_cause_and_advice_come_before_the_chart_on_the_smallest_screen() -> None:
    """What to do is in sight; the chart is there when the tab has the screen for itself."""
    async with staged(sick(KL_FINDING, ENTROPY_FINDING, NAN_FINDING), (60, 20)) as stage:
        await stage.press("h")
        await stage.shows("advice")
        await stage.still()
        assert " cause " in stage.text()
        assert "over updates" not in stage.text()
        await stage.press("z")
        await stage.shows("over updates")


async def test_the_chart_has_its_place_however_late_the_layout_is() -> None:
    """What a key draws may be drawn before there is the room that it makes."""
    async with staged(sick(KL_FINDING, ENTROPY_FINDING, NAN_FINDING), (60, 20)) as stage:
        await stage.press("h")
        await stage.shows("advice")
        stage.screen.add_class("-maximised")
        await stage.shows("over updates")
        stage.screen.remove_class("-maximised")
        await stage.until(lambda: "over updates" not in stage.text())
