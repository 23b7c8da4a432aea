"""How a run stands, in a word, a shape and a badge."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import FailedDuty
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import RunState
from mission_tui.fleet.events.processes import RunFlag
from mission_tui.fleet.events.provenance import Origin
from mission_tui.fleet.history.course import Course, GoalView, ValueAtUpdate
from mission_tui.fleet.specs.thresholds import Limits
from mission_tui.fleet.views.snapshot import HeldResources, Restart, RunView
from mission_tui.present.run_state import FLAG_SENTENCES, flag_sentences, share_done, state_word
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import OUTCOME_SHAPES, SEVERITY_SHAPES, STATE_SHAPES, to_ascii
from mission_tui.tui.state import run_status
from mission_tui.tui.state.fleet_view_state import row_fingerprint
from mission_tui.tui.state.news import while_away
from mission_tui.tui.widgets.detail import tab_line
from mission_tui.tui.widgets.panes import framed, inside
from mission_tui.tui.widgets.run_table import COLUMNS
from tests.tui.fleets import ENDED, ENTROPY_FINDING, KL_FINDING, LIVE, NAN_FINDING, NOW, a_fleet, a_run, ended, queued
from tests.tui.stage import staged


def test_every_state_and_outcome_has_a_shape_of_its_own() -> None:
    """Without colour they are still told apart, in Unicode and in ASCII."""
    living = [STATE_SHAPES[state] for state in get_args(RunState) if state != "ended"]
    shapes = [*living, *OUTCOME_SHAPES.values()]
    assert len(set(shapes)) == len(shapes)
    assert len({to_ascii(shape) for shape in shapes}) == len(shapes)


def test_every_severity_has_a_shape_of_its_own() -> None:
    """A critical finding is told from a warning without colour, in Unicode and in ASCII."""
    assert len(set(SEVERITY_SHAPES.values())) == 3
    assert len({to_ascii(shape) for shape in SEVERITY_SHAPES.values()}) == 3


def test_the_word_is_phase_state_or_outcome() -> None:
    """What a person would say of the run."""
    assert state_word(a_run("a")) == "rollout"
    assert state_word(a_run("a", phase=None)) == "running"
    assert state_word(a_run("a", state="stopping", phase="saving")) == "stopping"
    assert state_word(ENDED[1]) == "failed"
    waits = a_run("a", state="starting", launcher="slurm", cause="waits: Resources", phase=None)
    assert state_word(waits) == "pending"
    assert state_word(structs.replace(waits, cause=None)) == "starting"


def test_the_badge_names_the_worst_first() -> None:
    """Flags before failures before findings, but what is critical before a flag that can wait. A silenced finding asks
    for nothing.
    """
    critical = structs.replace(KL_FINDING, id="n", rule="nan", severity="critical")
    silenced = structs.replace(KL_FINDING, state="silenced")
    assert run_status.badge(a_run("a", flags=("unkillable",), findings=(critical,)))[0] == "▲ unkillable"
    assert run_status.badge(a_run("a", flags=("keeperless",), findings=(critical,)))[0] == "◆ NaN"
    assert run_status.badge(a_run("a", flags=("keeperless", "silent"), findings=(critical,)))[0] == "▲ silent"
    assert run_status.badge(a_run("a", flags=("keeperless",), findings=(KL_FINDING,)))[0] == "▲ keeperless"
    assert run_status.badge(ENDED[1])[0] == "▲ nan"
    assert run_status.badge(a_run("a", findings=(KL_FINDING, critical)))[0] == "◆2 NaN"
    assert run_status.badge(a_run("a", findings=(silenced,)))[0] == "ok"


@pytest.mark.parametrize("rule", Limits.__struct_encode_fields__)
def test_what_is_wrong_is_whole_in_the_list_on_80_columns(rule: str) -> None:
    """With how many findings ask for action; `health` has 13 cells there, after a blank."""
    found = (structs.replace(KL_FINDING, rule=rule), structs.replace(KL_FINDING, id="other", severity="info"))
    assert len(run_status.badge(a_run("a", findings=(found[0], *found)))[0]) <= 13


def test_a_slow_start_names_the_environment_once_the_trainer_speaks() -> None:
    """Before that it imports; after it something of the user's is in the way."""
    silent, speaks = (a_run("a", flags=("slow-start",), connected=it, env_id="Walk-v0") for it in (False, True))
    assert flag_sentences(silent) == [FLAG_SENTENCES["slow-start"]]
    assert "making, resetting or stepping Walk-v0 may block; l shows" in flag_sentences(speaks)[0]


