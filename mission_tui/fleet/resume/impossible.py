"""The nearest valid value of a field that contradicts the others, where there is one."""

from __future__ import annotations

from mission_tui.fleet.resume.remedies import nearest_value
from mission_tui.fleet.resume.verdict import Remedy
from mission_tui.fleet.specs.consistency import LARGEST_ROLLOUT
from mission_tui.fleet.specs.divisors import nearby_divisors
from mission_tui.fleet.specs.spec import Spec, rollout_size

__all__ = ["nearest"]


def nearest(spec: Spec, name: str) -> tuple[Remedy, ...]:
    """The remedy that gives field `name` of the contradictory `spec` its nearest valid value; none where none is."""
    rollout = rollout_size(spec)
    match name:
        case "ppo.batch_size" if rollout >= 2:
            return (nearest_value(name, rollout, f"one minibatch of {rollout:,}, the whole rollout"),)
        case "ppo.n_steps":
            return (nearest_value(name, 2),)
        case "env.n_envs":
            most = LARGEST_ROLLOUT // spec.ppo.n_steps
            return (nearest_value(name, most),) if most else ()
        case "env.n_workers" if spec.env.n_workers is not None:
            near = nearby_divisors(spec.env.n_envs, spec.env.n_workers)
            return (nearest_value(name, near[0]),)
        case _:
            return ()
