"""Whether a card learns what a CPU learns.

Actions are drawn from one generator on the host for both, because a card has another one: what then differs is
rounding.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import msgspec
import torch as th
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from benchmarks.gpu.items import Bench
from benchmarks.results import Row
from benchmarks.rows import bounded, unmeasured
from mission_tui.fleet.specs.sb3_algorithms import PERIOD_STEPS
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.attempt import write_spec
from mission_tui.trainer.building.model import use_tf32
from mission_tui.trainer.ppo import cuda_graphs, policy_evaluator
from tests.trainer.harness import PROBES, Ran, new_run, run_attempt, spec_with, stop_in

Tables = dict[str, dict[str, Any]]
MOST_APART = 1e-3
"""Rounding of float32 after 3 updates of Adam, which divides by square roots of small numbers."""
_MISSION = {"id": "MissionGym-v0", "vec": "native"}
CASES: dict[str, Tables] = {
    "cartpole": {"env": {"n_envs": 8}, "ppo": {"n_steps": 64, "batch_size": 128, "net_arch": [64, 64]}},
    "demo": {"env": {**_MISSION, "config": "demo", "n_envs": 32}, "ppo": {"n_steps": 64, "net_arch": [64, 64]}},
    "fast": {
        "env": {"id": "MissionGym-v0", "config": "standard", "n_envs": 16},
        "ppo": {"n_steps": 64, "batch_size": 256, "net_arch": [512, 512]},
    },
    "CnnPolicy": {"env": {"id": "ImageWalk-v0", **PROBES}, "ppo": {"policy": "CnnPolicy", "n_steps": 16}},
    "gSDE": {"env": {"id": "Pendulum-v1"}, "ppo": {"use_sde": True}},
    "Dict": {"env": {"id": "DictWalk-v0", **PROBES}, "ppo": {"policy": "MultiInputPolicy"}},
    "MultiDiscrete": {"env": {"id": "MultiWalk-v0", **PROBES}},
    "recurrent": {"ppo": {"algo": "recurrent_ppo", "policy": "MlpLstmPolicy"}},
    "maskable": {"env": {"id": "MissionGym-v0", "config": "demo"}, "ppo": {"algo": "maskable_ppo"}},
}


class _DrawnOnHost(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every random operation is done with the host's generator, wherever its tensors are."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if th.Tag.nondeterministic_seeded not in func.tags or "_cudnn_rnn" in func._schema.name:  # its dropout is 0
            return func(*args, **kwargs)
        there = [each.device for each in (*args, *kwargs.values()) if isinstance(each, th.Tensor) and each.is_cuda]
        wanted = kwargs.get("device")
        device = there[0] if there else th.device(wanted) if wanted is not None else None
        if device is None or device.type != "cuda":
            return func(*args, **kwargs)
        if wanted is not None:
            kwargs["device"] = th.device("cpu")
        kwargs.pop("generator", None)
        out = func(*tree_map(_on_host, args), **tree_map(_on_host, kwargs))
        if func._schema.name.endswith("_"):  # in place
            args[0].copy_(out)
            return args[0]
        return tree_map(lambda each: each.to(device) if isinstance(each, th.Tensor) else each, out)


@contextmanager
def drawn_on_host() -> Iterator[None]:
    """Acts are not captured then: a graph cannot ask the host for numbers."""
    with _DrawnOnHost(), mock.patch.object(policy_evaluator._Acts, "graphed", False):  # type: ignore[no-untyped-call]
        yield


@contextmanager
def one_by_one() -> Iterator[None]:
    """No CUDA graphs: every kernel is asked for by Python."""

    def refuse(_work: object) -> NoReturn:
        raise RuntimeError("kernels are wanted one by one")

    with warnings.catch_warnings(), mock.patch.object(cuda_graphs, "captured", refuse):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _on_host(each: Any) -> Any:
    return each.cpu() if isinstance(each, th.Tensor) else each


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mission-gpu-") as name:
        yield Path(name)


def _spec(tables: Mapping[str, Mapping[str, Any]], device: str, updates: int = 3, **run: Any) -> Spec:
    merged = {name: dict(table) for name, table in tables.items()}
    env, ppo = {"n_envs": 2, **merged.get("env", {})}, {"n_steps": 32, **merged.get("ppo", {})}
    steps = updates * env["n_envs"] * ppo["n_steps"]
    kept = {"total_timesteps": steps, "device": device, "tf32": False, **merged.get("run", {}), **run}
    return spec_with(env=env, ppo=ppo, run=kept)


def _trained(folder: Path, spec: Spec, *, draws: AbstractContextManager[Any] | None = None) -> Ran:
    """The training, in this process. Raises `RuntimeError` where it did not finish."""
    with draws or drawn_on_host():
        ran = run_attempt(new_run(folder, spec))
    if ran.exit_code:
        raise RuntimeError(ran.ended().cause)
    return ran


def _apart(first: Ran, second: Ran) -> float:
    one, other = first.parameters(), second.parameters()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def numbers(bench: Bench) -> list[Row]:
    """Each case, by both engines where it has both."""
    rows = []
    few = ("cartpole", "CnnPolicy", "recurrent")
    for name, tables in CASES.items():
        if bench.small and name not in few:
            continue
        contrib = name in ("recurrent", "maskable")
        engines = ("fast",) if contrib else ("fast", "stock")
        for engine in engines:
            what = f"{name}, engine {engine}: largest difference of a parameter after 3 updates"
            try:
                with _folder() as folder:
                    run: dict[str, Any] = {} if contrib else {"engine": engine}
                    sides = [
                        _trained(folder / side, _spec(tables, at, **run))
                        for side, at in (("host", "cpu"), ("card", bench.device))
                    ]
                    rows.append(bounded(what, "", [_apart(*sides)], at_most=MOST_APART, note=_actions(*sides)))
            except RuntimeError as error:
                rows.append(unmeasured(what, f"<= {MOST_APART:g}", str(error)))
    return rows


def _actions(first: Ran, second: Ran) -> str:
    """Where a probability is rounded across a draw, another action is taken, and all after it differs."""
    returns = [[row.episodes.r for row in ran.updates()] for ran in (first, second)]
    return "same episodes" if returns[0] == returns[1] else "an action was drawn otherwise: episodes differ"


def checkpoints(bench: Bench) -> list[Row]:
    """Stopped after two of four updates and gone on, against a run on the CPU that was never stopped."""
    rows = []
    tables = CASES["cartpole"]
    for here, there in dict.fromkeys(((bench.device, "cpu"), ("cpu", bench.device), (bench.device, bench.device))):
        what = f"a checkpoint of {here} goes on on {there}: largest difference of a parameter to a run never stopped"
        with _folder() as folder, drawn_on_host():
            whole = _trained(folder / "whole", _spec(tables, there if here == there else "cpu", 4))
            run_dir = new_run(folder / "parts", _spec(tables, here, 4))
            stopped = run_attempt(run_dir, hook=stop_in("rollout", 2))
            write_spec(run_dir.spec, _spec(tables, there, 4))
            went_on = run_attempt(run_dir, 2, stopped.ended().checkpoint)
            if went_on.exit_code:
                rows.append(unmeasured(what, "", went_on.ended().cause))
                continue
            rows.append(bounded(what, "", [_apart(whole, went_on)], at_most=MOST_APART, note=_called(went_on)))
    rows.append(_exact(bench, "cartpole"))
    if not bench.small:
        rows += [_exact(bench, "fast"), _exact(bench, "fast", tf32=True)]
    return rows


def _called(went_on: Ran) -> str:
    return "called exact" if went_on.started().exact else "called continued, not exact"


_GOES_ON = """
import sys
from pathlib import Path
from mission_tui.records.runs.layout import RunDir
from tests.trainer.harness import run_attempt
sys.exit(run_attempt(RunDir(Path(sys.argv[1])), 2, sys.argv[2]).exit_code)
"""


def _exact(bench: Bench, case: str, **run: Any) -> Row:
    """The card's own generator and kernels, and a process of its own for the resume: not one bit may differ."""
    words = "".join(f" with {name}" for name in run)
    what = f"{case}{words}, a resume on {bench.device} by a new process: largest difference to a run never stopped"
    try:
        with _folder() as folder:
            spec = _spec(CASES[case], bench.device, 4, **run)
            whole = _trained(folder / "whole", spec, draws=nullcontext())
            run_dir = new_run(folder / "parts", spec)
            stopped = run_attempt(run_dir, hook=stop_in("rollout", 2))
            command = [sys.executable, "-c", _GOES_ON, str(run_dir.path), str(stopped.ended().checkpoint)]
            code = subprocess.run(command, check=False).returncode
            went_on = Ran(run_dir, code)
            return bounded(what, "", [_apart(whole, went_on)], at_most=0.0, note=_called(went_on))
    finally:
        use_tf32("cpu", wanted=False)


