"""Whether the return is improving: the newer half of a window against the older half, measured in its own noise."""

from __future__ import annotations

import math
import statistics
from collections import deque
from itertools import pairwise

__all__ = ["Improvement"]

WINDOW = 32
FEWEST = 16
NOISE_SCALE = 1.4826
"""Makes the median of absolute values a standard deviation under normal noise (health guide, section 3)."""


class Improvement:
    """Takes in the mean return after each update."""

    def __init__(self) -> None:
        self._returns: deque[float] = deque(maxlen=WINDOW)

    def look(self, mean_return: float | None) -> bool | None:
        """Whether the return is improving as of now; None while too few returns are known to say."""
        if mean_return is not None and math.isfinite(mean_return):
            self._returns.append(mean_return)
        if len(self._returns) < FEWEST:
            return None
        returns = list(self._returns)
        half = len(returns) // 2
        gain = statistics.median(returns[half:]) - statistics.median(returns[:half])
        noise = NOISE_SCALE * statistics.median(abs(later - earlier) for earlier, later in pairwise(returns))
        return gain > noise
