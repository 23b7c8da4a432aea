"""The kernels against the operations of torch that they stand for, by every instruction set that this machine has."""

from __future__ import annotations

import os
import re
import shutil
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from signal import SIGCHLD, SIGINT, SIGTERM, SIGUSR1
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy

from mission_tui.errors import PresetError
from mission_tui.trainer.native import library as native
from mission_tui.trainer.native.build import SOURCES, compile_kernels
from mission_tui.trainer.ppo.losses import ClipRanges, Losses, Objective
from mission_tui.trainer.ppo.optimizer import FlatAdam, flattened
from mission_tui.trainer.ppo.policy_evaluator import NativePolicy, evaluator_of
from mission_tui.trainer.ppo.rollout_buffer import Minibatch
from mission_tui.trainer.ppo.signals import UpdateSignals
from tests.waiting import until

FEATURES = 5
SPACES: dict[str, spaces.Space[Any]] = {
    "one choice": spaces.Discrete(3),
    "several choices": spaces.MultiDiscrete([2, 5, 9, 3]),
    "continuous": spaces.Box(-1.0, 1.0, (3,)),
}
NETS: dict[str, dict[str, Any]] = {
    "as SB3 has them": {},
    "of odd widths, rectified": {"net_arch": [13, 50, 7], "activation_fn": th.nn.ReLU},
    "unlike each other": {"net_arch": {"pi": [33], "vf": [128, 16]}},
    "none": {"net_arch": []},
}


