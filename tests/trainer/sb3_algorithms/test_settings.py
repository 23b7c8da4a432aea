"""The tables of SB3's algorithms against the signatures of their classes."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest
from gymnasium import spaces

from mission_tui.fleet.specs.sb3_algorithms import OTHERS, RunAlgo
from mission_tui.trainer.spaces import refusal_of
from tests.trainer.sb3_algorithms.cases import ALGORITHMS, other_spec

OF_THE_RUN = {"self", "policy", "env", "tensorboard_log", "verbose", "seed", "device", "_init_setup_model"}
NO_SETTINGS = {"replay_buffer_class", "replay_buffer_kwargs", "rollout_buffer_class", "rollout_buffer_kwargs"}
"""Classes of buffers are not offered."""


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_table_is_the_signature_of_its_class(algo: RunAlgo) -> None:
    """Every argument is a key with the class's own default, and no key is anything else."""
    other = OTHERS[algo]  # type: ignore[index]
    sb3: Any = getattr(pytest.importorskip(other.package), other.called)
    said = inspect.signature(sb3.__init__).parameters
    arguments = {name: it.default for name, it in said.items() if name not in OF_THE_RUN | NO_SETTINGS}
    table = {it.name: it for it in msgspec.structs.fields(other.table)}
    assert set(table) - {"policy", "net_arch"} == set(arguments)
    defaults = {name: getattr(other.table(), name) for name in arguments if name != "policy_kwargs"}
    assert defaults == {name: value for name, value in arguments.items() if name != "policy_kwargs"}
    assert set(other.policies) == set(sb3.policy_aliases)


@pytest.mark.parametrize(
    ("algo", "said"),
    [
        ("ars", "its observations are a dictionary; ARS takes arrays"),
        ("crossq", "its observations are a dictionary; CrossQ takes arrays"),
        ("a2c", "its observations are a dictionary; use a2c.policy = 'MultiInputPolicy'"),
    ],
)
def test_a_dictionary_is_refused_where_no_policy_reads_it(algo: str, said: str) -> None:
    """No policy is proposed that the algorithm has not."""
    seen = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (2,))})
    assert refusal_of(other_spec(algo), seen, spaces.Box(-1.0, 1.0, (1,))) == said
