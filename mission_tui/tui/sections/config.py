"""What a run was asked to be and what really runs: each setting with the value read back, and why it differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.specs.preset import as_tables
from mission_tui.fleet.specs.spec import Spec, part_words
from mission_tui.ipc.replies import DetailsReply
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.strips import fit, line
from mission_tui.tui.drawing.wrapping import wrap

__all__ = ["config", "settings"]

_FIRST = ("env", "ppo", "run", "keep", "model", "host")


def config(details: DetailsReply, width: int) -> list[Strip]:
    """A line of setting, asked and effective value each, the reason below it; what differs is bright."""
    rows = list(settings(details.spec, details.effective))
    names = min(28, max((cell_len(name) for name, *_ in rows), default=0))
    values = max(8, min(24, (width - names - 6) // 2))
    strips = [line([(f" {text}", colours.INK)], width) for text in wrap(_placed(details), width - 2)]
    strips += [_row(("setting", "asked", "runs with"), (colours.QUIET,) * 3, names, values, width)]
    for name, asked, effective, reason in rows:
        differs = asked is not None and effective is not None and asked != effective
        styles = (colours.INK, colours.QUIET, colours.KEY if differs else colours.INK)
        words = (name, asked or numbers.DASH, effective or numbers.DASH)
        strips.append(_row(words, styles, names, values, width))
        strips += [line([(f"    {text}", colours.QUIET)], width) for text in wrap(reason, width - 5)]
    return strips


def _placed(details: DetailsReply) -> str:
    """The GPU that was chosen for the attempt, and why; empty where there was no choice."""
    placed = details.view.placed
    return "" if placed is None else f"on GPU{placed.number}: {placed.why}"


def _row(words: Sequence[str], styles: Sequence[Style], names: int, values: int, width: int) -> Strip:
    cells = (names, values, values)
    parts = ((f"{fit(word, cell)}  ", style) for word, cell, style in zip(words, cells, styles, strict=True))
    return line([(" ", colours.INK), *parts], width)


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
    if isinstance(value, Mapping) and value:
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
        return "[" + ", ".join(_word(item) or numbers.DASH for item in value) + "]"
    return str(value)
