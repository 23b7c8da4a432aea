"""Whether a spec can be trained at all, asked of a short process with the caller's interpreter before anything is made.

Environments that ship with Gymnasium or this program skip it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.spec import MISSION_GYM, SHIPPED_MISSIONS, Spec
from mission_tui.fleet.text import clean
from mission_tui.supervisor.starting.caller import Caller
from mission_tui.supervisor.starting.interpreter import as_module
from mission_tui.supervisor.tasks import DeathError, Task, run_task

__all__ = ["Spaces", "needs_no_preflight", "preflight"]

LIMIT_S = 120.0
_CLASSIC = frozenset({"CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"})
_SENTENCE_CHARACTERS = 800


@dataclass(frozen=True, slots=True)
class Spaces:
    """Observation and action space in the short form that preflight prints.

    `state`: why its state cannot be restored although it says so, in words that follow its name; empty where it can.
    """

    obs: str
    act: str
    state: str = ""

    def continued(self, spec: Spec) -> str:
        """What to say of it at a launch and before a resume; empty where there is nothing."""
        if not self.state:
            return ""
        return f"a resume will be continued, not exact: of env.id '{spec.env.id}' {self.state}"


def needs_no_preflight(spec: Spec) -> bool:
    """Whether nothing about the spec's environment and policy needs to be tried."""
    env, ppo = spec.env, spec.ppo
    if spec.run.command is not None:
        return True
    if spec.run.python is not None or spec.run.pythonpath:
        return False
    if env.kwargs or env.wrappers or env.imports or ppo.policy_kwargs or ppo.use_sde or ppo.policy != "MlpPolicy":
        return False
    if env.frame_stack is not None or spec.run.callbacks or ppo.algo != "ppo":
        return False
    if env.id == MISSION_GYM:
        return env.config in SHIPPED_MISSIONS
    return env.id in _CLASSIC and env.config is None and env.vec != "native"


async def preflight(spec: Spec, caller: Caller) -> Spaces:
    """The spaces of the spec's environment. Raises `TaskError` (exit code 78 for a bad preset) with what is wrong,
    `PresetError` for what ends the process that tries it.
    """
    words, home = as_module(spec, caller, "mission_tui.trainer.checking.preflight")
    # A process that crashes says where.
    environ = {**home.environ, "PYTHONFAULTHANDLER": "1"}
    task = Task(argv=words, cwd=home.cwd, environ=environ, stdin=msgspec.json.encode(spec), limits=home.limits)
    doing = "starting it"
    try:
        async for said in run_task(task, LIMIT_S):
            doing = str(said.get("doing", doing))
            if said.get("ok"):
                state = clean(str(said.get("state") or ""), _SENTENCE_CHARACTERS)
                return Spaces(str(said.get("obs")), str(said.get("act")), state)
    except DeathError as error:
        raise PresetError(clean(f"{doing}: {error}", _SENTENCE_CHARACTERS)) from error
    raise PresetError(f"preflight of env.id '{spec.env.id}' gave no answer")
