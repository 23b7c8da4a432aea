"""The position of every random generator that training draws from, as plain arrays and numbers.

SB3 draws actions and noise from torch, minibatch order from NumPy's global generator; environments that use Python's or
NumPy's global generators are covered too.
"""

from __future__ import annotations

import random
from typing import Any

import gymnasium
import numpy as np
import torch as th

from mission_tui.envs.rng_words import generator_from_words, generator_words, is_portable
from mission_tui.trainer.tree import Tree

__all__ = ["capture_random", "restore_random"]


def capture_random(device: th.device, action_space: gymnasium.Space[Any]) -> Tree:
    """Positions of Python's, NumPy's and torch's global generators and of the action space's own."""
    version, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    sampler = action_space._np_random
    return {
        "python": {"version": version, "words": np.array(words, dtype=np.uint32), "gauss": gauss},
        "numpy": {"keys": np.array(keys), "position": position, "has_gauss": has_gauss, "cached": cached},
        "torch": th.get_rng_state().numpy(),
        "cuda": th.cuda.get_rng_state(device).numpy() if device.type == "cuda" else None,
        "action_space": generator_words(sampler) if sampler is not None and is_portable(sampler) else None,
    }


def restore_random(state: Tree, device: th.device, action_space: gymnasium.Space[Any]) -> None:
    """Put every generator where `capture_random` found it."""
    python, legacy = state["python"], state["numpy"]
    random.setstate((python["version"], tuple(int(word) for word in python["words"]), python["gauss"]))
    np.random.set_state(("MT19937", legacy["keys"], legacy["position"], legacy["has_gauss"], legacy["cached"]))
    th.set_rng_state(th.from_numpy(state["torch"]))
    if device.type == "cuda" and state["cuda"] is not None:
        th.cuda.set_rng_state(th.from_numpy(state["cuda"]), device)
    if state["action_space"] is not None:
        action_space._np_random = generator_from_words(state["action_space"])
