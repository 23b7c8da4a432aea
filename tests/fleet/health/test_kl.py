"""`kl-persistent`: enters at 5 of 8, leaves after 8 calm updates, critical only while the return does not improve."""

from __future__ import annotations

import msgspec
import pytest

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import Episodes, Metric, TrainingStarted, UpdateDone
from mission_tui.fleet.health import judge_of
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Schedule, Spec
from tests.fleet.recorded import SPEC, update

HARD = Spec(preset="hard", env=EnvSpec(id="X"), ppo=PpoSpec(n_steps=2048, batch_size=1024, n_epochs=20))
"""16 minibatches x 20 epochs = 320 gradient steps x 3e-4: 24 times the reference."""


def judged(rows: list[UpdateDone], spec: Spec = HARD) -> list[Finding]:
    """Every change that judging `rows` in order brings."""
    judge = judge_of(spec)
    return [finding for row in rows for finding in judge.update(row)]


def rows(*us: float, clip: float = 0.2, ret: float | None = None, start: int = 1, attempt: int = 1) -> list[UpdateDone]:
    """Updates with these values of u."""
    tags: dict[str, Metric] = {} if ret is None else {"rollout/ep_rew_mean": ret}
    return [
        update(number, attempt=attempt, approx_kl=u * clip * clip / 2, clip_range=clip, tags=tags)
        for number, u in enumerate(us, start)
    ]


def test_a_healthy_run_has_no_finding() -> None:
    """u up to the limit, with single spikes far beyond it, is ordinary to this rule."""
    changes = judged(rows(*[0.4, 1.9, 1.2, 30.0, 0.7, 2.0, 40.0, 1.1] * 50))
    assert [finding for finding in changes if finding.rule == "kl-persistent"] == []


def test_five_of_eight_open_one_incident() -> None:
    """The fifth update over the limit opens it, as a warning once the first updates are over; then nothing is added."""
    changes = judged(rows(1.0, 2.1, 2.1, 1.0, 2.1, 2.1, 2.1, *[2.5] * 100))
    assert [(finding.severity, finding.last_update, finding.state) for finding in changes] == [
        ("info", 7, "open"),
        ("warning", 100, "open"),
    ]
    finding = changes[0]
    assert (finding.id, finding.rule) == ("kl-persistent-1-7", "kl-persistent")
    assert finding.sentence == "5 of the updates 2-7 changed the policy too much: more than 2 x the safe KL"
    assert [line["u"] for line in finding.evidence] == [1.0, 2.1, 2.1, 1.0, 2.1, 2.1, 2.1]


def test_a_return_that_stops_improving_later_is_told_as_it_is() -> None:
    """Entered while the return rose, critical once it is lost: the sentence does not count updates that are over."""
    lines = [
        update(n, approx_kl=0.02 * (5.0 if n < 20 else 3.0), clip_range=0.2, ret=float(n if n < 21 else max(0, 41 - n)))
        for n in range(1, 70)
    ]
    finding = judged(lines)[-1]
    assert (finding.rule, finding.severity) == ("kl-persistent", "critical")
    assert finding.sentence == (
        "updates 1-19 changed the policy too much: more than 4 x the safe KL; those since still 3 x at the median, "
        "and the return is not improving"
    )


def test_it_clears_only_after_a_full_window_of_calm() -> None:
    """Between the limits nothing changes; seven calm updates are not enough, the eighth clears."""
    hot = [3.0] * 8
    assert len(judged(rows(*hot, *[1.9] * 50))) == 1
    assert len(judged(rows(*hot, *[1.4] * 7, 1.6, *[1.4] * 7))) == 1
    changes = judged(rows(*hot, *[1.4] * 8))
    assert [(finding.state, finding.first_update, finding.last_update) for finding in changes] == [
        ("open", 5, 5),
        ("cleared", 5, 16),
    ]


