"""What a finding advises, setting by setting, as people say it: from what to what, what comes of it, and how often the
same advice helped before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.health.proven_advice import FOLLOWED
from mission_tui.fleet.specs.spec import Spec, rollout_size, schedule_words

ENOUGH_FOLLOWED = 3
_STEPS = ("n_epochs", "batch_size")
"""Settings that decide how many gradient steps an update has."""


def setting_changes(words: Iterable[str], spec: Spec, effective: Mapping[str, Any]) -> Iterator[str]:
    """`n_epochs 6 → 3: 24 gradient steps an update instead of 48`, for each ``key=value`` of `words`.

    `effective` is what the newest attempt runs with, by table; where that is not known, what was asked counts.
    """
    ran = effective.get("ppo", {})
    before = {name: ran.get(name) or getattr(spec.ppo, name, None) for name in _STEPS}
    for word in words:
        name, _, value = word.partition("=")
        table, _, key = name.strip().partition(".")
        was = effective.get(table, {}).get(key)
        was = getattr(getattr(spec, table, None), key, None) if was is None else was
        steps = _steps_words(spec, before, before | {key: _whole(value)}) if table == "ppo" and key in _STEPS else ""
        yield f"{key} {_word(was)} → {value.strip()}{steps}"


def proof(finding: Finding) -> str:
    """How often the finding's advice helped trainings that were made sick to measure it; "" where too few followed it.

    docs/health/advice.md has each of them.
    """
    if not finding.advice_set or finding.undo:
        return ""
    helped, tried = FOLLOWED.get((finding.rule, finding.advice_set[0].partition("=")[0]), (0, 0))
    if tried < ENOUGH_FOLLOWED:
        return ""
    return f"this helped in {helped} of {tried} trainings that were made sick to measure it"


def _steps_words(spec: Spec, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    was, is_ = _gradient_steps(spec, before), _gradient_steps(spec, after)
    if was is None or is_ is None:
        return ""
    return (
        f": keeps {was:,} gradient steps an update"
        if was == is_
        else f": {is_:,} gradient steps an update, not {was:,}"
    )


def _gradient_steps(spec: Spec, sizes: Mapping[str, Any]) -> int | None:
    epochs, batch = (sizes[name] for name in _STEPS)
    if not isinstance(epochs, int) or not isinstance(batch, int) or batch < 1:
        return None
    return epochs * math.ceil(rollout_size(spec) / batch)


def _whole(value: str) -> int | None:
    return int(value) if value.strip().isdigit() else None


def _word(value: object) -> str:
    if value is None:
        return "its default"
    return schedule_words(value) or (f"{value:g}" if isinstance(value, float) else str(value))
