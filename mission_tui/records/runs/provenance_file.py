"""`provenance.json`: from what an attempt was launched; written soon after its start, so it may not be there."""

from __future__ import annotations

import logging

import msgspec
from msgspec import structs

from mission_tui.errors import DamagedError
from mission_tui.fleet.events.provenance import LoadedModules, Provenance
from mission_tui.plain_files import read_plain
from mission_tui.records.runs.layout import AttemptDir, RunDir

__all__ = ["read_provenance"]

RECORD_BYTES = 1 << 20
log = logging.getLogger(__name__)


def read_provenance(run: RunDir, attempt: int) -> Provenance | None:
    """What is recorded of the newest attempt up to `attempt` of which something is; None without."""
    for number in sorted((known for known in run.attempts() if known <= attempt), reverse=True):
        try:
            raw = read_plain(run.attempt(number).provenance, RECORD_BYTES)
            known = msgspec.json.decode(raw, type=Provenance)
            return structs.replace(known, loaded=_read_loaded(run.attempt(number)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError, DamagedError) as error:
            log.warning("%s: %s", run.attempt(number).provenance, error)
    return None


def _read_loaded(attempt: AttemptDir) -> LoadedModules | None:
    try:
        return msgspec.json.decode(read_plain(attempt.loaded, RECORD_BYTES), type=LoadedModules)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, DamagedError) as error:
        log.warning("%s: %s", attempt.loaded, error)
        return None
