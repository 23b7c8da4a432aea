"""What a launch is about to make, as a table on stderr or facts of a document: a row per run, with the settings in
which the runs differ, and what auto-scaling does to them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mission_tui.cli.tables.table import Table
from mission_tui.cli.terminal_output import print_error

if TYPE_CHECKING:
    from mission_tui.fleet.specs.spec import LaunchItem


_CELL = 40
_OWN = ("preset", "description", "run.seed")


def plan_facts(items: Sequence[LaunchItem]) -> dict[str, Any]:
    """The group, and of each run its name (null: by preset and id), preset, seed and the settings that differ."""
    tables = [_settings(item) for item in items]
    names = dict.fromkeys(name for table in tables for name in table)
    varied = [name for name in names if any(table.get(name) != tables[0].get(name) for table in tables)]
    return {
        "group": items[0].group,
        "runs": [
            {
                "name": item.name,
                "preset": item.spec.preset,
                "seed": item.spec.run.seed,
                "settings": {name: table.get(name) for name in varied},
            }
            for item, table in zip(items, tables, strict=True)
        ],
    }


def show_plan(items: Sequence[LaunchItem]) -> None:
    """Say it before anything starts."""
    facts = plan_facts(items)
    from mission_tui.fleet.compare import value_word
    from mission_tui.fleet.text import clean
    from mission_tui.present.numbers import DASH

    runs = facts["runs"]
    table = Table(("run", "preset", *runs[0]["settings"], "seed"), numbers=frozenset({"seed"}))
    for number, run in enumerate(runs, 1):
        words = (clean(value_word(value), _CELL) for value in run["settings"].values())
        table.add(run["name"] or str(number), run["preset"], *words, DASH if run["seed"] is None else str(run["seed"]))
    group = f", group {facts['group']}: `mission-tui compare {facts['group']}` ranks them" if facts["group"] else ""
    print_error(f"{len(runs)} run{'' if len(runs) == 1 else 's'}{group}")
    table.write(sys.stderr)


def show_scaling(items: Sequence[LaunchItem]) -> None:
    """What auto-scaling makes of each preset that has it on, before and after; each only once."""
    from mission_tui.fleet.specs.sizes import scaling_of

    shown: list[object] = []
    for item in items:
        scaling = scaling_of(item.spec)
        if scaling is None or scaling in shown:
            continue
        shown.append(scaling)
        table = Table(
            ("one update", "reference", "without", "auto-scaled"), frozenset({"reference", "without", "auto-scaled"})
        )
        for row in scaling.rows:
            table.add(
                row.name,
                *(f"{value:,g}" if value < 1 else f"{value:,}" for value in (row.reference, row.without, row.scaled)),
            )
        print_error(f"run.auto_scale of {item.spec.preset}; values written in the preset or given with --set are kept")
        table.write(sys.stderr)
        if scaling.sentence:
            print_error(scaling.sentence)


def _settings(item: LaunchItem) -> dict[str, Any]:
    """Every written setting by its dotted name."""
    from mission_tui.fleet.specs.preset import as_tables

    flat: dict[str, Any] = {}
    pending: list[tuple[str, Any]] = list(as_tables(item.spec).items())
    while pending:
        name, value = pending.pop(0)
        if isinstance(value, Mapping):
            pending = [(f"{name}.{key}", inner) for key, inner in value.items()] + pending
        elif name not in _OWN:
            flat[name] = value
    return flat
