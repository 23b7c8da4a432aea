"""What all runs together may take of a machine: `limits.toml`, of the user and of whoever looks after the machine.

The tighter of two files holds. What is absent is not limited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, inspect

from mission_tui.fleet.specs.place import Place
from mission_tui.fleet.specs.schema import fit_table

__all__ = ["MachineLimits", "read_limits", "tightest"]

Bytes = Annotated[int, Meta(ge=1, le=10**18)]
Count = Annotated[int, Meta(ge=1, le=4096)]


class MachineLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most so much for all runs of a user together, whatever runs root they are in; None is no limit.

    `ram` bytes of memory, `vram` bytes of each GPU, `cores` that they keep busy, `runs` that live at once, and
    `runs_per_gpu` of them on one GPU.
    """

    ram: Bytes | None = None
    vram: Bytes | None = None
    cores: Count | None = None
    runs: Count | None = None
    runs_per_gpu: Count | None = None


def read_limits(table: Mapping[str, object], path: Path) -> MachineLimits:
    """The limits in `table`, parsed from the file at `path`. Raises `PresetError` naming file, key and remedy."""
    shape = inspect.type_info(MachineLimits)
    assert isinstance(shape, inspect.StructType)
    return msgspec.convert(fit_table(shape, table, Place(str(path))), MachineLimits)


def tightest(limits: Sequence[MachineLimits]) -> MachineLimits:
    """Of each limit the least."""
    named = {name: [it for each in limits if (it := getattr(each, name)) is not None] for name in _NAMES}
    return MachineLimits(**{name: min(values) for name, values in named.items() if values})


_NAMES = MachineLimits.__struct_fields__
