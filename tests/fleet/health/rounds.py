"""Rows of tags for rules about the trust region, and at which updates one of them changes its mind."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rule import Explanation, Row, Rule
from mission_tui.fleet.specs.thresholds import Limits
from tests.fleet.health.one_rule import TRACES, outside, watch


@dataclass(frozen=True, slots=True)
class Round:
    """The updates at which what the rule says changed, and its words for each that says something."""

    changes: list[tuple[int, Severity | None]]
    words: list[Explanation]


def row(update: int, tags: Mapping[str, float]) -> Row:
    """Update `update`; `ret` is the mean return, names without a room are `train/` tags."""
    named = {tag if "/" in tag else "train/" + tag: value for tag, value in tags.items() if tag != "ret"}
    if "ret" in tags:
        named["rollout/ep_rew_mean"] = tags["ret"]
    return Row(attempt=1, update=update, timesteps=update * 1024, metrics=named)


def rows(*columns: Mapping[str, float]) -> list[Row]:
    """Updates 1, 2, ... with these tags."""
    return [row(number, tags) for number, tags in enumerate(columns, start=1)]


def judged(
    kind: type[Rule], lines: Iterable[Row], settings: Settings | None = None, limits: Limits | None = None
) -> Round:
    """What a fresh rule of `kind` says about `lines`; without `settings` nothing is known of them."""
    lines = list(lines)
    watched = watch(kind, lines, settings or Settings(), limits)
    befores = [None, *watched.severities]
    changes = [
        (line.update, severity)
        for line, severity, before in zip(lines, watched.severities, befores, strict=False)
        if severity != before
    ]
    return Round(changes, watched.words)


def judged_outside(kind: type[Rule], name: str) -> Round:
    """The same on the outside trace `name`."""
    settings, lines = outside(name)
    return judged(kind, lines, settings)


def labels() -> dict[str, str]:
    """The label of every outside trace."""
    with (TRACES.parent / "labels.csv").open() as file:
        return {line["trace"]: line["run_label"] for line in csv.DictReader(file)}
