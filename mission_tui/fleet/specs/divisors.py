"""The search for a minibatch size: always a true divisor of the rollout buffer, preferably one that hardware likes.

Every function is total: each buffer size from 1 up has an answer, and poor choices are called poor.
"""

from __future__ import annotations

import math
from functools import lru_cache

from msgspec import Struct

__all__ = ["BatchChoice", "choose_batch", "divisors", "nearby_divisors"]

_NEAR = 2.0
_FAR = 4.0
_LARGEST_TRIAL = 2**16


class BatchChoice(Struct, frozen=True):
    """A divisor of the buffer, and the sentence that says why this one."""

    size: int
    reason: str


@lru_cache(maxsize=64)
def divisors(number: int) -> tuple[int, ...]:
    """All positive divisors of `number` (at least 1), ascending; beyond 2^32 only those that 65,536 trials find."""
    low = [candidate for candidate in range(1, min(math.isqrt(number), _LARGEST_TRIAL) + 1) if number % candidate == 0]
    high = [number // candidate for candidate in reversed(low) if candidate * candidate != number]
    return (*low, *high)


def nearby_divisors(number: int, wanted: int) -> tuple[int, ...]:
    """The nearest divisor of `number` at or below `wanted` and the nearest above it, as far as they exist."""
    every = divisors(number)
    below = [divisor for divisor in every if divisor <= wanted]
    above = [divisor for divisor in every if divisor > wanted]
    return (*below[-1:], *above[:1])


def choose_batch(buffer: int, target: int, smallest: int = 64, largest: int = 8192) -> BatchChoice:
    """The divisor of `buffer` nearest to `target` on a log scale, between `smallest` and `largest` transitions.

    Multiples of 64, then of 32, are preferred as long as one lies within a factor of two of the target; beyond that
    the distance costs more than the alignment gains. Where no divisor lies between the limits the next larger one is
    taken, because tiny minibatches multiply the gradient steps; a buffer below `smallest` is taken whole.
    """
    aim = min(max(target, smallest), largest)
    inside = [divisor for divisor in divisors(buffer) if smallest <= divisor <= largest]
    inside = inside or [next((divisor for divisor in divisors(buffer) if divisor > largest), buffer)]
    for alignment in (64, 32):
        near = [d for d in inside if d % alignment == 0 and 1 / _NEAR <= d / aim <= _NEAR]
        if near:
            best = _nearest(near, aim)
            reason = f"{best:,} divides {buffer:,}, is a multiple of {alignment} and nearest to {aim:,}"
            return BatchChoice(best, reason)
    best = _nearest(inside, aim)
    if 1 / _FAR <= best / aim <= _FAR and smallest <= best <= largest:
        return BatchChoice(best, f"{best:,} divides {buffer:,} and is nearest to {aim:,}; no multiple of 32 is near it")
    return BatchChoice(
        best,
        f"only poor choices: of the divisors of {buffer:,}, the nearest to {aim:,} is "
        f"{' or '.join(f'{divisor:,}' for divisor in nearby_divisors(buffer, aim))}; took {best:,} "
        "(make ppo.n_steps a multiple of 64 for better ones)",
    )


def _nearest(candidates: list[int], aim: int) -> int:
    return min(candidates, key=lambda divisor: (abs(math.log(divisor / aim)), divisor))
