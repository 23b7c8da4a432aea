"""Whether two timed presets do the same work: a speed-up that changes what is learned is not one."""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import Spec

__all__ = ["incomparable", "work_of"]

_TASK = ("env.id", "env.config", "env.kwargs", "env.wrappers", "env.frame_stack")
_MACHINE = ("host", "cpu", "cores", "gpus")


def work_of(spec: Spec) -> dict[str, object]:
    """The settings on which it depends what is learned, as they take effect."""
    plan = plan_batch(spec)
    ppo, env = spec.ppo, spec.env
    return {
        "env.id": env.id,
        "env.config": env.config,
        "env.kwargs": repr(env.kwargs),
        "env.wrappers": repr(env.wrappers),
        "env.frame_stack": env.frame_stack or 1,
        "env.n_envs": env.n_envs,
        "env.normalize": repr(env.normalize),
        "ppo.algo": ppo.algo,
        "ppo.policy": ppo.policy,
        "ppo.n_steps": ppo.n_steps,
        "ppo.batch_size": plan.batch_size,
        "ppo.n_epochs": plan.n_epochs,
        "ppo.learning_rate": repr(ppo.learning_rate),
        "ppo.gamma": ppo.gamma,
        "ppo.target_kl": ppo.target_kl,
        "ppo.use_sde": ppo.use_sde,
        "ppo.net_arch": repr(ppo.net_arch),
        "ppo.policy_kwargs": repr(ppo.policy_kwargs),
    }


def incomparable(
    work: Mapping[str, object],
    against: Mapping[str, object],
    host: Mapping[str, str],
    other_host: Mapping[str, str],
) -> tuple[str, ...]:
    """Sentences on what makes a verdict on the two mean less than it says: other tasks, other work, other machines."""
    # A measurement of an earlier version knows fewer settings; nothing is said of what it does not know.
    differing = {key for key in work.keys() & against.keys() if work[key] != against[key]}
    sentences = []
    if task := sorted(differing & set(_TASK)):
        sentences.append(f"the tasks differ ({', '.join(task)}): steps of one cost what steps of the other do not")
    if other := [key for key in work if key in differing - set(_TASK)]:
        shown = ", ".join(f"{key} {work[key]} against {against.get(key)}" for key in other)
        sentences.append(f"they do not learn the same: {shown}")
    elsewhere = [key for key in _MACHINE if key in host and key in other_host and host[key] != other_host[key]]
    if elsewhere:
        shown = ", ".join(f"{key} {host[key]} against {other_host[key]}" for key in elsewhere)
        sentences.append(f"the machines differ: {shown}")
    return tuple(sentences)
