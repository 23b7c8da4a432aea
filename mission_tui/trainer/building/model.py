"""Building what a run trains, or just its policy, with nothing written outside the run directory; and its device.

From a spec come the arguments of SB3's classes: schedules, batch plan, and a policy whose classes were looked at.

The device is what the preset says, or else the faster one: a small MLP is usually faster on the CPU even where there is
a GPU, and nobody has to know from which size on that changes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch as th
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise, VectorizedActionNoise
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import get_action_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule as Sb3Schedule
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.errors import PresetError, nearest
from mission_tui.fleet.specs import sb3_algorithms
from mission_tui.fleet.specs.algorithm import POLICIES, engine_of, keeps_replay_buffer
from mission_tui.fleet.specs.sb3_algorithms import AlgorithmSpec, OffPolicySpec, OnPolicySpec, other_algorithm
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import Algo, Engine, PpoSpec, Schedule, Spec, other_settings
from mission_tui.fleet.tuning.record import DeviceSpeeds
from mission_tui.trainer.building.device_speeds import MEASURE_S, NetShape, NoSpeedsError, measured_speeds, speeds_here
from mission_tui.trainer.learner import Learner
from mission_tui.trainer.named_parts import check_contrib, check_kwargs, find_named
from mission_tui.trainer.ppo import PPO, FastPPO
from mission_tui.trainer.sb3_algorithms import learner_class

_SAME_NAME = (
    "n_steps",
    "gamma",
    "gae_lambda",
    "normalize_advantage",
    "ent_coef",
    "vf_coef",
    "max_grad_norm",
    "use_sde",
    "sde_sample_freq",
    "target_kl",
    "stats_window_size",
)
_GIVEN = ("observation_space", "action_space", "lr_schedule")
"""What a policy is made with, in this order; that of ARS without the last."""

ENGINES: dict[Engine, type[PPO]] = {"fast": FastPPO, "stock": PPO}


def learner_arguments(spec: Spec) -> dict[str, Any]:
    """Keyword arguments for what trains `spec`, without environment, seed and device. Raises `PresetError`."""
    other, settings = sb3_algorithms.other_algorithm(spec.run.algo), other_settings(spec)
    if other is None or settings is None:
        return ppo_arguments(spec)
    return _other_arguments(other, settings)


def _other_arguments(other: sb3_algorithms.OtherAlgorithm, settings: sb3_algorithms.AlgorithmSpec) -> dict[str, Any]:
    """The names are the class's own, so all that is written otherwise is named here.

    The noise of actions is still its settings: it is made once the actions are known (`action_noise`).
    """
    check_contrib(other.name)
    arguments = {name: getattr(settings, name) for name in settings.__struct_fields__ if name != "net_arch"}
    for name in other.scheduled:
        arguments[name] = _schedule(arguments[name])
    arguments["policy"] = _policy(settings.policy, f"{other.name}.policy", other.policies)
    aliases = learner_class(other).policy_aliases
    arguments["policy_kwargs"] = _policy_kwargs(settings, arguments["policy"], f"{other.name}.policy_kwargs", aliases)
    if isinstance(settings, sb3_algorithms.OffPolicySpec):
        if settings.train_freq == "episode":
            arguments["train_freq"] = (1, "episode")
        if settings.optimize_memory_usage:
            # SB3 cannot tell timeouts apart in one array for both observations, and wants to be told so.
            arguments["replay_buffer_kwargs"] = {"handle_timeout_termination": False}
    return arguments


def action_noise(noise: sb3_algorithms.ActionNoise | None, components: int, n_envs: int) -> Any:
    """SB3's object for `noise` on so many components of an action, in so many environments; None for none."""
    if noise is None:
        return None
    kind = NormalActionNoise if noise.kind == "normal" else OrnsteinUhlenbeckActionNoise
    one = kind(mean=np.zeros(components), sigma=noise.std * np.ones(components))
    # SB3 does the same, but only when a training begins: what it drew last has a place to go back to before.
    return one if n_envs == 1 else VectorizedActionNoise(one, n_envs)


