"""Where launches come from: folder, interpreter, environment and limits of the shell that opened the screen."""

from __future__ import annotations

from msgspec import Struct, field

from mission_tui.fleet.process_limits import ProcessLimits

__all__ = ["Origin"]


class Origin(Struct, frozen=True):
    """Captured before Textual is imported, because Textual takes `NO_COLOR` out of the environment."""

    cwd: str
    python: str
    environ: dict[str, str] = field(default_factory=dict)
    limits: ProcessLimits | None = None