_REPLAYS: dict[str, Any] = {"buffer_size": 1000, "learning_starts": 2 * PERIOD_STEPS - 50, "net_arch": [64]}
_OTHERS: dict[str, dict[str, Any]] = {
    "sac": _REPLAYS,
    "td3": _REPLAYS,
    "ddpg": _REPLAYS,
    "dqn": _REPLAYS,
    "a2c": {"net_arch": [64]},
    "tqc": _REPLAYS,
    "trpo": {"n_steps": 64, "batch_size": 64, "net_arch": [64]},
    "qrdqn": _REPLAYS,
    "crossq": _REPLAYS,
    "ars": {"n_delta": 2, "policy": "MlpPolicy", "net_arch": [64], "zero_policy": False},
}


def others(bench: Bench) -> list[Row]:
    """Two periods on the card, the second of which learns a little, then a third on a CPU."""
    rows = []
    for algo, settings in list(_OTHERS.items())[: 1 if bench.small else None]:
        what = f"{algo} trains on {bench.device}, and its checkpoint goes on on a CPU"
        plays = "CartPole-v1" if algo in ("dqn", "qrdqn", "a2c", "trpo", "ars") else "Pendulum-v1"

        def spec(device: str, steps: int, algo: str = algo, env: str = plays, own: Any = settings) -> Spec:
            tables = {"env": {"id": env, "n_envs": 1, "vec": "inline"}, algo: own}
            run = {"algo": algo, "device": device, "total_timesteps": steps, "seed": 3}
            return msgspec.convert({"preset": algo, **tables, "run": run}, Spec)

        with _folder() as folder:
            run_dir = new_run(folder / "run", spec(bench.device, 2 * PERIOD_STEPS))
            first = run_attempt(run_dir)
            said = f"on {first.started().device}" if not first.exit_code else first.ended().cause
            if not first.exit_code:
                write_spec(run_dir.spec, spec("cpu", 3 * PERIOD_STEPS))
                second = run_attempt(run_dir, 2, first.ended().checkpoint)
                said += f", then on {second.started().device}" if not second.exit_code else second.ended().cause
                first = second
            rows.append(bounded(what, "of 1", [float(not first.exit_code)], at_least=1, note=said))
    return rows


