"""A class of the user's own in a spec, such as a callback or a wrapper: its name, and what it is made with. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, field

__all__ = ["Part", "parse_part", "part_words"]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`cls` is "package.module:Name"."""

    cls: Annotated[str, Meta(min_length=1)]
    kwargs: dict[str, Any] = field(default_factory=dict)


def parse_part(written: str | Part) -> Part:
    """A class that was written by its name alone is made with nothing."""
    return Part(cls=written) if isinstance(written, str) else written


def part_words(value: object) -> str | None:
    """``pkg:Name(scale=2, inner=pkg:Other)`` for a part, or the table that one is written as; None for all else."""
    if isinstance(value, Part):
        value = {"cls": value.cls, "kwargs": value.kwargs}
    if not isinstance(value, Mapping) or "cls" not in value or not value.keys() <= {"cls", "kwargs"}:
        return None
    kwargs = value.get("kwargs") or {}
    if not isinstance(kwargs, Mapping):
        return None
    arguments = ", ".join(f"{name}={part_words(item) or item}" for name, item in kwargs.items())
    return f"{value['cls']}({arguments})" if arguments else str(value["cls"])
