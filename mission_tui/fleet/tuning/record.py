"""The lines of a tune's journal. What a tune does next follows from them alone, so one that was killed can go on."""

from __future__ import annotations

from msgspec import Struct, field

from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.tuning.plan import TunePlan

__all__ = ["ProbeDone", "Resolved", "TuneBegun", "TuneRecord"]


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
