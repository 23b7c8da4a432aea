"""Settings that a person may change while a run trains. Pure.

A change takes effect between two updates, so only what the next update reads anew can be changed: nothing that shapes
the network, the rollout or the environments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.quantity import format_quantity
from mission_tui.fleet.specs.schema import TABLES
from mission_tui.fleet.specs.spec import LIVE_KEYS, Spec

_SCHEDULED = ("ppo.learning_rate", "ppo.clip_range")


def check_live(spec: Spec, words: Sequence[str]) -> None:
    """Raise `UsageError`, naming the nearest key that can, unless each of `words` is for a setting that can be changed
    while a run of `spec` trains, and gives it one value.
    """
    runs = expand(words)
    if len(runs) != 1 or not words:
        raise UsageError("give at least one KEY=VALUE, with one value each, such as ppo.learning_rate=1e-4")
    for assignment in runs[0]:
        key = assignment.key
        if key in LIVE_KEYS or key.rpartition(".")[0] in _SCHEDULED:
            if key == "ppo.batch_size" and spec.run.compile:
                raise UsageError(f"{key}: with run.compile every shape was compiled at the start; stop it, then resume")
            continue
        raise UsageError(f"{format_quantity(key)} {_why_not(key)}")


def _why_not(key: str) -> str:
    table, _, name = key.partition(".")
    known = table in TABLES and name.split(".")[0] in {field.name for field in TABLES[table].fields}
    if known:
        return f"cannot be changed while a run trains: stop it, then resume --set {key}=...; these can: {_listed()}"
    bare = {live.partition(".")[2]: live for live in LIVE_KEYS}
    near = nearest(key, (*LIVE_KEYS, *bare))
    for short, whole in bare.items():
        near = near.replace(f"'{short}'", f"'{whole}'")
    return f"is not a setting of a run{near or f'; these can be changed while it trains: {_listed()}'}"


def _listed() -> str:
    return ", ".join(LIVE_KEYS)


def with_words(spec: Spec, changes: Iterable[Sequence[str]]) -> Spec:
    """`spec` after each of `changes`, which are `--set` words, one after the other. Raises `MissionError`."""
    for words in changes:
        spec = change(spec, words)
    return spec
