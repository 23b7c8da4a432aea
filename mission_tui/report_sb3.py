"""Reports any Stable-Baselines3 training: `model.learn(..., callback=ReportCallback())`; `mission_tui.hook` adds it.

A row of PPO and A2C is one rollout and what was learned from it. SB3 logs that later and forgets it when an evaluation
logs in between, so it is taken from the logger as soon as the next rollout begins. Off-policy algorithms have no
updates to speak of: a row is what they log.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.logger import KVWriter
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from mission_tui import report

STEPS = "time/total_timesteps"


class ReportCallback(BaseCallback):
    """Says phases, episodes and updates; ends `learn` at the next step once the supervisor asks for a stop."""

    def __init__(self) -> None:
        super().__init__()
        self._copy = _Copy(self)
        self._rollout: dict[str, Any] = {}
        self._rolled = False
        self._row_at = 0
        self._ended: list[tuple[Any, Any]] = []

    def _on_training_start(self) -> None:
        self._rolled = False
        report.should_stop()
        report_saves()
        if self._copy not in self.logger.output_formats:
            self.logger.output_formats.append(self._copy)

    def update_locals(self, locals_: dict[str, Any]) -> None:
        # SB3 merges them into a dictionary of one's own at every step, which costs more than all we do there.
        self.locals = locals_

    def _on_rollout_start(self) -> None:
        if isinstance(self.model, OnPolicyAlgorithm):
            self._learned()
            report.phase("rollout")

    def on_step(self) -> bool:
        # In place of `_on_step`, for its speed: between the steps of an environment every line is a cold one. So of an
        # episode only what is known of it is kept here, and said after the rollout.
        try:
            dones, infos = self.locals["dones"], self.locals["infos"]
            flags = dones.tobytes() if dones.itemsize == 1 else (dones != 0).tobytes()
            at = flags.find(1)
            while at >= 0:
                self._ended.append((infos[at].get("episode"), infos[at].get("outcome")))
                at = flags.find(1, at + 1)
        except (AttributeError, IndexError, KeyError, TypeError):
            pass  # an environment that says it otherwise
        return not report.should_stop()

    def _on_step(self) -> bool:
        return self.on_step()

    def _on_rollout_end(self) -> None:
        for episode, outcome in self._ended:
            if isinstance(episode, dict):
                report.episode(episode.get("r"), episode.get("l"), outcome)  # type: ignore[arg-type]  # may be absent
        self._ended.clear()
        if isinstance(self.model, OnPolicyAlgorithm):
            self._rolled = True
            report.phase("update")

    def _on_training_end(self) -> None:
        self._learned()
        if not isinstance(self.model, OnPolicyAlgorithm) and 0 < self._row_at < self.model.num_timesteps:
            self._row({})  # what came after the last log: else a training that is done ends below its total
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
        for name in ("timesteps", "total_timesteps"):
            metrics.pop(name, None)  # somebody's own tag, which is the name of an argument
        self._row_at = self.model.num_timesteps
        report.update(self.model.num_timesteps, getattr(self.model, "_total_timesteps", None), **metrics)


def report_saves() -> None:
    """Have every `save()` of a model in this process reported as a checkpoint: those of callbacks, and the script's."""
    save = BaseAlgorithm.save
    if hasattr(save, "__wrapped__"):
        return

    @functools.wraps(save)
    def with_report(model: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        save(model, path, *args, **kwargs)
        if isinstance(path, (str, os.PathLike)):
            said = os.fsdecode(path)
            # As SB3 completes it.
            report.checkpoint(said if os.path.splitext(said)[1] else f"{said}.zip")  # noqa: PTH122

    # Of the class: what lies on a model itself would be saved with it.
    BaseAlgorithm.save = with_report  # type: ignore[assignment,method-assign]


class WithReport(CallbackList):
    """The callback of a script, and ours behind it: a `CallbackList` that does no more at a step than these two."""

    def __init__(self, theirs: BaseCallback, ours: ReportCallback) -> None:
        super().__init__([theirs, ours])
        self._theirs, self._ours = theirs, ours

    def update_locals(self, locals_: dict[str, Any]) -> None:
        self.locals = self._ours.locals = locals_
        self._theirs.update_locals(locals_)

    def on_step(self) -> bool:
        goes_on = self._theirs.on_step()
        return self._ours.on_step() and goes_on


class _Copy(KVWriter):
    """One more output of SB3's logger."""

    def __init__(self, callback: ReportCallback) -> None:
        self._callback = callback

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        self._callback.logged(key_values)

    def close(self) -> None:
        pass
