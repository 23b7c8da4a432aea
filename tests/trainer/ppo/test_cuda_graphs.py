"""Captured gradient steps and acts: bit for bit what kernels asked for one by one give, on a card that is not there.

The stand-in's graphs repeat operations on the same tensors and nothing of Python, as a card's do: a number of the host
that changes, or an attribute that is expected to be set again, would make a difference.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import gymnasium
import pytest
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor

from mission_tui.trainer.ppo import cuda_graphs
from mission_tui.trainer.ppo.cuda_graphs import GraphedCall
from mission_tui.trainer.ppo.policy_evaluator import LayeredPolicy, evaluator_of
from tests.stand_in_cuda import stand_in_cuda
from tests.trainer.harness import PROBES, Ran, equal, new_run, run_attempt, spec_with

CASES: dict[str, dict[str, dict[str, Any]]] = {
    "one choice": {},
    "several choices": {"env": {"id": "MultiWalk-v0", **PROBES}},
    "switches": {"env": {"id": "BinaryWalk-v0", **PROBES}},
    "components": {"env": {"id": "Pendulum-v1"}},
    "a last minibatch that is smaller": {"ppo": {"batch_size": 24}},
    "a bonus for entropy, no clipped values": {"ppo": {"ent_coef": 0.01, "clip_range_vf": None}},
    "ranges that change with each update": {
        "ppo": {"clip_range": {"start": 0.3, "end": 0.1}, "learning_rate": {"start": 1e-3, "end": 1e-4}}
    },
    "an update that ends early": {"ppo": {"target_kl": 1e-4, "learning_rate": 1e-2, "n_epochs": 4}},
    "images": {"env": {"id": "ImageWalk-v0", **PROBES}, "ppo": {"policy": "CnnPolicy"}},
    "a dictionary": {"env": {"id": "DictWalk-v0", **PROBES}, "ppo": {"policy": "MultiInputPolicy"}},
    "images, and an update that ends early": {
        "env": {"id": "ImageWalk-v0", **PROBES},
        "ppo": {"policy": "CnnPolicy", "target_kl": 1e-4, "n_epochs": 4},
    },
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:You are trying to run PPO on the GPU"),
    pytest.mark.filterwarnings("ignore:You have specified a mini-batch size"),
]


def trained(folder: Path, case: dict[str, dict[str, Any]], around: AbstractContextManager[Any]) -> Ran:
    """Three updates on the card, within `around`."""
    tables = {**case, "ppo": {"n_steps": 16, "batch_size": 16, **case.get("ppo", {})}}
    tables["run"] = {"total_timesteps": 3 * 2 * 16, "device": "cuda"}
    with stand_in_cuda(), around:
        ran = run_attempt(new_run(folder, spec_with(**tables)))
    assert ran.exit_code == 0, ran.ended().cause
    return ran


def refused(_work: object) -> NoReturn:
    raise RuntimeError("no graphs today")


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_graphs_give_the_numbers_of_single_kernels(tmp_path: Path, case: dict[str, dict[str, Any]]) -> None:
    """Parameters bit for bit, and what each update said of itself; most steps are replays."""
    replays: list[str] = []
    right = GraphedCall.__call__

    def counted(self: GraphedCall[Any]) -> Any:
        if self._graph is not None:
            replays.append(self._what)
        return right(self)

    by_graphs = trained(tmp_path / "graphs", case, mock.patch.object(GraphedCall, "__call__", counted))
    with pytest.warns(RuntimeWarning, match="goes on without: no graphs today"):
        one_by_one = trained(tmp_path / "single", case, mock.patch.object(cuda_graphs, "captured", refused))
    assert equal(by_graphs.parameters(), one_by_one.parameters())
    assert [row.metrics for row in by_graphs.updates()] == [row.metrics for row in one_by_one.updates()]
    assert replays.count("acting") == 3 * 16 - 2
    assert "target_kl" in case.get("ppo", {}) or len(replays) > 3 * 16 + 4


def test_what_cannot_be_captured_is_called_as_it_is() -> None:
    """With one warning, which says what and why; numbers come all the same."""
    calls: list[int] = []

    def work() -> int:
        calls.append(1)
        return th.ones(2, device="cuda").sum().item()  # type: ignore[return-value]

    call = GraphedCall("a sum", work)
    with stand_in_cuda():
        assert call() == 2.0
        with pytest.warns(RuntimeWarning, match="no CUDA graph of a sum, which goes on without: .*capturing"):
            assert call() == 2.0
        assert call() == 2.0
    assert len(calls) == 4  # the second was given up half way


class Counting(FlattenExtractor):
    """Stands for a user's own, which may do something else at each call."""


@pytest.mark.parametrize(("extractor", "captures"), [(FlattenExtractor, True), (Counting, False)])
def test_only_known_extractors_are_captured(extractor: type[FlattenExtractor], *, captures: bool) -> None:
    """A graph would go on with what a user's own one did at its second call."""
    spaces = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2)
    policy = ActorCriticPolicy(*spaces, lambda _: 1e-3, features_extractor_class=extractor)
    evaluator = evaluator_of(policy, by_hand=False)
    assert isinstance(evaluator, LayeredPolicy)
    assert evaluator.capturable == captures
