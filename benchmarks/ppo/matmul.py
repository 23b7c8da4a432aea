"""What of a PPO round is matrix products, which no loop around them can save: the floor under a ratio."""

from __future__ import annotations

from torch.profiler import ProfilerActivity, profile

from benchmarks.ppo.side import Side

__all__ = ["KERNELS", "arithmetic_s"]

KERNELS = "the network is computed by kernels of ours, whose matrix products cannot be told from the rest"
"""Where `arithmetic_s` finds no product of torch's."""

ARITHMETIC = ("aten::addmm", "aten::mm", "aten::bmm", "aten::linear")


def arithmetic_s(side: Side) -> tuple[float, float]:
    """Seconds of one turn of `side` that are products, and all its seconds, under torch's profiler.

    With thousands of lanes a call is long enough that the profiler's own cost does not show.
    """
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        turn = side.turn()
    spent_us = sum(event.self_cpu_time_total for event in watched.key_averages() if event.key.rstrip("_") in ARITHMETIC)
    return spent_us / 1e6, turn.wall_s