@pytest.mark.parametrize(("clip", "alarm"), [(0.2, False), (0.1, True), (0.05, True), (0.001, True)])
def test_the_current_clip_range_is_the_measure(clip: float, alarm: bool) -> None:
    """KL 0.02 is ordinary at clip 0.2 and persistent at 0.1; below 0.05 the floor counts."""
    changes = judged([update(number, approx_kl=0.02, clip_range=clip) for number in range(1, 9)])
    assert bool(changes) is alarm


def test_a_clip_range_that_decays_is_measured_by_its_start() -> None:
    """Steps of one size are no more pressure because the range around them shrinks; larger ones still are."""
    spec = change(SPEC, ["ppo.clip_range={ start = 0.2, end = 0.0 }"])
    decaying = [(n, 0.2 * (1.0 - n / 300)) for n in range(1, 300)]
    assert judged([update(n, approx_kl=0.02, clip_range=clip) for n, clip in decaying], spec) == []
    assert judged([update(n, approx_kl=0.1, clip_range=clip) for n, clip in decaying], spec) != []


def test_the_floor_of_the_clip_range() -> None:
    """A clip range annealed to nothing does not make every KL infinite: u = 2 at KL 0.0025 and below."""
    assert judged([update(number, approx_kl=0.0024, clip_range=1e-9) for number in range(1, 20)]) == []


def test_blank_rows_are_passed_over() -> None:
    """An update without a KL is neither calm nor hot."""
    hot, blank = rows(3.0)[0], update(1)
    mixed = [hot, blank, hot, blank, hot, blank, hot, blank, blank, hot]
    numbered = [
        msgspec.structs.replace(row, update=number, seq=number + 1) for number, row in enumerate(mixed, start=1)
    ]
    assert [finding.first_update for finding in judged(numbered)] == [10]


def test_critical_only_while_the_return_does_not_improve() -> None:
    """u far beyond the limit informs while the return rises, is a warning while it stays, critical once it falls."""
    rising = [update(n, approx_kl=0.2 if n > 9 else 0.0, clip_range=0.2, ret=float(n)) for n in range(1, 60)]
    assert [finding.severity for finding in judged(rising)] == ["info"]
    flat = [update(n, approx_kl=0.2, clip_range=0.2, ret=60.0) for n in range(60, 120)]
    fallen = [update(n, approx_kl=0.2, clip_range=0.2, ret=10.0) for n in range(120, 180)]
    changes = [finding for finding in judged(rising + flat + fallen) if finding.rule == "kl-persistent"]
    assert [(finding.id, finding.severity) for finding in changes] == [
        ("kl-persistent-1-14", "info"),
        ("kl-persistent-1-14", "warning"),
        ("kl-persistent-1-14", "critical"),
    ]
    assert changes[2].sentence.endswith("and the return is not improving")


def test_a_return_that_holds_still_at_its_best_is_no_trouble() -> None:
    """Updates of 25 times the safe KL in a mission that is always won; once the return sways, they are a warning."""
    won = [min(13.5, 0.3 * n) for n in range(1, 201)]
    lines = [update(n, approx_kl=0.5, clip_range=0.2, ret=ret) for n, ret in enumerate(won, 1)]
    assert {finding.severity for finding in judged(lines)} == {"info"}
    sway = [update(n, approx_kl=0.5, clip_range=0.2, ret=13.5 - 2.0 * (n % 2)) for n in range(201, 241)]
    assert judged([*lines, *sway])[-1].severity == "warning"


@pytest.mark.parametrize(("threshold", "severities"), [(90.0, {"info"}), (200.0, {"info", "warning"})])
def test_a_task_that_is_solved_at_once_has_no_way_up_by_which_to_tell_its_best(
    threshold: float, severities: set[str]
) -> None:
    """Updates of 3 times the safe KL at a return of 92 from the first on, by what the environment calls solved."""
    judge = judge_of(HARD)
    judge.started(TrainingStarted(seq=1, attempt=1, t=1.0, reward_threshold=threshold))
    sway = [update(n, approx_kl=0.06, clip_range=0.2, ret=92.0 + (n % 3)) for n in range(1, 150)]
    assert {finding.severity for line in sway for finding in judge.update(line)} == severities


