"""`gpu-idle`: a run holds a GPU that has next to nothing to do, because its rollouts are the work of the CPU.

One small network keeps a GPU 10 to 25 % busy, and that is normal (health guide, section 8): nothing is said of it. Only
the driver knows what a process takes of a GPU, and where it does not tell, nothing is concluded. No row shows it: the
supervisor looks at the machine, and a finding is kept in the journal alone.
"""

from __future__ import annotations

import statistics

from msgspec import Struct

from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.health.rollout_parts import ON_CPU, Parts, Words, costly
from mission_tui.fleet.health.rule import Explanation
from mission_tui.fleet.health.settings import settings_of
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.specs.thresholds import GpuIdleLimits
from mission_tui.fleet.windows import Window

ID = "gpu-idle"
LOOK_S = 5.0


class GpuShareSample(Struct, frozen=True):
    """What a run's processes take of their GPU, in percent, and the seconds of its newest update.

    `env_s` of the rollout's seconds were spent in the environments, None where that is not measured.
    """

    percent: float
    rollout_s: float
    update_s: float
    env_s: float | None = None

    @property
    def rollout_share(self) -> float:
        """The rollout's part of an update, 0 to 1."""
        whole = self.rollout_s + self.update_s
        return self.rollout_s / whole if whole > 0.0 else 0.0


class GpuIdle:
    """One attempt's rule; a look every 5 s."""

    def __init__(self, limits: GpuIdleLimits) -> None:
        self._limits = limits
        self._looks = Window[GpuShareSample](limits.looks)
        self.on = False

    @property
    def off(self) -> bool:
        """Whether it surely is none; unknown before it has been looked at for long."""
        return not self.on and len(self._looks) == self._looks.maxlen

    def update(self, look: GpuShareSample | None) -> bool:
        """Take in a look; None where the driver does not tell, or no update is over yet."""
        limits = self._limits
        if look is None:
            return self.on
        self._looks.append(look)
        if len(self._looks) == self._looks.maxlen:
            level = limits.leave if self.on else limits.busy
            self.on = self.busy < level and self._rollout_share >= limits.rollout
        return self.on

    @property
    def busy(self) -> float:
        """The mean of the looks, 0 to 1."""
        return statistics.fmean(look.percent for look in self._looks) / 100.0

    @property
    def _rollout_share(self) -> float:
        return statistics.fmean(look.rollout_share for look in self._looks)

    def explain(self, spec: Spec, faster_on_cpu: str = "") -> Explanation:
        """The words, from the looks so far; `faster_on_cpu` says so of this net where that was measured."""
        look, minutes = self._looks[-1], len(self._looks) * LOOK_S / 60.0
        cause, advice, assignments = self._words(spec, faster_on_cpu)
        evidence: dict[str, Metric] = {
            "gpu_percent": round(100.0 * self.busy, 1),
            "rollout_s": round(look.rollout_s, 3),
            "update_s": round(look.update_s, 3),
        }
        return Explanation(
            sentence=(
                f"the GPU that it holds was {self.busy:.0%} busy with it in the last {minutes:.2g} min: "
                f"{self._rollout_share:.0%} of an update is its rollout, which is mostly work of the CPU"
            ),
            cause=cause,
            advice=advice,
            advice_set=assignments,
            evidence=(evidence,),
            window=len(self._looks),
        )

    def _words(self, spec: Spec, faster_on_cpu: str) -> Words:
        look, settings = self._looks[-1], settings_of(spec)
        if faster_on_cpu:
            return faster_on_cpu, "resume it on the CPU, and leave the GPU to others", ON_CPU
        took = f"a rollout takes {look.rollout_s:.2g} s and the update after it {look.update_s:.2g} s"
        if look.env_s is not None:
            parts = Parts(look.env_s, max(0.0, look.rollout_s - look.env_s), look.update_s)
            if (words := costly(settings, parts)) is not None:
                return f"{took}; {words[0]}", *words[1:]
        return (
            took,
            "start another run beside it on this GPU, which has room for it; one of this kind cannot fill it",
            (),
        )