@pytest.fixture(params=native.SETS)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kernels by one instruction set; skipped where this processor lacks it, or there is no compiler."""
    monkeypatch.setenv(native.SWITCH, request.param)
    if native.kernels() is None:
        pytest.skip("the kernels were not built here")
    if native.instruction_set() != request.param:
        pytest.skip(f"this processor has no {request.param}")
    return native.kernels()


def policy_of(space: spaces.Space[Any], net: dict[str, Any]) -> ActorCriticPolicy:
    """A seeded policy, each of whose outputs says something."""
    th.manual_seed(5)
    observed = spaces.Box(-np.inf, np.inf, (FEATURES,))
    policy = ActorCriticPolicy(observed, space, lambda _: 3e-3, **net)
    with th.no_grad():
        for parameter in policy.parameters():
            parameter.add_(th.randn_like(parameter) * 0.2)
    policy.optimizer = flattened(policy.optimizer)
    return policy


def both(space: spaces.Space[Any], net: dict[str, Any]) -> tuple[NativePolicy, Any, ActorCriticPolicy]:
    """The kernels' evaluator and torch's of the same policy."""
    policy = policy_of(space, net)
    mine = evaluator_of(policy, optimizer=policy.optimizer)
    assert isinstance(mine, NativePolicy)
    mine.reset()
    return mine, evaluator_of(policy), policy


def transitions(theirs: Any, rows: int) -> Minibatch:
    """What the policy would do, with log-probabilities and values of a slightly different one."""
    generator = th.Generator().manual_seed(7)
    observations = th.randn(rows, FEATURES, generator=generator)
    actions = theirs.act(observations)
    values, log_probs = theirs.last_values(observations, actions)
    theirs.reset()
    noise = partial(th.randn, rows, generator=generator)
    return Minibatch(
        observations, actions, values.flatten() + noise(), log_probs + noise() * 0.2, noise() * 3.0 + 1.0, noise()
    )


def losses_of(mine: NativePolicy, batch: Minibatch, objective: Objective, *, normalized: bool) -> Losses:
    """Of all transitions in `batch`, in their order."""
    mine.learn_from(batch)
    return mine.losses(th.arange(len(batch.actions)), objective, normalized=normalized)


@pytest.mark.parametrize("rows", [1, 97, 256])
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("space", SPACES)
def test_losses_and_gradients_are_those_of_torch(library: Any, space: str, net: str, rows: int) -> None:
    """With clipped values and a bonus for entropy, and without; of rows that fill no block."""
    mine, theirs, policy = both(SPACES[space], NETS[net])
    batch = transitions(theirs, rows)
    optimizer = policy.optimizer
    assert isinstance(optimizer, FlatAdam)
    for objective, normalized in (
        (Objective(ClipRanges(0.2, None), 0.0, 0.5), True),
        (Objective(ClipRanges(0.1, 0.3), 0.02, 0.7), False),
    ):
        said = losses_of(mine, batch, objective, normalized=normalized)
        by_kernels = optimizer.vectors[1].clone()
        optimizer.zero_grad()
        advantages = batch.advantages
        if normalized and rows > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        values, evaluation = theirs.evaluate_actions(batch.observations, batch.actions)
        wanted, gradient = objective.of(batch, advantages, values, evaluation)
        theirs.backward(gradient)
        largest = float(optimizer.vectors[1].abs().max())
        th.testing.assert_close(by_kernels, optimizer.vectors[1], rtol=1e-4, atol=1e-5 * largest)
        for name in ("loss", "policy_gradient", "value", "entropy", "log_ratio", "heads"):
            th.testing.assert_close(getattr(said, name), getattr(wanted, name), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spoilt", [False, True])
def test_what_an_update_tells_of_a_minibatch_is_that_of_torch(library: Any, spoilt: bool) -> None:
    """Losses and what is made of the ratios; one that is nan is not overlooked."""
    mine, theirs, _ = both(SPACES["several choices"], {})
    batch, order = transitions(theirs, 200), th.randperm(200)[:150]
    if spoilt:
        batch.old_log_prob[order[70]] = th.nan
    mine.learn_from(batch)
    told, wanted = UpdateSignals(150, 150, 0.2), UpdateSignals(150, 150, 0.2)
    losses = mine.losses(order, Objective(ClipRanges(0.2, None), 0.01, 0.5), normalized=True)
    assert losses.numbers is not None
    told.add(losses)
    wanted.add(losses._replace(numbers=None))
    np.testing.assert_allclose(told._table, wanted._table, rtol=1e-5, atol=1e-6)
    assert np.isnan(told._column("ratio_error")[0]) == spoilt
    assert spoilt or told._column("clip_fraction")[0] > 0.0


@pytest.mark.parametrize("space", SPACES)
def test_actions_are_those_of_torch_by_the_same_random_numbers(library: Any, space: str) -> None:
    """And so are their log-probabilities, and the values."""
    mine, theirs, _ = both(SPACES[space], {})
    observations = th.randn(37, FEATURES)
    th.manual_seed(11)
    actions = mine.act(observations)
    th.manual_seed(11)
    wanted = theirs.act(observations)
    th.testing.assert_close(actions, wanted, rtol=0.0, atol=1e-6)
    for ours, its in zip(
        mine.rollout_values(observations, actions), theirs.rollout_values(observations, wanted), strict=True
    ):
        th.testing.assert_close(ours, its, rtol=1e-5, atol=1e-5)


def test_what_is_said_of_a_row_does_not_depend_on_its_neighbours(library: Any) -> None:
    """Bit for bit: so the ratio of the first minibatch is one."""
    mine, theirs, _ = both(SPACES["several choices"], {})
    batch = transitions(theirs, 150)
    together = losses_of(mine, batch, Objective(ClipRanges(0.2, None), 0.0, 0.5), normalized=False).log_ratio
    for row in (0, 63, 64, 149):
        alone = Minibatch(*(part[row : row + 1].contiguous() for part in batch if isinstance(part, th.Tensor)))
        said = losses_of(mine, alone, Objective(ClipRanges(0.2, None), 0.0, 0.5), normalized=False)
        assert th.equal(said.log_ratio, together[row : row + 1])
        values = mine.predict_values(batch.observations)
        assert th.equal(mine.predict_values(alone.observations), values[row : row + 1])


def learned_by(threads: int, space: str) -> list[th.Tensor]:
    """What two minibatches and steps come to, and then acting on rows for more than one thread."""
    with pytest.MonkeyPatch.context() as patch:
        # Those of torch itself would not survive a fork.
        patch.setattr(th, "get_num_threads", lambda: threads)
        mine, theirs, policy = both(SPACES[space], NETS["unlike each other"])
    optimizer = policy.optimizer
    assert isinstance(optimizer, FlatAdam)
    found = []
    for rows in (300, 512):
        said = losses_of(mine, transitions(theirs, rows), Objective(ClipRanges(0.1, 0.3), 0.02, 0.7), normalized=True)
        norm = mine.descend(0.5)
        found += [*said[:5], norm, *(vector.clone() for vector in optimizer.vectors)]
    mine.reset()
    observations = th.randn(777, FEATURES, generator=th.Generator().manual_seed(3))
    th.manual_seed(11)
    actions = mine.act(observations)
    return [*found, actions, *mine.rollout_values(observations, actions)]


@pytest.mark.parametrize("space", SPACES)
def test_two_threads_say_what_one_does(library: Any, space: str) -> None:
    """Bit for bit, many times over, whichever of them does what."""
    alone = learned_by(1, space)
    for _ in range(10):
        for ours, its in zip(learned_by(2, space), alone, strict=True):
            assert th.equal(ours, its)


def second_threads() -> list[Path]:
    """Those of this process, as `/proc` has them."""
    return [it for it in Path("/proc/self/task").iterdir() if (it / "comm").read_text().strip() == "second thread"]


def test_the_second_thread_takes_no_signal() -> None:
    """A stop is the trainer's own to hear."""
    if native.kernels() is None:
        pytest.skip("the kernels were not built here")
    learned_by(2, "one choice")
    (task,) = until(second_threads)
    (line,) = (it for it in (task / "status").read_text().splitlines() if it.startswith("SigBlk"))
    mask = int(line.split()[1], 16)
    assert all(mask >> (signal - 1) & 1 for signal in (SIGTERM, SIGINT, SIGUSR1, SIGCHLD))


