"""What a preset names: the environment that an `env.id` means, and the modules and classes behind its other keys
(plugins), imported, found, and looked at before they are called as it says.

What a registration says of the task (the return that counts as solved, where an episode is cut) is asked here too.
Every way of not finding it is one sentence; what is not known is None. Gymnasium is imported inside the functions, so
that a preflight answers without torch, and one that has the id in its table stays fast.
"""

from __future__ import annotations

import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mission_tui import run_module
from mission_tui.errors import MissionError, PresetError, closest, install_words, nearest, raised_by
from mission_tui.fleet.specs.env_ids import PLAIN_PACKAGES, PUBLISHED, package_of, pooled_procgen, today
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.spec import MISSION_GYM, EnvSpec, parse_part

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec as RegisteredEnv

    from mission_tui.envs.mission import Rules


_EXTRA_MODULES = {"ale_py": "envs", "cv2": "envs", "Box2D": "envs", "mujoco": "envs", "pygame": "envs"}

_POOL = "envpool"
_GONE = "_raise_mujoco_py_error"
"""What Gymnasium registers in place of MuJoCo's v2 and v3, which it has given away: making one raises."""


_EXTRA_MODULES |= {"sb3_contrib": "contrib"}
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
CONTRIB = "sb3-contrib"


def find_named(name: str, key: str) -> Any:
    """What ``package.module:Name`` means; `key` is the preset's key that says so. Raises `PresetError`."""
    module_name, _, attribute = name.partition(":")
    if not attribute:
        raise PresetError(f"{key} = '{name}' must look like 'package.module:Name'")
    module = import_named(module_name, key)
    if not hasattr(module, attribute):
        raise PresetError(f"{key}: module '{module_name}' has no '{attribute}'{nearest(attribute, dir(module))}")
    return getattr(module, attribute)


def import_named(module: str, key: str) -> Any:
    """The module that the preset's `key` names. Raises `PresetError`."""
    try:
        # A shipped preset names these, and finds none of them in somebody's folder.
        return run_module.import_named(module, own=module.partition(".")[0] not in PUBLISHED)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        missing = top if importlib.util.find_spec(top) is None else ""
        if missing in PLAIN_PACKAGES:
            raise PresetError(f"{key}: module '{module}' is not installed; pip install {missing}") from error
        if missing == "procgen":
            said = pooled_procgen("procgen-coinrun-v0")
            raise PresetError(f"{key}: module 'procgen' is not installed; its 'procgen-coinrun-v0' {said}") from error
        extra = _EXTRA_MODULES.get(missing)
        if extra is None:
            raise PresetError(f"{key}: module '{module}' cannot be imported: {error}{_near(module, error)}") from error
        said = f"{key}: module '{module}' needs the `{extra}` extra; {install_words(extra)}"
        raise PresetError(said) from error
    except Exception as error:  # importing runs foreign code, which may raise anything
        raise PresetError(f"{key}: module '{module}' cannot be imported: {error}{_near(module, error)}") from error


def _near(module: str, error: Exception) -> str:
    """Where none of that name is: the folder in which it may have been meant to be, and the nearest that is here."""
    top = module.partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or error.name != top:
        return ""
    folder = ""
    with suppress(OSError):  # one that was removed has no path
        folder = f" (nor in the folder {Path.cwd()})"
    return folder + nearest(top, (found.name for found in pkgutil.iter_modules()))


def check_kwargs(target: Callable[..., Any], kwargs: Mapping[str, Any], key: str, *, given: int = 0) -> None:
    """Raise `PresetError`, naming the nearest valid key below `key`, unless `target` takes `kwargs` besides `given`
    positional arguments. What has no readable signature, or takes any name, is left to be called.
    """
    parameters = parameters_of(target)
    if parameters is None:
        return
    named = [it for it in parameters[given:] if it.kind in _NAMED]
    names = [it.name for it in named]
    open_ended = any(it.kind is inspect.Parameter.VAR_KEYWORD for it in parameters)
    for name in kwargs:
        if name not in names and not open_ended:
            hint = nearest(name, names) or (f"; valid here: {', '.join(names)}" if names else "; it takes none")
            raise PresetError(f"unknown key {key}.{name[:60]}{hint}")
    for it in named:
        if it.default is inspect.Parameter.empty and it.name not in kwargs:
            raise PresetError(f"{key}.{it.name} is missing: {_called(target)} cannot be made without it")


