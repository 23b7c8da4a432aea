"""The runs of a preset with the changes that were typed, as the one planner of launches makes them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.launch_plan import plan_launch, product_words, run_labels
from mission_tui.fleet.search.result import driver_launch, is_driver
from mission_tui.fleet.specs.assignment import factors
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.tui.state.presets import PresetChoice, Resolve, members


class Wanted(NamedTuple):
    """What a form stands for: its runs, and the machine on which they are to begin; empty on a screen of one."""

    items: tuple[LaunchItem, ...]
    at: str = ""


async def plan(
    resolve: Resolve,
    preset: PresetChoice,
    assignments: Sequence[str] = (),
    *,
    name: str | None = None,
    copies: int = 1,
    group: str | None = None,
    after: tuple[str, ...] = (),
) -> tuple[LaunchItem, ...]:
    """One item per run of `preset` with `assignments`, `copies` times; see `plan_launch`. Of a search it is the driver.

    Raises `MissionError`.
    """
    made = [await asyncio.to_thread(resolve, member, assignments) for member in members(preset)]
    if is_driver(made[0][0].preset):
        if copies > 1:
            raise UsageError(
                "runs of each: a search is one run and its trials; give 1, or search.seeds=3 in the changes"
            )
        return (structs.replace(driver_launch(made[0][0], name or group), after=after),)
    return plan_launch(
        [spec for specs in made for spec in specs],
        title=preset.name.rpartition(":")[2],
        tag=secrets.token_hex(2),
        name=name,
        group=group,
        copies=copies,
        after=after,
        product=product_words(len(made), factors(assignments), copies),
        labels=run_labels(assignments) * len(made),
    )
