"""A shipped preset with `--set` words, as the campaigns and their peers read it."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.fleet.lab import ROOT
from mission_tui.cli.plan import LaunchArguments, planned
from mission_tui.fleet.specs.spec import Spec

__all__ = ["as_options", "spec_of"]


def spec_of(preset: str, assignments: Sequence[str]) -> Spec:
    """The spec. Raises `UsageError` and `PresetError` as `launch` does."""
    return planned(LaunchArguments((preset,), assignments=tuple(assignments)), [ROOT / "presets"]).items[0].spec


def as_options(assignments: Sequence[str]) -> list[str]:
    """The words as a command line takes them."""
    return [word for assignment in assignments for word in ("--set", assignment)]
