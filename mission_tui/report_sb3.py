"""Reports any Stable-Baselines3 training: `model.learn(..., callback=ReportCallback())`; `mission_tui.hook` adds it.

A row of PPO and A2C is one rollout and what was learned from it. SB3 logs that later and forgets it when an evaluation
logs in between, so it is taken from the logger as soon as the next rollout begins. Off-policy algorithms have no
updates to speak of: a row is what they log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from mission_tui import report

__all__ = ["ReportCallback"]

STEPS = "time/total_timesteps"


class ReportCallback(BaseCallback):
    """Says phases, episodes and updates; ends `learn` at the next step once the supervisor asks for a stop."""

    def __init__(self) -> None:
        super().__init__()
        self._copy = _Copy(self)
        self._rollout: dict[str, Any] = {}
        self._rolled = False

    def _on_training_start(self) -> None:
        self._rolled = False
        report.should_stop()
        if self._copy not in self.logger.output_formats:
            self.logger.output_formats.append(self._copy)

    def update_locals(self, locals_: dict[str, Any]) -> None:
        # SB3 merges them into a dictionary of one's own at every step, which costs more than all we do there.
        self.locals = locals_

    def _on_rollout_start(self) -> None:
        if isinstance(self.model, OnPolicyAlgorithm):
            self._learned()
            report.phase("rollout")

    def _on_step(self) -> bool:
        dones, infos = self.locals.get("dones"), self.locals.get("infos")
        if dones is not None and infos is not None and dones.any():
            for info in infos:
                if (episode := info.get("episode")) is not None:
                    report.episode(episode["r"], episode["l"], info.get("outcome"))
        return not report.should_stop()

    def _on_rollout_end(self) -> None:
        if isinstance(self.model, OnPolicyAlgorithm):
            self._rolled = True
            report.phase("update")

    def _on_training_end(self) -> None:
        self._learned()
        if report.should_stop():
            report.phase("ending")  # so that the supervisor waits for what the script does after `learn`
        if self._copy in self.logger.output_formats:
            self.logger.output_formats.remove(self._copy)

    def logged(self, values: Mapping[str, Any]) -> None:
        """Take in what SB3 writes to its logs just now."""
        kept = {tag: value for tag, value in values.items() if not tag.startswith("time/")}
        if isinstance(self.model, OnPolicyAlgorithm):
            self._rollout |= {tag: value for tag, value in kept.items() if not tag.startswith("train/")}
        elif STEPS in values:
            self._row(kept)

    def _learned(self) -> None:
        """The update after the last rollout is over, if there was one."""
        if self._rolled:
            learned = {tag: value for tag, value in self.logger.name_to_value.items() if tag.startswith("train/")}
            self._row(self._rollout | learned)
        self._rollout, self._rolled = {}, False

    def _row(self, metrics: dict[str, Any]) -> None:
        metrics.pop("timesteps", None)  # somebody's own tag, which is the name of an argument
        report.update(self.model.num_timesteps, **metrics)


class _Copy(KVWriter):
    """One more output of SB3's logger."""

    def __init__(self, callback: ReportCallback) -> None:
        self._callback = callback

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        self._callback.logged(key_values)

    def close(self) -> None:
        pass
