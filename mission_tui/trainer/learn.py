"""The loop of a training as this project runs it: rollout, update, record, boundary.

At a boundary orders are obeyed and checkpoints taken. A stop is honoured within one environment step or one minibatch
too: the unfinished rollout or update is dropped, and the boundary before it stands. Settings that a person changes
meanwhile are taken over there, and never half: who sends it has had them judged; what does not fit all the same is
complained of, and training goes on as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from stable_baselines3.common.utils import FloatSchedule

from mission_tui.errors import CheckpointError, MissionError
from mission_tui.fleet.events.findings import CHECKPOINT, EVALUATION
from mission_tui.fleet.events.provenance import diff_of
from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.preset import check_live, with_words
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.atomic import StorageError
from mission_tui.trainer.building.model import learner_arguments
from mission_tui.trainer.callbacks import Callbacks
from mission_tui.trainer.failures import complain
from mission_tui.trainer.learner import Learner, timed
from mission_tui.trainer.orders import Orders
from mission_tui.trainer.periodic_evaluation import Evaluating
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.record import CheckpointReason, EventFile, Record
from mission_tui.trainer.running_time import Budget, Stopwatch
from mission_tui.trainer.spaces import short
from mission_tui.trainer.state.boundary import Boundary, Progress, capture
from mission_tui.trainer.state.checkpoint import Checkpoints
from mission_tui.trainer.state.resume import spec_facts
from mission_tui.trainer.tree import Tree


@dataclass(slots=True)
class Training:
    """One attempt's training of `model`. `boundary` is always the last one reached, safe to save at any moment."""

    model: Learner
    budget: Budget
    orders: Orders
    record: Record
    checkpoints: Checkpoints
    events: EventFile
    progress: Progress
    facts: dict[str, Any]
    live_settings: LiveSettings
    evaluating: Evaluating
    callbacks: Callbacks | None = None
    remembered: Tree | None = None
    boundary: Boundary | None = None
    unsaved: str = ""
    """Why the last boundary was not saved at the end, where it was not."""

    def learn(self) -> Literal["finished", "stopped"]:
        """Train until the budget is spent, a callback ends it or a stop is asked; the last boundary is then saved.

        Callbacks go on with what they `remembered`. Raises `CallbackError`, `EnvError`, `NonFiniteError`,
        `StorageError`, and whatever else a policy or a driver may raise.
        """
        self.model.stop_asked = self.orders.stop_asked
        if self.callbacks is not None:
            self.callbacks.begin(self.model, self.budget.total_timesteps, self.remembered)
        watch = Stopwatch(self.progress.trained_s)
        self.boundary = self._take_boundary(watch)
        self.checkpoints.reserve_space(self.boundary)
        while True:
            # What the boundary says: a resume from it decides alike, and trains nothing more.
            if self.budget.spent(self.model.num_timesteps, self.progress.trained_s):
                return self._end("finished", "end")
            self._obey(watch)
            if self.orders.stop_asked() or not self._advance(watch):
                if self.ended_by is not None and not self.orders.stop_asked():
                    return self._end("finished", "end")
                return self._end("stopped", "stop")
            self.boundary = self._take_boundary(watch)

    @property
    def ended_by(self) -> str | None:
        """The sentence of the callback that ended it, if one did."""
        return None if self.callbacks is None else self.callbacks.ended

    def save(self, reason: CheckpointReason) -> str:
        """Save the last boundary; returns the checkpoint's name."""
        assert self.boundary is not None
        kept = {*self.orders.kept, *self.evaluating.checkpoints}
        return self.checkpoints.save(self.boundary, reason, self._extra(), kept)

    def _take_boundary(self, watch: Stopwatch) -> Boundary:
        self.progress.trained_s = watch.seconds
        return capture(self.model, self.progress, self.facts)

    def _advance(self, watch: Stopwatch) -> bool:
        """One rollout and one update, recorded; False if a stop was asked meanwhile and both are dropped."""
        advanced = self.model.advance(
            self.record.phase, lambda timesteps: self.budget.progress_remaining(timesteps, watch.seconds)
        )
        if advanced is None:
            return False
        metrics = advanced.metrics
        if self.callbacks is not None:
            metrics = {**self.callbacks.log.take(), **metrics}
            self.callbacks.log.show(metrics)
        self.progress.updated(metrics)
        timesteps = self.model.num_timesteps
        episodes = self.model.episodes.take()
        self.record.updated(
            self.progress.update,
            timesteps,
            advanced.rollout_s,
            advanced.update_s,
            metrics,
            episodes,
            env_s=advanced.env_s,
            trained_s=watch.seconds,
        )
        self.events.write(metrics, timesteps)
        return True

    def _obey(self, watch: Stopwatch) -> None:
        """Orders and the run's own rules at a boundary: save, wait while paused."""
        self.orders.poll()
        self._change_settings()
        self._save_if_due()
        self._evaluate()
        if not self.orders.paused:
            return
        watch.pause()
        self.record.phase("paused")
        while self.orders.paused and not self.orders.stop_asked():
            self.orders.wait()
            self._change_settings()
            if self._save_if_due() and self.orders.paused:
                self.record.phase("paused")
        self._change_settings()
        watch.go_on()

    def _change_settings(self) -> None:
        """Take over what was set; the last boundary is then one of the new settings."""
        for order in self.orders.take_settings():
            changes = self.live_settings.take(self.model, order)
            if changes is None:
                continue
            assert self.boundary is not None
            spec = self.live_settings.spec
            self.budget = Budget.of(spec.run, self.budget.limit)
            self.facts = {**self.facts, "spec": spec_facts(spec)}
            self.boundary = replace(self.boundary, state={**self.boundary.state, "facts": self.facts})
            self.checkpoints.outdate()
            since = f"set after {self.model.num_timesteps:,} timesteps; it was"
            self.live_settings.publish({change.name: f"{since} {change.was}" for change in changes})
            self.record.changed(order.number, order.assignments, diff_of(changes))

    def _save_if_due(self) -> bool:
        """Whether a checkpoint was due; a disk that refuses it does not end a training."""
        assert self.boundary is not None
        reason = self.orders.take_checkpoint() or self.checkpoints.due(self.boundary)
        if reason is None:
            return False
        number = self.orders.take_checkpoint_number()
        try:
            self.record.answered(number, self.save(reason))
        except (StorageError, CheckpointError) as error:
            complain(f"no checkpoint now, training goes on: {error}")
            self.record.failed(CHECKPOINT, str(error))
            self.record.answered(number, None, str(error))
            self.checkpoints.postpone()
        return True

    def _evaluate(self) -> None:
        """Record what was played, and have this boundary played if it is due."""
        assert self.boundary is not None
        if (done := self.evaluating.take()) is not None:
            self.record.evaluated(*done)
        if not self.evaluating.due(self.boundary.timesteps, self.progress.trained_s):
            return
        try:
            saved, saving_s = timed(lambda: self.save("steps"))
            self.evaluating.begin(saved, self.boundary.update, self.boundary.timesteps, saving_s)
        except (StorageError, CheckpointError) as error:
            complain(f"no evaluation now, training goes on: {error}")
            self.record.failed(EVALUATION, str(error))

    def _end(self, how: Literal["finished", "stopped"], reason: CheckpointReason) -> Literal["finished", "stopped"]:
        self.record.phase("ending")
        if (done := self.evaluating.take()) is not None:
            self.record.evaluated(*done)
        saved = self._save_last(reason)
        if self.callbacks is not None:
            # What is saved is safe from whatever they do now.
            self.callbacks.on_training_end()
            self.callbacks.log.report_rest()
        if how == "finished" and saved is not None:
            self._evaluate_rest(saved)
        return how

    def _evaluate_rest(self, saved: str) -> None:
        """Wait for the evaluation that still plays, and for one of the last boundary; a stop ends the waiting."""
        assert self.boundary is not None
        while not self.orders.stop_asked():
            if self.evaluating.checkpoints:
                if (done := self.evaluating.take()) is not None:
                    self.record.evaluated(*done)
                else:
                    self.orders.wait()
            elif self.evaluating.is_last_due(self.boundary.timesteps):
                self.evaluating.begin(saved, self.boundary.update, self.boundary.timesteps)
            else:
                return

    def _save_last(self, reason: CheckpointReason) -> str | None:
        """Save the last boundary; a stop is honoured without, where an earlier checkpoint is left to go on from.

        Raises `StorageError` and `CheckpointError`.
        """
        try:
            return self.save(reason)
        except (StorageError, CheckpointError) as error:
            left = self.checkpoints.newest_in_words(self.progress.update)
            self.record.failed(CHECKPOINT, str(error))
            if reason != "stop" or not left:
                raise
            complain(f"the last checkpoint could not be saved: {error}")
            self.unsaved = f"its last checkpoint was not saved: {error}; {left}"
            return None

    def _extra(self) -> dict[str, Any]:
        """What a resume wants to know of the policy before loading it."""
        model = self.model
        extra: dict[str, Any] = {"obs": short(model.observation_space), "act": short(model.action_space)}
        if model.replay is not None:
            extra["replay"] = model.keeps_replay
        if self.live_settings.words:
            extra["set"] = [list(words) for words in self.live_settings.words]
        assert self.boundary is not None
        episodes = self.boundary.state["episodes"]["info"]
        if episodes:
            extra["ep_rew_mean"] = sum(r for r, _, _ in episodes) / len(episodes)
        return extra


