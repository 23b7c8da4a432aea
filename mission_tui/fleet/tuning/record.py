"""The lines of a tune's journal: first what a person asked it to try, and with how much patience, then the probes,
short runs with everything that decides their speed. What a tune does next follows from the journal alone, so one that
was killed can go on.

And what was measured of a run's net on the CPU and on the GPU: how long an update takes on either, and the sentence
that says which is faster. Environments are no part of it: they are stepped on the CPU either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, field, structs

from mission_tui.fleet.specs.spec import EvaluateSpec, LimitsKeep, RestartKeep, Spec

Knob = Literal["vec", "threads", "compile", "precision", "shape"]

KNOBS: tuple[Knob, ...] = ("vec", "threads", "compile", "precision", "shape")
"""In the order in which they are tried where most of the time goes to rollouts: each begins with what won before it."""

HALF = 0.5

WARM_UPDATES = 1
MEASURED_UPDATES = 2
"""An update of a large preset takes half a minute: so few of them are a probe, however short it is meant to be."""
GIVE_UP_TIMES = 3.0
"""What takes so many times as long as the slowest probe of the preset itself is given up unmeasured."""
FIRST_S = 3600.0


class TunePlan(Struct, frozen=True, kw_only=True):
    """`knobs` are tried `in_order`, each probe measured for `probe_s` seconds.

    In a stage every candidate is probed in turns, for `rounds` rounds at most; the winner of all stages is held against
    the preset's own settings in `repeats` fresh pairs. Once `budget_s` seconds are spent no new round begins. A probe
    without a first update `start_s` seconds after its launch is given up.
    """

    knobs: tuple[Knob, ...] = ("vec", "threads", "compile")
    probe_s: Annotated[float, Meta(ge=1.0, le=3600.0)] = 10.0
    rounds: Annotated[int, Meta(ge=2, le=20)] = 3
    repeats: Annotated[int, Meta(ge=2, le=50)] = 4
    budget_s: Annotated[float, Meta(ge=1.0, le=7 * 86400.0)] = 1800.0
    start_s: Annotated[float, Meta(ge=1.0, le=86400.0)] = 180.0


def in_order(knobs: tuple[Knob, ...], rollout_share: float | None) -> tuple[Knob, ...]:
    """The knobs in the order in which they are tried, if rollouts take this share of the preset's time.

    How environments are stepped changes rollouts alone and can bring no more than their share, so where learning takes
    longer, what makes that faster comes first: a budget is spent where something can be had for it.
    """
    if rollout_share is None or rollout_share >= HALF or "vec" not in knobs:
        return knobs
    late: tuple[Knob, ...] = ("vec", "shape")
    return (*(knob for knob in knobs if knob not in late), *(knob for knob in late if knob in knobs))


class TuneBegun(Struct, frozen=True, kw_only=True, tag="begun", tag_field="kind"):
    """The first line, at unix time `t`: what is tuned, how, and on how many cores; `host` tells one machine from
    another, `devices` is how fast the net is on its CPU and on its GPU, where it has one.
    """

    seq: int
    t: float
    spec: Spec
    plan: TunePlan
    cores: int
    host: dict[str, str] = field(default_factory=dict)
    devices: DeviceSpeeds | None = None


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


Processor = Literal["cpu", "cuda"]


class DeviceSpeeds(Struct, frozen=True, kw_only=True):
    """Seconds per update on the CPU and on the GPU `gpu`, measured in turns: as many of the one as of the other."""

    cpu_s: tuple[float, ...]
    gpu_s: tuple[float, ...]
    gpu: str = ""

    @property
    def faster(self) -> Processor | None:
        """Where it is faster by more than 5 %, and certainly: with the whole 95 % interval; None for neither."""
        from mission_tui.fleet.timed_runs import ratio_of  # loads statistics, and each screen loads this module

        verdict = ratio_of(self.gpu_s, self.cpu_s, paired=True).verdict
        return "cpu" if verdict == "faster" else "cuda" if verdict == "slower" else None

    @property
    def sentence(self) -> str:
        """Such as "this net is faster on the CPU: 3.1 x (95 % interval 2.9 to 3.3; ...)"."""
        import statistics

        from mission_tui.fleet.timed_runs import ratio_of

        cpu_s, gpu_s = statistics.median(self.cpu_s), statistics.median(self.gpu_s)
        took = f"about {_seconds(cpu_s)} per update on the CPU, {_seconds(gpu_s)} on the GPU"
        if self.faster is None:
            return f"this net is not clearly faster on the CPU or on the GPU: {took}"
        times = (self.gpu_s, self.cpu_s) if self.faster == "cpu" else (self.cpu_s, self.gpu_s)
        ratio = ratio_of(*times, paired=True)
        where = "CPU" if self.faster == "cpu" else "GPU"
        return (
            f"this net is faster on the {where}: {ratio.ratio:.1f} x "
            f"(95 % interval {ratio.lo:.1f} to {ratio.hi:.1f}; {took})"
        )

    def caution(self, device: str) -> str:
        """What to say before a launch with `run.device` = `device`; empty where that is not the slower."""
        if device == "auto" or self.faster is None or device.startswith(self.faster):
            return ""
        return f"{self.sentence}; run.device = '{device}' takes the slower one, 'auto' and '{self.faster}' the faster"


class DevicesMeasured(Struct, frozen=True, kw_only=True):
    """A measurement that is kept: `of` has by name all that it depends on, made at unix time `t`. `spaces` are those of
    the environments, in words.
    """

    t: float
    of: dict[str, str]
    spaces: str
    speeds: DeviceSpeeds


def _seconds(seconds: float) -> str:
    """Three digits at most, in a unit that leaves some before the point."""
    return f"{seconds:.2g} s" if seconds >= 1.0 else f"{seconds * 1e3:.3g} ms"
