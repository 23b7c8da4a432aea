"""One of the runs that are compared, with everything that is read of it beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mission_tui.fleet.compare.trace import Trace
from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.provenance import Provenance
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import RunView

__all__ = ["Side"]


@dataclass(frozen=True, slots=True)
class Side:
    """`spec` is the newest attempt's, with what was set while it trained; `effective` what its model said that it uses.

    `findings` counts every incident. `peak_rss_bytes` is the trainer's, of attempts that have ended. `threshold` is the
    return at which the environment's registration calls it solved; None where that says nothing.
    """

    view: RunView
    spec: Spec
    trace: Trace
    findings: Mapping[Severity, int] = field(default_factory=dict)
    peak_rss_bytes: int | None = None
    effective: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance | None = None
    threshold: float | None = None
