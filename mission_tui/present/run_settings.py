"""The settings of a run as asked and as they really are, which of them a preset or another run has otherwise, and which
a finding advises to change: from what to what, what comes of it, and how often the same advice helped before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.health.proven_advice import FOLLOWED
from mission_tui.fleet.health.usual_settings import evidence_key
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.preset import as_tables
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import Schedule, Spec, part_words, rollout_size, schedule_words
from mission_tui.present.numbers import DASH

OF_A_COMMAND = "command"
"""What the preset of a run is called that was launched by its command line: there is none to hold it against."""

_FIRST = ("env", "ppo", *OTHERS, "run", "keep", "model", "host")
_LEFT_OUT = ("run.seed",)
"""No setting: every run has its own."""

Sources = tuple[Spec, Mapping[str, Any]]
"""What was asked for, and by table what was read back from the model; of a preset nothing is."""

ENOUGH_FOLLOWED = 3
_SELDOM = 0.2
"""Of what was tried: what helps no oftener is no cure."""
_STEPS = ("n_epochs", "batch_size")
"""Settings that decide how many gradient steps an update has."""


def settings(spec: Spec, effective: Mapping[str, Any]) -> Iterator[tuple[str, str | None, str | None, str]]:
    """Every setting that was asked for or read back: dotted name, asked value, effective value, reason."""
    asked = dict(_flat("", as_tables(spec)))
    reasons = {name: str(why) for name, why in _flat("", effective.get("reasons", {}))}
    ran = dict(_flat("", {table: values for table, values in effective.items() if table != "reasons"}))
    names = sorted(asked.keys() | ran.keys(), key=_rank)
    for name in names:
        if "." in name and (asked.get(name) is not None or ran.get(name) is not None):
            yield name, _word(asked.get(name)), _word(ran.get(name)), reasons.get(name, "")


def _rank(name: str) -> tuple[int, str]:
    table = name.split(".", 1)[0]
    return (_FIRST.index(table) if table in _FIRST else len(_FIRST), name)


def _flat(prefix: str, value: object) -> Iterator[tuple[str, object]]:
    if (schedule := schedule_words(value)) is not None:
        yield prefix, schedule
    elif isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    elif value not in ({}, [], ()):
        yield prefix, value


def _word(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    if (part := part_words(value)) is not None:
        return part
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_word(item) or DASH for item in value) + "]"
    return str(value)


def differing(own: Sources, other: Sources, runs: bool) -> tuple[list[tuple[str, str | None, str | None]], int]:
    """Name and both values of each setting that is not the same, and how many settings there are.

    What was asked for counts; where the other one `runs` too what really runs, where that is known of both.
    """
    here, there = _values(own, other, runs)
    rows = [
        (name, here.get(name), there.get(name))
        for name in here | there
        if name not in _LEFT_OUT and here.get(name) != there.get(name)
    ]
    return rows, len(here | there)


def _values(own: Sources, other: Sources, runs: bool) -> tuple[dict[str, str], dict[str, str]]:
    sides = [_both(*own), _both(*other)]
    schedules = {
        f"{table}.{name}"
        for table, learning in map(learning_table, (own[0], other[0]))
        for name in learning.__struct_fields__
        if isinstance(getattr(learning, name), Schedule)
    }
    known: list[dict[str, str]] = [{}, {}]
    for name in dict.fromkeys(name for side in sides for name in side):
        pairs = [side.get(name, (None, None)) for side in sides]
        # What runs of a schedule is its value at one moment, which may be that of a constant.
        ran = all(value is not None for _, value in pairs) and name not in schedules
        for into, (asked, effective) in zip(known, pairs, strict=True):
            value = effective if ran or (asked is None and runs) else asked
            if value is not None:
                into[name] = value
    return known[0], known[1]


def _both(spec: Spec, effective: Mapping[str, Any]) -> dict[str, tuple[str | None, str | None]]:
    return {name: (asked, ran) for name, asked, ran, _ in settings(spec, effective)}


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
        yield f"{key} {_advised_word(was)} → {value.strip()}{steps}"


def proof(finding: Finding) -> str:
    """How often the finding's advice helped trainings that were made sick to measure it; "" where too few followed it.

    docs/health/advice.md has each of them.
    """
    if not finding.advice_set or finding.undo:
        return ""
    key = evidence_key(finding.rule, finding.advice, finding.advice_set[0])
    helped, worse, tried = FOLLOWED.get(key, (0, 0, 0))
    if tried < ENOUGH_FOLLOWED:
        return ""
    said = f"helped in {helped} of {tried} trainings that were made sick to measure it"
    if worse > _SELDOM * tried:
        said += f" and made {worse} worse"
    return f"no cure is known: this {said}" if helped <= _SELDOM * tried else f"this {said}"


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


def _advised_word(value: object) -> str:
    if value is None:
        return "its default"
    return schedule_words(value) or (f"{value:g}" if isinstance(value, float) else str(value))
