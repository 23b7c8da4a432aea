"""What really runs. `effective.toml`: values read back from the built model, with the reasons of what was chosen.
`loaded.json`: the files of the person's own that were loaded.

A probe looks for the modules that a preset names; what they import in turn, and from where, only the process knows
that imported them.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from itertools import chain, takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import tomli_w
import torch as th

import mission_tui
from mission_tui.fleet.events.provenance import LoadedModule, LoadedModules, sources_of
from mission_tui.fleet.specs.sb3_algorithms import OTHERS, other_algorithm
from mission_tui.fleet.specs.sizes import plan_batch, scaling_of
from mission_tui.fleet.specs.spec import Spec, other_settings
from mission_tui.gpu_driver import loaded_module
from mission_tui.trainer.failures import is_library
from mission_tui.trainer.learner import Learner
from mission_tui.trainer.named_parts import CONTRIB
from mission_tui.trainer.native.library import instruction_set
from mission_tui.trainer.ppo import PPO, FastPPO
from mission_tui.trainer.spaces import short
from mission_tui.trainer.vec_env import BuiltEnvs

_ELSEWHERE = ("policy", "net_arch", "policy_kwargs", "learning_rate", "action_noise", "train_freq")
MOST_MODULES, MOST_BYTES = 500, 64 << 20
"""More than this is no longer the person's own code; the first ones count, and no more is read."""

_LENT = frozenset({"mission_tui", "msgspec", "tomli_w", "safetensors", "psutil"})
_version = cache(version)


@dataclass(slots=True)
class _Loaded:
    """Modules and their files, by package, and apart those that are of no library; `newest` was loaded last."""

    newest: str = ""
    by_package: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    own: list[tuple[str, str]] = field(default_factory=list)


_loaded_before = _Loaded()


def find_facts() -> None:
    """Find out what is the same in every fork of this process. To look at two thousand modules is quickly done, but a
    fork copies each page of memory that it looks at.
    """
    versions("ppo")
    _processor()
    _loaded_before.newest = next(reversed(sys.modules))
    for name, file in _files(list(sys.modules.items())):
        _loaded_before.by_package.setdefault(name.partition(".")[0], []).append((name, file))
        if not is_library(file):
            _loaded_before.own.append((name, file))


def versions(algo: str) -> dict[str, str]:
    """Versions of everything that a number of `algo` can depend on, and how its small networks are computed."""
    other = other_algorithm(algo)
    contrib = {} if algo == "ppo" or (other is not None and not other.borrowed) else {"sb3_contrib": _version(CONTRIB)}
    return contrib | {
        "python": platform.python_version(),
        "torch": th.__version__,
        "stable_baselines3": _version("stable-baselines3"),
        "gymnasium": _version("gymnasium"),
        "numpy": np.__version__,
        "mission_tui": mission_tui.__version__,
        "kernels": instruction_set(),
    }


def machine_facts(device: str) -> dict[str, str]:
    """Of the machine what numbers and speeds depend on, as far as it can be found out: the name by which its engine
    knows it, its processor, and the GPU of `device` with its driver.
    """
    facts = {"name": os.environ.get("SLURMD_NODENAME") or platform.node(), "cpu": _processor()}
    if th.device(device).type == "cuda":
        facts["gpu"] = th.cuda.get_device_name(device)
        facts["gpu_driver"] = loaded_module() or ""
    return {name: value for name, value in facts.items() if value}


@cache
def _processor() -> str:
    with suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.machine()


def effective_toml(
    spec: Spec, envs: BuiltEnvs, model: Learner, progress_remaining: float, reasons: dict[str, str]
) -> str:
    """The file's text; `reasons` join those of the batch plan and of the environments."""
    plan = plan_batch(spec)
    tables = {
        "env": _env(spec, envs),
        **_learning(spec, model, progress_remaining),
        "run": {
            "seed": model.seed,
            "threads": th.get_num_threads(),
            "device": str(model.device),
            "tf32": th.get_float32_matmul_precision() == "high",
            **_engine(spec, model),
            "callbacks": msgspec.to_builtins(list(spec.run.callbacks)) or None,
        },
        "model": _model(model),
        **_scaling(spec),
        "host": {**machine_facts(str(model.device)), **versions(model.algo)},
        "reasons": {
            "env.vec": envs.reason,
            **dict(reason.split(": ", 1) for reason in plan.reasons),
            **_easing(model),
            **reasons,
        },
    }
    return tomli_w.dumps(_without_none(tables))


def _env(spec: Spec, envs: BuiltEnvs) -> dict[str, Any]:
    return {
        "id": spec.env.id,
        "vec": envs.kind,
        "n_envs": envs.vec.num_envs,
        "n_workers": envs.n_workers,
        "wrappers": msgspec.to_builtins(list(spec.env.wrappers)),
        "frame_stack": spec.env.frame_stack or 1,
        "normalize": spec.env.normalize is not False,
        "observation_space": short(envs.vec.observation_space),
        "action_space": short(envs.vec.action_space),
    }


def _easing(model: Learner) -> dict[str, str]:
    if not isinstance(model, PPO) or model.lr_warmup.over:
        return {}
    return {"ppo.learning_rate": model.lr_warmup.sentence}


