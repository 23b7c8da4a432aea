"""`throughput`: a run is compared with itself, a phase is named, and company makes everything before incomparable."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs
from msgspec.structs import replace

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import Break
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.health import HealthJudge, judge_of
from mission_tui.fleet.health.settings import Settings, settings_of
from mission_tui.fleet.specs.thresholds import Limits
from tests.fleet.recorded import SPEC, STEPS

Seconds = tuple[float, float]
USUAL: Seconds = (0.75, 0.25)
SLOW_ROLLOUT: Seconds = (2.0, 0.25)
SLOW_UPDATE: Seconds = (0.75, 1.5)


def rows(phases: Sequence[Seconds], start: int = 1) -> list[UpdateDone]:
    """Updates whose rollout and update took these seconds; update n ends at 10 n."""
    made: list[UpdateDone] = []
    for number, (rollout_s, update_s) in enumerate(phases, start):
        seconds = rollout_s + update_s
        speed = STEPS / seconds if seconds else 0.0
        made.append(UpdateDone(number + 1, 1, number, number * STEPS, 10.0 * number, rollout_s, update_s, speed))
    return made


def judged(phases: Sequence[Seconds]) -> list[Finding]:
    """What judging updates of these seconds changes."""
    judge = judge_of(SPEC)
    return [finding for row in rows(phases) for finding in judge.update(row)]


def throughout(judge: HealthJudge, made: Sequence[UpdateDone]) -> list[Finding]:
    return [finding for row in made for finding in judge.update(row)]


def test_the_fifth_slow_update_opens_a_warning() -> None:
    """Four updates below 60 % of the median are nothing, the fifth opens one incident that stays one."""
    assert judged([USUAL] * 50 + [SLOW_ROLLOUT] * 4 + [USUAL] * 50) == []
    (finding,) = judged([USUAL] * 50 + [SLOW_ROLLOUT] * 100)
    assert (finding.rule, finding.severity, finding.first_update) == ("throughput", "warning", 55)
    assert finding.threshold == pytest.approx(0.6 * STEPS)
    assert [line["update"] for line in finding.evidence] == [51.0, 52.0, 53.0, 54.0, 55.0]


@pytest.mark.parametrize(
    ("slow", "phases", "cause"),
    [
        (
            SLOW_ROLLOUT,
            "rollout 2 s instead of 0.75 s, update 0.25 s as before",
            "stepping is slow: 1,024 steps of CartPole-v1 2 s instead of 0.75 s",
        ),
        (
            SLOW_UPDATE,
            "rollout 0.75 s as before, update 1.5 s instead of 0.25 s",
            "learning is slow: 16 gradient steps 1.5 s instead of 0.25 s",
        ),
    ],
)
def test_the_slow_phase_is_named_with_its_numbers(slow: Seconds, phases: str, cause: str) -> None:
    """The phase that takes longer than usual is the cause, in this run's own settings."""
    (finding,) = judged([USUAL] * 50 + [slow] * 5)
    begin = "455 steps/s in the last 5 updates, 44% of this run's own median of 1,024: "
    assert finding.sentence == begin + phases
    assert finding.cause.startswith(cause)


@pytest.mark.parametrize(
    ("device", "said"), [("cpu", "too few free cores"), ("cuda", "a shared GPU, or too few free cores")]
)
def test_a_slow_update_on_the_processor_is_laid_to_no_gpu(device: str, said: str) -> None:
    """What may hold the gradient steps up is said of the device that they are computed on."""
    judge = HealthJudge(replace(settings_of(SPEC), in_use=("inline", device)), Limits())
    (finding,) = throughout(judge, rows([USUAL] * 50 + [SLOW_UPDATE] * 5))
    assert finding.cause == f"learning is slow: 16 gradient steps 1.5 s instead of 0.25 s; {said}"


GPU = replace(settings_of(SPEC), in_use=("inline", "cuda"), vec="inline", n_envs=8, n_steps=128, small_net=True)


