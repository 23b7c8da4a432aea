"""A probe: a short run with everything that decides its speed, and how long one waits for it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from mission_tui.fleet.specs.spec import EvaluateSpec, LimitsKeep, RestartKeep, Spec
from mission_tui.fleet.tuning.plan import TunePlan
from mission_tui.fleet.tuning.record import ProbeDone

__all__ = ["GIVE_UP_TIMES", "MEASURED_UPDATES", "WARM_UPDATES", "patience_s", "probe_spec"]

WARM_UPDATES = 1
MEASURED_UPDATES = 2
"""An update of a large preset takes half a minute: so few of them are a probe, however short it is meant to be."""

GIVE_UP_TIMES = 3.0
"""What takes so many times as long as the slowest probe of the preset itself is given up unmeasured."""
FIRST_S = 3600.0


def probe_spec(spec: Spec, seed: int, limit_s: float) -> Spec:
    """`spec` as a probe of it: with this seed, ending by itself after `limit_s`, and with nothing beside the training.

    What the preset would have it wait for, or be restarted after, is left out.
    """
    limits = LimitsKeep(priority=spec.keep.limits.priority)
    return structs.replace(
        spec,
        run=structs.replace(spec.run, total_timesteps=None, duration_s=limit_s, seed=seed),
        keep=structs.replace(spec.keep, restart=RestartKeep(), limits=limits, on_reboot="leave"),
        evaluate=EvaluateSpec(),
    )


def patience_s(plan: TunePlan, done: Sequence[ProbeDone]) -> float:
    """Seconds that a probe may learn before it is given up, by how long the preset's own probes took."""
    own = [each.learn_s for each in done if not each.words and each.steps_per_s is not None]
    return FIRST_S if not own else GIVE_UP_TIMES * max(*own, plan.probe_s)
