"""A run's settings as asked and as they really are, with reasons; how they differ from a preset or another run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import DetailsReply
from mission_tui.present import numbers
from mission_tui.present.run_settings import OF_A_COMMAND, differing, settings
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import fit, line, wrap

_HINT = "v only what differs from its preset, then from another run"
_HINT_OF_A_COMMAND = "v only what differs from another run"
_NAMES, _LEAST = 28, 10
_REASON = 44
"""Columns from which on reasons stand beside the values and not below them."""


def config(details: DetailsReply, width: int) -> list[Strip]:
    """A line of setting, asked and effective value each, the reason below it or beside it; what differs is bright."""
    rows = list(settings(details.spec, details.effective))
    names = min(28, max((cell_len(name) for name, *_ in rows), default=0))
    values = max(8, min(24, (width - names - 6) // 2))
    indent = 1 + names + 2 * values + 6
    indent = indent if width >= indent + _REASON else 0
    strips = [line([(f" {text}", colours.INK)], width) for text in wrap(_placed(details), width - 2)]
    titles = ("setting", "asked", "runs with", *(("why",) if indent else ()))
    strips += [_row(titles, (colours.QUIET,) * len(titles), names, values, width)]
    for name, asked, effective, reason in rows:
        differs = asked is not None and effective is not None and asked != effective
        styles = (colours.INK, colours.QUIET, colours.KEY if differs else colours.INK)
        words = (name, asked or numbers.DASH, effective or numbers.DASH)
        beside = wrap(reason, width - indent - 1) if indent else []
        strips.append(_row((*words, *beside[:1]), (*styles, colours.QUIET), names, values, width))
        below = beside[1:] if indent else wrap(reason, width - 5)
        strips += [line([(" " * (indent or 4) + text, colours.QUIET)], width) for text in below]
    return strips


def _placed(details: DetailsReply) -> str:
    """The node of an engine that the attempt is on, or the GPU that was chosen for it, and why; empty without both."""
    view = details.view
    if view.node is not None:
        return f"on node {view.node}, carried out by {view.launcher}"
    return "" if view.placed is None else f"on GPU{view.placed.number}: {view.placed.why}"


def _row(words: Sequence[str], styles: Sequence[Style], names: int, values: int, width: int) -> Strip:
    cells = (names, values, values, max(0, width - names - 2 * values - 7))
    parts = ((f"{fit(word, cell)}  ", style) for word, cell, style in zip(words, cells, styles, strict=False))
    return line([(" ", colours.INK), *parts], width)


@dataclass(frozen=True, slots=True)
class Other:
    """`name` says in words what it is, `run` whether it is one: of a preset nothing runs, and `effective` is empty."""

    name: str
    spec: Spec | None
    effective: Mapping[str, Any] = field(default_factory=dict)
    run: bool = False
    trouble: str = ""
    """Why there is nothing to hold against it; empty where there is a spec."""


def held_against(details: DetailsReply, other: Other | None, width: int) -> list[Strip]:
    """Every setting, or what differs from `other`; each with what the next key shows."""
    if other is not None:
        return difference(details, other, width)
    hint = _HINT_OF_A_COMMAND if details.view.preset == OF_A_COMMAND else _HINT
    return [line([(f" {hint}", colours.QUIET)], width), *config(details, width)]


def difference(details: DetailsReply, other: Other, width: int) -> list[Strip]:
    """A line per setting that differs, with both values whole: a long one goes on below itself."""
    hint = "v every setting again" if other.run else "v against another run, then every setting again"
    if other.spec is None:
        said = [(f"{other.name}: {other.trouble}", colours.ALARM), (hint, colours.QUIET)]
        return [line([(f" {text}", style)], width) for words, style in said for text in wrap(words, width - 2)]
    rows, known = differing((details.spec, details.effective), (other.spec, other.effective), other.run)
    head = f"{len(rows)} of {known} settings differ from {other.name}" if rows else ""
    head = head or f"nothing differs from {other.name}; the seed is left out"
    strips = [line([(f" {text}", colours.BOLD)], width) for text in wrap(head, width - 2)]
    if rows:
        strips += _table(rows, width)
    return [*strips, line([(f" {hint}", colours.QUIET)], width)]


def _table(rows: list[tuple[str, str | None, str | None]], width: int) -> list[Strip]:
    names = min(_NAMES, max(cell_len(name) for name, *_ in rows))
    values = max(_LEAST, (width - names - 7) // 2)
    titles = f" {fit('setting', names)}  {fit('this run', values)}  {fit('there', values)}"
    strips = [line([(titles, colours.QUIET)], width)]
    for name, here, there in rows:
        here_lines, there_lines = wrap(here or numbers.DASH, values), wrap(there or numbers.DASH, values)
        for at in range(max(len(here_lines), len(there_lines))):
            parts = (it[at] if at < len(it) else "" for it in ([name], here_lines, there_lines))
            title, mine, its = (fit(text, cells) for text, cells in zip(parts, (names, values, values), strict=True))
            strips.append(line([(f" {title}  ", colours.INK), (f"{mine}  ", colours.KEY), (its, colours.INK)], width))
    return strips