async def test_what_a_flag_means_is_said_where_it_stands() -> None:
    """Below the list, above every tab of the run, and in the help; of the others the cause says it."""
    told = {"foreign", "failed-duty", "out-of-sight", "outlived"}
    assert set(FLAG_SENTENCES) == set(get_args(RunFlag)) - told
    async with staged(a_fleet((a_run("lonely", flags=("keeperless",)),))) as stage:
        await stage.shows("▲ its keeper is gone: it trains on")
        await stage.press("enter", "h")
        await stage.shows("ok: no rule has anything to say")
        await stage.shows("▲ its keeper is gone: it trains on")
        await stage.press("question_mark", "end", "pageup", "pageup")
        await stage.shows("keeperless")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
async def test_a_run_is_named_with_its_health_in_any_width(width: int) -> None:
    """A long name is cut, and the pace is left out, before the health is."""
    view = a_run("a-name-that-goes-on-and-on-and-never-ends-3", flags=("keeperless",))
    async with staged(a_fleet((view,)), size=(width, 24)) as stage:
        await stage.press("enter")
        await stage.shows("health")
        head = stage.lines()[1]
        assert "▲ keeperless" in head
        assert head.startswith(" a-")
        assert "42%" in head


def test_a_run_that_stands_still_is_not_ok_before_a_rule_says_so() -> None:
    """It always chooses the same action and gained nothing: `stuck`; a policy that was decided by learning is `ok`,
    also in a run that began with its checkpoint.
    """
    never = Course(1, *[tuple(-1.66 + 0.01 * (at % 3) for at in range(25))] * 2)
    lost = Course(1, *[(*(0.4 * at for at in range(15)), *[0.1] * 10)] * 2)
    learned = Course(1, *[tuple(min(6.4, 0.4 * at) for at in range(25))] * 2)

    def said(course: Course, best: float, entropy: float = 1e-9, **facts: Any) -> str:
        metrics = {"policy/entropy_ratio": entropy, "rollout/ep_len_mean": 100.0}
        view = a_run("a", update=25, course=course, best=ValueAtUpdate(best, 20, 81920), metrics=metrics, **facts)
        return run_status.badge(view)[0]

    assert said(never, -1.64) == "stuck"
    assert said(lost, 5.6) == "stuck"
    assert said(learned, 6.4) == said(never, -1.64, entropy=0.5) == "ok"
    assert said(never, -1.64, findings=(KL_FINDING,)) == "▲ KL"
    assert (
        said(never, -1.64, goal=GoalView(of="return", value=-2.0, source="run.goal", reached=ValueAtUpdate(-1.7, 1, 1)))
        == "ok"
    )
    unmoved = {"rollout/ep_rew_mean": (), "train/approx_kl": (0.0,) * 8}
    assert said(never, -1.64, entropy=0.5, series=unmoved) == "stuck"
    trial = Origin("trial", "a-0001", "a")
    assert said(never, -1.64, origins=(trial,)) == "stuck"
    assert said(never, -1.64, origins=(structs.replace(trial, checkpoint="000002048"),)) == "ok"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"update": 2, "phase_t": NOW - 130.0}, "hangs?"),
        ({"update": 1, "phase_t": NOW - 110.0}, "ok"),
        ({"update": 1, "phase_t": NOW - 130.0, "rollout_s": 20.0}, "ok"),
        ({"update": 1, "phase_t": NOW - 230.0, "rollout_s": 20.0}, "hangs?"),
        ({"update": 3, "phase_t": NOW - 30.0}, "hangs?"),
        ({"update": 3, "phase_t": NOW - 30.0, "findings": (KL_FINDING,)}, "hangs?"),
        ({"update": 3, "phase_t": NOW - 15.0}, "ok"),
        ({"update": 3, "phase_t": NOW - 30.0, "rollout_s": 5.0}, "ok"),
        ({"update": 3, "phase_t": NOW - 30.0, "env_id": ""}, "ok"),
        ({"update": 1, "phase_t": NOW - 130.0, "phase": "paused", "state": "paused"}, "ok"),
        ({"update": None, "phase_t": NOW - 130.0}, "-"),
    ],
)
def test_a_run_whose_rollout_goes_on_for_unusually_long_is_not_ok(facts: dict[str, Any], said: str) -> None:
    """The rule of hangs waits for minutes; before the first update nothing is `ok`, and a command may be silent."""
    assert run_status.badge(a_run("a", **facts))[0] == said