def test_a_fork_has_a_second_thread_of_its_own() -> None:
    """That of the parent is not in it; the numbers stay what they were."""
    if native.kernels() is None:
        pytest.skip("the kernels were not built here")
    wanted = learned_by(2, "one choice")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it is what is tested: a fork of a process with threads
        child = os.fork()
    if child == 0:
        same = all(map(th.equal, learned_by(2, "one choice"), wanted))
        with suppress(AssertionError):
            until(second_threads, 5.0)
        os._exit(0 if same and len(second_threads()) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("most", [0.5, 1e9], ids=["clipped", "as they are"])
def test_a_step_is_that_of_adam(library: Any, most: float) -> None:
    """Three in a row: parameters, moments and the norm before clipping."""
    stepped = []
    for by_kernels in (True, False):
        mine, _, policy = both(SPACES["one choice"], {})
        optimizer = policy.optimizer
        assert isinstance(optimizer, FlatAdam)
        generator = th.Generator().manual_seed(1)
        norms = []
        for _ in range(3):
            optimizer.zero_grad()
            for parameter in policy.parameters():
                assert parameter.grad is not None
                parameter.grad.copy_(th.randn(parameter.shape, generator=generator))
            if by_kernels:
                norms.append(mine.descend(most))
            else:
                norms.append(optimizer.clip(most))
                optimizer.step()
        stepped.append([*optimizer.vectors, th.stack(norms), optimizer.state_dict()["state"][0]["step"]])
    for ours, its in zip(*stepped, strict=True):
        th.testing.assert_close(ours, its, rtol=1e-5, atol=1e-7)


def test_a_gradient_that_is_not_a_number_spoils_every_parameter(library: Any) -> None:
    """As with torch, so that it is found after the update."""
    mine, _, policy = both(SPACES["one choice"], {})
    optimizer = policy.optimizer
    assert isinstance(optimizer, FlatAdam)
    optimizer.vectors[1][3] = float("nan")
    assert th.isnan(mine.descend(0.5))
    assert all(bool(th.isnan(parameter).all()) for parameter in policy.parameters())


@pytest.mark.parametrize("bad", ["observations", "advantages", "returns", "old_log_prob"])
def test_what_is_not_a_number_is_not_hidden(library: Any, bad: str) -> None:
    """By no bound and no comparison: some loss says so."""
    mine, theirs, _ = both(SPACES["several choices"], {})
    batch = transitions(theirs, 64)
    getattr(batch, bad)[5] = float("nan")
    said = losses_of(mine, batch, Objective(ClipRanges(0.2, None), 0.01, 0.5), normalized=True)
    assert th.isnan(said.loss)


def test_wide_policies_and_other_optimizers_are_left_to_torch() -> None:
    """And so are features that are no plain vector, and heads that the kernels do not know."""
    for net in ({"net_arch": [512]}, {"optimizer_class": th.optim.RMSprop}, {"net_arch": [8] * 9}):
        policy = policy_of(SPACES["one choice"], net)
        assert not isinstance(evaluator_of(policy, optimizer=policy.optimizer), NativePolicy)
    switches = policy_of(spaces.MultiBinary(3), {})
    assert not isinstance(evaluator_of(switches, optimizer=switches.optimizer), NativePolicy)


def test_a_library_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable install keeps its library while its sources change."""
    if native.kernels() is None:
        pytest.skip("the kernels were not built here")
    monkeypatch.setattr(native, "digest", lambda: "of others")
    assert native.compiled_library.__wrapped__() is None


def test_they_are_switched_off_where_the_process_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after another value was in force when the library was loaded, as in a fork of the preloader."""
    native.kernels()
    monkeypatch.setenv(native.SWITCH, "0")
    assert native.kernels() is None
    assert native.instruction_set() == "none"
    monkeypatch.setenv(native.SWITCH, "base")
    assert native.instruction_set() in ("base", "none")


def test_a_switch_that_says_nothing_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, with the nearest that is known."""
    monkeypatch.setenv(native.SWITCH, "avx22")
    said = "MISSION_TUI_KERNELS = 'avx22' must be one of 0, base, avx2, avx512; did you mean 'avx2'"
    with pytest.raises(PresetError, match=re.escape(said)):
        native.kernels()


def test_without_a_compiler_the_package_is_built_without_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence says why, and no older library stays behind."""
    for name in SOURCES:
        shutil.copy(Path(native.__file__).with_name(name), tmp_path)
    (tmp_path / "kernels.so").write_bytes(b"of before")
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.delenv("CC", raising=False)
    assert compile_kernels(tmp_path) == "no C compiler (cc, gcc or clang) is installed"
    assert not (tmp_path / "kernels.so").exists()
    (tmp_path / "kernels.c").write_text("no C at all")
    monkeypatch.undo()
    if shutil.which("cc") or shutil.which("gcc"):
        assert "failed" in compile_kernels(tmp_path)
        assert not (tmp_path / "kernels.so").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-gcc") is None, reason="needs gcc-aarch64-linux-gnu")
def test_the_kernels_are_built_for_another_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For aarch64 by a compiler that knows nothing of AVX: nothing in them is of x86 alone."""
    for name in SOURCES:
        shutil.copy(Path(native.__file__).with_name(name), tmp_path)
    monkeypatch.setenv("CC", "aarch64-linux-gnu-gcc")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert compile_kernels(tmp_path) == ""
    machine = (tmp_path / "kernels.so").read_bytes()[18:20]
    assert int.from_bytes(machine, "little") == 183  # EM_AARCH64


def test_an_environment_of_any_type_of_number_is_learned_from() -> None:
    """Observations in double precision are taken as single, as torch takes them."""
    observed = spaces.Box(-1.0, 1.0, (FEATURES,), dtype=np.float64)
    policy = ActorCriticPolicy(observed, gymnasium.spaces.Discrete(2), lambda _: 1e-3)
    policy.optimizer = flattened(policy.optimizer)
    mine, theirs = evaluator_of(policy, optimizer=policy.optimizer), evaluator_of(policy)
    mine.reset()
    observations = th.rand(4, FEATURES, dtype=th.float64)
    th.testing.assert_close(mine.predict_values(observations), theirs.predict_values(observations))