_PLAIN = ("batch_size", "n_epochs", "ent_coef", "vf_coef", "max_grad_norm", "target_kl")


def _publish_nothing(_why: dict[str, str]) -> None:
    """Nothing is published before the training stands."""


@dataclass(slots=True)
class LiveSettings:
    """`spec` is what is in effect, `words` what was set so far in this attempt, `number` the last event it came from.

    `publish` is to be given the reason of each changed setting, once everything has them.
    """

    spec: Spec
    words: list[tuple[str, ...]] = field(default_factory=list)
    number: int = 0
    publish: Callable[[dict[str, str]], None] = _publish_nothing
    failed: Callable[[str], None] = complain

    def take(self, model: Learner, order: Order) -> tuple[Change, ...] | None:
        """Give `model` the settings of `order`; what changed, None when it is known already or does not fit."""
        if order.number <= self.number:
            return None
        self.number = order.number
        try:
            check_live(self.spec, order.assignments)
            spec = with_words(self.spec, (order.assignments,))
            arguments = learner_arguments(spec)
        except MissionError as error:
            self.failed(f"not set, training goes on as it was: {error}")
            return None
        if isinstance(model, PPO):
            for name in _PLAIN:
                setattr(model, name, arguments[name])
            model.clip_range = FloatSchedule(arguments["clip_range"])
        elif "delta_std" in arguments:
            vars(model)["delta_std_schedule"] = FloatSchedule(arguments["delta_std"])
        model.learning_rate = arguments["learning_rate"]
        model._setup_lr_schedule()
        changes = judge_resume(self.spec, spec, ResumeFacts(model.num_timesteps)).changes
        self.spec = spec
        self.words.append(order.assignments)
        return changes
