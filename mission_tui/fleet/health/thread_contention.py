"""`thread-contention`: a command has more threads than the cores that others leave it, and they wait for each other.

torch and NumPy start a thread for every core unless they are told otherwise; beside other runs such a script can be 20
times slower, and nothing that it reports says why. No row shows it: the supervisor looks at the machine, and a finding
is kept in the journal alone. Quiet where it is not sure: alone on the machine, or where the speed did not fall.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.health.phrases import rounded
from mission_tui.fleet.health.rule import Explanation, Hysteresis
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.specs.thresholds import ThreadContentionLimits

ID = "thread-contention"
MUCH = 0.25
"""A thread that wants to compute for this share of the time is at work; what writes a log now and then is not."""
FEWEST_RUNNABLE = 1.25
"""Threads of one process that want to compute at the same time. Two that meet at every step are about 1.5; one alone
waits for others, not for its like.
"""
ONE_THREAD = ("run.threads=1",)


class ProcessThreads(Struct, frozen=True):
    """One process over a while: how many threads were at work, how many wanted to compute at a time, how many did."""

    threads: int
    runnable: float
    running: float

    @property
    def is_crowded(self) -> bool:
        """Whether several of its threads want to compute at the same time."""
        return self.threads > 1 and self.runnable >= FEWEST_RUNNABLE


class ThreadSample(Struct, frozen=True):
    """The processes of a run on a machine of `cores`, of which everybody else kept `others` busy."""

    processes: Sequence[ProcessThreads]
    cores: int
    others: float

    @property
    def crowded(self) -> tuple[ProcessThreads, ...]:
        """Those with several threads that want to compute."""
        return tuple(each for each in self.processes if each.is_crowded)

    @property
    def waiting(self) -> float:
        """Share of the time that threads of the `crowded` wanted to compute and had no core for it; 0 without any."""
        wanted = sum(each.runnable for each in self.crowded)
        return 1.0 - sum(each.running for each in self.crowded) / wanted if wanted else 0.0


class ThreadContention:
    """One attempt's rule."""

    def __init__(self, limits: ThreadContentionLimits) -> None:
        self._limits = limits
        self._stretch = Hysteresis(limits.needed, limits.window)
        self._look: ThreadSample | None = None
        self._steps_per_s: float | None = None
        self._alone_steps_per_s: float | None = None

    @property
    def on(self) -> bool:
        """Whether it is a finding as of the last look."""
        return self._stretch.on

    @property
    def off(self) -> bool:
        """Whether it surely is none; unknown before it has been looked at for a while."""
        return not self.on and self._stretch.looks >= self._limits.window

    def update(self, look: ThreadSample | None, steps_per_s: float | None) -> bool:
        """Take in a look, None where the machine has cores to spare; `steps_per_s` is that of the newest row."""
        over = look is not None and look.others >= self._limits.others and look.waiting > self._limits.waiting
        calm = look is None or look.others < self._limits.others or look.waiting < self._limits.leave
        if calm and steps_per_s is not None:
            self._alone_steps_per_s = max(steps_per_s, self._alone_steps_per_s or 0.0)
        if over:
            self._look, self._steps_per_s = look, steps_per_s
        return self._stretch.update(over=over and self._may_be_slow(steps_per_s), calm=calm)

    def _may_be_slow(self, steps_per_s: float | None) -> bool:
        alone = self._alone_steps_per_s
        return alone is None or steps_per_s is None or steps_per_s < self._limits.slow * alone

    def explain(self, spec: Spec) -> Explanation:
        """The words, from the last look that was over the limit."""
        look = self._look
        assert look is not None
        crowded = look.crowded
        threads, waiting = sum(each.threads for each in crowded), look.waiting
        left = max(0.0, look.cores - look.others)
        evidence: dict[str, Metric] = {
            "threads": float(threads),
            "runnable": round(sum(each.runnable for each in crowded), 1),
            "cores_left": round(left, 1),
            "waiting": round(waiting, 2),
        }
        if self._steps_per_s is not None:
            evidence["steps_per_s"] = round(self._steps_per_s, 1)
        return Explanation(
            sentence=(
                f"{threads} threads of it share about {rounded(left)} of {look.cores} cores with others at work: they "
                f"wait for a core {waiting:.0%} of the time that they want to compute{self._fallen()}"
            ),
            cause=_cause(spec, look.cores),
            advice="stop it, then resume it with one thread, or launch it with OMP_NUM_THREADS=1 before the command",
            advice_set=ONE_THREAD,
            evidence=(evidence,),
            signal="steps_per_s" if self._steps_per_s is not None else "",
            window=self._limits.window,
        )

    def _fallen(self) -> str:
        now, alone = self._steps_per_s, self._alone_steps_per_s
        return (
            f"; {rounded(now)} steps/s where it had {rounded(alone)}" if now is not None and alone is not None else ""
        )


def _cause(spec: Spec, cores: int) -> str:
    if spec.run.threads is not None:
        return f"run.threads = {spec.run.threads} is more than the cores that are left beside other programs"
    return (
        f"run.threads is not set, and torch and NumPy start up to {cores}, one for each core, unless OMP_NUM_THREADS "
        "says otherwise; threads that wait for each other at every step can make it 20 times slower"
    )
