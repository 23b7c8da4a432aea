"""`provenance.json`: from what an attempt was launched; written soon after its start, so it may not be there."""

from __future__ import annotations

import logging

import msgspec
from msgspec import structs

from mission_tui.errors import DamagedError
from mission_tui.fleet.history.provenance import LoadedModules, Provenance
from mission_tui.records.files.regular import open_regular
from mission_tui.records.runs.layout import AttemptDir, RunDir

__all__ = ["read_provenance"]

RECORD_BYTES = 1 << 20
log = logging.getLogger(__name__)


def read_provenance(run: RunDir, attempt: int) -> Provenance | None:
    """What is recorded of the newest attempt up to `attempt` of which something is; None without."""
    for number in sorted((known for known in run.attempts() if known <= attempt), reverse=True):
        try:
            with open_regular(run.attempt(number).provenance) as file:
                known = msgspec.json.decode(file.read(RECORD_BYTES), type=Provenance)
            return structs.replace(known, loaded=_read_loaded(run.attempt(number)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError, DamagedError) as error:
            log.warning("%s: %s", run.attempt(number).provenance, error)
    return None


def _read_loaded(attempt: AttemptDir) -> LoadedModules | None:
    try:
        with open_regular(attempt.loaded) as file:
            return msgspec.json.decode(file.read(RECORD_BYTES), type=LoadedModules)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, DamagedError) as error:
        log.warning("%s: %s", attempt.loaded, error)
        return None
