"""What a spec would run or set that did not come with the program: every command, class, folder and variable it names.

Asked before a preset of somebody's folder is launched, and before a run from elsewhere is adopted. Nothing is imported,
opened or looked up: what a name means is decided by whoever starts it. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.preset import from_tables
from mission_tui.fleet.specs.sb3_algorithms import OTHERS, AlgorithmSpec
from mission_tui.fleet.specs.secrecy import is_secret
from mission_tui.fleet.specs.spec import MISSION_GYM, EnvSpec, Part, PpoSpec, RunSpec, Spec, command_words, part_words
from mission_tui.fleet.text import spelled_out

CodeKind = Literal[
    "command",
    "resume command",
    "python",
    "folder",
    "pythonpath",
    "env file",
    "variable",
    "imports",
    "environment",
    "wrapper",
    "policy",
    "class",
    "callback",
    "on_event",
    "apprise",
    "tracker",
    "sbatch",
    "ray address",
    "search",
]

_SHIPPED = frozenset({"mission_tui.envs.atari:AtariWrapper", "mission_tui.envs.hidden_velocity:HiddenVelocity"})
"""Classes of ours that presets are meant to name; any other name in the package is no part that was made for it."""
_POOL = "envpool"
_LEARNING = ("ppo", *OTHERS)
_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w./-]*")
_DEEPEST = 32
_MODULES: frozenset[CodeKind] = frozenset({"imports", "environment", "wrapper", "policy", "class", "callback"})
"""What names a module, which is also looked for in the folder of the launch."""


class OwnCode(Struct, frozen=True):
    """One thing that would be run or set: what it is, the spec's key that says so, and what it says there."""

    kind: CodeKind
    key: str
    value: str


def own_code(spec: Spec) -> tuple[OwnCode, ...]:
    """All that `spec` would run, import, set or send beyond the program's own, in the order of what decides most.

    Values of variables whose name says that they are secret are left out; nothing else is, see `spelled_out`.
    """
    run = spec.run
    found: list[OwnCode] = []
    if run.command is not None:
        found.append(OwnCode("command", "run.command", shlex.join(command_words(run))))
    if run.resume_command is not None:
        found.append(OwnCode("resume command", "run.resume_command", shlex.join(command_words(run, 2))))
    found += [*_places(run), *_of_env(spec.env), *_of_policy(*learning_table(spec))]
    found += [OwnCode("callback", "run.callbacks", _part(part)) for part in run.callbacks]
    if spec.keep.health.on_event is not None:
        found.append(OwnCode("on_event", "keep.health.on_event", spec.keep.health.on_event))
    if spec.keep.health.apprise:
        found.append(OwnCode("apprise", "keep.health.apprise", "sends to what your apprise configuration names"))
    if run.track not in (None, "tensorboard"):
        found.append(OwnCode("tracker", "run.track", f"sends settings and curves to what your {run.track} names"))
    found += [OwnCode("sbatch", "slurm.extra", word) for word in spec.slurm.extra]
    if spec.ray.address is not None:
        # What is sent there is the run with its variables, and the token of whoever launches it.
        found.append(OwnCode("ray address", "ray.address", spec.ray.address))
    found += _of_search(run.values)
    return tuple(OwnCode(code.kind, code.key, spelled_out(code.value)) for code in found)


def found_in_a_folder(spec: Spec) -> tuple[str, ...]:
    """Paths, relative to the folder it is launched from, at which code that `spec` names may lie: `my_envs` and
    `my_envs.py` for a module, each argument of a command that is no option and has no place of its own.
    """
    if spec.run.cwd is not None:
        return ()
    found: list[str] = []
    for code in own_code(spec):
        if code.kind in _MODULES:
            module = code.value.partition(":")[0].partition(".")[0]
            found += [module, f"{module}.py"] if module.isidentifier() else []
    for words in (spec.run.command, spec.run.resume_command):
        found += [word for word in words or () if not word.startswith(("-", "/"))]
    return tuple(dict.fromkeys(found))


def own_code_words(found: Iterable[OwnCode]) -> str:
    """``imports my_envs, other; command python x.py``: each kind once, in one line."""
    by_kind: dict[str, list[str]] = {}
    for code in found:
        by_kind.setdefault(code.kind, []).append(code.value)
    return "; ".join(f"{kind} {', '.join(values)}" for kind, values in by_kind.items())


def _places(run: RunSpec) -> Iterator[OwnCode]:
    if run.python is not None:
        yield OwnCode("python", "run.python", run.python)
    if run.cwd is not None:
        yield OwnCode("folder", "run.cwd", run.cwd)
    for folder in run.pythonpath:
        yield OwnCode("pythonpath", "run.pythonpath", folder)
    if run.env_file is not None:
        yield OwnCode("env file", "run.env_file", run.env_file)
    for name, value in run.env.items():
        yield OwnCode("variable", "run.env", f"{name}=(secret)" if is_secret(name, value) else f"{name}={value}")


def _of_search(values: Mapping[str, str]) -> Iterator[OwnCode]:
    """What a search's driver launches by the plan among its values: a whole spec, and the settings of its trials."""
    if "plan" not in values:
        return
    # What cannot be read here, the driver does not read either.
    with suppress(MissionError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        plan = msgspec.json.decode(values["plan"])
        yield OwnCode("search", "run.values.plan", shlex.join(f"--param={word}" for word in plan.get("params", ())))
        yield from own_code(from_tables(plan["base"], "run.values.plan"))


def _of_env(env: EnvSpec) -> Iterator[OwnCode]:
    for module in env.imports:
        yield OwnCode("imports", "env.imports", module)
    module, colon, name = env.id.rpartition(":")
    if colon and module != _POOL and (module, name) != ("mission_tui.envs", MISSION_GYM):
        yield OwnCode("environment", "env.id", env.id)
    yield from _classes("env.kwargs", env.kwargs)
    for part in env.wrappers:
        named = part.cls if isinstance(part, Part) else part
        if named not in _SHIPPED:
            yield OwnCode("wrapper", "env.wrappers", _part(part))
        elif isinstance(part, Part):
            yield from _classes("env.wrappers", part.kwargs)


def _of_policy(table: str, settings: PpoSpec | AlgorithmSpec) -> Iterator[OwnCode]:
    if ":" in settings.policy:
        yield OwnCode("policy", f"{table}.policy", settings.policy)
    # A class without a module is looked up in torch or SB3, by its last word.
    yield from _classes(f"{table}.policy_kwargs", settings.policy_kwargs)


def _part(part: str | Part) -> str:
    return part if isinstance(part, str) else part_words(part) or part.cls


def _classes(key: str, value: Any, depth: int = 0) -> Iterator[OwnCode]:
    """Every `module:Name` in the arguments at `key`, each with where in them it stands."""
    if depth > _DEEPEST:
        yield OwnCode("class", key, "tables too deep to be read")
    elif isinstance(value, str):
        # The trainer takes whatever has a colon in a policy's arguments for a class; others say what they like there.
        if _CLASS.fullmatch(value) or (":" in value and key.partition(".")[0] in _LEARNING):
            yield OwnCode("class", key, value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _classes(f"{key}.{name}", inner, depth + 1)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _classes(f"{key}[{index}]", inner, depth + 1)
