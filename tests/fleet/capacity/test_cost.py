"""What a run is going to cost, foretold from runs like it that were seen."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.fleet.capacity.demand import ReferenceSpeed, first_update_s, whole_run_range_s, whole_run_s
from mission_tui.fleet.capacity.reference_runs import differences, pace_of_several, reference_runs
from mission_tui.fleet.events.journal import RunCreated
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from tests.fleet.recorded import update

SPEC = Spec(
    preset="p",
    env=EnvSpec(id="CartPole-v1", n_envs=4),
    ppo=PpoSpec(n_steps=16, batch_size=64),
    run=RunSpec(total_timesteps=1000),
)
PACE = ReferenceSpeed(name="old", t=0.0, steps_per_s=32.0, start_s=3.0)


def past(name: str, spec: Spec, t: float, *speeds: float) -> RunHistory:
    """A run that did an update at each of `speeds`, the last at `t`."""
    run = RunHistory(f"id-{name}", f"/lab/{name}", spec)
    run.apply(RunCreated(1, t - 100.0, name, spec.preset))
    for at, speed in enumerate(speeds, 1):
        row = structs.replace(update(at, at), steps_per_s=speed, t=t - len(speeds) + at)
        run.apply(row)
    return run


def of_ppo(**ppo: object) -> Spec:
    return structs.replace(SPEC, ppo=structs.replace(SPEC.ppo, **ppo))


def test_a_run_trains_its_budget_in_whole_updates() -> None:
    """1,000 steps are 16 updates of 64, which are 1,024 steps."""
    assert whole_run_s(SPEC, PACE) == pytest.approx(1024 / 32)


def test_a_timed_run_takes_the_time_it_asks_for() -> None:
    """Whether its speed is known or not."""
    timed = structs.replace(SPEC, run=RunSpec(duration_s=60.0))
    assert whole_run_s(timed, None) == whole_run_s(timed, PACE) == 60.0


def test_the_first_update_comes_after_the_start_and_a_rollout() -> None:
    """What was seen of the start, and this spec's own rollout; not known without either."""
    assert first_update_s(SPEC, PACE) == pytest.approx(3.0 + 64 / 32)
    assert first_update_s(of_ppo(n_steps=32), PACE) == pytest.approx(3.0 + 128 / 32)
    assert first_update_s(SPEC, structs.replace(PACE, start_s=None)) is None
    assert first_update_s(SPEC, None) is whole_run_s(SPEC, None) is None


def test_the_same_settings_foretell_whatever_the_preset_is_called() -> None:
    """Rates, seeds and budgets change no speed; the newest of several counts, by its median."""
    other = structs.replace(of_ppo(learning_rate=1e-5), preset="q", run=RunSpec(total_timesteps=9, seed=3))
    found = reference_runs(SPEC, [past("older", SPEC, 10.0, 1.0), past("newer", other, 20.0, 50.0, 60.0, 1000.0)])
    assert [(it.run, it.pace.steps_per_s) for it in found] == [("id-newer", 60.0), ("id-older", 1.0)]
    assert found[0].pace.differs == ()


def test_a_whole_run_takes_what_lies_between_updates_too() -> None:
    """Checkpoints and records are no update, and take their time of the next run as well."""
    run = RunHistory("id-a", "/lab/a", SPEC)
    for at in range(1, 5):
        run.apply(structs.replace(update(at, at), timesteps=64 * at, steps_per_s=64.0, trained_s=2.0 * at))
    (found,) = reference_runs(SPEC, [run])
    assert whole_run_s(SPEC, found.pace) == pytest.approx(16 * 2.0)


def test_another_setting_of_the_same_preset_is_named() -> None:
    """The fewer differ, the better; a run of another preset with other settings says nothing, nor does another net,
    nor another algorithm.
    """
    near, far = of_ppo(n_steps=32), structs.replace(of_ppo(n_steps=32), env=EnvSpec(id="CartPole-v1", n_envs=8))
    stranger = structs.replace(near, preset="q")
    found = reference_runs(
        SPEC, [past("far", far, 30.0, 1.0), past("near", near, 20.0, 2.0), past("stranger", stranger, 40.0, 3.0)]
    )
    assert [it.pace.name for it in found] == ["near", "far"]
    assert found[0].pace.differs == ("ppo.n_steps 32",)
    assert found[1].pace.differs == ("env.n_envs 8", "ppo.n_steps 32")
    assert reference_runs(SPEC, [past("trial", of_ppo(net_arch=(1024, 512)), 50.0, 4.0)]) == []
    dqn = structs.replace(SPEC, run=structs.replace(SPEC.run, algo="dqn"))
    assert reference_runs(SPEC, [past("dqn", dqn, 50.0, 4.0)]) == []


def test_what_never_trained_here_foretells_nothing() -> None:
    """A run without an update, of another environment, of a command, or whose spec cannot be read."""
    elsewhere = structs.replace(SPEC, env=EnvSpec(id="Acrobot-v1", n_envs=4))
    command = Spec(preset="p", run=RunSpec(command=("true",)))
    runs = [past("none", SPEC, 1.0), past("elsewhere", elsewhere, 1.0, 5.0), past("command", command, 1.0, 5.0)]
    unread = past("unread", SPEC, 1.0, 5.0)
    unread.spec = None
    assert reference_runs(SPEC, [*runs, unread]) == []
    assert reference_runs(command, [past("one", SPEC, 1.0, 5.0)]) == []


def test_differences_say_what_the_other_had() -> None:
    """Lists and truths as they are written, what nobody wrote as that."""
    other = structs.replace(of_ppo(net_arch=(64, 64), batch_size=None), run=RunSpec(compile=True))
    assert differences(SPEC, other) == ("ppo.batch_size not written", "ppo.net_arch [64, 64]", "run.compile true")


def test_the_price_of_several_runs_is_their_median_with_a_range() -> None:
    """One slow run among three hardly moves the time that a launch is said to take, and the range has it."""
    paces = [
        structs.replace(PACE, steps_per_s=at, low_steps_per_s=at - 2, high_steps_per_s=at + 2)
        for at in (8.0, 32.0, 34.0)
    ]
    pace = pace_of_several(paces)
    assert (pace.name, pace.steps_per_s, pace.runs) == (PACE.name, 32.0, 3)
    assert (pace.low_steps_per_s, pace.high_steps_per_s) == (6.0, 36.0)
    assert whole_run_s(SPEC, pace) == pytest.approx(1024 / 32)
    assert whole_run_range_s(SPEC, pace) == pytest.approx((1024 / 36, 1024 / 6))
    assert whole_run_range_s(SPEC, PACE) is None
    assert whole_run_range_s(structs.replace(SPEC, run=RunSpec(duration_s=60.0)), pace) is None
