"""Random generators as six machine words: the exact position of a PCG64 stream in a plain array, without pickle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mission_tui.errors import CheckpointError

__all__ = ["Words", "generator_from_words", "generator_words", "is_portable", "stack_words"]

Words = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_COUNT = 6


def is_portable(generator: np.random.Generator) -> bool:
    """Whether `generator_words` can describe it: Gymnasium's and NumPy's default bit generator is."""
    return type(generator.bit_generator) is np.random.PCG64


def generator_words(generator: np.random.Generator) -> Words:
    """The generator's position: state and increment, high word first, then the buffered half word and its flag."""
    position = generator.bit_generator.state
    state, increment = position["state"]["state"], position["state"]["inc"]
    buffer = position["uinteger"], position["has_uint32"]
    return np.array([state >> 64, state & _MASK, increment >> 64, increment & _MASK, *buffer], dtype=np.uint64)


def generator_from_words(words: Words) -> np.random.Generator:
    """A generator at the position that `generator_words` described; raises `CheckpointError` for another shape."""
    if words.shape != (_COUNT,) or words.dtype != np.uint64:
        found = f"{words.dtype}{list(words.shape)}"
        raise CheckpointError(f"environment state: a generator is {_COUNT} words of uint64, found {found}")
    high, low, inc_high, inc_low, buffered, has_buffered = (int(word) for word in words)
    bit_generator = np.random.PCG64()
    bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
        "has_uint32": has_buffered,
        "uinteger": buffered,
    }
    return np.random.Generator(bit_generator)


def stack_words(generators: Sequence[np.random.Generator]) -> Words:
    """Positions of several generators, one row of words each."""
    return np.stack([generator_words(generator) for generator in generators])
