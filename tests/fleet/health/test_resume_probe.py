"""`resume-probe`: what a resumed training is compared with, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest
from msgspec import structs

from mission_tui.fleet.events.metrics import Episodes, Metric, PolicyStep, Resumed, TrainingStarted, UpdateDone
from mission_tui.fleet.health import judge_of
from mission_tui.fleet.health.judge import HealthJudge
from mission_tui.fleet.health.replay import replay
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.preset import change
from tests.fleet.resuming import WAS

AS_BEFORE = Resumed(
    mean_before=100.0, std_before=20.0, episodes_before=100, entropy_before=-0.5, mean=98.0, std=20.0, episodes=16
)


def started(resumed: Resumed | None) -> TrainingStarted:
    """Attempt 2 goes on after update 10."""
    return TrainingStarted(1, 2, 1000.0, 10, 2560, checkpoint="000002560", resumed=resumed)


def updates(count: int = 25, first: Mapping[str, float] = MappingProxyType({})) -> list[UpdateDone]:
    """Healthy updates after the resume; `first` are metrics (by their last word) of the first one."""
    usual: dict[str, Metric] = {
        "train/approx_kl": 0.01,
        "train/clip_fraction": 0.1,
        "train/ratio_first": 1e-7,
        "train/entropy_loss": -0.5,
    }
    odd: dict[str, Metric] = {f"train/{name}": value for name, value in first.items()}
    return [
        UpdateDone(
            1 + at,
            2,
            10 + at,
            2560 + 256 * at,
            1000.0 + at,
            0.5,
            0.5,
            256.0,
            metrics=dict(usual | (odd if at == 1 else {})),
            episodes=Episodes(n=2),
        )
        for at in range(1, count + 1)
    ]


def probed(resumed: Resumed | None, rows: list[UpdateDone]) -> list[tuple[str, str, str]]:
    """Each change of the probe's finding: severity, state, sentence."""
    judge: HealthJudge = judge_of(WAS)
    changed = judge.feed(started(resumed))
    for row in rows:
        changed += judge.feed(row)
    return [(it.severity, it.state, it.sentence) for it in changed if it.rule == "resume-probe"]


def test_a_run_that_is_as_it_was_says_so_and_is_done() -> None:
    """Information with the numbers from the first update on, over after twenty."""
    opened, over = probed(AS_BEFORE, updates())
    assert opened[:2] == ("info", "open")
    assert (
        opened[2] == "resumed, as good as before: return 98 (100 before); entropy 0.5 (0.5); first ratio off 1 by 1e-7"
    )
    assert over[1] == "cleared"
    assert len(probed(AS_BEFORE, updates(20))) == 1


def test_a_fresh_run_is_not_probed() -> None:
    """Nothing is said of an attempt that begins from nothing."""
    assert probed(None, updates()) == []


@pytest.mark.parametrize(
    ("resumed", "first", "said"),
    [
        (structs.replace(AS_BEFORE, mean=70.0), {}, "return 70 over 16 episodes against 100 recorded"),
        (AS_BEFORE, {"ratio_first": 0.2}, "first minibatch are 0.2 away from 1"),
        (AS_BEFORE, {"entropy_loss": -0.1}, "entropy 0.1, and 0.5 before the checkpoint"),
    ],
)
def test_what_is_off_is_a_warning(resumed: Resumed, first: dict[str, float], said: str) -> None:
    """Return, ratio and entropy are each looked at on their own."""
    severity, state, sentence = probed(resumed, updates(first=first))[0]
    assert (severity, state) == ("warning", "open")
    assert said in sentence


@pytest.mark.parametrize(
    "resumed",
    [
        structs.replace(AS_BEFORE, mean=None, std=None, episodes=0),
        structs.replace(AS_BEFORE, mean=130.0),
        structs.replace(AS_BEFORE, mean="nan"),
        structs.replace(AS_BEFORE, mean=90.0),
        Resumed(exact=True),
    ],
)
def test_what_is_not_known_or_not_worse_is_no_trouble(resumed: Resumed) -> None:
    """A probe that gave up, a better return, one within three standard errors, an exact resume."""
    told = probed(resumed, updates())
    assert [severity for severity, *_ in told] == ["info", "info"]
    words = "resumed exactly where it was" if resumed.exact else "resumed, as good as before"
    assert told[0][2].startswith(words) is (resumed.mean is not None or resumed.exact)


