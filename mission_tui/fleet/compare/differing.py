"""What is not the same of several runs: settings as they take effect, and what each was launched from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from mission_tui.fleet.compare.results import Side
from mission_tui.fleet.events.provenance import Provenance
from mission_tui.fleet.specs.algorithm import algorithm_name
from mission_tui.fleet.specs.flat_settings import APART, SEED, learned_with, value_word, written_settings
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean

RULES = "rules"
"""The row that says by which rules a MissionGym run plays, by the first characters of their digest."""
ALGORITHM = "run.algo"
_PPO = "ppo"
_CHOSEN = ("env.vec", "env.n_workers", "ppo.batch_size", "ppo.n_epochs", "run.device", "run.threads")
"""Settings that the trainer fills where nobody gave them: what it chose counts, not that nobody wrote it."""


class Row(Struct, frozen=True):
    """Something that differs: its name, and its value in each run, in order; None where a run has none."""

    name: str
    values: tuple[Any, ...]


def cohort_key(spec: Spec, rules: str = "") -> bytes:
    """Equal for runs that differ in nothing but the seed, in words that name them, in what lets them begin, and in who
    hears of them.
    """
    return msgspec.json.encode((rules, learned_with(spec)))


def differing_settings(sides: Sequence[Side]) -> tuple[Row, ...]:
    """A row per setting that is not the same in all. The seed is none, it stands with each run; and neither is what
    `APART` lists.
    """
    tables = [effective_settings(side) for side in sides]
    if any(ALGORITHM in table for table in tables):
        names = [None if side.spec.run.command is not None else algorithm_name(side.spec) for side in sides]
        tables = [{ALGORITHM: name} | table for name, table in zip(names, tables, strict=True)]
    rows = _rows(tables)
    unsaid = _unsaid([written_settings(side.spec) for side in sides], sides)
    return tuple(row for row in rows if row.name not in (SEED, *unsaid) and not row.name.startswith(APART))


def beside_algorithm(rows: Sequence[Row]) -> tuple[Row, ...]:
    """`rows` without the settings of an algorithm that are the same in all of its runs: its name says as much."""
    algorithms = next((row.values for row in rows if row.name == ALGORITHM), None)
    if algorithms is None:
        return tuple(rows)
    tables = [name if name is None or name in OTHERS else _PPO for name in algorithms]
    found = []
    for row in rows:
        table = row.name.partition(".")[0]
        own = [value for value, its in zip(row.values, tables, strict=True) if its == table]
        if table not in (_PPO, *OTHERS) or any(value != own[0] for value in own):
            found.append(row)
    return tuple(found)


def _unsaid(written: Sequence[Mapping[str, Any]], sides: Sequence[Side]) -> set[str]:
    """What the trainer chooses, where all ask for the same and those that have said their choice chose alike: a run
    that waits in the queue has not chosen otherwise.
    """
    found = set()
    for name in _CHOSEN:
        table, _, key = name.partition(".")
        chosen = [side.effective.get(table, {}).get(key) for side in sides]
        known = [value for value in chosen if value is not None]
        alike = all(it.get(name) == written[0].get(name) for it in written)
        if alike and len(known) < len(chosen) and all(value == known[0] for value in known):
            found.add(name)
    return found


def changed_settings(was: Spec, now: Spec) -> tuple[Row, ...]:
    """A row per setting that is not the same in both, as they are written; a seed is one of them."""
    return _rows([written_settings(was), written_settings(now)])


def differing_provenance(sides: Sequence[Side]) -> tuple[Row, ...]:
    """A row per fact that is not the same where it is known; runs of which nothing is recorded have None."""
    known = [_facts(side.provenance) if side.provenance is not None else None for side in sides]
    told = [facts for facts in known if facts is not None]
    rows = _rows(told)
    found = []
    for row in rows:
        values = iter(row.values)
        found.append(Row(row.name, tuple(None if facts is None else next(values) for facts in known)))
    return tuple(found)


def setting_words(rows: Sequence[Row], at: int, most: int = 3) -> str:
    """What the run at place `at` has set otherwise than others, for a legend: `gamma 0.99, batch_size 64`.

    Empty where nothing differs. Of more than `most` settings the first are named.
    """
    rows = beside_algorithm(rows)
    short = [row.name.rpartition(".")[2] for row in rows]
    names = [name if short.count(name) == 1 else row.name for name, row in zip(short, rows, strict=True)]
    words = [f"{name} {value_word(row.values[at])}" for name, row in zip(names, rows, strict=True)][:most]
    return ", ".join([*words, *([f"{len(rows) - most} more"] if len(rows) > most else [])])


def _rows(tables: Sequence[Mapping[str, Any]]) -> tuple[Row, ...]:
    names = dict.fromkeys(name for table in tables for name in table)
    rows = (Row(name, tuple(table.get(name) for table in tables)) for name in names)
    return tuple(row for row in rows if any(value != row.values[0] for value in row.values))


def effective_settings(side: Side) -> dict[str, Any]:
    """Every setting, with what the trainer chose."""
    flat = written_settings(side.spec)
    if side.rules:
        flat[RULES] = side.rules
    for name in _CHOSEN:
        table, _, key = name.partition(".")
        said = side.effective.get(table, {}).get(key)
        if said is not None:
            flat[name] = said
    return flat


def _facts(known: Provenance) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for tree in known.repositories:
        name = f"code of {clean(tree.name, 60)}" if tree.name else "code"
        changes = f" ({tree.diff_sha256[:7]})" if tree.diff_sha256 else ""
        facts[name] = f"{tree.word}{changes}"
    facts["folder"] = clean(known.cwd)
    facts["Python"] = clean(known.python_version)
    facts |= {f"package {clean(name, 60)}": clean(version, 60) for name, version in sorted(known.packages.items())}
    facts |= {clean(name, 40): clean(value, 80) for name, value in known.machine.items()}
    return facts
