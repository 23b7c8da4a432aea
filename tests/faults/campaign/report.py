"""The report of a campaign: all of it as JSON, and the table of figures in `docs/faults.md`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mission_tui.records.files.atomic import write_atomic, write_json
from tests.faults.campaign.progress import Progress

__all__ = ["figures_table", "write_report"]

BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->\n"
HEAD = (
    "| part | rounds asked | done | violations | seconds | figures | command | date |\n"
    "|---|--:|--:|--:|--:|---|---|---|\n"
)


def figures_table(parts: Sequence[Progress]) -> str:
    """A row per part that was run."""
    return HEAD + "".join(
        f"| {it.part} | {it.asked:,} | {it.done:,} | {len(it.violations)} | {it.seconds:,.0f} | {_figures(it)} "
        f"| `make faults ONLY={it.part} SEED={it.seed}` | {it.day} |\n"
        for it in parts
    )


def write_report(parts: Sequence[Progress], folder: Path, document: Path) -> None:
    """Write `report.json` into `folder`, and the figures between the marks of `document`."""
    write_json(folder / "report.json", list(parts))
    text = document.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    write_atomic(document, f"{head}{BEGIN}{figures_table(parts)}{END}{tail}".encode())


def _figures(progress: Progress) -> str:
    told = ", ".join(f"{count:,} {what}" for what, count in sorted(progress.figures.items()))
    return f"skipped: {progress.skipped}" if progress.skipped else told or "-"
