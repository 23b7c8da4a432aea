"""How an env worker makes its environments: plain values that any process can be sent, and no word of presets.

The trainer has made one environment from the same preset before it starts a worker, so what is wrong with a preset was
said there; here it would be an exception like any other. Episode statistics are as SB3's `Monitor` gives them, without
importing SB3 and torch with it.
"""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass, field
from typing import Any

import gymnasium


class Monitor(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Puts ``episode: {r, l, t}`` into the last info of an episode, rounded and summed as SB3 does.

    Its attributes are named as SB3's, so that a saved state fits either. The histories stay empty: SB3's grow for ever.
    """

    stands_for = "stable_baselines3.common.monitor.Monitor"

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.t_start = time.time()
        self.rewards: list[float] = []
        self.needs_reset = True
        self.episode_returns: list[float] = []
        self.episode_lengths: list[int] = []
        self.episode_times: list[float] = []
        self.total_steps = 0
        self.current_reset_info: dict[str, Any] = {}

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; an unfinished one is forgotten."""
        self.rewards = []
        self.needs_reset = False
        return self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and count. Raises `RuntimeError` after the end of an episode, as SB3's does."""
        if self.needs_reset:
            raise RuntimeError("Tried to step environment that needs reset")
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.rewards.append(float(reward))
        if terminated or truncated:
            self.needs_reset = True
            info["episode"] = {
                "r": round(sum(self.rewards), 6),
                "l": len(self.rewards),
                "t": round(time.time() - self.t_start, 6),
            }
        self.total_steps += 1
        return observation, reward, terminated, truncated, info


@dataclass(frozen=True, slots=True)
class EnvRecipe:
    """A Gymnasium `id` (or ``module:id``), its arguments, modules to import first, and wrappers: each a ``module:Name``
    and its arguments.
    """

    id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    wrappers: tuple[tuple[str, dict[str, Any]], ...] = ()

    def make(self) -> gymnasium.Env[Any, Any]:
        """One environment, monitored directly and wrapped from the first wrapper to the last."""
        for module in self.imports:
            importlib.import_module(module)
        made: gymnasium.Env[Any, Any] = Monitor(gymnasium.make(self.id, **self.kwargs))
        for name, arguments in self.wrappers:
            module, _, attribute = name.partition(":")
            made = getattr(importlib.import_module(module), attribute)(made, **arguments)
        return made
