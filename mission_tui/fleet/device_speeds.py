"""The net of a run on the CPU and on the GPU: how long an update takes on either, and the sentence that says which is
faster. Environments are no part of it: they are stepped on the CPU either way.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

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