def _learning(spec: Spec, model: Learner, progress: float) -> dict[str, Any]:
    """The table of the algorithm, as the model has it."""
    settings = other_settings(spec)
    if settings is None:
        assert isinstance(model, PPO)
        return {"ppo": _ppo(model, progress)}
    read = {name: getattr(model, name, None) for name in settings.__struct_fields__ if name not in _ELSEWHERE}
    plain = {name: value for name, value in read.items() if isinstance(value, bool | int | float | str)}
    if (train_freq := getattr(model, "train_freq", None)) is not None:
        plain["train_freq"] = train_freq.frequency if train_freq.unit.value == "step" else train_freq.unit.value
    for name in OTHERS[model.algo].scheduled:  # type: ignore[index]
        schedule = vars(model)["lr_schedule" if name == "learning_rate" else f"{name}_schedule"]
        plain[name] = schedule(progress)
    return {model.algo: plain}


def _ppo(model: PPO, progress: float) -> dict[str, Any]:
    clip_range_vf = model.clip_range_vf
    return {
        "algo": model.algo,
        "n_steps": model.n_steps,
        "batch_size": model.batch_size,
        "n_epochs": model.n_epochs,
        "learning_rate": model.lr_schedule(progress) * model.lr_warmup.factor,
        "gamma": model.gamma,
        "gae_lambda": model.gae_lambda,
        "clip_range": model.clip_range(progress),  # type: ignore[operator]
        "clip_range_vf": None if clip_range_vf is None else clip_range_vf(progress),  # type: ignore[operator]
        "normalize_advantage": model.normalize_advantage,
        "ent_coef": model.ent_coef,
        "vf_coef": model.vf_coef,
        "max_grad_norm": model.max_grad_norm,
        "target_kl": model.target_kl,
        "use_sde": model.use_sde,
        "sde_sample_freq": model.sde_sample_freq,
        "stats_window_size": model._stats_window_size,
    }


def _engine(spec: Spec, model: Learner) -> dict[str, Any]:
    options = (
        {"engine": "fast", "precision": model.precision, "compile": model.compiles}
        if isinstance(model, FastPPO)
        else {"engine": "stock", "precision": "fp32", "compile": False}
    )
    return {**options, "total_timesteps": spec.run.total_timesteps, "duration_s": spec.run.duration_s}


def _model(model: Learner) -> dict[str, Any]:
    first = next(model.policy.parameters())
    policy: Any = model.policy
    optimizers = model.optimizers()
    return {
        "policy": type(model.policy).__name__,
        "parameters": sum(parameter.numel() for parameter in model.policy.parameters()),
        "net_arch": policy.net_arch,
        "device": str(first.device),
        "dtype": str(first.dtype).removeprefix("torch."),
        "optimizer": type(optimizers[0]).__name__ if optimizers else None,
    }


def _scaling(spec: Spec) -> dict[str, dict[str, Any]]:
    """The table of before and after, where auto-scaling did anything."""
    scaling = scaling_of(spec)
    if scaling is None:
        return {}
    columns = {row.name: [row.reference, row.without, row.scaled] for row in scaling.rows}
    proposed = {"proposed_learning_rate": scaling.proposed_learning_rate}
    return {"scaling": {"columns": ["reference", "without", "with"], **columns, **proposed}}


def _without_none(tables: dict[str, Any]) -> dict[str, Any]:
    return {name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()}


def loaded_modules(spec: Spec) -> LoadedModules:
    """The modules that lie neither in the standard library nor in site-packages, and those that the task names."""
    found: dict[str, LoadedModule] = {}
    left = MOST_BYTES
    for name, file in sorted(set(_own(spec))):
        with suppress(OSError):
            left -= file.stat().st_size
            if left < 0 or len(found) == MOST_MODULES:
                break
            found[name] = LoadedModule(file=str(file), sha256=hashlib.sha256(file.read_bytes()).hexdigest())
    return LoadedModules(package=str(Path(mission_tui.__file__).parent), modules=found)


def _own(spec: Spec) -> Iterator[tuple[str, Path]]:
    named = {word.partition(":")[2] for word in sources_of(spec)}
    before = (_loaded_before.own, *(_loaded_before.by_package.get(package, ()) for package in named))
    for name, file in chain(_files(_loaded_since()), *before):
        if name.partition(".")[0] in named or not is_library(file):
            yield name, Path(file)


def _loaded_since() -> Iterator[tuple[str, ModuleType]]:
    """The modules that were loaded since the facts were found; all where they never were."""
    for name in list(takewhile(lambda name: name != _loaded_before.newest, reversed(sys.modules))):
        yield name, sys.modules[name]


def _files(modules: Iterable[tuple[str, ModuleType]]) -> Iterator[tuple[str, str]]:
    """Names and files of those that are neither this package's nor lent by it to a foreign interpreter."""
    ours = f"{Path(mission_tui.__file__).parent}/"
    for name, module in modules:
        file = getattr(module, "__file__", None)
        # The trainer's own main module has a second name where a process is started by `multiprocessing`.
        if not isinstance(file, str) or name.partition(".")[0] in _LENT or name == "__main__" or file.startswith(ours):
            continue
        yield name, file
