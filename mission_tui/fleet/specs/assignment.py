"""The words of `--set`: `key=value` becomes a typed assignment, and commas make several runs. And what may stand next
in one that is being typed: keys of the spec, and values where they are known.

A value is read as TOML first and else taken as bare text; its field's type decides later which of the two counts.
The types of the spec are the only list of keys, and of the values that a key leaves open. Pure.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct, inspect

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.specs.algorithm import POLICIES
from mission_tui.fleet.specs.quantity import format_quantity
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.schema import TABLES, TypedText, describe, members, plain_key
from mission_tui.fleet.specs.spec import LAUNCHERS, Spec

MOST_RUNS = 1000
"""More runs than this from one call are taken for a slip of the comma."""

_CLOSING = {"[": "]", "{": "}", "(": ")"}


class Assignment(Struct, frozen=True):
    """One setting of one run. `value` None means: as if it had never been written."""

    key: str
    value: TypedText | None

    @property
    def source(self) -> str:
        """How messages name it."""
        return f"--set {plain_key(self.key)}={'none' if self.value is None else plain_key(self.value.text)}"


def expand(assignments: Sequence[str]) -> list[list[Assignment]]:
    """The assignments of each run that `--set` words ask for: one list per run, every combination of the alternatives.

    Commas outside brackets and quotes separate alternatives; of several words for one key the last counts. Raises
    `UsageError` for a word without ``=``, an empty alternative, one that comes twice, or more than `MOST_RUNS` runs.
    """
    choices: dict[str, list[Assignment]] = {}
    for word in assignments:
        key, equals, text = word.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UsageError(f"--set {format_quantity(word)} is not KEY=VALUE, such as run.seed=7")
        parts = [part.strip() for part in alternatives(text)]
        if len(parts) > 1 and not all(parts):
            raise UsageError(f"--set {format_quantity(word)} has an empty value between its commas")
        choices[key] = [Assignment(key, _spoken(part)) for part in parts]
        if (again := _again(choices[key])) is not None:
            raise UsageError(
                f"--set {format_quantity(word)} gives {format_quantity(again)} twice; -n 2 makes two runs of each"
            )
    runs = math.prod(len(values) for values in choices.values())
    if runs > MOST_RUNS:
        raise UsageError(f"--set asks for {runs:,} runs; give values for at most {MOST_RUNS:,}")
    return [list(combination) for combination in itertools.product(*choices.values())]


def _again(given: Sequence[Assignment]) -> str | None:
    """The text of the first value that was given before; `1` and `true` are not the same."""
    before: list[tuple[type, object]] = []
    for each in given:
        value = None if each.value is None else each.value.value
        if (type(value), value) in before:
            return "none" if each.value is None else each.value.text
        before.append((type(value), value))
    return None


def factors(assignments: Sequence[str]) -> dict[str, int]:
    """How many values each key of a sweep has, in the order of the words; keys with one are not part of it.

    Raises `UsageError` as `expand` does.
    """
    counts = {word.partition("=")[0].strip(): len(expand((word,))) for word in assignments}
    return {key: count for key, count in counts.items() if count > 1}


def _spoken(text: str) -> TypedText | None:
    if text.lower() == "none":
        return None
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return TypedText(text, text)
    return TypedText(parsed["value"], text) if len(parsed) == 1 else TypedText(text, text)


def alternatives(text: str) -> list[str]:
    """`text` cut at the commas that are outside brackets and quotes; what never closes is not cut."""
    parts, start, expected, quote = [], 0, [], ""
    for index, character in enumerate(text):
        if quote:
            escaped = quote == '"' and text[index - 1] == "\\"
            quote = "" if character == quote and not escaped else quote
        elif character in "\"'":
            quote = character
        elif character in _CLOSING:
            expected.append(_CLOSING[character])
        elif expected and character == expected[-1]:
            expected.pop()
        elif character == "," and not expected:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


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
