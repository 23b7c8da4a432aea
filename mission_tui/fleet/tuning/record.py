"""The lines of a tune's journal, and the probe that most of them are about: a short run with everything that decides
its speed. What a tune does next follows from the journal alone, so one that was killed can go on.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field, structs

from mission_tui.fleet.specs.spec import EvaluateSpec, LimitsKeep, RestartKeep, Spec
from mission_tui.fleet.tuning.plan import TunePlan

WARM_UPDATES = 1
MEASURED_UPDATES = 2
"""An update of a large preset takes half a minute: so few of them are a probe, however short it is meant to be."""
GIVE_UP_TIMES = 3.0
"""What takes so many times as long as the slowest probe of the preset itself is given up unmeasured."""
FIRST_S = 3600.0


class TuneBegun(Struct, frozen=True, kw_only=True, tag="begun", tag_field="kind"):
    """The first line, at unix time `t`: what is tuned, how, and on how many cores; `host` tells one machine from
    another.
    """

    seq: int
    t: float
    spec: Spec
    plan: TunePlan
    cores: int
    host: dict[str, str] = field(default_factory=dict)


class Resolved(Struct, frozen=True):
    """What a probe really ran with, read back from its trainer."""

    vec: str
    n_workers: int | None = None
    threads: int | None = None


class ProbeDone(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="probe", tag_field="kind"):
    """One probe of the settings `words` (`--set` words over the preset; none are the preset's own), with `seed`.

    `steps_per_s` None: `why` says why there is none. It took `wall_s` seconds in all, `learn_s` of them from the start
    of learning. `elsewhere_percent` is what other processes took of all cores meanwhile.
    """

    seq: int
    t: float
    stage: str
    round: int
    words: tuple[str, ...]
    wall_s: float
    seed: int = 0
    steps_per_s: float | None = None
    why: str = ""
    learn_s: float = 0.0
    updates: int = 0
    rollout_share: float | None = None
    cpu_percent: float | None = None
    elsewhere_percent: float | None = None
    memory_bytes: int | None = None
    resolved: Resolved | None = None
    versions: dict[str, str] = field(default_factory=dict)


TuneRecord = TuneBegun | ProbeDone


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