def modes(bench: Bench) -> list[Row]:
    """What each mode changes; nothing but finite parameters is asked of them."""
    rows = []
    asked: dict[str, dict[str, Any]] = {
        "bf16": {"precision": "bf16"},
        "TF32": {"tf32": True},
        "compile": {"compile": True},
    }
    if bench.small:
        del asked["compile"]  # half a minute, and tests/trainer/ppo/test_compile.py does it
    for name, run in asked.items():
        what = f"`fast` net with {name}: largest difference of a parameter to single kernels after 3 updates"
        try:
            with _folder() as folder:
                # The compiler refuses such a mode; on one device the draws are the same without.
                plain = _trained(folder / "plain", _spec(CASES["fast"], bench.device), draws=one_by_one())
                other = _trained(folder / "other", _spec(CASES["fast"], bench.device, **run), draws=nullcontext())
                rows.append(bounded(what, "", [_apart(plain, other)]))
        except RuntimeError as error:
            rows.append(unmeasured(what, "", str(error)))
        finally:
            use_tf32("cpu", wanted=False)
    return rows


def graphs(bench: Bench) -> list[Row]:
    """With the card's own random numbers: not one bit may differ where its kernels sum in one order."""
    return [_by_graphs(bench, case) for case in (("fast",) if bench.small else ("fast", "demo", "CnnPolicy", "Dict"))]


def _by_graphs(bench: Bench, case: str) -> Row:
    what = f"{case} by CUDA graphs: largest difference of a parameter to single kernels after 3 updates"
    try:
        with _folder() as folder, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            plain = _trained(folder / "plain", _spec(CASES[case], bench.device), draws=one_by_one())
            captured = _trained(folder / "captured", _spec(CASES[case], bench.device), draws=nullcontext())
            note = "; ".join({str(one.message) for one in said if issubclass(one.category, RuntimeWarning)})
            return bounded(what, "", [_apart(plain, captured)], at_most=0.0, note=note)
    except RuntimeError as error:
        return unmeasured(what, "0", str(error))


_OPENS = """
import sys
import torch
from stable_baselines3 import PPO
assert not torch.cuda.is_available()
model = PPO.load(sys.argv[1], device="cpu")
print(model.predict(model.observation_space.sample())[0])
"""


def export(bench: Bench) -> list[Row]:
    """In a process that sees no card."""
    with _folder() as folder:
        ran = _trained(folder / "run", _spec(CASES["cartpole"], bench.device))
        file, checkpoint = folder / "policy.zip", ran.ended().checkpoint
        assert checkpoint is not None
        words = [sys.executable, "-m", "mission_tui.trainer.export", str(ran.run_dir.path)]
        words += ["--checkpoint", checkpoint, str(file)]
        exported = subprocess.run(words, capture_output=True, text=True, check=False)
        environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        opened = subprocess.run(
            [sys.executable, "-c", _OPENS, str(file)], env=environ, capture_output=True, text=True, check=False
        )
    went = exported.returncode == 0 and opened.returncode == 0
    note = "" if went else (exported.stderr + opened.stderr).strip()[-300:]
    what = "an export of a run on the card opens and plays in stock SB3 without CUDA"
    return [bounded(what, "of 1", [float(went)], at_least=1, note=note)]