def ppo_arguments(spec: Spec) -> dict[str, Any]:
    """Keyword arguments for `PPO` by its own names, without environment, seed and device. Raises `PresetError`."""
    ppo = spec.ppo
    plan = plan_batch(spec)
    arguments: dict[str, Any] = {name: getattr(ppo, name) for name in _SAME_NAME}
    arguments["policy"] = _policy(ppo.policy, "ppo.policy", POLICIES[ppo.algo])
    arguments["batch_size"] = plan.batch_size
    arguments["n_epochs"] = plan.n_epochs
    arguments["learning_rate"] = _schedule(ppo.learning_rate)
    arguments["clip_range"] = _schedule(ppo.clip_range)
    arguments["clip_range_vf"] = None if ppo.clip_range_vf is None else _schedule(ppo.clip_range_vf)
    arguments["policy_kwargs"] = _policy_kwargs(ppo, arguments["policy"], "ppo.policy_kwargs", PPO.policy_aliases)
    return arguments


def _schedule(value: float | Schedule) -> float | Sb3Schedule:
    if isinstance(value, Schedule):
        return LinearSchedule(value.start, value.end, end_fraction=1.0)
    return float(value)


def _policy(name: str, key: str, valid: tuple[str, ...]) -> Any:
    if name in valid:
        return name
    if ":" in name:
        found = find_named(name, key)
        if not (isinstance(found, type) and issubclass(found, BasePolicy)):
            base = "ActorCriticPolicy" if key == "ppo.policy" else "BasePolicy"
            raise PresetError(f"{key} = '{name}' is no policy; it must be a class derived from {base}")
        return found
    raise PresetError(f"{key} = '{name}' is none of {', '.join(valid)}{nearest(name, valid)}")


@dataclass(frozen=True, slots=True)
class _ClassKey:
    """A key that takes a class derived from `base`: a bare name is looked up in `module`. The key `arguments` says with
    what that class is made, besides `given` positional ones.
    """

    module: str
    base: type
    arguments: str | None = None
    given: int = 0
    usual: type | None = None


_CLASS_KEYS = {
    "activation_fn": _ClassKey("torch.nn", th.nn.Module),
    "optimizer_class": _ClassKey("torch.optim", th.optim.Optimizer, "optimizer_kwargs", 2, th.optim.Adam),
    "features_extractor_class": _ClassKey(
        "stable_baselines3.common.torch_layers", BaseFeaturesExtractor, "features_extractor_kwargs", 1
    ),
}


def _policy_kwargs(
    settings: PpoSpec | sb3_algorithms.AlgorithmSpec, policy: Any, where: str, aliases: Mapping[str, Any]
) -> dict[str, Any]:
    """Keyword arguments for `policy`, a class or one of SB3's names. Raises `PresetError` naming the key."""
    kwargs = dict(settings.policy_kwargs)
    for key, kind in _CLASS_KEYS.items():
        if isinstance(kwargs.get(key), str):
            kwargs[key] = _class_named(kwargs[key], f"{where}.{key}", kind)
        _check_arguments(kwargs, key, kind, kind.usual if isinstance(policy, str) else None, where)
    if isinstance(settings.net_arch, Mapping):
        kwargs["net_arch"] = {part: list(sizes) for part, sizes in settings.net_arch.items()}
    elif settings.net_arch is not None:
        kwargs["net_arch"] = list(settings.net_arch)
    cls = aliases.get(policy) if isinstance(policy, str) else policy
    if cls is not None:
        check_kwargs(cls, kwargs, where, given=2 if isinstance(settings, sb3_algorithms.ArsSpec) else len(_GIVEN))
    return kwargs


def _class_named(name: str, key: str, kind: _ClassKey) -> Any:
    found = find_named(name if ":" in name else f"{kind.module}:{name.rpartition('.')[2]}", key)
    if not (isinstance(found, type) and issubclass(found, kind.base)):
        base = f"{kind.base.__module__}.{kind.base.__name__}"
        raise PresetError(f"{key} = '{name}' must be a class derived from {base}, and it is {found!r}"[:300])
    return found


def _check_arguments(kwargs: Mapping[str, Any], key: str, kind: _ClassKey, usual: type | None, where: str) -> None:
    cls, arguments = kwargs.get(key, usual), kwargs.get(kind.arguments or "")
    if isinstance(cls, type) and isinstance(arguments, Mapping):
        check_kwargs(cls, arguments, f"{where}.{kind.arguments}", given=kind.given)


def build_ppo(
    arguments: dict[str, Any],
    vec: VecEnv,
    seed: int | None,
    device: str,
    algo: Algo = "ppo",
    engine: Engine = "fast",
    **options: Any,
) -> PPO:
    """A fresh model of `algo`; `options` are those of its engine.

    Raises `PresetError` when SB3 refuses arguments or spaces, or sb3-contrib is needed and not there.
    """
    try:
        model = _class(algo, engine)(env=vec, seed=seed, device=device, **arguments, **options)
    except (AssertionError, NotImplementedError, TypeError, ValueError) as error:
        raise PresetError(f"[ppo] does not fit this environment: {' '.join(str(error).split())}") from error
    # Without a logger of its own every SB3 model writes into the temporary folder.
    model.set_logger(Logger(None, []))
    return model


