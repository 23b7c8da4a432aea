"""`run.compile`: the same numbers within rounding, compiled before the first step or refused in a sentence."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from torch._inductor import codecache
from torch._inductor.runtime import cache_dir_utils
from torch._inductor.runtime.cache_dir_utils import cache_dir, default_cache_dir

from mission_tui.errors import PresetError
from mission_tui.trainer.ppo import FastPPO
from mission_tui.trainer.ppo.reference import never
from mission_tui.trainer.state.boundary import copy_moments
from mission_tui.trainer.torch_compiler import keep_cache_private, load_compiler
from mission_tui.trainer.vec_env import InlineVecEnv
from tests.trainer.harness import Ran, equal, new_run, phases, run_attempt, spec_with, stop_in
from tests.trainer.ppo.test_reference import CASES, LANES, build

ROOT = Path(__file__).parents[3]
COMPILE = spec_with(run={"compile": True})
COMPILED = {"schedules, truncated minibatch": CASES["schedules"] | CASES["truncated minibatch"]}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def compiler() -> Iterator[None]:
    """The compiler, loaded, and afterwards as if nothing had been compiled."""
    load_compiler()
    yield
    th.compiler.set_stance("default")
    th.compiler.reset()


def compiled(case: dict[str, Any]) -> Any:
    """A model that has been warmed up, and fails wherever anything else would have to be compiled."""
    model = build(FastPPO, InlineVecEnv, {**case, "compiles": True})
    random = th.random.get_rng_state()
    assert model.warm_up(never) > 0.0
    assert th.equal(th.random.get_rng_state(), random)
    th.compiler.set_stance("fail_on_recompile")
    return model


@pytest.mark.parametrize("name", [*COMPILED, "several heads", "dictionary", "images"])
def test_parameters_equal_those_of_the_uncompiled_policy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After five updates none is further than 1e-5 away, and nothing was compiled after the warm-up.

    One policy is compiled to machine code; of the others only what the compiler takes apart differs, which it does
    alike for every backend, and half a minute sooner for this one.
    """
    case = COMPILED.get(name) or CASES[name]
    if name not in COMPILED:
        monkeypatch.setattr(th, "compile", partial(th.compile, backend="aot_eager"))
    ours, plain = compiled(case), build(FastPPO, InlineVecEnv, case)
    # One after the other: both draw from the same generators.
    for model in (ours, plain):
        model.set_random_seed(3)
        model.learn(5 * LANES * model.n_steps)
    assert ours.policy.state_dict().keys() == plain.policy.state_dict().keys()
    for key, value in ours.policy.state_dict().items():
        th.testing.assert_close(value, plain.policy.state_dict()[key], rtol=0.0, atol=1e-5)
    names = [set(copy_moments(model)) for model in (ours, plain)]
    assert names[0] == names[1]


def test_bf16_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both options together train, and the first ratio is near 1."""
    monkeypatch.setattr(th, "compile", partial(th.compile, backend="aot_eager"))
    model = compiled({**CASES["discrete"], "precision": "bf16"})
    model._setup_learn(LANES * 32)
    for _ in range(2):
        assert model.collect() is not None
        assert model.update().read(model)["train/ratio_first"] < 0.03


def test_a_stop_during_the_warm_up_leaves_the_rest_uncompiled() -> None:
    """What was not compiled is not compiled later either: it is computed without."""
    model = build(FastPPO, InlineVecEnv, {**CASES["discrete"], "compiles": True})
    model.warm_up(lambda: True)
    with pytest.raises(RuntimeError, match="recompile"), th.compiler.set_stance("fail_on_recompile"):
        model.learn(LANES * 32)
    before = graphs()
    model.learn(LANES * 32)
    assert graphs() == before


def graphs() -> int:
    """How many forms of anything have been compiled."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


class OwnPolicy(ActorCriticPolicy):
    """Evaluates in a way of its own."""

    def evaluate_actions(self, obs: Any, actions: th.Tensor) -> Any:
        return super().evaluate_actions(obs, actions)


def test_a_policy_that_cannot_be_taken_apart_is_refused() -> None:
    """One that overrides how it evaluates is named with what would be valid."""
    with pytest.raises(PresetError, match=r"override how they evaluate, cannot be compiled; use run\.compile = false"):
        build(FastPPO, InlineVecEnv, {**CASES["discrete"], "policy": OwnPolicy, "compiles": True})


def ran(path: Path) -> Ran:
    """A whole tiny run that was compiled."""
    return run_attempt(new_run(path, COMPILE))


def test_a_compiled_run_stops_and_resumes_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the middle of an update it goes on bit for bit, in an attempt that compiles anew."""
    monkeypatch.setattr(th, "compile", partial(th.compile, backend="aot_eager"))
    whole = ran(tmp_path / "whole")
    assert phases(whole.said)[:2] == ["starting", "rollout"]
    run_dir = new_run(tmp_path / "resumed", COMPILE)
    first = run_attempt(run_dir, hook=stop_in("update", 3))
    assert first.ended().how == "stopped"
    second = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert second.started().exact
    assert equal(second.parameters(), whole.parameters())
    effective = tomllib.loads(run_dir.attempt(2).effective.read_text())
    assert effective["run"]["compile"] is True
    assert effective["reasons"]["run.compile"].endswith("s before the first step")


def test_without_a_cpp_compiler_nothing_starts(tmp_path: Path) -> None:
    """One sentence that names the setting, the exit code of a bad preset, and no environment step."""
    run_dir = new_run(tmp_path / "run", COMPILE)
    environ = os.environ | {
        "PYTHONPATH": str(ROOT),
        "CXX": str(tmp_path / "no-such-compiler"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-m", "mission_tui.trainer", str(run_dir.path), "1"]
    done = subprocess.run(command, env=environ, stderr=subprocess.PIPE, text=True, timeout=100)
    end = Ran(run_dir, done.returncode).ended()
    assert (done.returncode, end.failure, end.timesteps) == (78, "config", 0)
    assert end.cause.startswith("run.compile = true, but torch cannot compile this policy here (")
    assert end.cause.endswith("; use run.compile = false")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("taken", ["", "a link", "open to all", "open to a group", "somebody's"])
def test_what_torch_compiled_is_loaded_from_no_folder_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    """Its folder has a name in `/tmp` that anybody can take first; code put there would run as the trainer."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    usual = Path(default_cache_dir())
    match taken:
        case "a link":
            usual.symlink_to(tmp_path)
        case "open to all":
            usual.mkdir()
            usual.chmod(0o777)
        case "open to a group":
            usual.mkdir()
            usual.chmod(0o775)
            monkeypatch.setattr(grp, "getgrgid", lambda _: grp.struct_group(("lab", "x", 4711, ["ada", "bob"])))
        case "somebody's":
            usual.mkdir()
            monkeypatch.setattr(os, "getuid", lambda: 4711)
    for module in (cache_dir_utils, codecache):
        monkeypatch.setattr(module, "default_cache_dir", default_cache_dir)
    for name in ("_HEADER_DIR", "_HEADER_LOCK_DIR"):
        monkeypatch.setattr(codecache, name, str(usual / name))
    keep_cache_private()
    chosen = Path(cache_dir())
    assert Path(codecache._HEADER_LOCK_DIR).is_relative_to(chosen)
    assert Path(codecache._HEADER_DIR).is_relative_to(chosen)
    assert (chosen == usual) is (taken == "")
    assert chosen.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "getuid", os.geteuid)
    keep_cache_private()
    assert cache_dir() == str(chosen)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "mine"))
    keep_cache_private()
    assert cache_dir() == str(tmp_path / "mine")
