"""`docs/gpu.md`: what was measured on a card, or what will be; the seeds' claims stand beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.gpu.items import ITEMS, PARTS
from benchmarks.report import row_text
from benchmarks.results import Row, Sheet, read_sheets
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


def page(folder: Path, device: str = "cuda") -> str:
    """The page from the sheets of `folder`, of which there may be none."""
    sheets = read_sheets(folder) if folder.is_dir() else {}
    parts = [PREFACE]
    if device != "cuda":
        parts.append(f"**A rehearsal on `{device}`: none of these figures is of a card.**")
    elif not sheets:
        parts.append(NOTHING)
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
                lines.append(row_text(unmeasured(item.what, "", "no card yet")))
            else:
                lines += [row_text(row) for row in sheet.rows]
        parts.append("\n".join(lines))
        notes = [f"- {row.what}: {row.note}" for sheet in _sheets_of(part, sheets) for row in sheet.rows if _says(row)]
        parts += ["\n".join(notes)] if notes else []
    if sheets:
        parts.append("\n".join(["## Machine", *(_machine(sheet) for sheet in list(sheets.values())[:1])]))
    return "\n\n".join(parts) + "\n"


def _sheets_of(part: str, sheets: Mapping[str, Sheet]) -> list[Sheet]:
    return [sheets[item.full_name] for item in ITEMS if item.part == part and item.full_name in sheets]


def _says(row: Row) -> bool:
    return bool(row.note) and row.ours is not None


def _machine(sheet: Sheet) -> str:
    return f"{sheet.when}; " + ", ".join(f"{name} {value}" for name, value in sheet.machine.items()) + "."
