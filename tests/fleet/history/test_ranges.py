"""No line of a journal or of metrics is believed with a number that nobody can mean."""

from __future__ import annotations

import typing

import msgspec
import pytest

from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord

NAMES = ("seq", "t", "attempt", "update", "timesteps", "number", "times")
KINDS = (*typing.get_args(FleetEvent), *typing.get_args(MetricRecord))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_counts_and_times_have_ranges(kind: type) -> None:
    """Each kind of line: a view of it, and a comparison with others, would fail for the whole fleet."""
    (said,) = msgspec.inspect.multi_type_info([kind])
    assert isinstance(said, msgspec.inspect.StructType)
    endless = [
        field.name
        for field in said.fields
        if field.name in NAMES
        and isinstance(field.type, msgspec.inspect.IntType | msgspec.inspect.FloatType)
        and field.type.le is None
        and field.type.lt is None
    ]
    assert endless == []
