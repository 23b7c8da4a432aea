"""Writes `docs/performance.md` and `docs/performance.json` from the sheets that the benchmarks left.

The second keeps the sheets, so that a checkout that measured one thing anew changes that alone. The whole table of
goals appears in its order, whatever was measured: a miss is called a miss, and a line without a sheet says how to get
one. Run: python -m benchmarks.report [--sheets FOLDER] [--docs FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.goals import LINES, Line, line_of
from benchmarks.results import Row, Sheet, Spread, keep_sheets, kept_sheets, read_sheets, speaks_of_this_code
from benchmarks.rows import Verdict, verdict_of

__all__ = ["main", "markdown", "stale_sheets"]

ROOT = Path(__file__).resolve().parents[1]
QUIET_CORES = 0.25
HEAD = "| what | ours | against | theirs | ratio | goal | |\n|---|---|---|---|---|---|---|"
METHOD = """\
Sides of a comparison take their turns in the same run, after a warm-up that is thrown away; a ratio is taken round by
round. Every figure is the median of its rounds, with the least and the most of them in brackets. A goal is met
when the median meets it. Absolute figures belong to this machine; trust the ratios. `python -m benchmarks.report` says
which of the sheets are older than the code that they measure."""


def sorted_rows(sheets: Mapping[str, Sheet]) -> tuple[dict[Line, list[Row]], list[tuple[str, Row]]]:
    """The rows of every line of the table, and those that answer none with the name of their sheet."""
    answers: dict[Line, list[Row]] = {line: [] for line in LINES}
    others = []
    for name, sheet in sheets.items():
        for row in sheet.rows:
            line = line_of(row)
            if line is None:
                others.append((name, row))
            else:
                answers[line].append(row)
    return answers, others


def stale_sheets(sheets: Mapping[str, Sheet]) -> frozenset[str]:
    """Those that are older than the code that they measured, or do not say which that was."""
    return frozenset(name for name, sheet in sheets.items() if not speaks_of_this_code(name, sheet))


def markdown(sheets: Mapping[str, Sheet]) -> str:
    """The document."""
    answers, others = sorted_rows(sheets)
    parts = [
        "# Performance",
        "Written by `python -m benchmarks.report` from what `make bench` measured; not by hand.",
        reading(answers, [row for _, row in others]),
        *disturbed(sheets),
        "## The goals",
        "\n".join([HEAD, *(text for line in LINES for text in line_texts(line, answers[line]))]),
    ]
    if others:
        parts += ["## Also measured", "\n".join([HEAD, *(row_text(row) for _, row in others)])]
    notes = [
        f"- {row.what}{_beside(row)}: {row.note}"
        for row in _rows(answers, others)
        if row.note and row.ours and verdict_of(row) in (None, "met")
    ]
    if notes:
        parts += ["## Notes", "\n".join(notes)]
    parts += ["## How it was measured", METHOD, *provenance(sheets)]
    return "\n\n".join(parts) + "\n"


def _rows(answers: Mapping[Line, list[Row]], others: Iterable[tuple[str, Row]]) -> list[Row]:
    return [row for rows in answers.values() for row in rows] + [row for _, row in others]


def _beside(row: Row) -> str:
    return f", against {row.against}" if row.against else ""


def verdict_of_line(rows: Sequence[Row]) -> Verdict | None:
    """One goal is met when all rows that judge it are; None where none does."""
    found = {verdict for row in rows if (verdict := verdict_of(row)) is not None}
    order: tuple[Verdict, ...] = ("missed", "too close to say", "met")
    return next((verdict for verdict in order if verdict in found), None)


def reading(answers: Mapping[Line, list[Row]], others: Sequence[Row]) -> str:
    """What is met, what is missed and by how much, what is too close to say, what was not measured and why."""
    lines = [verdict_of_line(rows) for rows in answers.values()]
    judged = [row for rows in (*answers.values(), others) for row in rows]
    own = [verdict for row in others if (verdict := verdict_of(row)) is not None]
    empty = [f"{line.what}: {line.absence.removeprefix('not measured: ')}" for line in LINES if not answers[line]]
    empty += [f"{row.what}{_beside(row)}: {_why(row)}" for rows in answers.values() for row in rows if _absent(row)]
    counts = (
        f"{lines.count('met')} of {len(lines)} goals are met, {lines.count('missed')} missed in at least one row, "
        f"{lines.count('too close to say')} too close to say, {lines.count(None)} not measured."
    )
    if own:
        counts += f" Of {len(own)} further bounds of our own {own.count('met')} are met."
    text = [counts]
    for title, verdict in (("Missed", "missed"), ("Too close to say", "too close to say")):
        if found := [row for row in judged if verdict_of(row) == verdict]:
            text.append(f"{title}:\n" + "\n".join(f"- {_miss(row)}" for row in found))
    if empty:
        text.append("Not measured:\n" + "\n".join(f"- {sentence}" for sentence in empty))
    return "\n\n".join(text)


def disturbed(sheets: Mapping[str, Sheet]) -> list[str]:
    """A warning, if others were at work where a sheet was measured."""
    busy = [sheet for sheet in sheets.values() if sheet.elsewhere is not None and sheet.elsewhere > QUIET_CORES]
    if not busy:
        return []
    said = ", ".join(f"{sheet.title} ({sheet.elsewhere:.1f} cores)" for sheet in busy)
    return [f"Others kept the machine busy when these began, so their absolute figures are too low: {said}."]


def _absent(row: Row) -> bool:
    return row.ours is None and row.met is None


def _why(row: Row) -> str:
    return row.note.removeprefix("not measured: ")


def _miss(row: Row) -> str:
    found = f"{row.ratio.median:.2f} x" if row.ratio else quantity(row.ours, row.unit) or "no figure"
    return f"{row.what}{_beside(row)}: {found}, goal {row.goal}" + (f"; {row.note}" if row.note else "")


def line_texts(line: Line, rows: Sequence[Row]) -> list[str]:
    """A line of the table with its rows under it."""
    if not rows:
        return [cells(f"**{line.what}**", "", line.against, "", "", line.goal, line.absence)]
    return [cells(f"**{line.what}**", "", line.against, "", "", line.goal, ""), *map(row_text, rows)]


def row_text(row: Row) -> str:
    """One measured row."""
    said = verdict_of(row)
    verdict: str = "**MISSED**" if said == "missed" else said or ""
    if _absent(row):
        verdict = f"not measured: {_why(row)}"
    ratio = f"{row.ratio.median:.2f} x ({row.ratio.low:.2f} to {row.ratio.high:.2f})" if row.ratio else ""
    ours, theirs = quantity(row.ours, row.unit), quantity(row.peer, row.unit)
    return cells(row.what, ours, row.against, theirs, ratio, row.goal, verdict)


def cells(*texts: str) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in texts) + " |"


def quantity(spread: Spread | None, unit: str) -> str:
    """A median with the least and the most, in figures that can be read."""
    if spread is None:
        return ""
    middle = f"{figure(spread.median)} {unit}".strip()
    return middle if spread.low == spread.high else f"{middle} ({figure(spread.low)} to {figure(spread.high)})"


def figure(value: float) -> str:
    """Three digits that mean something, never an exponent."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.3g}"


