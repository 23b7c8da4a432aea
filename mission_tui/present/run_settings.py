"""The settings of a run as asked and as they really are, and which of them a preset or another run has otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mission_tui.fleet.specs.preset import as_tables
from mission_tui.fleet.specs.spec import Schedule, Spec, part_words, schedule_words
from mission_tui.present.numbers import DASH

OF_A_COMMAND = "command"
"""What the preset of a run is called that was launched by its command line: there is none to hold it against."""

_FIRST = ("env", "ppo", "run", "keep", "model", "host")
_LEFT_OUT = ("run.seed",)
"""No setting: every run has its own."""

Sources = tuple[Spec, Mapping[str, Any]]
"""What was asked for, and by table what was read back from the model; of a preset nothing is."""


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
        f"ppo.{name}"
        for spec in (own[0], other[0])
        for name in spec.ppo.__struct_fields__
        if isinstance(getattr(spec.ppo, name), Schedule)
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