def test_a_run_that_may_hang_says_for_how_long_in_its_pane_and_its_row_is_drawn_again() -> None:
    """Only its heartbeat changes, which neither shows of others."""
    view = a_run("a", update=30, phase_t=NOW - 34.0)
    assert "▲ this rollout has gone on for 34s, the one before took 0.41s" in inside(view, 80, NOW)[-1].text
    assert row_fingerprint(view) != row_fingerprint(structs.replace(view, heartbeat_t=NOW + 1.0))
    calm = a_run("a", update=30, phase_t=NOW - 4.0)
    assert row_fingerprint(calm) == row_fingerprint(structs.replace(calm, heartbeat_t=NOW + 1.0))


def test_a_failed_duty_shows_and_hides_nothing_graver() -> None:
    """A run whose messenger or retention failed says so where nothing is worse."""
    failed: dict[str, Any] = {"flags": ("failed-duty",), "failed_duties": (FailedDuty("retention", "EIO", NOW, NOW),)}
    assert run_status.badge(a_run("a", **failed)) == ("▲ retention failed", colours.WARN)
    critical = structs.replace(KL_FINDING, id="n", rule="nan", severity="critical")
    assert run_status.badge(a_run("a", findings=(critical,), **failed))[0] == "◆ NaN"
    assert run_status.badge(a_run("a", **failed | {"flags": ("damaged", "failed-duty")}))[0] == "▲ damaged"


def test_an_acknowledged_finding_is_dim_and_not_counted() -> None:
    """It stands in brackets while nothing else is open, and beside an open one it says nothing."""
    known = structs.replace(KL_FINDING, id="k", state="acknowledged")
    assert run_status.badge(a_run("a", findings=(known,))) == ("(KL)", colours.QUIET)
    other = structs.replace(KL_FINDING, id="p", rule="plateau")
    assert run_status.badge(a_run("a", findings=(known, other)))[0] == "▲ plateau"


def test_information_leaves_the_run_ok() -> None:
    """It gets a dot: no flag, no count, no number at the tab, nothing that came while away; what asks stays first."""
    info = structs.replace(KL_FINDING, id="p", rule="resume-probe", severity="info")
    told = a_run("a", findings=(info,))
    assert run_status.badge(told) == ("ok ·", colours.GOOD)
    assert run_status.open_findings(told) == (info,)
    assert run_status.badge(a_run("a", findings=(info, KL_FINDING)))[0] == "▲ KL"
    assert "health 1" not in tab_line(told, "learn", 80, focused=False).text
    assert "health 1" in tab_line(a_run("a", findings=(info, KL_FINDING)), "learn", 80, focused=False).text
    fleet = structs.replace(a_fleet(), runs=(told,))
    assert while_away(fleet, 1.0, NOW) is None


def test_what_a_change_brought_about_stands_before_a_later_finding_as_grave() -> None:
    """Its remedy undoes the cause; that of the later one might keep it."""
    story = structs.replace(KL_FINDING, id="c", rule="after-change", undo="back", last_update=1)
    later = structs.replace(KL_FINDING, id="k", last_update=900)
    assert run_status.alarms(a_run("a", findings=(story, later))) == (story, later)
    grave = structs.replace(later, severity="critical")
    assert run_status.alarms(a_run("a", findings=(story, grave))) == (grave, story)


def test_a_policy_that_no_longer_moves_is_not_ok() -> None:
    """The finding only informs, because a solved task looks the same; without a goal that was reached nobody knows.
    It is not called frozen beside the state of that name, which processes are in.
    """
    still = structs.replace(KL_FINDING, rule="policy-frozen", severity="info")
    assert run_status.badge(a_run("a", goal=None, findings=(still,))) == ("unmoved", colours.INK)
    goal = GoalView(of="return", value=475.0, source="run.goal", reached=ValueAtUpdate(480.0, 1, 1))
    assert run_status.badge(a_run("a", goal=goal, findings=(still,)))[0] == "ok ·"


def test_returns_of_six_digits_are_whole_on_a_pane() -> None:
    """Neither beside the chart nor at its axis a figure loses its end: -123,456 is not -123,45."""
    deep = Course(1, (-200_000.0, -123_456.0), (-200_000.0, -123_456.0))
    run = a_run("deep-1", course=deep, metrics={RETURN: -123_456.0}, best=ValueAtUpdate(-123_456.0, 2, 200))
    said = "\n".join(strip.text for strip in inside(run, 80, NOW))
    assert said.count("-123k") >= 2
    assert "-123," not in said
    assert "-200," not in said