def provenance(sheets: Mapping[str, Sheet]) -> list[str]:
    """Machines and versions, and by which command, when and under which load each sheet came about."""
    if not sheets:
        return []
    machines = list(dict.fromkeys(tuple(sheet.machine.items()) for sheet in sheets.values()))
    table = [
        "| measured | command | commit | when (UTC) | took | cores busy elsewhere before | load at the end | machine |",
        "|---" * 8 + "|",
    ]
    for sheet in sheets.values():
        elsewhere = "-" if sheet.elsewhere is None else f"{sheet.elsewhere:.2f}"
        number = str(machines.index(tuple(sheet.machine.items())) + 1)
        when = sheet.when.removesuffix("+00:00").replace("T", " ")
        took = f"{sheet.took_s / 60:.1f} min"
        commit = sheet.commit or "-"
        table.append(
            cells(sheet.title, f"`{sheet.command}`", commit, when, took, elsewhere, f"{sheet.load:.1f}", number)
        )
    described = [
        f"Machine {n}: " + ", ".join(f"{k} {v}" for k, v in facts) + "." for n, facts in enumerate(machines, 1)
    ]
    total = f"All together took {sum(sheet.took_s for sheet in sheets.values()) / 60:.0f} minutes."
    return ["\n".join(table), total, *described]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(prog="benchmarks.report", description="Write docs/performance.md and .json.")
    parser.add_argument("--sheets", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    asked = parser.parse_args(arguments)
    kept = asked.docs / "performance.json"
    new = read_sheets(asked.sheets)
    sheets = dict(sorted((kept_sheets(kept) | new).items()))
    asked.docs.mkdir(parents=True, exist_ok=True)
    (asked.docs / "performance.md").write_text(markdown(sheets), encoding="utf-8")
    keep_sheets(sheets, kept)
    print(f"{len(new)} sheets read from {asked.sheets}; {len(sheets)} in {asked.docs / 'performance.md'} and .json")
    # Only said here: in the page it would be false after the next change of the code.
    if stale := sorted(stale_sheets(sheets)):
        named = ", ".join(f"{sheets[name].title} ({sheets[name].when[:10]})" for name in stale)
        print(f"older than the code that they measure, or from before that was kept: {named}")


if __name__ == "__main__":
    main()