def timed_apart(settings: Settings, phases: Sequence[Seconds], env_s: Sequence[float]) -> list[Finding]:
    """What judging says of updates of `phases` whose environments took `env_s`."""
    judge = HealthJudge(settings, Limits())
    made = [structs.replace(row, env_s=spent) for row, spent in zip(rows(phases), env_s, strict=True)]
    return throughout(judge, made)


def in_parts(env_s: float, settings: Settings) -> Finding:
    """The finding of a rollout of 2 s, usually 0.75 s of which the environments take 0.4 s and now `env_s`."""
    (finding,) = timed_apart(settings, [USUAL] * 20 + [SLOW_ROLLOUT] * 5, [0.4] * 20 + [env_s] * 5)
    return finding


def test_a_slow_environment_is_told_from_a_slow_policy() -> None:
    """By the seconds in which the environments were stepped, with the setting that makes that part cheaper."""
    env, policy = in_parts(1.7, GPU), in_parts(0.4, GPU)
    slow = "the environment is slow: 1,024 steps of CartPole-v1 1.7 s instead of 0.4 s"
    assert env.cause == f"{slow}; choosing their actions 0.3 s as before"
    assert env.advice_set == ("env.vec=split",)
    assert env.evidence[-1]["env_s"] == 1.7
    assert policy.cause.startswith("the policy is slow: choosing the actions of 1,024 steps of CartPole-v1 1.6 s")
    assert policy.advice_set == ("run.device=cpu",)
    on_workers = in_parts(1.7, replace(GPU, in_use=("workers", "cuda")))
    assert (on_workers.advice_set, "one worker that is slow or dead" in on_workers.advice) == ((), True)
    assert in_parts(1.7, replace(GPU, batched=True)).advice_set == ("env.vec=native",)
    assert in_parts(1.7, replace(GPU, in_use=("", ""), vec="auto")).advice_set == ()
    assert in_parts(0.4, replace(GPU, in_use=("inline", "cpu"), threads=4)).advice_set == ("run.threads=1",)
    assert in_parts(0.4, replace(GPU, in_use=("inline", "cpu"))).advice_set == ()


def test_a_rollout_that_never_was_faster_is_information_with_the_settings_that_help() -> None:
    """Once half a minute is known, if more than half of it is one part of the rollout; and only where settings help."""
    long: list[Seconds] = [(1.2, 0.3)] * 60
    (env,) = timed_apart(GPU, long, [1.0] * 60)
    assert (env.severity, env.first_update, env.advice_set) == ("info", 20, ("env.vec=split",))
    assert env.sentence == "of the 1.5 s of an update 67% stepping the environments, 13% choosing actions, 20% learning"
    assert env.cause == "stepping 8 environments one after another takes 7.8 ms a step"
    assert timed_apart(GPU, long[:19], [1.0] * 19) == []
    (policy,) = timed_apart(GPU, long, [0.2] * 60)
    assert policy.advice_set == ("env.n_envs=32", "ppo.n_steps=32")
    (alone,) = timed_apart(replace(GPU, n_envs=1), long, [1.0] * 60)
    assert alone.advice_set == ("env.n_envs=4", "ppo.n_steps=32", "env.vec=split")
    # The trainer measured that workers do not pay; they are in use; nothing takes most of it; only learning does.
    assert timed_apart(replace(GPU, vec="auto"), long, [1.0] * 60) == []
    assert timed_apart(replace(GPU, in_use=("workers", "cuda")), long, [1.0] * 60) == []
    assert timed_apart(GPU, long, [0.6] * 60) == []
    assert timed_apart(GPU, [(0.5, 1.0)] * 60, [0.4] * 60) == []


def test_it_is_over_after_five_updates_near_the_median_again() -> None:
    """Between 60 % and 75 % it stays open; it clears with the fifth update above."""
    between: Seconds = (1.2, 0.3)
    changes = judged([USUAL] * 50 + [SLOW_ROLLOUT] * 10 + [between] * 30 + [USUAL] * 10)
    assert [(finding.state, finding.last_update) for finding in changes] == [("open", 55), ("cleared", 95)]


