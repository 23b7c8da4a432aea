"""What may stand next in a `KEY=VALUE` word that is being typed: keys of the spec, and values where they are known.

The types of the spec are the only list of keys, and of the values that a key leaves open. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct, inspect

from mission_tui.errors import nearest
from mission_tui.fleet.specs.algorithm import POLICIES
from mission_tui.fleet.specs.assignment import alternatives
from mission_tui.fleet.specs.quantity import format_quantity
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.schema import TABLES, describe, members
from mission_tui.fleet.specs.spec import LAUNCHERS, Spec

KNOWN_ENVS = (
    "MissionGym-v0",
    "CartPole-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "LunarLander-v3",
    "LunarLanderContinuous-v3",
    "BipedalWalker-v3",
    "BipedalWalkerHardcore-v3",
    "CarRacing-v3",
    "Ant-v5",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "Pusher-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "Walker2d-v5",
    "Blackjack-v1",
    "CliffWalking-v1",
    "FrozenLake-v1",
    "Taxi-v3",
)
"""Ours, and those that Gymnasium registers itself: what an `env.id` without a module most often is."""

_VALUES: Mapping[str, Sequence[str]] = {
    "env.id": KNOWN_ENVS,
    "env.config": ("standard", "demo"),
    "ppo.policy": tuple(dict.fromkeys(name for names in POLICIES.values() for name in names)),
    **{f"{name}.policy": it.policies for name, it in OTHERS.items()},
    "run.device": ("auto", "cpu", "cuda", "cuda:0"),
    "run.launcher": LAUNCHERS,
}
_SHORT = {"lr": "learning_rate"}
"""What everybody calls it whose name does not begin so."""
_FEWEST_LETTERS = 3
"""So many may lie anywhere in a key, also apart; fewer would find nearly every key."""


class Completion(Struct, frozen=True):
    """`text` may replace what was typed from `start` on; `detail` says what it is."""

    text: str
    start: int
    detail: str = ""


def complete(
    typed: str, spec: Spec | None = None, known: Mapping[str, Sequence[str]] | None = None
) -> tuple[Completion, ...]:
    """What `typed`, the beginning of one word, may go on with, the likeliest first; nothing where it is whole.

    `spec` is what the settings are without the word; `known` are values by key beside those that everybody knows.
    """
    key, equals, value = typed.partition("=")
    if not equals:
        return tuple(_keys(typed, spec)) if typed else ()
    return tuple(_values(key.strip(), value, len(key) + 1, spec, known or {}))


def doubtful_env(spec: Spec) -> str:
    """A sentence where `env.id` is none of the ids known here and much like one; empty where it may well be right."""
    env = spec.env
    if spec.run.command is not None or ":" in env.id or env.imports or env.id in KNOWN_ENVS:
        return ""
    near = nearest(env.id[:60], KNOWN_ENVS)
    return f"env.id = {format_quantity(env.id)} is not known here{near}" if near else ""


def _keys(typed: str, spec: Spec | None) -> Iterator[Completion]:
    now = {} if spec is None else _flat(msgspec.to_builtins(spec))
    low = typed.lower()
    left_out = _foreign_tables(spec)
    fields = (it for it in enumerate(_fields()) if it[1].partition(".")[0] not in left_out)
    ranked = sorted((rank, at, key) for at, key in fields if (rank := _rank(low, key)) is not None)
    for _, _, key in ranked:
        value = f"now {format_quantity(now[key])}: " if now.get(key) is not None else ""
        yield Completion(f"{key}=", 0, f"{value}{_what(_fields()[key])}")


def _foreign_tables(spec: Spec | None) -> set[str]:
    """Tables of the algorithms that `spec` does not train with: their keys would be refused."""
    algo = None if spec is None else spec.run.algo
    return {"ppo", *OTHERS} - {"ppo" if algo not in OTHERS else algo}


def _values(
    key: str, value: str, start: int, spec: Spec | None, known: Mapping[str, Sequence[str]]
) -> Iterator[Completion]:
    field = _fields().get(key)
    if field is None:
        return
    last = alternatives(value)[-1]
    begun = last.strip()
    start += len(value) - len(last.lstrip())
    choices = dict.fromkeys((*_open_values(field), *known.get(key, ()), *_VALUES.get(key, ())))
    if begun in choices:
        return
    for choice in choices:
        if choice.lower().startswith(begun.lower()):
            yield Completion(choice, start)
    if key == "run.threads" and not begun and spec is not None and spec.run.command is not None:
        yield Completion("1", start, "else torch and NumPy start one for every core")
    now = None if spec is None or begun else _flat(msgspec.to_builtins(spec)).get(key)
    if isinstance(now, int | float) and not isinstance(now, bool):
        yield Completion(repr(now), start, "as it is now")


def _open_values(field: inspect.Field) -> Iterator[str]:
    """The words that the field's type leaves to choose from."""
    for member in members(field.type):
        if isinstance(member, inspect.LiteralType):
            yield from map(str, member.values)
        elif isinstance(member, inspect.BoolType):
            yield from ("true", "false")


def _rank(low: str, key: str) -> int | None:
    """How well the key fits what was typed in lower case; None where it does not."""
    if key.startswith(low):
        return 0
    above, _, field = key.rpartition(".")
    table, dot, letters = low.rpartition(".")
    letters = _SHORT.get(letters, letters)
    if dot and not above.startswith(table):
        return None
    if field.startswith(letters):
        return 1
    if len(letters) < _FEWEST_LETTERS:
        return None
    if letters in field:
        return 2
    rest = iter(field)
    return 3 if all(letter in rest for letter in letters) else None


@cache
def _fields() -> dict[str, inspect.Field]:
    """Every key that takes a value, in the order of a preset; tables of tables come last, they are long."""
    found: dict[str, inspect.Field] = {}
    for name, table in TABLES.items():
        found |= _below(name, table)
    return dict(sorted(found.items(), key=lambda item: item[0].count(".") > 1))


def _below(name: str, table: inspect.StructType) -> dict[str, inspect.Field]:
    found: dict[str, inspect.Field] = {}
    for field in table.fields:
        key = f"{name}.{field.encode_name}"
        inner = [member for member in members(field.type) if isinstance(member, inspect.StructType)]
        if len(inner) != len(members(field.type)):
            found[key] = field
        for struct in inner:
            found |= _below(key, struct)
    return found


def _what(field: inspect.Field) -> str:
    return " or ".join(dict.fromkeys(describe(member) for member in members(field.type)))


def _flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
