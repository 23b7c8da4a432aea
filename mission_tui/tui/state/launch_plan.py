"""The runs that a launch makes: those of a preset with its changes, named and grouped."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.specs.assignment import RUNS_AT_ONCE
from mission_tui.ipc.requests import LaunchItem
from mission_tui.tui.state.presets import PresetChoice, Resolve, members


async def plan(
    resolve: Resolve,
    preset: PresetChoice,
    assignments: Sequence[str],
    name: str | None,
    copies: int,
    group: str | None = None,
    after: tuple[str, ...] = (),
) -> tuple[LaunchItem, ...]:
    """One item per run of `preset` with `assignments`, `copies` times; several are a group, and those of one name
    numbered. They begin once the runs `after` have ended. Raises `MissionError`.
    """
    specs = [
        spec
        for member in members(preset)
        for spec in await asyncio.to_thread(resolve, member, assignments)
        for _ in range(copies)
    ]
    if not specs:
        raise MissionError(f"preset '{preset.name}' makes no run: its launch list is empty")
    many = len(specs) > 1
    if len(specs) > RUNS_AT_ONCE:
        raise UsageError(f"this makes {len(specs)} runs at once, and {RUNS_AT_ONCE} is the most: give fewer values")
    if group is None and many:
        group = f"{name or preset.name.rpartition(':')[2]}-{secrets.token_hex(2)}"
    names = [f"{name}-{at}" if many and name is not None else name for at in range(1, len(specs) + 1)]
    return tuple(
        LaunchItem(spec=spec, name=each, group=group, after=after) for spec, each in zip(specs, names, strict=True)
    )
