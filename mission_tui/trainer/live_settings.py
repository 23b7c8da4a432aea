"""Settings that a person changes while a run trains: taken over between two updates, and never half.

Whoever asks has had them judged; what does not fit all the same is complained of, and training goes on as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stable_baselines3.common.utils import FloatSchedule

from mission_tui.errors import MissionError
from mission_tui.fleet.resume import ResumeFacts, judge_resume
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.preset import check_live, with_words
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.trainer.building.arguments import learner_arguments
from mission_tui.trainer.failures import complain
from mission_tui.trainer.learner import Learner
from mission_tui.trainer.ppo import PPO

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
