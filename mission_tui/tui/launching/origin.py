"""Where launches come from: the working folder, interpreter and environment of the shell that opened the screen."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["Origin"]


class Origin(Struct, frozen=True):
    """Captured before Textual is imported, because Textual takes `NO_COLOR` out of the environment."""

    cwd: str
    python: str
    environ: dict[str, str] = field(default_factory=dict)
