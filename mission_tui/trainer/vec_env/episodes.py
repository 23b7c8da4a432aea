"""Episodes of vectorised environments: played with a policy, or counted as they end in a training.

When they are played every lane has a number of episodes fixed beforehand. Taking the first N that end anywhere would
count short episodes more often than long ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.errors import PresetError
from mission_tui.fleet.events.metrics import Episodes, Metric, spoken
from mission_tui.fleet.statistics.intervals import mean_estimate, share_interval
from mission_tui.fleet.text import clean

LONGEST = 1_000_000
"""Steps of one episode after which nobody waits for its end any longer."""

Act = Callable[[Any, NDArray[np.bool_]], NDArray[Any]]
"""From observations, and which of them begin an episode, to actions."""
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


@dataclass(slots=True)
class PlayedEpisodes:
    """Raw returns and lengths of the episodes played, how they ended, and whether they were won where that is said."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    successes: list[bool] = field(default_factory=list)

    def add(self, info: dict[str, Any]) -> None:
        """Take the last info of an episode."""
        self.returns.append(float(info["episode"]["r"]))
        self.lengths.append(int(info["episode"]["l"]))
        if (outcome := outcome_of(info)) is not None:
            self.outcomes[outcome] += 1
        if (success := info.get("is_success")) is not None:
            self.successes.append(bool(success))


def play(act: Act, vec: VecEnv, episodes: int, seed: int, progress: Callable[[int], None]) -> PlayedEpisodes:
    """Play `episodes` episodes in the lanes of `vec`, lane i seeded with `seed` + i; `progress` hears of each.

    Raises `PresetError` for an environment whose episodes do not end.
    """
    played = PlayedEpisodes()
    # The last lanes play one more, as in SB3's `evaluate_policy`: the same seeds are the same episodes there and here.
    left = np.array([(episodes + lane) // vec.num_envs for lane in range(vec.num_envs)])
    vec.seed(seed)
    observations = vec.reset()
    starts: NDArray[np.bool_] = np.ones(vec.num_envs, dtype=bool)
    lasting = np.zeros(vec.num_envs, dtype=np.int64)
    while left.any():
        observations, _, starts, infos = vec.step(act(observations, starts))
        lasting = np.where(starts, 0, lasting + 1)
        if lasting[left > 0].max(initial=0) >= LONGEST:
            raise PresetError(
                f"an episode has not ended within {LONGEST:,} steps, so there is nothing to count; where none ends by "
                "itself, train with a limit, such as env.kwargs.max_episode_steps"
            )
        for lane, info in enumerate(infos):
            if left[lane] and "episode" in info:
                left[lane] -= 1
                played.add(info)
                progress(len(played.returns))
    return played


def play_side_by_side(parts: Sequence[PlayedEpisodes]) -> PlayedEpisodes:
    """All episodes of several plays."""
    whole = PlayedEpisodes()
    for part in parts:
        whole.returns += part.returns
        whole.lengths += part.lengths
        whole.outcomes += part.outcomes
        whole.successes += part.successes
    return whole


def mean_of(episodes: PlayedEpisodes) -> Metric:
    """Their mean return."""
    return spoken(float(np.mean(episodes.returns)))


def summary(episodes: PlayedEpisodes, winning: Collection[str] | None) -> dict[str, Any]:
    """The figures of an evaluation: mean, median, standard deviation (population, as SB3's `evaluate_policy`), 95 %
    interval of the mean (Student's; None for fewer than three episodes, and where all came to the same, since nothing
    is known of how others would scatter), mean length, outcomes, and the share won with its interval (Wilson's): of
    outcomes in `winning`, else of reported successes, else None.
    """
    returns, mean, won = np.array(episodes.returns), mean_estimate(episodes.returns), _won(episodes, winning)
    return {
        "episodes": len(returns),
        "mean": spoken(float(returns.mean())),
        "std": spoken(float(returns.std())),
        "median": spoken(float(np.median(returns))),
        "ci95": None if mean is None or mean.interval is None else [spoken(end) for end in mean.interval],
        "lengths": {"mean": float(np.mean(episodes.lengths))},
        "outcomes": dict(episodes.outcomes.most_common()),
        "won": None if won is None else won[0] / won[1],
        "won_ci95": None if won is None else list(share_interval(*won)),
    }


def _won(episodes: PlayedEpisodes, winning: Collection[str] | None) -> tuple[int, int] | None:
    """How many were won, of how many of which that is known; None where it is of none."""
    if winning is not None:
        return sum(episodes.outcomes[outcome] for outcome in winning), len(episodes.returns)
    return (sum(episodes.successes), len(episodes.successes)) if episodes.successes else None
