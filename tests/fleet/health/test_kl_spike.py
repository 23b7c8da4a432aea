"""`kl-spike`: quiet about harmless spikes, critical when the return falls after one."""

from __future__ import annotations

import pytest

from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rules.kl_spike import KlSpike
from mission_tui.fleet.specs.thresholds import KlSpikeLimits, Limits
from tests.fleet.health.one_rule import ABSENT, TRACES
from tests.fleet.health.rounds import Round, judged, judged_outside, labels, row

RISING = [float(n) for n in range(60)]
"""Range 54, noise 1.48: a whole fall is 8.9 (6 sigma)."""


def after_spike(*returns: float, u: float = 40.0, settings: Settings | None = None) -> Round:
    """Sixty updates with u = 0.5 and a return that rises to 59, a spike at update 61, and these returns from it on."""
    lines = [row(n, {"approx_kl": 0.01, "clip_range": 0.2, "ret": ret}) for n, ret in enumerate(RISING, start=1)]
    for n, ret in enumerate(returns, start=61):
        lines.append(row(n, {"approx_kl": u * 0.02 if n == 61 else 0.01, "clip_range": 0.2, "ret": ret}))
    return judged(KlSpike, lines, settings)


def test_a_spike_without_consequence_is_no_finding() -> None:
    """One update at 80 times the usual KL, after which the return goes on as before."""
    assert after_spike(*[59.0, 58.0, 57.0, 60.0] * 10).changes == []


def test_a_fall_after_a_spike_is_critical() -> None:
    """Information from half the fall on, critical from the whole, and over when half of it has been made up."""
    seen = after_spike(59.0, 57.0, 53.0, 48.0, 40.0, 40.0, 52.0, 52.0, 58.0)
    assert seen.changes == [(63, "info"), (64, "critical"), (69, None)]
    assert seen.words[1].sentence == (
        "update 61 changed the policy too much: 40 x the safe KL, 80 x its usual KL; the return fell from 59 to 48, "
        "20% of its range"
    )
    assert seen.words[1].advice.startswith("roll back to the last good checkpoint from before update 61")
    assert [line["update"] for line in seen.words[1].evidence] == [61, 62, 63, 64]


def test_a_fall_above_what_counts_as_solved_is_information() -> None:
    """It is critical from the update on in which the return is below the environment's own threshold."""
    solved = Settings(reward_threshold=45.0)
    seen = after_spike(59.0, 57.0, 53.0, 48.0, 47.0, 44.0, 46.0, 58.0, settings=solved)
    assert seen.changes == [(63, "info"), (66, "critical"), (67, "info")]
    assert after_spike(59.0, 48.0, settings=Settings(reward_threshold=49.0)).changes == [(62, "critical")]


def test_of_updates_that_hardly_moved_no_multiple_is_said() -> None:
    """Forty times the safe KL after a KL of nothing is not a billion times the usual one."""
    lines = [row(n, {"approx_kl": 1e-12, "clip_range": 0.2, "ret": ret}) for n, ret in enumerate(RISING, start=1)]
    for n, ret in enumerate([59.0, 40.0, 30.0], start=61):
        lines.append(row(n, {"approx_kl": 0.8 if n == 61 else 0.01, "clip_range": 0.2, "ret": ret}))
    said = judged(KlSpike, lines).words[-1].sentence
    assert said.startswith(
        "update 61 changed the policy too much: 40 x the safe KL, after updates that hardly moved it; "
    )


def test_the_spike_that_did_it_is_named() -> None:
    """A spike that changed nothing is forgotten for the next one, also while it was still watched."""
    lines = [row(n, {"approx_kl": 0.01, "clip_range": 0.2, "ret": ret}) for n, ret in enumerate(RISING, start=1)]
    for n, ret in enumerate([59.0, 60.0, 60.0, 61.0, 40.0], start=61):
        lines.append(row(n, {"approx_kl": 0.8 if n in (61, 64) else 0.01, "clip_range": 0.2, "ret": ret}))
    [words] = judged(KlSpike, lines).words
    assert words.sentence.startswith("update 64 changed the policy")


