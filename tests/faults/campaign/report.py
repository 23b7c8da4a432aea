"""The report of a campaign: all of it as JSON, and the table of figures in `docs/faults.md`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mission_tui.records.atomic import write_atomic, write_json
from tests.faults.campaign.progress import Progress

__all__ = ["write_report"]

BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->\n"
HEAD = (
    "| part | rounds asked | done | violations | seconds | figures | command | date | commit |\n"
    "|---|--:|--:|--:|--:|---|---|---|---|\n"
)
ROW = re.compile(r"^\| ([a-z][\w-]*) \| [\d,]+ \|.*$", re.M)


def write_report(parts: Sequence[Progress], folder: Path, document: Path) -> None:
    """Write `report.json` into `folder`, and the figures between the marks of `document`.

    Figures of parts of which nothing is kept here stay: they were run in another checkout.
    """
    write_json(folder / "report.json", list(parts))
    text = document.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    table, _, tail = rest.partition(END)
    rows = {found[1]: f"{found[0]}\n" for found in ROW.finditer(table)} | _rows(parts)
    write_atomic(document, f"{head}{BEGIN}{HEAD}{''.join(rows.values())}{END}{tail}".encode())


def _figures(progress: Progress) -> str:
    told = ", ".join(f"{count:,} {what}" for what, count in sorted(progress.figures.items()))
    return f"skipped: {progress.skipped}" if progress.skipped else told or "-"


def _rows(parts: Sequence[Progress]) -> dict[str, str]:
    return {
        it.part: f"| {it.part} | {it.asked:,} | {it.done:,} | {len(it.violations)} | {it.seconds:,.0f} "
        f"| {_figures(it)} | `make faults ONLY={it.part} SEED={it.seed}` | {it.day} | {it.commit or '-'} |\n"
        for it in parts
    }
