"""The episodes that ended in one update: exact count and outcomes, and at most 256 of their raw returns and lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mission_tui.fleet.events.metrics import Episodes, spoken
from mission_tui.fleet.text import clean

__all__ = ["EpisodeTally", "outcome_of"]

_SAMPLE = 256
_OUTCOME_CHARS = 40


def outcome_of(info: dict[str, Any]) -> str | None:
    """How an episode ended by its last info, as a word that a terminal can show; None where nothing is said."""
    outcome = info.get("outcome")
    return None if outcome is None else clean(str(outcome), _OUTCOME_CHARS)


class EpisodeTally:
    """Collects from SB3's infos: ``episode`` is what `Monitor` writes, ``outcome`` a word of the environment."""

    def __init__(self) -> None:
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._outcomes: Counter[str] = Counter()

    def add(self, infos: Sequence[dict[str, Any]]) -> None:
        """Take the episodes that ended in one step of all environments."""
        for info in infos:
            episode = info.get("episode")
            if episode is None:
                continue
            self._returns.append(float(episode["r"]))
            self._lengths.append(int(episode["l"]))
            if (outcome := outcome_of(info)) is not None:
                self._outcomes[outcome] += 1

    def take(self) -> Episodes:
        """What was collected, evenly thinned to 256 samples; collecting starts anew."""
        n = len(self._returns)
        chosen = range(n) if n <= _SAMPLE else np.linspace(0, n - 1, _SAMPLE).round().astype(int)
        episodes = Episodes(
            n=n,
            r=tuple(spoken(self._returns[i]) for i in chosen),
            l=tuple(self._lengths[i] for i in chosen),
            outcomes=dict(self._outcomes),
        )
        self._returns, self._lengths, self._outcomes = [], [], Counter()
        return episodes