def test_information_gives_way_to_why_a_run_stands_still() -> None:
    """The pane of a frozen run says what is held, whatever a rule has to tell."""
    info = structs.replace(KL_FINDING, id="p", rule="resume-probe", severity="info", sentence="resumed as it was")
    held = a_run("a", state="frozen", cause="frozen: 1.0 GiB of memory stays held", findings=(info,))
    said = "\n".join(strip.text for strip in inside(held, 80, NOW))
    assert "stays held" in said
    assert "resumed as it was" not in said


@pytest.mark.parametrize("view", [*LIVE, *ENDED], ids=lambda view: view.name)
def test_what_is_not_seen_of_a_run_changes_no_pane_and_no_line(view: RunView) -> None:
    """Views that differ in nothing else are not drawn again, so that nothing may be drawn from it."""
    panes = [framed(it, inside(it, 60, NOW), 60, chosen=False, marked=True) for it in (view, row_fingerprint(view))]
    assert panes[0] == panes[1]
    cells = [[column.cell(it, NOW, 20) for column in COLUMNS] for it in (view, row_fingerprint(view))]
    assert cells[0] == cells[1]


def test_the_phase_is_not_within_the_frame_of_a_pane() -> None:
    """It changes with every rollout, and what is within is made anew with every update only."""
    phases = (None, "rollout", "update", "saving")
    bodies = [inside(structs.replace(view, phase=phase), 60, NOW) for view in LIVE[:1] for phase in phases]
    assert all(body == bodies[0] for body in bodies)


def test_a_finding_says_when_it_began_and_how_long_it_lasted(utc: None) -> None:
    """With the time of day where it is known, with the date where that was long ago, else by updates alone."""
    assert run_status.finding_span(KL_FINDING, NOW) == "since update 1,204"
    assert run_status.finding_span(NAN_FINDING, NOW) == "since 11:05, update 1,398"
    assert run_status.finding_span(NAN_FINDING, NOW + 86_400) == "since 18 Nov 11:05, update 1,398"
    assert run_status.finding_span(ENTROPY_FINDING, NOW) == "08:36-08:41, updates 310-342"


def test_nobody_knows_the_health_of_a_run_without_updates() -> None:
    """A waiting run says what it waits for, a young one nothing."""
    assert run_status.badge(queued("a"))[0] == "needs 3.1G"
    assert run_status.badge(structs.replace(queued("a"), cause="waits for 689 MiB of memory"))[0] == "689 MiB of memory"
    assert run_status.badge(structs.replace(queued("a"), cause="waits behind b"))[0] == "behind b"
    elsewhere = a_run("a", state="starting", update=None, cause="waits: PartitionConfig: no node has what it asks for")
    assert run_status.badge(elsewhere)[0] == "PartitionConfig: no node has what it asks for"
    assert run_status.badge(a_run("a", update=None))[0] == "-"


def test_only_a_run_that_trains_has_a_pace() -> None:
    """The newest row of one that starts again, stands or ended says how fast it was."""
    paces = {state: a_run("a", state=state, steps_per_s=5.0).pace for state in get_args(RunState)}
    assert {state for state, pace in paces.items() if pace == 5.0} == {"running", "stopping"}
    assert set(paces.values()) == {5.0, None}


def test_a_run_that_waits_for_its_restart_says_why_and_what_can_be_done() -> None:
    """The cause first, then when, then the keys."""
    run = a_run("a", state="queued", outcome="failed", cause="ended by SIGSEGV", restart=Restart(NOW + 20, 2, 3))
    assert run_status.headline(run, NOW) == "ended by SIGSEGV; restarts in 20s (2 of 3): r starts it now, s cancels it"
    after = structs.replace(run, cause="the machine was restarted", restart=Restart(NOW, 1, 3, "reboot"))
    assert run_status.headline(after, NOW) == "the machine was restarted; resumes by itself (1 of 3): s cancels it"
    asked = structs.replace(run, cause="waits for its group: b is live", restart=Restart(NOW, 0, 0, "request"))
    assert run_status.headline(asked, NOW) == "waits for its group: b is live; s cancels it"
    assert state_word(asked) == "queued"
    assert run_status.headline(run, NOW + 21) == "ended by SIGSEGV; its restart (2 of 3) is due: s cancels it"


