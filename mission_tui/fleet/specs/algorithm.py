"""The algorithms of the PPO family: which policies each has, which engine carries it, and what it cannot be given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mission_tui.errors import nearest
from mission_tui.fleet.specs.quantity import format_quantity
from mission_tui.fleet.specs.spec import Algo, Engine, Spec

_FEEDFORWARD = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
POLICIES: Mapping[Algo, tuple[str, ...]] = {
    "ppo": _FEEDFORWARD,
    "maskable_ppo": _FEEDFORWARD,
    "recurrent_ppo": ("MlpLstmPolicy", "CnnLstmPolicy", "MultiInputLstmPolicy"),
}
"""The names that SB3 and sb3-contrib know; each algorithm takes ``module:Class`` besides."""

_LSTM_HIDDEN, _LSTM_LAYERS = 256, 1
"""What sb3-contrib builds unless `ppo.policy_kwargs` says otherwise."""


def engine_of(spec: Spec) -> Engine:
    """The engine that trains `spec`: what `run.engine` says, except that only PPO itself has a fast one."""
    return spec.run.engine if spec.ppo.algo == "ppo" else "stock"


def lstm_shape(spec: Spec) -> tuple[int, int] | None:
    """Hidden units and layers of each of a recurrent policy's two LSTMs; None for policies without memory."""
    if spec.ppo.algo != "recurrent_ppo":
        return None
    kwargs = spec.ppo.policy_kwargs
    sizes = kwargs.get("lstm_hidden_size", _LSTM_HIDDEN), kwargs.get("n_lstm_layers", _LSTM_LAYERS)
    # What is no size is refused where the policy is built.
    hidden, layers = (size if isinstance(size, int) and size > 0 else 1 for size in sizes)
    return hidden, layers


def algorithm_complaints(spec: Spec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Keys that contradict `ppo.algo`, the one to change first in front, and a sentence with what is valid instead."""
    yield from _policy(spec)
    algo, run = spec.ppo.algo, spec.run
    if algo == "ppo":
        return
    alone = f"needs the fast engine, which trains ppo alone, and ppo.algo = '{algo}'; the nearest valid value is"
    if run.precision != "fp32":
        said = f"run.precision = '{run.precision}' {alone} run.precision = 'fp32'"
        yield ("run.precision", "ppo.algo"), said
    if run.compile:
        yield ("run.compile", "ppo.algo"), f"run.compile = true {alone} run.compile = false"
    if algo == "maskable_ppo" and spec.ppo.use_sde:
        yield (
            ("ppo.use_sde", "ppo.algo"),
            (
                "ppo.use_sde = true explores continuous actions, and ppo.algo = 'maskable_ppo' has discrete ones; "
                "the nearest valid value is ppo.use_sde = false"
            ),
        )


def _policy(spec: Spec) -> Iterator[tuple[tuple[str, ...], str]]:
    policy, algo = spec.ppo.policy, spec.ppo.algo
    valid = POLICIES[algo]
    if policy in valid or ":" in policy:
        return
    other = next((name for name, policies in POLICIES.items() if policy in policies), None)
    keys = ("ppo.policy",) if other is None else ("ppo.policy", "ppo.algo")
    whose = "" if algo == "ppo" and other is None else f" with ppo.algo = '{algo}'"
    hint = nearest(policy[:40], valid)
    if other == "recurrent_ppo":
        hint = f"; {policy} is for ppo.algo = 'recurrent_ppo'"
    yield (
        keys,
        f"ppo.policy = {format_quantity(policy)} must be one of {', '.join(valid)}, or module:Class{whose}{hint}",
    )
