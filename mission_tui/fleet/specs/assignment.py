"""The words of `--set`: `key=value` becomes a typed assignment, and commas make several runs.

A value is read as TOML first and else taken as bare text; its field's type decides later which of the two counts.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Sequence

from msgspec import Struct

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.quantity import format_quantity
from mission_tui.fleet.specs.schema import TypedText, plain_key

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