def test_episodes_that_happened_to_score_alike_are_no_sure_sign() -> None:
    """Sixteen of a policy that wins sometimes may all be losses, whose small spread is not that of its returns."""
    rare = structs.replace(AS_BEFORE, mean_before=2.48, std_before=3.03, mean=1.24, std=0.85)
    assert [severity for severity, *_ in probed(rare, updates())] == ["info", "info"]
    worse = structs.replace(rare, mean=0.0, std=0.85)
    assert probed(worse, updates())[0][0] == "warning"


def test_the_first_updates_have_tighter_limits() -> None:
    """Three of five far updates are enough here; after twenty they are left to the rules of every update."""
    far = [structs.replace(row, metrics=dict(row.metrics) | {"train/approx_kl": 0.05}) for row in updates(3)]
    (opened, worse) = probed(AS_BEFORE, far)
    assert (opened[0], worse[0]) == ("info", "warning")
    assert "3 of 3 updates after it moved the policy too far (u up to 2.5)" in worse[2]


def test_settings_that_came_with_the_resume_are_named_as_the_cause() -> None:
    """Steps go as far as other settings make them: nothing is wrong with the resume, nor with the checkpoint."""
    rate = Change("ppo.learning_rate", "0.0003", "0.003", "note", "steps are longer")
    causes = []
    for changes, first in (((rate,), {}), ((), {}), ((rate,), {"ratio_first": 0.2})):
        judge = judge_of(WAS)
        judge.resumed_with(changes)
        judge.feed(started(AS_BEFORE))
        for row in updates(4, first):
            judge.feed(structs.replace(row, metrics=dict(row.metrics) | {"train/approx_kl": 0.05}))
        (found,) = (it for it in judge.findings if it.rule == "resume-probe")
        causes.append(found.cause)
    said = "ppo.learning_rate: 0.0003 -> 0.003"
    assert causes[0].startswith(f"it was resumed with other settings, and steps go as far as these make them: {said}: ")
    assert causes[1].startswith("the checkpoint, and what changed with the resume: ")
    assert causes[2].startswith(f"the checkpoint, and what was changed with the resume ({said}): ")


def test_replay_gives_the_same_finding() -> None:
    """The records alone decide, so judging again finds what was found live."""
    rows = updates(5, {"ratio_first": 0.1})
    (found,) = (it for it in replay({2: WAS}, [started(AS_BEFORE), *rows], ()) if it.rule == "resume-probe")
    judge = judge_of(WAS)
    judge.feed(started(AS_BEFORE))
    for row in rows:
        judge.feed(row)
    assert found in judge.findings


def falling(episodes_of: Callable[[int], int]) -> set[str]:
    """The rules that speak of a return that rises for sixty updates and then falls to a tenth, as a mean of 100 can."""
    judge = judge_of(change(WAS, ["run.total_timesteps=100_000"]))
    judge.feed(started(AS_BEFORE))
    found: set[str] = set()
    for at, row in enumerate(updates(140)):
        mean = 100.0 + 3.0 * at + 2.0 * (at % 2) if at < 60 else max(28.0, 277.0 - 20.0 * (at - 59))
        metrics: dict[str, Metric] = dict(row.metrics) | {"rollout/ep_rew_mean": mean}
        told = structs.replace(row, metrics=metrics, episodes=Episodes(n=episodes_of(at)))
        found |= {it.rule for it in judge.feed(told)}
    return found - {"resume-probe"}


def test_rules_about_the_return_wait_for_a_refilled_window() -> None:
    """The same fall is trouble once 100 episodes of this attempt have ended, and nothing before that."""
    assert falling(lambda _: 3) >= {"drawdown"}
    assert falling(lambda at: at % 2) == set()


def far(kl: float, clipped: float) -> list[UpdateDone]:
    """Updates after the resume that go `kl` far, and of which `clipped` is clipped."""
    moved: dict[str, Metric] = {"train/approx_kl": kl, "train/clip_fraction": clipped, "train/clip_range": 0.2}
    return [structs.replace(row, metrics=dict(row.metrics) | moved) for row in updates()]