@pytest.mark.parametrize(("spikes", "blamed"), [(range(61, 70, 8), 61), (range(61, 240, 9), 223)])
def test_a_spike_of_long_ago_is_not_blamed_for_a_fall(spikes: range, blamed: int) -> None:
    """Others prolong the watch while the return is a little below; what falls after its own is told of a later one."""
    lines = [row(n, {"approx_kl": 0.01, "clip_range": 0.2, "ret": ret}) for n, ret in enumerate(RISING, start=1)]
    for n in range(61, spikes[-1] + 3):
        ret = 57.0 if n <= spikes[-1] else 40.0
        lines.append(row(n, {"approx_kl": 0.8 if n in spikes else 0.01, "clip_range": 0.2, "ret": ret}))
    [words] = judged(KlSpike, lines).words
    assert words.sentence.startswith(f"update {blamed} changed the policy")
    assert "the return fell from 59 to 40" in words.sentence


def test_what_never_recovers_stays_critical() -> None:
    """The watch may be over: a return that stays down is still lost."""
    assert after_spike(59.0, *[20.0] * 100).changes == [(62, "critical")]


def test_a_fall_long_after_a_spike_is_not_its_consequence() -> None:
    """Within ten updates it counts, later not."""
    assert after_spike(*[59.0] * 10, 20.0, 20.0).changes == [(71, "critical")]
    assert after_spike(*[59.0] * 11, 20.0, 20.0).changes == []


def test_a_slow_window_of_episodes_prolongs_the_watch() -> None:
    """With 4 episodes an update the mean of 100 needs 25 updates to show what the new policy earns."""
    slow = Settings(rollout=2000)
    lines = [
        row(n, {"approx_kl": 0.01, "clip_range": 0.2, "ret": ret, "rollout/ep_len_mean": 500.0})
        for n, ret in enumerate(RISING, start=1)
    ]
    lines += [
        row(
            n,
            {
                "approx_kl": 0.8 if n == 61 else 0.01,
                "ret": min(59.0, 59.0 - 8.0 * (n - 79)),
                "rollout/ep_len_mean": 500.0,
            },
        )
        for n in range(61, 90)
    ]
    assert judged(KlSpike, lines, slow).changes == [(80, "info"), (81, "critical")]
    assert judged(KlSpike, lines).changes == []


@pytest.mark.parametrize(("u", "found"), [(4.9, False), (5.1, True)])
def test_how_high_a_spike_must_be(u: float, found: bool) -> None:
    """u above 5, where that is more than 8 times the run's own median."""
    assert bool(after_spike(*[20.0] * 9, u=u).changes) is found


def test_the_first_updates_have_nothing_to_be_compared_with() -> None:
    """Nine updates are too few for a median of their own, ten are enough."""
    for spike, found in ((1, False), (9, False), (10, False), (11, True)):
        lines = [row(n, {"approx_kl": 0.8 if n == spike else 0.01, "clip_range": 0.2}) for n in range(1, 14)]
        assert bool(judged(KlSpike, lines).changes) is found


def test_a_fall_within_the_noise_is_none() -> None:
    """Where the return jumps by 10 from update to update, 25 is less than half of 6 of its standard deviations."""
    lines = [
        row(
            n,
            {"approx_kl": 0.8 if n == 61 else 0.01, "clip_range": 0.2, "ret": (0.0 if n < 62 else -25.0) + n % 2 * 10},
        )
        for n in range(1, 90)
    ]
    assert judged(KlSpike, lines).changes == []


def test_what_is_usual_for_the_run_is_no_spike() -> None:
    """Where the median u is 1, one of 7 is not 8 times it."""
    lines = [row(n, {"approx_kl": 0.02, "clip_range": 0.2, "ret": ret}) for n, ret in enumerate(RISING, start=1)]
    lines += [row(n, {"approx_kl": 0.14, "clip_range": 0.2, "ret": 0.0}) for n in range(61, 64)]
    assert judged(KlSpike, lines).changes == []


