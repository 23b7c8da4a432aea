"""`docs/gpu.md`: what was measured on a card, or what will be; the seeds' claims stand beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.gpu.items import ITEMS, PARTS
from benchmarks.report import quantity, row_text
from benchmarks.results import Row, Sheet
from benchmarks.rows import unmeasured

PREFACE = """\
# On a GPU

This page is written by `make gpu` on a machine with a card, not by hand. The campaign has four parts of at most eight
minutes, goes on where it was left, and needs the checkout and a Python with a CUDA build of torch:

```
make gpu PYTHON=/path/to/python                 # everything; sheets in build/gpu/
make gpu PYTHON=/path/to/python PARTS=right     # one part: right, fast, seen, broken
make gpu PYTHON=python3 WHEELS=folder           # no network: what is missing comes from this folder of wheels
```"""
NOTHING = """\
**Nothing was measured yet.** No card was there when the campaign was written; its code was tried on a CPU, and the
learn path on tensors that only say they are on a card (`tests/trainer/test_on_a_card.py`). No figure about GPUs in this
project is a measurement of its own until this page has some."""
HEAD = "| what | ours | against | theirs | ratio | goal | |\n|---|---|---|---|---|---|---|"
CLAIMED = ("fast", "heavy", "beast")
CLAIMS = """\
## What the sources claim

| claim | source | measured |
|---|---|---|
| 85 % of the time in updates, 15 % in rollouts, with a big net | 001 | {split} |
| one run keeps a GPU 15, 25 or 35 % busy (`fast`, `heavy`, `beast`) | 001 | {busy} |
| four runs at once keep it 50 to 90 % busy | 001 | {four} |"""


SHORT = (
    ("fast.heavy", "one run, steps/s"),
    ("fast.beast", "one run, steps/s"),
    ("fast.heavy", "four at once against one alone"),
    ("fast.update", "gradient steps/s"),
    ("fast.small_nets", ""),
    ("seen.mps", ""),
)
"""What a reader wants to know first: of which sheet, the rows with these words."""


def page(sheets: Mapping[str, Sheet], device: str = "cuda") -> str:
    """The page from `sheets`, of which there may be none."""
    parts = [PREFACE]
    if device != "cuda":
        parts.append(f"**A rehearsal on `{device}`: none of these figures is of a card.**")
    elif not sheets:
        parts.append(NOTHING)
    else:
        parts.append("\n".join(["## Machine", "", *dict.fromkeys(map(_machine, sheets.values()))]))
        parts.append("\n".join(["## In short", "", *_short(sheets)]))
    known = {note.split(": ", 1)[0]: note for sheet in sheets.values() for row in sheet.rows for note in [row.note]}
    said = {
        claim: ", ".join(known[f"{claim} {preset}"] for preset in CLAIMED if f"{claim} {preset}" in known)
        for claim in ("busy", "four")
    }
    measured = {"split": known.get("split", ""), **said}
    parts.append(CLAIMS.format(**{claim: words or "not measured" for claim, words in measured.items()}))
    for part, what in PARTS.items():
        parts.append(f"## {part.capitalize()}: {what}")
        items = [item for item in ITEMS if item.part == part]
        lines = [HEAD]
        for item in items:
            sheet = sheets.get(item.full_name)
            if sheet is None:
                why = "no card yet" if not sheets else "the time with a card was over"
                lines.append(row_text(unmeasured(item.what, "", why)))
            else:
                lines += [row_text(row) for row in sheet.rows]
        parts.append("\n".join(lines))
        if notes := _notes([row for sheet in _sheets_of(part, sheets) for row in sheet.rows if _says(row)]):
            parts.append("\n".join(notes))
    return "\n\n".join(parts) + "\n"


def _short(sheets: Mapping[str, Sheet]) -> list[str]:
    return [
        f"- {row.what}: {quantity(row.ours, row.unit)}, {_times(row)} {row.against} ({quantity(row.peer, row.unit)})"
        f"{f'; {row.note}' if row.note else ''}"
        for name, words in SHORT
        for row in (sheets[name].rows if name in sheets else ())
        if words in row.what and row.ratio is not None
    ]


def _times(row: Row) -> str:
    assert row.ratio is not None
    times = row.ratio.median
    return f"{times:.1f} x" if times >= 1 else f"{times:.2f} x"


def _notes(rows: Sequence[Row]) -> list[str]:
    """What rows say beside their figures; the same words of several once."""
    whose: dict[str, list[str]] = {}
    for row in rows:
        whose.setdefault(row.note, []).append(row.what)
    return [
        f"- {what[0]}{f', and {len(what) - 1} more' if len(what) > 1 else ''}: {note}" for note, what in whose.items()
    ]


def _sheets_of(part: str, sheets: Mapping[str, Sheet]) -> list[Sheet]:
    return [sheets[item.full_name] for item in ITEMS if item.part == part and item.full_name in sheets]


def _says(row: Row) -> bool:
    return bool(row.note) and row.ours is not None


def _machine(sheet: Sheet) -> str:
    return f"- {sheet.when[:10]}: " + ", ".join(f"{name} {value}" for name, value in sheet.machine.items()) + "."
