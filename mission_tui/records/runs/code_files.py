"""Of what code a run is: `provenance.json`, from what an attempt was launched, and the rule files that a run keeps.

Provenance is written soon after a start, so it may not be there. `SHA256SUMS` beside the rules, written last, says what
each must be: whoever plays by them later checks them first, and files that were changed since are never played by.
Checkpoints name its digest, so that it cannot be changed or removed with them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import structs

from mission_tui.errors import DamagedError
from mission_tui.fleet.events.provenance import LoadedModules, Provenance
from mission_tui.fleet.specs.spec import LAUNCHERS
from mission_tui.fleet.text import clean
from mission_tui.paths import sha256
from mission_tui.plain_files import make_folder, names_in, read_plain
from mission_tui.records.atomic import StorageError, storing, write_atomic
from mission_tui.records.given_files import read_toml
from mission_tui.records.runs.attempt import read_handle
from mission_tui.records.runs.layout import AttemptDir, RunDir

RECORD_BYTES = 1 << 20
log = logging.getLogger(__name__)
SUMS = "SHA256SUMS"
FILE_BYTES = 4 << 20
_LINE = re.compile(r"([0-9a-f]{64})  ([\w.-]{1,100})")


def read_provenance(run: RunDir, attempt: int) -> Provenance | None:
    """What is recorded of the newest attempt up to `attempt` of which something is; None without."""
    for number in sorted((known for known in run.attempts() if known <= attempt), reverse=True):
        try:
            raw = read_plain(run.attempt(number).provenance, RECORD_BYTES)
            known = msgspec.json.decode(raw, type=Provenance)
            known = structs.replace(known, loaded=_read_loaded(run.attempt(number)))
            return _on_its_node(run.attempt(number), known)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError, DamagedError) as error:
            log.warning("%s: %s", run.attempt(number).provenance, error)
    return None


def _on_its_node(attempt: AttemptDir, known: Provenance) -> Provenance:
    """`known` with the machine of an attempt that another launcher than this machine's carried out: what its trainer
    wrote. The probe has looked at the machine that it was launched on.
    """
    try:
        handle = read_handle(attempt.handle)
        if handle is None or handle.launcher == LAUNCHERS[0]:
            return known
        # Not by `tomllib` itself, which a key of very many parts keeps busy for hours.
        said = read_toml(attempt.effective, DamagedError).get("host")
    except (OSError, DamagedError):
        said = None
    names = {"name": "host", "cpu": "cpu", "gpu": "gpus", "gpu_driver": "gpu_driver"}
    said = said if isinstance(said, dict) else {}
    there = {key: clean(str(said[name]), 200) for name, key in names.items() if name in said}
    return structs.replace(known, machine=there, launched_on=known.machine.get("host", ""))


def _read_loaded(attempt: AttemptDir) -> LoadedModules | None:
    try:
        return msgspec.json.decode(read_plain(attempt.loaded, RECORD_BYTES), type=LoadedModules)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, DamagedError) as error:
        log.warning("%s: %s", attempt.loaded, error)
        return None


def write_rules(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Keep `contents` by name in `folder`, with their digests. Raises `StorageError`."""
    with storing(folder, "write"):
        make_folder(folder)
    for name, content in contents.items():
        write_atomic(folder / name, content)
    lines = (f"{sha256(content).hexdigest()}  {name}\n" for name, content in contents.items())
    write_atomic(folder / SUMS, "".join(lines).encode())


def rules_of(run: RunDir, attempt: int) -> Path:
    """The folder with the rules of `attempt`: when others come, they move to the last attempt that had them."""
    kept = (run.attempt(number).path / run.snapshot.name for number in run.attempts() if number >= attempt)
    return next((folder for folder in kept if folder.is_dir()), run.snapshot)


def kept_rules(folder: Path) -> list[Path]:
    """The rule files in `folder`. Raises `StorageError`."""
    with storing(folder, "list"):
        return sorted(folder / name for name in names_in(folder) if name.endswith(".toml"))


def rules_digest(folder: Path) -> str | None:
    """The digest of all rules in `folder`: that of its `SHA256SUMS`; None where it has none."""
    return _digest(folder / SUMS) or None


def rules_identity(folder: Path) -> str:
    """Equal for folders with the same rules, also those from before rules were kept with digests; empty where there are
    none, or one cannot be read.
    """
    try:
        files = kept_rules(folder)
    except StorageError:
        return ""
    digests = [(file.name, _digest(file)) for file in files]
    whole = bool(digests) and all(digest for _, digest in digests)
    return sha256("".join(f"{digest}  {name}\n" for name, digest in digests).encode()).hexdigest() if whole else ""


def check_rules(folder: Path, sealed: str | None = None) -> None:
    """Raise `DamagedError` naming the first file that is gone or not what it was.

    `sealed` is what `rules_digest` said of them then; None is not known, and then folders without digests pass.
    """
    if sealed is not None and rules_digest(folder) != sealed:
        raise DamagedError(
            f"{folder / SUMS} has changed since the run was trained, so the rules that it was trained with are unknown"
        )
    try:
        text = read_plain(folder / SUMS, FILE_BYTES).decode("ascii")
    except FileNotFoundError:
        return  # no rules, or those of a run from before they were kept with digests
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedError(
            f"{folder / SUMS} cannot be read ({error}), so the rules that the run was trained with are unknown"
        ) from None
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise DamagedError(f"{folder / SUMS} is damaged, so the rules that the run was trained with are unknown")
        digest, name = match.groups()
        if _digest(folder / name) != digest:
            raise DamagedError(
                f"{folder / name} has changed since the run was trained; put the file back as it was (SHA-256 "
                f"{digest[:12]}...): nothing is played or trained with other rules"
            )


def _digest(file: Path) -> str:
    try:
        content = read_plain(file, FILE_BYTES)
    except OSError:
        return ""
    digest: str = sha256(content).hexdigest()
    return digest
