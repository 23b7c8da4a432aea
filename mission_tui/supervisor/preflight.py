"""Whether a spec can be trained at all, asked of a short process with the caller's interpreter before anything is made.

The environments that everyone has are known by heart and skip it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from mission_tui.errors import PresetError
from mission_tui.fleet.spec import Spec
from mission_tui.supervisor.caller import Caller
from mission_tui.supervisor.tasks import Task, TaskError, run_task

__all__ = ["Spaces", "known_by_heart", "preflight"]

LIMIT_S = 120.0
_CLASSIC = frozenset({"CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"})
_MISSING = re.compile(r"No module named '?([\w.]+)")
_MISSION_GYM = "MissionGym-v0"
_SHIPPED_MISSIONS = (None, "standard", "demo")


@dataclass(frozen=True, slots=True)
class Spaces:
    """Observation and action space in the short form that preflight prints."""

    obs: str
    act: str


def known_by_heart(spec: Spec) -> bool:
    """Whether nothing about the spec's environment and policy needs to be tried."""
    env, ppo = spec.env, spec.ppo
    if spec.run.command is not None:
        return True
    if spec.run.python is not None or spec.run.pythonpath:
        return False
    if env.kwargs or env.wrappers or env.imports or ppo.policy_kwargs or ppo.use_sde or ppo.policy != "MlpPolicy":
        return False
    if env.id == _MISSION_GYM:
        return env.config in _SHIPPED_MISSIONS
    return env.id in _CLASSIC and env.config is None and env.vec != "native"


async def preflight(spec: Spec, caller: Caller) -> Spaces:
    """The spaces of the spec's environment. Raises `TaskError` (exit code 78 for a bad preset) with what is wrong,
    `PresetError` for an interpreter that lacks what a training needs.
    """
    task = Task(
        argv=(caller.python, "-m", "mission_tui.trainer.preflight"),
        cwd=caller.cwd,
        environ=caller.environ,
        stdin=msgspec.json.encode(spec),
    )
    try:
        async for said in run_task(task, LIMIT_S):
            if said.get("ok"):
                return Spaces(str(said.get("obs")), str(said.get("act")))
    except TaskError as error:
        if spec.run.python is not None and (missing := _MISSING.search(str(error))):
            raise PresetError(
                f"run.python = '{spec.run.python}' cannot train: it has no module '{missing[1]}'; "
                "install mission-tui there, or launch your own script after --"
            ) from error
        raise
    raise PresetError(f"preflight of env.id '{spec.env.id}' gave no answer")
