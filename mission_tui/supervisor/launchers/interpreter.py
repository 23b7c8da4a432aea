"""How a module of the trainer's room is started in the Python of a run, and whether a spec can be trained there at all.

The calling client's own Python is given this very package, whatever its path or its folder have under that name. One
that `run.python` names need not have mission-tui: it is lent what it lacks, each package from a folder that holds
nothing else, so that nothing of its own is hidden. Preflight asks a short process before anything is made; environments
that ship with Gymnasium or this program skip it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

import mission_tui
from mission_tui.errors import PresetError
from mission_tui.fleet.specs.algorithm import algorithm_name
from mission_tui.fleet.specs.spec import MISSION_GYM, SHIPPED_MISSIONS, Spec
from mission_tui.fleet.text import clean
from mission_tui.paths import lent_dir
from mission_tui.run_module import module_words
from mission_tui.supervisor.host.tasks import DeathError, Task, run_task
from mission_tui.supervisor.launchers.caller import Caller

LENT = "MISSION_TUI_LENT"
LENDABLE = ("mission_tui", "msgspec", "tomli_w", "safetensors", "psutil")
_STARTER = Path(mission_tui.__file__).parent / "trainer" / "foreign_python.py"


def as_module(spec: Spec, home: Caller, module: str) -> tuple[tuple[str, ...], Caller]:
    """The words that start `module` in the Python of `home`, a run's of `spec`, and `home` with what that takes.

    Raises `PresetError` where nothing can be lent.
    """
    if spec.run.python is None:
        return module_words(module, home.python), home
    said = json.dumps({"version": mission_tui.__version__, **lend(os.environ)})
    return (home.python, str(_STARTER), module), replace(home, environ={**home.environ, LENT: said})


def lend(environ: Mapping[str, str]) -> dict[str, str]:
    """Folders by package, made if they are not there: each holds a link to that package and nothing else."""
    found = dict(_packages())
    root = lent_dir(environ, repr(sorted(found.items())))
    try:
        for name, package in found.items():
            _link(root / name / name, package)
    except OSError as error:
        raise PresetError(
            f"run.python needs a folder in which packages are lent to it: {root}: {error.strerror}"
        ) from error
    return {name: str(root / name) for name in found}


def _packages() -> Iterator[tuple[str, Path]]:
    for name in LENDABLE:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            yield name, Path(spec.origin).parent


def _link(link: Path, package: Path) -> None:
    if link.is_symlink() and link.readlink() == package:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    # Another supervisor may make the same at this moment.
    fresh = link.with_name(f".{uuid.uuid4().hex}")
    fresh.symlink_to(package)
    fresh.replace(link)


PREFLIGHT_S = 120.0
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
    if env.frame_stack is not None or spec.run.callbacks or algorithm_name(spec) != "ppo":
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
        async for said in run_task(task, PREFLIGHT_S):
            doing = str(said.get("doing", doing))
            if said.get("ok"):
                state = clean(str(said.get("state") or ""), _SENTENCE_CHARACTERS)
                return Spaces(str(said.get("obs")), str(said.get("act")), state)
    except DeathError as error:
        raise PresetError(clean(f"{doing}: {error}", _SENTENCE_CHARACTERS)) from error
    raise PresetError(f"preflight of env.id '{spec.env.id}' gave no answer")
