"""The PPO settings a run really trains with, as a table: read back from its model, not from what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mission_tui.cli.tables.numbers import UNKNOWN
from mission_tui.cli.tables.table import Table
from mission_tui.fleet.specs.spec import part_words

if TYPE_CHECKING:
    from mission_tui.ipc.replies import DetailsReply

__all__ = ["settings_table"]

SECTIONS = ("env", "ppo", "run", "model")


def settings_table(details: DetailsReply) -> Table:
    """What the trainer recorded as effective, section by section as in `effective.toml`; no rows before it did."""
    reasons = _flat("", details.effective.get("reasons", {}))
    table = Table(("setting", "value", "why"))
    for section in SECTIONS:
        for key, value in _flat(f"{section}.", details.effective.get(section, {})).items():
            table.add(key, value, reasons.get(key, reasons.get(key.partition(".")[2], "")))
    return table


def _flat(prefix: str, values: dict[str, Any]) -> dict[str, str]:
    """Dotted keys and printed values; a table inside a table is one more dotted level."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(f"{prefix}{key}.", value)
        else:
            text = (
                ", ".join(part_words(item) or str(item) for item in value)
                if isinstance(value, list | tuple)
                else str(value)
            )
            flat[f"{prefix}{key}"] = text or UNKNOWN
    return flat
