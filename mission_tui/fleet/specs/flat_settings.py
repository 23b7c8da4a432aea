"""Settings by their dotted names: every one of a spec, as one value each, and what is not the same in several specs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.spec import LimitsKeep, Spec, schedule_words
from mission_tui.fleet.text import clean

WORDS_ONLY = ("preset", "description")
SEED = "run.seed"
APART = ("keep.limits.", "run.track", "profile")
"""What a run waits for before it begins, who is told of it, and what is said of a host profile (what that sets are
settings themselves) change nothing of what it learns."""

SHORT = {"ppo.learning_rate": "lr", SEED: "s"}
_MOST = 8


def written_settings(spec: Spec) -> dict[str, Any]:
    """Every setting by its dotted name, a table's entries each on their own; what is None is left out.

    So is `ppo` where another algorithm trains, and of a command also what only our trainer would take of `env`: the
    defaults that stand there are not what it trains with.
    """
    flat: dict[str, Any] = {}
    tables = msgspec.to_builtins(spec)
    if spec.run.command is not None:
        tables["env"] = {"id": spec.env.id}
    if spec.run.command is not None or other_algorithm(spec.run.algo) is not None:
        del tables["ppo"]
    for name, value in tables.items():
        if name not in WORDS_ONLY:
            _flatten(name, value, flat)
    return flat


def learned_with(spec: Spec) -> Spec:
    """`spec` without its seed, its names, and what `APART` lists: equal for all seeds of one setting."""
    run = msgspec.structs.replace(spec.run, seed=None, track=None, track_checkpoints=False)
    keep = msgspec.structs.replace(spec.keep, limits=LimitsKeep())
    return msgspec.structs.replace(spec, run=run, keep=keep, preset="", description="", profile=None)


def value_word(value: Any) -> str:
    """A value as people write it: `0.0003`, `64-64`, `true`, `python train.py`; a dash where a run has none."""
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case list() | tuple() if value and all(isinstance(item, str) for item in value):
            return clean(shlex.join(value))
        case list() | tuple():
            return "-".join(value_word(item) for item in value) or "none"
        case _:
            return clean(str(value))


def varying(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float | str]]:
    """For each run of `settings` (its own by dotted name) those that are not the same in all, by their short names:
    numbers as they are, all else in words. Seeds are none of them; of very many the first few are taken.
    """
    if len(settings) < 2:
        return {}
    tables = list(settings.values())
    names = [
        name
        for name in dict.fromkeys(name for table in tables for name in table)
        if name != SEED and not name.startswith(APART) and any(it.get(name) != tables[0].get(name) for it in tables)
    ][:_MOST]
    short = short_names(names)
    return {
        run: {short[name]: _shown(table[name]) for name in names if name in table} for run, table in settings.items()
    }


class GroupSettings:
    """What varies within a group whose members come, go and change; of each only what sets it apart is kept."""

    def __init__(self) -> None:
        self._members: dict[str, Spec] = {}
        self._common: dict[str, Any] = {}
        self._apart: dict[str, dict[str, Any]] = {}
        self.varied: dict[str, dict[str, float | str]] = {}

    def update(self, members: dict[str, Spec]) -> None:
        """Know what is `varying` among `members`. Specs are frozen: the same object is not looked at again."""
        known = self._members
        if known.keys() == members.keys() and all(known[run] is spec for run, spec in members.items()):
            return
        self._members, self.varied = members, {}
        if len(members) < 2:
            self._apart = {}
            return
        flat = {
            run: written_settings(spec)
            for run, spec in members.items()
            if known.get(run) is not spec or run not in self._apart
        }
        self._common = self._common or next(iter(flat.values()))
        self._apart = {run: _apart(self._common, flat[run]) if run in flat else self._apart[run] for run in members}
        names = {name for apart in self._apart.values() for name in apart}
        common = {name: value for name, value in self._common.items() if name in names}
        self.varied = varying(
            {
                run: {name: value for name, value in {**common, **apart}.items() if value is not None}
                for run, apart in self._apart.items()
            }
        )


def _apart(common: Mapping[str, Any], flat: Mapping[str, Any]) -> dict[str, Any]:
    """What of `flat` is not as in `common`; None for what it has not."""
    found = {name: value for name, value in flat.items() if common.get(name) != value}
    return found | {name: None for name in common if name not in flat}


def short_names(names: list[str]) -> dict[str, str]:
    """`lr` for `ppo.learning_rate`, `n_epochs` for `ppo.n_epochs`; the whole name where two would have the same."""
    last = [SHORT.get(name, name.rpartition(".")[2]) for name in names]
    return {name: word if last.count(word) == 1 else name for name, word in zip(names, last, strict=True)}


def _shown(value: Any) -> float | str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    word = value_word(value)
    try:
        # A value of a command's placeholder is the word that was typed.
        return float(word)
    except ValueError:
        return word


def _flatten(name: str, value: Any, flat: dict[str, Any]) -> None:
    match value:
        case dict() if (schedule := schedule_words(value)) is not None:
            flat[name] = schedule
        case dict():
            for key, item in value.items():
                _flatten(f"{name}.{clean(str(key), 60)}", item, flat)
        case None:
            return
        case list() | tuple():
            flat[name] = [clean(item) if isinstance(item, str) else item for item in value]
        case str():
            flat[name] = clean(value)
        case _:
            flat[name] = value
