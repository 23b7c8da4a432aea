"""`spec.toml`: the frozen request of a run, written once and read by everyone after; and `attempts/N/terms.json`: on
what terms an attempt goes on from its checkpoint, absent when all is as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import tomli_w

from mission_tui.errors import DamagedError
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.fleet.specs.preset import as_tables, from_tables
from mission_tui.fleet.specs.spec import Spec
from mission_tui.paths import sha256
from mission_tui.plain_files import read_plain
from mission_tui.records.atomic import read_json, write_atomic, write_json
from mission_tui.records.given_files import LARGEST_BYTES, parse_toml, read_toml
from mission_tui.records.runs.layout import RunDir

SPECS = "MISSION_TUI_SPECS"
"""The variable in which a process is told the SHA-256 of each spec that its order, which was sealed, is of."""


def write_spec(path: Path, spec: Spec) -> None:
    """Make `path` hold `spec`, atomically."""
    write_atomic(path, spec_document(spec))


def spec_document(spec: Spec) -> bytes:
    """`spec` as it is written down. Fields that are None are left out, because TOML has no null."""
    return tomli_w.dumps(as_tables(spec)).encode()


def read_spec(path: Path) -> Spec:
    """The spec at `path`. Raises `DamagedError` when it is no TOML, `PresetError` when a field does not fit."""
    return from_tables(read_toml(path, DamagedError), str(path))


def parse_spec(raw: bytes, path: Path) -> Spec:
    """The spec that was read from `path`. Raises as `read_spec` does."""
    return from_tables(parse_toml(raw, path, DamagedError), str(path))


def attempt_spec_file(run: RunDir, attempt: int) -> Path:
    """The file that holds the spec of `attempt`: its own where a resume changed something, else the run's."""
    own = run.attempt(attempt).spec
    return own if own.is_file() else run.spec


def read_sealed_spec(run: RunDir, attempt: int, environ: Mapping[str, str]) -> Spec:
    """What `attempt` trains with, if it is what `MISSION_TUI_SPECS` tells this process; without that as it stands.

    Raises as `read_spec` does, and `DamagedError` for another one: between the check of a seal and the start of a
    process somebody who may rename a folder above can have put another runs root in the place of ours.
    """
    path, told = attempt_spec_file(run, attempt), environ.get(SPECS)
    if told is None:
        return read_spec(path)
    try:
        raw = read_plain(path, LARGEST_BYTES)
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror or error}") from error
    if sha256(raw).hexdigest() != json.loads(told).get(str(path.relative_to(run.path))):
        raise DamagedError(f"{path} is not the spec that was sealed: nothing of it is started")
    return parse_spec(raw, path)


def read_attempt_spec(run: RunDir, attempt: int) -> Spec:
    """What `attempt` trains with. Raises as `read_spec` does."""
    return read_spec(attempt_spec_file(run, attempt))


def read_terms(path: Path) -> Terms:
    """The terms in `path`. Raises `DamagedError` for a file that holds something else."""
    return read_json(path, Terms) or AS_IT_WAS


def write_terms(path: Path, terms: Terms) -> None:
    """Write `terms` unless they change nothing. Raises `StorageError`."""
    if terms != AS_IT_WAS:
        write_json(path, terms)
