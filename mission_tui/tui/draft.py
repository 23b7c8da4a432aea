"""A launch as it stands in the form: what was typed, and what that means in numbers or why it cannot be."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from mission_tui.fleet.algorithm import engine_of
from mission_tui.fleet.sizes import plan_batch, update_pressure
from mission_tui.fleet.spec import Schedule, Spec, rollout_size
from mission_tui.ipc.requests import LaunchItem
from mission_tui.tui import numbers

__all__ = ["assignments", "meaning"]


def assignments(text: str) -> tuple[str, ...]:
    """One `key=value` per line; blank lines and lines that begin with `#` say nothing."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def meaning(items: Sequence[LaunchItem]) -> list[str]:
    """The numbers that decide a run, for the first of `items`, after what differs between several."""
    spec = items[0].spec
    if spec.run.command is not None:
        return [f"{_heading(items)}  {shlex.join(spec.run.command)}", "a command: its exit code says how it ended"]
    plan = plan_batch(spec)
    rollout = rollout_size(spec)
    shape = f"{spec.env.n_envs} x {spec.ppo.n_steps:,} = {rollout:,}"
    pressure = f"update pressure {update_pressure(spec):.1f}"
    lines = [
        f"{_heading(items)}  {spec.env.id}, {_seed(spec)}, {_budget(spec, rollout)}",
        f"rollout {shape}   batch {plan.batch_size:,}   epochs {plan.n_epochs}",
        f"gradient steps {plan.gradient_steps:,} an update   {_rate(spec)}   {pressure}",
    ]
    if spec.ppo.algo != "ppo":
        lines.append(f"{spec.ppo.algo} of sb3-contrib   engine {engine_of(spec)}")
    if plan.proposed_learning_rate is not None:
        lines.append(f"a learning rate of {plan.proposed_learning_rate:.3g} would hold the update pressure")
    return lines


def _heading(items: Sequence[LaunchItem]) -> str:
    return "1 run" if len(items) == 1 else f"{len(items)} runs; the first:"


def _seed(spec: Spec) -> str:
    return "its own seed" if spec.run.seed is None else f"seed {spec.run.seed}"


def _budget(spec: Spec, rollout: int) -> str:
    if spec.run.total_timesteps is None:
        return f"for {numbers.duration(spec.run.duration_s)}"
    return f"{spec.run.total_timesteps:,} steps in {-(-spec.run.total_timesteps // rollout):,} updates"


def _rate(spec: Spec) -> str:
    rate = spec.ppo.learning_rate
    return f"learning rate {rate.start:g} to {rate.end:g}" if isinstance(rate, Schedule) else f"learning rate {rate:g}"