def test_without_returns_the_spike_itself_is_information() -> None:
    """Nobody can say that it was harmless; after the watch it is over."""
    lines = [row(n, {"approx_kl": 0.5 if n == 30 else 0.01, "clip_range": 0.2}) for n in range(1, 60)]
    assert judged(KlSpike, lines).changes == [(30, "info"), (41, None)]


def test_the_cause_names_what_changed_before() -> None:
    """A learning rate that jumped shows beside the update pressure."""
    lines = [
        row(n, {"approx_kl": 0.01, "clip_range": 0.2, "learning_rate": 3e-4, "ret": ret})
        for n, ret in enumerate(RISING, start=1)
    ]
    lines += [row(n, {"approx_kl": 0.8, "clip_range": 0.2, "learning_rate": 3e-2, "ret": 20.0}) for n in (61, 62)]
    words = judged(KlSpike, lines, Settings(gradient_steps=320, n_epochs=20, learning_rate=3e-4)).words[0]
    assert words.cause.endswith("just before: learning rate 0.0003 -> 0.03")
    assert words.advice_set == ("ppo.learning_rate=5e-05",)


def test_its_limits_are_those_of_the_run() -> None:
    """With `u` set to 50 a spike of 40 is none."""
    lines = [row(n, {"approx_kl": 0.8 if n == 50 else 0.01, "clip_range": 0.2}) for n in range(1, 60)]
    assert judged(KlSpike, lines).changes
    assert judged(KlSpike, lines, limits=Limits(kl_spike=KlSpikeLimits(u=50.0))).changes == []


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
@pytest.mark.parametrize(
    ("name", "onset", "end"),
    [
        ("jobshop_ppo", 21, 25),
        ("pfb_sb3_Pendulum-v1_seed990", 82, 110),
        ("pfb_sb3_Pendulum-v1_seed551", 264, 287),
    ],
)
def test_labelled_blow_ups_are_found(name: str, onset: int, end: int) -> None:
    """Found within 5 updates of the labelled onset, critical within 10, over by its labelled end, and nothing else."""
    changes = judged_outside(KlSpike, name).changes
    [found] = [update for update, severity in changes if severity == "critical"]
    assert onset <= changes[0][0] <= onset + 5
    assert onset <= found <= onset + 10
    assert all(update <= end + 1 for update, _ in changes)


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_harmless_spikes_of_healthy_runs_are_passed_over() -> None:
    """Of 32 spikes in the five Pendulum runs three say anything: two blow-ups, and the mild one as information."""
    pendulums = [name for name in labels() if "sb3_Pendulum" in name]
    said = {name: {severity for _, severity in judged_outside(KlSpike, name).changes} - {None} for name in pendulums}
    assert len(pendulums) == 5
    assert {name[-3:]: worst for name, worst in said.items() if worst} == {
        "128": {"info"},
        "551": {"info", "critical"},
        "990": {"info", "critical"},
    }


def test_one_disaster_is_no_consequence() -> None:
    """A single episode in a mean of a hundred makes one leap down, and one back when it leaves; a collapse goes on."""
    assert "critical" not in [severity for _, severity in of_forty(59.0, 40.0, 41.0, 59.0, 60.0, 61.0).changes]
    assert (63, "critical") in of_forty(59.0, 45.0, 31.0, 17.0, 17.0).changes
    assert (65, "critical") in of_forty(59.0, 40.0, 40.0, 40.0, 40.0).changes


def of_forty(*returns: float) -> Round:
    """The same after a spike, where 40 episodes end in an update: those of the mean are from two and a half."""
    usual = {"approx_kl": 0.01, "clip_range": 0.2, "rollout/ep_len_mean": 1024 / 40}
    lines = [row(n, {**usual, "ret": ret}) for n, ret in enumerate(RISING, start=1)]
    for n, ret in enumerate(returns, start=61):
        lines.append(row(n, {**usual, "approx_kl": 0.8 if n == 61 else 0.01, "ret": ret}))
    return judged(KlSpike, lines)
