"""Building the PPO of a run, or just its policy, with nothing written outside the run directory; and its device.

The device is what the preset says, or else the faster one: a small MLP is usually faster on the CPU even where there is
a GPU, and nobody has to know from which size on that changes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, Literal

import gymnasium
import numpy as np
import torch as th
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.algorithm import engine_of
from mission_tui.fleet.specs.spec import Algo, Engine, Spec
from mission_tui.trainer.named_parts import check_contrib
from mission_tui.trainer.ppo import PPO, FastPPO

ENGINES: dict[Engine, type[PPO]] = {"fast": FastPPO, "stock": PPO}


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


def engine_options(spec: Spec) -> dict[str, Any]:
    """The engine that carries `spec`, and what is asked of `fast` alone; the reference has no options."""
    engine, run = engine_of(spec), spec.run
    options = {"precision": run.precision, "compiles": run.compile} if engine == "fast" else {}
    return {"engine": engine, **options}


def build_scratch(arguments: dict[str, Any], vec: VecEnv, device: str, algo: Algo = "ppo") -> PPO:
    """A PPO for the sake of its policy: it cannot be trained, because its rollout buffer holds two steps."""
    with warnings.catch_warnings():
        # The real minibatch does not divide this buffer, which does not matter here.
        warnings.simplefilter("ignore", UserWarning)
        return build_ppo({**arguments, "n_steps": 2}, vec, None, device, algo, "stock")


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


_TRIES = 3
_HAVE_TF32 = (8, 0)
"""Compute capability of the first GPUs that multiply in TF32."""


def choose_device(
    wanted: str, kept: str | None, vec: VecEnv, arguments: dict[str, Any], algo: Algo = "ppo", *, tf32: bool = True
) -> tuple[str, str]:
    """The device for `run.device` = `wanted`, and why; `kept` is what an earlier attempt of the run used.

    With `tf32` a GPU is measured as it would be used then.

    Raises `PresetError` for a device that is not there.
    """
    if wanted != "auto":
        _check_present(wanted)
        return wanted, "as the preset says"
    if not th.cuda.is_available():
        return "cpu", "there is no CUDA device"
    if kept is not None:
        return kept, "as in the attempt before"
    use_tf32("cuda", wanted=tf32)
    cpu_s, cuda_s = (update_seconds(device, vec, arguments, algo) for device in ("cpu", "cuda"))
    return faster_device(cpu_s, cuda_s)


def faster_device(cpu_s: float, cuda_s: float) -> tuple[Literal["cpu", "cuda"], str]:
    """Where an update that takes so many seconds on either is done sooner, and the sentence that says so."""
    device: Literal["cpu", "cuda"] = "cuda" if cuda_s < cpu_s else "cpu"
    ratio = max(cpu_s, cuda_s) / min(cpu_s, cuda_s)
    where = "GPU" if device == "cuda" else "CPU"
    return device, (
        f"this net is faster on the {where}: {ratio:.1f} x (about {cpu_s:.2f} s per update on the CPU, "
        f"{cuda_s:.2f} s on the GPU)"
    )


def describe_device(wanted: str) -> tuple[Literal["ok"], str]:
    """What torch sees for `run.device` = `wanted`, after one small sum there. Raises `PresetError` for none."""
    if wanted != "auto":
        _check_present(wanted)
    if not th.cuda.is_available():
        return "ok", f"cpu; torch {th.__version__} sees no CUDA device"
    device = "cuda" if wanted == "auto" else wanted
    try:
        th.ones(2, device=device).sum().item()
    except RuntimeError as error:
        said = " ".join(str(error).split())
        raise PresetError(f"run.device = '{wanted}': {device} cannot compute: {said}; use 'cpu'") from error
    kind = f"{th.cuda.get_device_name(device)}, " if device.startswith("cuda") else ""
    return "ok", f"{device}; {kind}CUDA {th.version.cuda} of torch {th.__version__}"


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


def update_seconds(device: str, vec: VecEnv, arguments: dict[str, Any], algo: Algo = "ppo") -> float:
    """Estimated seconds that the policy costs per update on `device`: every forward pass and every gradient step."""
    transitions = arguments["n_steps"] * vec.num_envs
    batch_size = min(arguments["batch_size"], transitions)
    model = build_scratch(arguments, vec, device, algo)
    act_s = _best_seconds(device, lambda: _act(model, vec.num_envs))
    step_s = _best_seconds(device, lambda: _descend(model, batch_size))
    gradient_steps: int = arguments["n_epochs"] * -(-transitions // batch_size)
    n_steps: int = arguments["n_steps"]
    return n_steps * act_s + gradient_steps * step_s


def _check_present(device: str) -> None:
    kind, _, index = device.partition(":")
    if kind != "cuda":
        return
    if not th.cuda.is_available():
        raise PresetError(f"run.device = '{device}', but torch sees no CUDA device here; use 'auto' or 'cpu'")
    last = th.cuda.device_count() - 1
    if index and int(index) > last:
        raise PresetError(f"run.device = '{device}' is not there; the last CUDA device is 'cuda:{last}'")


def _act(model: PPO, lanes: int) -> th.Tensor:
    with th.no_grad():
        actions = model.policy(*_inputs(model, lanes))[0]
    return th.as_tensor(actions).cpu()


def _descend(model: PPO, batch_size: int) -> None:
    observations, *memory = _inputs(model, batch_size)
    with th.no_grad():
        actions = model.policy(observations, *memory)[0]
    values, log_prob, _ = model.policy.evaluate_actions(observations, actions, *memory)
    (values.mean() + log_prob.mean()).backward()  # type: ignore[no-untyped-call]


def _inputs(model: PPO, count: int) -> tuple[Any, ...]:
    policy = model.policy
    return model.policy_inputs(policy.obs_to_tensor(_observations(policy.observation_space, count))[0])


def _observations(space: gymnasium.Space[Any], count: int) -> Any:
    sample = space.sample()
    if isinstance(sample, dict):
        return {name: np.repeat(np.asarray(part)[None], count, axis=0) for name, part in sample.items()}
    return np.repeat(np.asarray(sample)[None], count, axis=0)


def _best_seconds(device: str, work: Callable[[], object]) -> float:
    """The fastest of a few tries after a warm-up, with the device's queue empty before and after."""
    seconds = []
    for _ in range(_TRIES + 1):
        begun_s = time.perf_counter()
        work()
        if th.device(device).type == "cuda":
            th.cuda.synchronize(device)
        seconds.append(time.perf_counter() - begun_s)
    return min(seconds[1:])