def test_what_a_reboot_ended_says_what_r_does() -> None:
    """From which checkpoint it goes on; that nothing was saved; of a command that it begins again."""
    lost = ended("a", 5, "lost", rebooted=True, last_checkpoint="000001024", cause="the machine was restarted")
    assert run_status.headline(lost, NOW) == "lost in the reboot; r resumes from 000001024; 5m ago"
    bare = structs.replace(lost, last_checkpoint=None)
    assert run_status.headline(bare, NOW) == "lost in the reboot; nothing was saved; 5m ago"
    command = structs.replace(bare, can=("freeze",))
    assert run_status.headline(command, NOW) == "lost in the reboot; r starts it again; 5m ago"


def test_a_frozen_run_says_what_it_holds() -> None:
    """Memory, and on the GPU in bytes where they are known."""

    def badge(held: HeldResources) -> str:
        return run_status.badge(a_run("a", state="frozen", held=held))[0]

    assert badge(HeldResources(1 << 30)) == "holds 1.0G"
    assert badge(HeldResources(1 << 30, gpu=True)) == "holds 1.0G+GPU"
    assert badge(HeldResources(1 << 30, gpu=True, vram_bytes=3 << 30)) == "holds 1.0G+3.0G"


def test_the_share_done_is_of_steps_or_of_time() -> None:
    """A run with a duration has used what it trained, whatever the clock says; one with neither has no share."""
    assert share_done(a_run("a", timesteps=5, total_timesteps=20)) == 0.25
    timed = a_run("a", total_timesteps=None, duration_s=100.0, trained_s=40.0, started_t=NOW - 90)
    assert share_done(timed) == 0.4
    over = structs.replace(timed, state="ended", outcome="finished", trained_s=99.0)
    assert share_done(over) == 1.0
    assert share_done(a_run("a", total_timesteps=None)) is None


def test_steps_are_said_of_what_counts_them() -> None:
    """`5/20`; without a budget in steps what was trained, and of a command that counts none nothing."""
    assert run_status.steps_words(a_run("a", timesteps=5, total_timesteps=20)) == "5/20"
    assert run_status.steps_words(a_run("a", timesteps=5, total_timesteps=None)) == "5"
    assert run_status.steps_words(a_run("a", timesteps=None, total_timesteps=None)) == ""


def test_an_ended_run_says_what_happened_and_what_is_left() -> None:
    """One sentence with outcome, kind, cause, age, length and last checkpoint."""
    said = run_status.headline(ended("a", 5, "failed", kind="oom", cause="out of memory", last_checkpoint=None), NOW)
    assert said == "failed (oom): out of memory; 5m ago after 11m40; no checkpoint"


def test_of_a_long_cause_the_end_is_left_out() -> None:
    """Not what one asks next: how long ago, and which checkpoint there is. What is whole is left as it is."""
    cause = "an environment raised ValueError: " + "lost contact with the robot arm " * 9
    view = ended("a", 5, "failed", kind="env", cause=cause, last_checkpoint="000002816")
    lines = run_status.headline_lines(view, NOW, 76, 3)
    said = " ".join(lines)
    assert len(lines) == 3
    assert max(map(len, lines)) <= 76
    assert said.startswith("failed (env): an environment raised ValueError: lost contact")
    assert said.endswith("…; 5m ago after 11m40; last checkpoint 000002816")
    assert " ".join(run_status.headline_lines(view, NOW, 76, 9)) == run_status.headline(view, NOW).replace("  ", " ")
    assert run_status.headline_lines(structs.replace(view, cause=""), NOW, 12, 2)[-1].endswith("…")


def test_what_is_over_is_not_slow() -> None:
    """A finding about its process says nothing of a finished run that could be mended; one about learning does."""
    slow = structs.replace(KL_FINDING, rule="throughput")
    assert run_status.badge(a_run("quick", findings=(slow,)))[0] == "▲ slow"
    done = ended("quick", 5, findings=(slow,))
    assert run_status.badge(done)[0] == "ok ·"
    assert run_status.headline_finding(done) is None
    assert run_status.badge(ended("quick", 5, findings=(slow, KL_FINDING)))[0] == "▲ KL"


def test_a_run_that_parks_says_so() -> None:
    """`stopping` would be for good."""
    assert state_word(structs.replace(LIVE[0], state="stopping", parking=True)) == "parking"
