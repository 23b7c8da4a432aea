"""Runs as their files would tell them: specs, metric rows and events for the tests of this room."""

from __future__ import annotations

from mission_tui.fleet.events.journal import (
    Asked,
    AttemptEnded,
    AttemptStarting,
    FleetEvent,
    RunCreated,
    RunPaused,
    RunResumed,
)
from mission_tui.fleet.events.metrics import Metric, MetricRecord, TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.fleet.events.outcome import Finished, Stopped
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.fleet.store import Store
from mission_tui.fleet.views.snapshot import HostMeters, SupervisorInfo

SPEC = Spec(
    preset="demo",
    env=EnvSpec(id="CartPole-v1", n_envs=8),
    ppo=PpoSpec(n_steps=128, batch_size=256, n_epochs=4),
    run=RunSpec(total_timesteps=10_240, seed=7),
    description="a first try",
)
STEPS = 1024
"""Transitions of one rollout of `SPEC`."""


def empty_store() -> Store:
    """A store of a supervisor that has seen nothing yet."""
    return Store("/lab/runs", SupervisorInfo(pid=1, version="0.1.0", started_t=0.0), HostMeters(name="box", cores=2))


def update(
    number: int, seq: int | None = None, attempt: int = 1, tags: dict[str, Metric] | None = None, **train: Metric
) -> UpdateDone:
    """Update `number`, at 1000 steps/s; `train` are metrics by their name after `train/`, `ret` is the mean return."""
    named = {("rollout/ep_rew_mean" if name == "ret" else f"train/{name}"): value for name, value in train.items()}
    return UpdateDone(
        seq=seq if seq is not None else number + 1,
        attempt=attempt,
        update=number,
        timesteps=number * STEPS,
        t=100.0 + number,
        rollout_s=0.75,
        update_s=0.25,
        steps_per_s=1000.0,
        metrics=named | (tags or {}),
    )


def stopped_and_resumed() -> tuple[list[FleetEvent], list[MetricRecord]]:
    """Two attempts: stopped at update 4 with rows 3 and 4 beyond its checkpoint, resumed from 2, finished at 10."""
    events: list[FleetEvent] = [
        RunCreated(seq=1, t=90.0, name="first", preset="demo"),
        AttemptStarting(seq=2, t=91.0, attempt=1),
        RunPaused(seq=3, t=95.0, attempt=1),
        RunResumed(seq=4, t=96.0, attempt=1),
        Asked(seq=5, t=97.0, verb="stop", attempt=1),
        AttemptEnded(seq=6, t=98.0, attempt=1, outcome=Stopped(checkpoint="000002048")),
        AttemptStarting(seq=7, t=99.0, attempt=2, checkpoint="000002048"),
        AttemptEnded(seq=8, t=120.0, attempt=2, outcome=Finished(checkpoint="000010240")),
    ]
    first: list[MetricRecord] = [TrainingStarted(seq=1, attempt=1, t=92.0)]
    first += [update(number, ret=float(number)) for number in range(1, 5)]
    second: list[MetricRecord] = [
        TrainingStarted(
            seq=6, attempt=2, t=100.0, from_update=2, from_timesteps=2 * STEPS, checkpoint="000002048", exact=True
        )
    ]
    second += [update(number, seq=number + 4, attempt=2, ret=100.0 + number) for number in range(3, 11)]
    end = TrainingEnded(seq=15, attempt=2, update=10, timesteps=10_240, t=119.0, how="finished", checkpoint="000010240")
    return events, [*first, *second, end]