def growing(at: int) -> tuple[float, float]:
    """KL and share clipped of update `at` of a run that was stopped after update 90, as a real one on a GPU grew."""
    return 0.0275 + 0.0004 * (at - 70) + 0.0012 * (at % 3 - 1), 0.325 + 0.0012 * (at - 70) + 0.01 * (at % 3 - 1)


def test_a_run_that_moved_as_far_before_is_as_it_was() -> None:
    """Over a third was clipped before the stop too, and slowly more: that goes on, and is no warning."""
    before = tuple(PolicyStep(*growing(at), 0.2) for at in range(71, 91))
    rows = [row for at in range(91, 111) for row in far(*growing(at))[at - 91 : at - 90]]
    assert sum(share > 0.35 for share in (growing(at)[1] for at in range(91, 111))) > 10
    (told,) = probed(structs.replace(AS_BEFORE, steps_before=before), rows)
    assert told[0] == "info"
    (_, warned) = probed(AS_BEFORE, rows)  # a checkpoint of before they were recorded
    assert warned[0] == "warning"
    assert warned[2].endswith("updates after it moved the policy too far (up to 36% clipped)")


@pytest.mark.parametrize(
    ("kl", "clipped", "said"),
    [
        (0.07, 0.36, "(u up to 3.5, 1.8 before)"),
        (0.036, 0.47, "(up to 47% clipped, 36% before)"),
        (0.07, 0.5, "(u up to 3.5, 1.8 before; up to 50% clipped, 36% before)"),
    ],
)
def test_a_run_that_moves_farther_than_before_is_not_as_it_was(kl: float, clipped: float, said: str) -> None:
    """Its own steps of before allow half more of u, and of what is clipped as much as that u would clip."""
    before = (PolicyStep(0.036, 0.36, 0.2),) * 20
    _, (severity, _, sentence), *_ = probed(structs.replace(AS_BEFORE, steps_before=before), far(kl, clipped))
    assert severity == "warning"
    assert sentence == f"resumed, but not as it was: 3 of 3 updates after it moved the policy too far {said}"


def test_a_calm_run_is_held_to_the_usual_limits() -> None:
    """Small steps of before tighten nothing, and a single far one of them allows nothing."""
    calm = (PolicyStep(0.01, 0.1, 0.2),) * 19
    odd = structs.replace(AS_BEFORE, steps_before=(*calm, PolicyStep(0.2, 0.8, 0.2)))
    assert [severity for severity, *_ in probed(odd, far(0.038, 0.34))] == ["info", "info"]
    assert [severity for severity, *_ in probed(odd, far(0.042, 0.34))][:2] == ["info", "warning"]


def test_steps_before_are_measured_by_the_clip_range_of_then() -> None:
    """Half the clip range with the same steps: they now go four times as far by it."""
    before = structs.replace(AS_BEFORE, steps_before=(PolicyStep(0.03, 0.34, 0.2),) * 20)
    narrow = [structs.replace(row, metrics=dict(row.metrics) | {"train/clip_range": 0.1}) for row in far(0.03, 0.34)]
    assert "u up to 6, 1.5 before" in probed(before, narrow)[1][2]


def test_the_steps_of_an_exact_resume_are_those_of_the_run_that_never_stopped() -> None:
    """However far they go, the resume is not why."""
    told = probed(Resumed(exact=True), far(0.1, 0.6))
    assert [severity for severity, *_ in told] == ["info", "info"]


@pytest.mark.parametrize(("device", "said"), [("cuda", True), ("cpu", False), ("", False)])
def test_a_resume_on_a_gpu_says_why_it_is_not_called_exact(device: str, said: bool) -> None:
    """Unchanged settings on the same machine are not exact there, and a reader would wonder what else has changed."""
    judge = judge_of(WAS)
    judge.feed(structs.replace(started(AS_BEFORE), device=device))
    (told,) = judge.feed(updates(1)[0])
    assert told.cause.endswith("the next 20 updates have tighter limits")
    assert told.cause.startswith("no resume on cuda is called exact") is said