def test_a_mean_of_old_episodes_excuses_nothing_once_the_newest_have_fallen() -> None:
    """An episode an update: their mean rises on for fifty updates after the policy is lost, large steps and all."""
    course = [float(min(n, 100)) for n in range(120)] + [0.0] * 40
    lines = []
    for n, value in enumerate(course, start=1):
        mean = sum(course[max(0, n - 100) : n]) / min(n, 100)
        line = update(n, approx_kl=0.06 if n > 60 else 0.01, clip_range=0.2, ret=mean)
        lines.append(msgspec.structs.replace(line, episodes=Episodes(n=1, r=(value,), l=(1000,))))
    said = [(finding.severity, finding.last_update) for finding in judged(lines) if finding.rule == "kl-persistent"]
    assert [severity for severity, _ in said] == ["info", "warning"]
    assert 120 + 8 < said[1][1] < 120 + 20
    without = [msgspec.structs.replace(line, episodes=Episodes()) for line in lines[:150]]
    assert [finding.severity for finding in judged(without) if finding.rule == "kl-persistent"] == ["info"]


def test_a_critical_incident_calms_down_before_it_clears() -> None:
    """Critical, then less once u has been below 2.5 for a window, then cleared: one incident throughout."""
    hot = rows(*[6.0] * 20, ret=1.0)
    warm = rows(*[2.2] * 12, ret=1.0, start=21)
    calm = rows(*[0.5] * 8, ret=1.0, start=33)
    changes = judged(hot + warm + calm)
    assert [(finding.severity, finding.state) for finding in changes] == [
        ("info", "open"),
        ("warning", "open"),
        ("critical", "open"),
        ("info", "open"),
        ("info", "cleared"),
    ]
    assert len({finding.id for finding in changes}) == 1


def test_without_returns_nothing_is_critical() -> None:
    """Unknown is not the same as not improving."""
    assert [finding.severity for finding in judged(rows(*[9.0] * 50))] == ["info", "warning"]


def test_the_first_updates_of_a_training_may_go_far() -> None:
    """Healthy ones do for a while: a warning is of all of a window there, and of the usual share after a resume."""
    mixed = [5.0, 5.0, 5.0, 3.0] * 6
    assert [finding.severity for finding in judged(rows(*mixed))] == ["info"]
    assert [finding.severity for finding in judged(rows(*mixed, start=101))] == ["info", "warning"]


def test_cause_is_computed_from_the_settings_of_the_run() -> None:
    """Gradient steps, learning rate and their multiple of the reference are this run's own."""
    finding = judged(rows(*[3.0] * 8))[0]
    assert finding.cause == "320 gradient steps x 0.0003 per update is 24 x the reference (16 x 0.00025)"


def test_ordinary_pressure_points_elsewhere() -> None:
    """When the update is not worked hard, the cause says where else to look."""
    finding = judged(rows(*[3.0] * 8), SPEC)[0]
    assert finding.cause.startswith("16 gradient steps x 0.0003 per update is 1.2 x the reference")
    assert "check for a small batch" in finding.cause


LINEAR = Schedule(start=3e-4, end=1e-5)


@pytest.mark.parametrize(
    ("ppo", "assignment"),
    [
        (PpoSpec(batch_size=256, n_epochs=20), "ppo.target_kl=0.03"),
        (PpoSpec(batch_size=256, n_epochs=20, target_kl=0.05), "ppo.n_epochs=10"),
        (PpoSpec(batch_size=256, n_epochs=20, learning_rate=0.05), "ppo.learning_rate=1.3e-05"),
        (PpoSpec(batch_size=2048, n_epochs=4), "ppo.target_kl=0.03"),
        (PpoSpec(batch_size=2048, n_epochs=4, target_kl=0.05), "ppo.learning_rate=0.00015"),
        (
            PpoSpec(batch_size=2048, n_epochs=4, target_kl=0.05, learning_rate=LINEAR),
            'ppo.learning_rate={ start = 0.00015, end = 5e-06, kind = "linear" }',
        ),
    ],
)
def test_advice_is_an_assignment_that_resume_takes(ppo: PpoSpec, assignment: str) -> None:
    """The one advice fits what the run has not tried yet, and `--set` understands it."""
    spec = Spec(preset="p", env=EnvSpec(id="X"), ppo=ppo, run=RunSpec(total_timesteps=100_000))
    finding = judged(rows(*[3.0] * 8), spec)[0]
    assert finding.advice_set == (assignment,)
    assert change(spec, finding.advice_set) != spec