def test_a_run_that_stays_slow_stays_reported() -> None:
    """Slow updates do not become the measure of what is normal, however many they are."""
    judge = judge_of(SPEC)
    throughout(judge, rows([USUAL] * 20 + [SLOW_ROLLOUT] * 2000))
    (finding,) = judge.findings
    assert (finding.state, finding.last_update) == ("open", 2020)


def test_a_huge_first_update_is_no_measure() -> None:
    """A first update that takes a minute (or none of the time) neither alarms nor defines what is normal."""
    for first in ((60.0, 5.0), (0.001, 0.001)):
        assert judged([first] + [USUAL] * 200) == []


def test_ordinary_noise_and_single_stalls_are_nothing() -> None:
    """Speeds that vary by a fifth, and an update that takes ten times as long every tenth time, are ordinary."""
    noisy = [(0.75 * (0.8 + 0.4 * ((i * 7919) % 100) / 100), 0.25) for i in range(300)]
    noisy[::10] = [(7.5, 0.25)] * 30
    assert judged(noisy) == []


def test_short_hiccups_of_fast_updates_are_nothing() -> None:
    """Five updates of 0.05 s are no evidence: together they must have taken a second."""
    quick: Seconds = (0.015, 0.005)
    slow: Seconds = (0.045, 0.005)
    assert judged([quick] * 100 + [slow] * 19 + [quick] * 100) == []
    (finding,) = judged([quick] * 100 + [slow] * 40)
    assert finding.first_update == 120


def test_where_both_phases_are_far_slower_neither_is_to_blame() -> None:
    """One by four and the other by twenty: no slow environment makes gradient steps slow, nor the reverse."""
    for slow in ((3.0, 5.0), (15.0, 0.75)):
        (finding,) = judged([USUAL] * 50 + [slow] * 20)
        assert finding.cause == "both phases are slow: the machine has too few free cores for this run"
        assert finding.advice.startswith("see which processes use the cores")


def test_a_busy_machine_is_worth_a_word_only_when_it_lasts() -> None:
    """Both phases slow alike are nothing for half a minute, then a warning that says so; one phase alone is at once."""
    alike: Seconds = (1.9, 0.6)
    assert judged([USUAL] * 50 + [alike] * 11 + [USUAL] * 50) == []
    (finding,) = judged([USUAL] * 50 + [alike] * 20)
    assert finding.first_update == 62
    assert finding.cause == "both phases are equally slow: the machine has too few free cores for this run"
    (finding,) = judged([USUAL] * 50 + [(3.0, 0.4)] * 20)
    assert (finding.first_update, finding.cause[:16]) == (55, "stepping is slow")


def test_rows_without_seconds_are_passed_over() -> None:
    """Outside logs that know no seconds say nothing, and in between they neither count nor end a row."""
    assert judged([(0.0, 0.0)] * 300) == []
    (finding,) = judged([USUAL] * 50 + [SLOW_ROLLOUT, (0.0, 0.0)] * 5)
    assert finding.first_update == 59


@pytest.mark.parametrize(("cause", "silent"), [("company", True), ("pause", False), ("evaluation", False)])
def test_company_begins_anew_and_other_breaks_only_end_the_row(cause: Break, silent: bool) -> None:
    """After another run joined, slow is the new normal; after a pause or an evaluation five more slow ones count."""
    judge = judge_of(SPEC)
    throughout(judge, rows([USUAL] * 50))
    throughout(judge, rows([SLOW_ROLLOUT] * 3, start=51))
    judge.broken(535.0, cause)
    assert throughout(judge, rows([SLOW_ROLLOUT] * 4, start=54)) == []
    changed = throughout(judge, rows([SLOW_ROLLOUT] * 100, start=58))
    assert [finding.first_update for finding in changed] == ([] if silent else [58])


def test_company_that_comes_ends_an_open_incident() -> None:
    """With another run beside it nobody can say that it is still slow."""
    judge = judge_of(SPEC)
    throughout(judge, rows([USUAL] * 50 + [SLOW_ROLLOUT] * 10))
    judge.broken(605.0, "company")
    (cleared,) = throughout(judge, rows([SLOW_ROLLOUT], start=61))
    assert (cleared.state, cleared.last_update) == ("cleared", 61)
