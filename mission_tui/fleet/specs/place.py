"""Where a setting stands, so that every refusal can name it: the file or `--set` word, and the dotted key."""

from __future__ import annotations

from dataclasses import dataclass

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.quantity import format_quantity

__all__ = ["Place", "plain_key"]


def plain_key(name: str) -> str:
    """A key as messages show it: itself, or escaped and shortened when it holds anything unprintable."""
    text = name if name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, slots=True)
class Place:
    """A key within a source; the empty key is the source's top level."""

    source: str
    key: str = ""

    def at(self, name: str) -> Place:
        """The place of key `name` inside this table."""
        name = plain_key(name)
        return Place(self.source, f"{self.key}.{name}" if self.key else name)

    def item(self, index: int) -> Place:
        """The place of element `index` of this list."""
        return Place(self.source, f"{self.key}[{index}]")

    def refuse(self, sentence: str) -> PresetError:
        """The error that `sentence` is; the caller raises it."""
        return PresetError(f"{self.source}: {sentence}")

    def misfit(self, value: object, wanted: str) -> PresetError:
        """The error that `value` here should have been `wanted`."""
        return self.refuse(f"{self.key} = {format_quantity(value)} must be {wanted}")