def parameters_of(target: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """What `target` is called with; None where that cannot be read."""
    try:
        return list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return None


def _called(target: Callable[..., Any]) -> str:
    return getattr(target, "__name__", str(target))


def check_contrib(algo: str) -> None:
    """Raise `PresetError`, with what to install, if `algo` needs sb3-contrib and that is not here."""
    other = other_algorithm(algo)
    borrowed = algo != "ppo" if other is None else other.borrowed
    if borrowed and importlib.util.find_spec("sb3_contrib") is None:
        key = "ppo.algo" if other is None else "run.algo"
        raise PresetError(f"{key} = '{algo}' needs the `contrib` extra; {install_words('contrib')}")


def gym_id(env_id: str) -> str:
    """The ``module:id`` by which Gymnasium, in any process, finds what a preset's `env.id` means.

    Tasks of envpool are often named as environments of Gymnasium's own, and ``envpool:TASK`` must not mean those.
    """
    module, _, name = env_id.rpartition(":")
    return f"mission_tui.envs.pooled:{_POOL}/{name.replace('/', '.')}" if module == _POOL else env_id


def find_env(env: EnvSpec) -> RegisteredEnv:
    """The registered environment after importing `env.imports` and the module in front of a ``module:id``.

    Raises `PresetError` naming the key and, for an id that is not made here, what stands for it today or is nearest.
    """
    import gymnasium

    import mission_tui.envs  # noqa: F401 - registers MissionGym

    for module in env.imports:
        import_named(module, "env.imports")
    module, _, name = gym_id(env.id).rpartition(":")
    if env.id.startswith(f"{_POOL}:") and importlib.util.find_spec(_POOL) is None:
        raise PresetError(f"env.id '{env.id}' needs the `fast-envs` extra; {install_words('fast-envs')}")
    if module and importlib.util.find_spec(module.partition(".")[0]) is None and (said := pooled_procgen(env.id)):
        raise PresetError(f"env.id '{env.id}' {said}")
    if module:
        import_named(module, "env.id")
    known = gymnasium.registry
    if (it := known.get(name)) is not None and _is_gone(it):
        raise PresetError(_unknown(env.id, name, known))
    try:
        return gymnasium.spec(name)
    except gymnasium.error.Error as error:
        raise PresetError(_unknown(env.id, name, known)) from error


def env_kwargs(env: EnvSpec, snapshot: Path | None) -> dict[str, Any]:
    """Arguments of the environment's constructor. A run's `snapshot` of MissionGym's rules wins over `env.config`.

    Raises `PresetError` for a `config` that no MissionGym would read, or that would go round the snapshot.
    """
    is_mission = _is_mission(env)
    if env.config is not None and not is_mission:
        raise PresetError(f"env.config is for {MISSION_GYM} only; give {env.id} its arguments in env.kwargs")
    if is_mission and "config" in env.kwargs:
        raise PresetError("env.kwargs.config would go round the run's snapshot of the rules; write it as env.config")
    if is_mission and snapshot is not None and (snapshot / "rules.toml").is_file():
        return {"config": str(snapshot), **env.kwargs}
    return {"config": env.config, **env.kwargs} if env.config is not None else dict(env.kwargs)


def mission_rules(env: EnvSpec, snapshot: Path | None) -> Rules | None:
    """The rules that a MissionGym of `env` is played by; None for another environment. Raises `PresetError`."""
    if not _is_mission(env):
        return None
    from mission_tui.envs import load_mission

    arguments = env_kwargs(env, snapshot)
    return load_mission(arguments.get("config", "standard"), arguments.get("overrides")).rules


def make_env(
    env: EnvSpec, snapshot: Path | None, around: Callable[[gymnasium.Env[Any, Any]], gymnasium.Env[Any, Any]]
) -> gymnasium.Env[Any, Any]:
    """One environment with `around` directly around it and the preset's wrappers, first one first, around that.

    Raises `PresetError` for what the preset has wrong.
    """
    import gymnasium

    registered = find_env(env)
    arguments = env_kwargs(env, snapshot)
    with making(env.id):
        load_entry_point(registered.entry_point)
        made = around(gymnasium.make(registered, **arguments))
    for index, part in enumerate(map(parse_part, env.wrappers)):
        key = f"env.wrappers[{index}]"
        wrapper = find_named(part.cls, key)
        check_kwargs(wrapper, part.kwargs, f"{key}.kwargs", given=1)
        with making(env.id, f"{key} = '{part.cls}'"):
            made = wrapper(made, **part.kwargs)
    return made


def load_entry_point(entry: Any) -> Any:
    """What a registration names as `entry`, single or batched: loaded before Gymnasium would, which guards nothing."""
    from gymnasium.envs.registration import load_env_creator

    with run_module.looking_elsewhere():
        return load_env_creator(entry) if isinstance(entry, str) else entry


@contextmanager
def making(env_id: str, key: str = "env.kwargs") -> Iterator[None]:
    """Turn whatever a constructor raises into a `PresetError`; `key` is the part of the preset that it was given."""
    import gymnasium

    try:
        yield
    except (MissionError, MemoryError):
        raise
    except gymnasium.error.DependencyNotInstalled as error:
        detail = " ".join(str(error).split())
        raise PresetError(f"'{env_id}' needs the `envs` extra; {install_words('envs')} ({detail})") from error
    except TypeError as error:
        raise PresetError(f"{key} does not fit '{env_id}': {error}") from error
    except Exception as error:  # a constructor is foreign code and may raise anything
        raise PresetError(f"'{env_id}' cannot be made: {raised_by(error)}") from error


def native_refusal(env: EnvSpec) -> str | None:
    """Why `env` cannot be stepped as one batch, as a sentence; None if it registers a same-step batched class."""
    from gymnasium.vector import AutoresetMode

    entry = find_env(env).vector_entry_point
    if entry is None:
        return f"'{env.id}' has no batched form"
    if env.wrappers:
        return "env.wrappers wrap single environments"
    mode = getattr(load_entry_point(entry), "metadata", {}).get("autoreset_mode")
    if mode is not AutoresetMode.SAME_STEP:
        return f"the batched form of '{env.id}' has autoreset mode {getattr(mode, 'value', mode)}, SB3 needs SameStep"
    return None


def _is_mission(env: EnvSpec) -> bool:
    return env.id.rpartition(":")[2] == MISSION_GYM


def _is_gone(registered: RegisteredEnv) -> bool:
    return getattr(registered.entry_point, "__name__", "") == _GONE


def _unknown(env_id: str, name: str, registry: Mapping[str, RegisteredEnv]) -> str:
    known = [other for other, registered in registry.items() if not _is_gone(registered)]
    package = package_of(name)
    if package is not None and not any(package_of(other) == package for other in known):
        line = f'env.imports = ["{package}"] in the preset (--set \'env.imports=["{package}"]\')'
        if importlib.util.find_spec(package) is not None:
            return f"env.id '{env_id}' is registered by {package}: write {line}"
        if package in PLAIN_PACKAGES:
            return f"env.id '{env_id}' needs {package}; pip install {package}, and {line}"
        return f"env.id '{env_id}' needs the `envs` extra; {install_words('envs')}, and {line}"
    if (said := pooled_procgen(name)) is not None:
        return f"env.id '{env_id}' {said}"
    if (said := today(name, known)) is not None:
        return f"env.id '{env_id}' is not made by the Gymnasium that is installed; {said}"
    # A namespace that nobody has is that of a package which is not imported: what sounds alike elsewhere is no help.
    space = f"{name.rpartition('/')[0]}/".casefold() if "/" in name else ""
    module, near = env_id.rpartition(":")[0], [it for it in known if it.casefold().startswith(space)]
    close = closest(name, near)
    # Many write the class, as a wrapper or a callback is named.
    stem = re.sub(r"-v\d+$", "", name)
    if (close is None or not _is_of(registry[close], module)) and inspect.isclass(_attribute(module, stem)):
        versioned = name if name != stem else f"{stem}-v0"
        hint = (
            f": '{stem}' is a class of {module}, which has to register it; write there "
            f"gymnasium.register('{versioned}', entry_point='{module}:{stem}')"
            + (f", and env.id = '{module}:{versioned}' here" if name == stem else "")
        )
    elif close is not None:
        # Asked for without the module that registers it, it would be unknown as well.
        hint = f"; did you mean '{f'{module}:{close}' if _is_of(registry[close], module) else close}'?"
    else:
        hint = "" if module else f"; one that a module of yours registers is 'module:{name}'"
    return f"env.id '{env_id}' is not a registered environment{hint}"


def _attribute(module: str, name: str) -> object:
    return getattr(sys.modules.get(module), name, None)


def _is_of(registered: RegisteredEnv, module: str) -> bool:
    entry = registered.entry_point
    where = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    return module != "" and (where == module or where.startswith(f"{module}."))


@dataclass(frozen=True, slots=True)
class Registration:
    """`max_episode_steps` are the agent's own steps; `reward_threshold` is in raw returns."""

    reward_threshold: float | None = None
    max_episode_steps: int | None = None


def registration_of(env: EnvSpec, snapshot: Path | None) -> Registration:
    """The registration of `env`, with the limit that the preset's own arguments put in its place.

    Raises `PresetError` for what the preset has wrong.
    """
    registered = find_env(env)
    threshold = registered.reward_threshold
    rules = mission_rules(env, snapshot)
    if rules is not None:
        return Registration(threshold, round(rules.time_limit_s * rules.decision_hz))
    steps = env_kwargs(env, snapshot).get("max_episode_steps", registered.max_episode_steps)
    # Gymnasium takes -1 for no limit at all.
    limited = isinstance(steps, int) and steps > 0
    return Registration(None if threshold is None else float(threshold), steps if limited else None)