def build_learner(spec: Spec, arguments: dict[str, Any], vec: VecEnv, seed: int | None, device: str) -> Learner:
    """A fresh model of the algorithm of `spec`, made with `arguments` (`learner_arguments`).

    Raises `PresetError` as `build_ppo`.
    """
    other = other_algorithm(spec.run.algo)
    if other is None:
        return build_ppo(arguments, vec, seed, device, spec.ppo.algo, **engine_options(spec))
    check_contrib(other.name)
    if "action_noise" in arguments:
        arguments = {
            **arguments,
            "action_noise": action_noise(arguments["action_noise"], get_action_dim(vec.action_space), vec.num_envs),
        }
    try:
        model = learner_class(other)(env=vec, seed=seed, device=device, **arguments)
    except (AssertionError, NotImplementedError, TypeError, ValueError) as error:
        raise PresetError(f"[{other.name}] does not fit this environment: {' '.join(str(error).split())}") from error
    model.set_logger(Logger(None, []))
    model.keeps_replay = keeps_replay_buffer(spec)
    return model


def build_player(spec: Spec, vec: VecEnv) -> Learner:
    """The algorithm of `spec` for the sake of its policy: it cannot be trained, because its buffer holds two steps.

    Raises `PresetError` as `build_ppo`.
    """
    arguments = learner_arguments(spec)
    settings = other_settings(spec)
    if settings is None:
        return build_scratch(arguments, vec, spec.ppo.algo)
    small: dict[str, int] = {"n_steps": 2} if isinstance(settings, OnPolicySpec) else {}
    if isinstance(settings, OffPolicySpec):
        small = {"buffer_size": 2 * vec.num_envs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return build_learner(spec, {**arguments, **small}, vec, None, "cpu")


def engine_options(spec: Spec) -> dict[str, Any]:
    """The engine that carries `spec`, and what is asked of `fast` alone; the reference has no options."""
    engine, run = engine_of(spec), spec.run
    options = {"precision": run.precision, "compiles": run.compile} if engine == "fast" else {}
    return {"engine": engine, **options}


def build_scratch(arguments: dict[str, Any], vec: VecEnv, algo: Algo = "ppo") -> PPO:
    """A PPO for the sake of its policy: it cannot be trained, because its rollout buffer holds two steps."""
    with warnings.catch_warnings():
        # The real minibatch does not divide this buffer, which does not matter here.
        warnings.simplefilter("ignore", UserWarning)
        return build_ppo({**arguments, "n_steps": 2}, vec, None, "cpu", algo, "stock")


def _class(algo: Algo, engine: Engine) -> type[PPO]:
    if algo == "ppo":
        return ENGINES[engine]
    check_contrib(algo)
    # Of an extra, and loaded only by those who train with it.
    if algo == "maskable_ppo":
        from mission_tui.trainer.ppo.contrib import MaskablePPO

        return MaskablePPO
    from mission_tui.trainer.ppo.contrib import RecurrentPPO

    return RecurrentPPO


_HAVE_TF32 = (8, 0)
"""Compute capability of the first GPUs that multiply in TF32."""


def choose_device(
    wanted: str, kept: str | None, spec: Spec, shape: NetShape, root: Path | None = None
) -> tuple[str, str]:
    """The device for `run.device` = `wanted`, and why; `kept` is what an earlier attempt of the run used. In the runs
    root `root` stands what was measured before.

    What comes to the CPU has left the GPU alone: this process has no context there. With `run.tf32` a GPU is measured
    as it would be used then.

    Raises `PresetError` for a device that is not there.
    """
    if wanted != "auto":
        _check_present(wanted)
        return wanted, "as the preset says"
    if (settings := other_settings(spec)) is not None:
        return _untimed_device(settings, kept)
    # Counted by NVML, where it is asked whether CUDA is available the driver is.
    if not th.cuda.device_count():
        return "cpu", f"there is no CUDA device{_visible()}"
    if kept == "cpu" or (kept is not None and th.cuda.is_available()):
        return kept, "as in the attempt before"
    try:
        speeds, before = speeds_here(spec, shape, root)
    except NoSpeedsError as error:
        return "cpu", str(error)
    if speeds.faster == "cpu":
        device = "cpu"
    elif before and (said := _failure("cuda")):
        # Whoever measures sees that by themselves.
        return "cpu", f"the GPU cannot compute: {said}"
    else:
        device = "cuda"
    return device, f"{speeds.sentence}; measured before, and kept" if before else speeds.sentence


def _untimed_device(settings: AlgorithmSpec, kept: str | None) -> tuple[str, str]:
    """What is faster is measured for PPO alone."""
    if kept is not None and (kept == "cpu" or th.cuda.is_available()):
        return kept, "as in the attempt before"
    if settings.policy.startswith("Cnn") and th.cuda.is_available():
        return "cuda", "a policy of images is faster there; which device is faster is measured for PPO alone"
    return "cpu", "which device is faster is measured for PPO alone; run.device = 'cuda' uses a GPU"


def compare_devices(
    spec: Spec, shape: NetShape, arguments: dict[str, Any], gpu: str = "cuda", *, within_s: float = MEASURE_S
) -> DeviceSpeeds:
    """The net of `spec` on the CPU and on `gpu`, as its engine computes it; compiling it would take too long.

    Raises `RuntimeError` where the GPU cannot compute.
    """
    plain = msgspec.structs.replace(spec, run=msgspec.structs.replace(spec.run, compile=False))
    options = engine_options(plain)

    def build(small: dict[str, Any], vec: VecEnv, device: str) -> PPO:
        return build_ppo(small, vec, None, device, spec.ppo.algo, **options)

    use_tf32(gpu, wanted=spec.run.tf32)
    return measured_speeds(build, shape, arguments, gpu, within_s=within_s)


def describe_device(wanted: str) -> tuple[Literal["ok"], str]:
    """What torch sees for `run.device` = `wanted`, after one small sum there; of a choice that is left open nothing is
    computed yet. Raises `PresetError` for none.
    """
    if wanted == "auto":
        # Not asked on the GPU itself: a run that comes to the CPU would have a context there all the same.
        count = th.cuda.device_count()
        return "ok", "not chosen yet" if count else f"cpu; torch {th.__version__} sees no CUDA device{_visible()}"
    _check_present(wanted)
    if said := _failure(wanted):
        raise PresetError(f"run.device = '{wanted}': {wanted} cannot compute: {said}; use 'cpu'")
    return "ok", f"{wanted}; {torch_on(wanted)}"


def _failure(device: str) -> str:
    """Why `device` cannot compute even a small sum; empty where it can."""
    try:
        th.ones(2, device=device).sum().item()
    except RuntimeError as error:
        return " ".join(str(error).split())
    return ""


def torch_on(device: str) -> str:
    """What computes there: the GPU by its name, and for which CUDA this torch was built."""
    if th.device(device).type != "cuda":
        return f"torch {th.__version__}"
    return f"{th.cuda.get_device_name(device)}, CUDA {th.version.cuda} of torch {th.__version__}"


def use_tf32(device: str, *, wanted: bool) -> str:
    """Let products and convolutions of `device` round their float32 factors to TF32's 10 bits, or forbid it; says why.

    Only a GPU is allowed to: torch's switch reaches the CPU's kernels too, and runs there are exact.
    """
    on_cuda = th.device(device).type == "cuda"
    has_it = on_cuda and th.cuda.get_device_capability(device) >= _HAVE_TF32
    th.set_float32_matmul_precision("high" if wanted and has_it else "highest")
    th.backends.cudnn.allow_tf32 = wanted and has_it
    if not wanted or has_it:
        return "as the run's spec says"
    return "this GPU has no TF32" if on_cuda else "not used: TF32 exists on CUDA only"


def _check_present(device: str) -> None:
    kind, _, index = device.partition(":")
    if kind != "cuda":
        return
    if not th.cuda.is_available():
        remedy = f"set that otherwise, or use {_OTHERS}" if (where := _visible()) else f"use {_OTHERS}"
        raise PresetError(f"run.device = '{device}', but torch sees no CUDA device here{where}; {remedy}")
    last = th.cuda.device_count() - 1
    if index and int(index) > last:
        raise PresetError(f"run.device = '{device}' is not there; the last CUDA device is 'cuda:{last}'{_visible()}")


_OTHERS = "'auto' or 'cpu'"


def _visible() -> str:
    """The variable by which torch sees fewer devices than there are; empty where none is set."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if value is None else f" with CUDA_VISIBLE_DEVICES={value!r}"
