"""What `top` says of the last minute: how busy each GPU was in updates and outside of them, and each run's phases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mission_tui.cli.tables.numbers import UNKNOWN
from mission_tui.cli.tables.table import Table
from mission_tui.fleet.strips.attribution import Attribution, attribute, duty_sentence

if TYPE_CHECKING:
    from mission_tui.cli.session import Session

__all__ = ["attribution_facts", "duty_lines", "last_minute", "share_table"]

WINDOW_S = 60.0
CELLS = 240


def last_minute(session: Session) -> Attribution:
    """Asked of the supervisor, in its finest cells."""
    from mission_tui.ipc.requests import GetStrip

    with session.connect() as connection:
        return attribute(connection.ask(lambda id_: GetStrip(id=id_, seconds=WINDOW_S, most=CELLS)).strip)


def duty_lines(shown: Attribution) -> Iterator[str]:
    """A sentence per GPU, by name where there are several."""
    for duty in shown.gpus:
        name = f"{duty.name} ({duty.uuid[:12]}): " if len(shown.gpus) > 1 else ""
        yield f"last minute: {name}{duty_sentence(duty)}"


def share_table(shown: Attribution) -> Table:
    """A row per run with phases in the last minute."""
    columns = ("run", "name", "rollout", "update", "energy", "per 1M steps")
    table = Table(columns, numbers=frozenset(columns[2:]))
    for share in shown.runs:
        energy, each = (_joules(value) for value in (share.joules, share.joules_per_million_steps))
        table.add(share.run, share.name, f"{share.rollout:.0f}%", f"{share.update:.0f}%", energy, each)
    return table


def attribution_facts(shown: Attribution) -> dict[str, Any]:
    """`duties` and `phases` of the document of `top`."""
    import msgspec

    return {
        "duties": [msgspec.to_builtins(duty) for duty in shown.gpus],
        "phases": [
            msgspec.to_builtins(share) | {"joules_per_million_steps": share.joules_per_million_steps}
            for share in shown.runs
        ],
    }


def _joules(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    for unit in ("J", "kJ", "MJ"):
        if value < 1_000.0:
            return f"{value:.3g}{unit}"
        value /= 1_000.0
    return f"{value:.3g}GJ"