def test_updates_cut_short_by_target_kl_count() -> None:
    """Where `target_kl` ends updates in their first quarter the KL looks small; ending so early is the sign."""
    spec = Spec(preset="p", env=EnvSpec(id="X"), ppo=PpoSpec(n_epochs=8, target_kl=0.01))
    short = [update(n, approx_kl=0.015, clip_range=0.2, n_epochs_done=2.0) for n in range(1, 109)]
    longer = [update(n, approx_kl=0.015, clip_range=0.2, n_epochs_done=2.5) for n in range(1, 109)]
    assert [finding.severity for finding in judged(short, spec)] == ["info", "warning"]
    assert judged(longer, spec) == []


def test_a_new_attempt_is_a_break() -> None:
    """On resume what is open is over, and four hot updates of the new attempt do not add to those before."""
    changes = judged(rows(*[3.0] * 8) + rows(*[3.0] * 4, start=5, attempt=2))
    assert [(finding.id, finding.state, finding.last_update) for finding in changes] == [
        ("kl-persistent-1-5", "open", 5),
        ("kl-persistent-1-5", "cleared", 8),
    ]
    more = judged(rows(*[3.0] * 8) + rows(*[3.0] * 5, start=5, attempt=2))
    assert (more[-1].id, more[-1].state) == ("kl-persistent-2-9", "open")


def test_a_target_kl_that_any_update_would_reach_says_nothing_of_how_far_they_go() -> None:
    """1e-5 is a two-thousandth of the safe KL at clip range 0.2: `policy-frozen` says that it holds the policy back."""
    spec = Spec(preset="p", env=EnvSpec(id="X"), ppo=PpoSpec(n_epochs=8, target_kl=1e-5))
    short = [update(n, approx_kl=1.6e-5, clip_range=0.2, n_epochs_done=0.5) for n in range(1, 9)]
    assert judged(short, spec) == []


def test_what_target_kl_cut_short_is_said_so() -> None:
    """The sentence counts early ends, since the KL that they left looks small."""
    spec = Spec(preset="p", env=EnvSpec(id="X"), ppo=PpoSpec(n_epochs=8, target_kl=0.01))
    short = [update(n, approx_kl=0.015, clip_range=0.2, n_epochs_done=2.0) for n in range(1, 9)]
    sentence = judged(short, spec)[0].sentence
    assert sentence.startswith("target_kl ended 5 of 5 updates within a quarter of their epochs")


@pytest.mark.parametrize(("clipped", "tags", "found"), [
    (0.08, {"train/std": 1.0}, False),
    (0.3, {"train/std": 1.0}, True),
    (0.08, {}, True),
    (None, {"train/std": 1.0}, True),
])  # fmt: skip
def test_a_kl_that_few_transitions_make_is_not_the_whole_policys(
    clipped: float | None, tags: dict[str, Metric], found: bool
) -> None:
    """Of continuous actions: at a KL of 0.06 a normal spread has 56 % outside a clip range of 0.2, not 8 %."""
    share: dict[str, Metric] = {} if clipped is None else {"train/clip_fraction": clipped}
    lines = [
        update(
            n, approx_kl=0.06 if n > 40 else 0.005, clip_range=0.2, tags={"rollout/ep_rew_mean": 1.0, **tags, **share}
        )
        for n in range(1, 80)
    ]
    assert any(finding.rule == "kl-persistent" for finding in judged(lines)) == found
