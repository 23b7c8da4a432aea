"""What people use today, judged on the same runs: the limits of source 004 taken at their word, and SB3's own message.

Each baseline opens an incident at the first row over its limit and closes it at the first row below: no hysteresis, no
warm-up, which is how such limits are read off a dashboard.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable
from functools import cache

from benchmarks.health.cases import Case, Incident
from mission_tui.fleet.events.metrics import UpdateDone, number

__all__ = ["BASELINES", "Baseline"]

Baseline = Callable[[Case], tuple[Incident, ...]]
TARGET_KL = 0.02
SLOPE_WINDOW = 50


def _rows_over(case: Case, rule: str, over: Callable[[UpdateDone], bool]) -> tuple[Incident, ...]:
    incidents: list[Incident] = []
    first = last = 0
    for row in case.rows:
        if over(row):
            first, last = first or row.update, row.update
        elif first:
            incidents.append(Incident(rule, "warning", first, last))
            first = 0
    return (*incidents, Incident(rule, "warning", first, last)) if first else tuple(incidents)


def _value(row: UpdateDone, tag: str) -> float | None:
    return number(row.metrics.get(tag))


def _above(tag: str, level: float, rule: str) -> Baseline:
    def judge(case: Case) -> tuple[Incident, ...]:
        return _rows_over(case, rule, lambda row: (_value(row, tag) or 0.0) > level)

    return judge


def _often(tag: str, level: float, leave: float, rule: str) -> Baseline:
    """In 5 of 8 rows over `level`, until 8 in a row are below `leave`."""

    def judge(case: Case) -> tuple[Incident, ...]:
        recent: deque[bool] = deque(maxlen=8)
        calm, on = 0, False

        def over(row: UpdateDone) -> bool:
            nonlocal calm, on
            value = _value(row, tag)
            if value is not None:
                recent.append(value > level)
                calm = calm + 1 if value < leave else 0
                on = sum(recent) >= 5 or (on and calm < 8)
            return on

        return _rows_over(case, rule, over)

    return judge


def _smoothed(tag: str, level: float, rule: str) -> Baseline:
    """An exponential average (0.2) over `level`."""

    def judge(case: Case) -> tuple[Incident, ...]:
        average: float | None = None

        def over(row: UpdateDone) -> bool:
            nonlocal average
            value = _value(row, tag)
            if value is not None:
                average = value if average is None else average + 0.2 * (value - average)
            return (average or 0.0) > level

        return _rows_over(case, rule, over)

    return judge


def _slopes(case: Case) -> tuple[Incident, ...]:
    """Source 004: the mean length keeps rising while the mean return is flat; over 50 rows, by least squares."""
    lengths: deque[float] = deque(maxlen=SLOPE_WINDOW)
    returns: deque[float] = deque(maxlen=SLOPE_WINDOW)

    def over(row: UpdateDone) -> bool:
        length, mean = _value(row, "rollout/ep_len_mean"), _value(row, "rollout/ep_rew_mean")
        if length is None or mean is None:
            return False
        lengths.append(length)
        returns.append(mean)
        if len(lengths) < SLOPE_WINDOW:
            return False
        rise = _slope(lengths) * SLOPE_WINDOW / max(1e-9, abs(statistics.fmean(lengths)))
        gain = _slope(returns) * SLOPE_WINDOW / max(1e-9, max(returns) - min(returns))
        return rise > 0.05 and abs(gain) < 0.2

    return _rows_over(case, "length up, return flat", over)


def _slope(values: deque[float]) -> float:
    middle = (len(values) - 1) / 2
    mean = statistics.fmean(values)
    return sum((at - middle) * (value - mean) for at, value in enumerate(values)) / _spread(len(values))


@cache
def _spread(values: int) -> float:
    return sum((at - (values - 1) / 2) ** 2 for at in range(values))


def _entropy(case: Case) -> tuple[Incident, ...]:
    return _rows_over(case, "entropy near 0", lambda row: (_value(row, "policy/entropy_ratio") or 1.0) < 0.05)


def _ev(case: Case) -> tuple[Incident, ...]:
    """Explained variance below 0.05 in 24 of 30 rows, from the first row on."""
    recent: deque[bool] = deque(maxlen=30)

    def over(row: UpdateDone) -> bool:
        value = _value(row, "train/explained_variance")
        if value is not None:
            recent.append(value < 0.05)
        return sum(recent) >= 24

    return _rows_over(case, "explained variance", over)


BASELINES: dict[str, Baseline] = {
    "KL > 0.08, any row (source 004)": _above("train/approx_kl", 0.08, "kl"),
    "KL > 0.08 in 5 of 8 with hysteresis": _often("train/approx_kl", 0.08, 0.05, "kl"),
    "EWMA(0.2) of KL > 0.08": _smoothed("train/approx_kl", 0.08, "kl"),
    f"SB3's message, target_kl = {TARGET_KL} (KL > 1.5 x)": _above("train/approx_kl", 1.5 * TARGET_KL, "kl"),
    "clip fraction > 0.35, any row (source 004)": _above("train/clip_fraction", 0.35, "clip"),
    "clip fraction > 0.35 in 5 of 8": _often("train/clip_fraction", 0.35, 0.30, "clip"),
    "entropy near 0, any row (source 004)": _entropy,
    "length up, return flat: slopes over 50 rows (source 004)": _slopes,
    "explained variance < 0.05 in 24 of 30, no warm-up": _ev,
}
