"""What of the machine is taken by programs that belong to no run here: named, so that somebody can do something."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

__all__ = ["OtherProgram", "other_sentence"]

_GIB = 1 << 30


class OtherProgram(Struct, frozen=True):
    """A process of somebody that takes much: `name` without its arguments, which may hold secrets; None is unknown.

    `cpu_percent` 100 is one core, over the last seconds or up to a minute.
    """

    pid: int
    name: str
    user: str
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    vram_bytes: int | None = None


def other_sentence(program: OtherProgram) -> str:
    """`2.1 GB VRAM held by another program: python train.py (pid 4711, user ada)`, or what it takes most of."""
    who = f"{program.name} (pid {program.pid}, user {program.user})"
    if program.vram_bytes is not None:
        return f"{program.vram_bytes / _GIB:.1f} GB VRAM held by another program: {who}"
    return f"{' and '.join(_takes(program)) or 'something'} taken by another program: {who}"


def _takes(program: OtherProgram) -> Iterator[str]:
    if program.cpu_percent is not None and program.cpu_percent >= 1.0:
        yield f"{program.cpu_percent:.0f}% CPU"
    if program.rss_bytes is not None:
        yield f"{program.rss_bytes / _GIB:.1f} GB memory"
