"""The files of one attempt, as the other side finds them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import DamagedError
from mission_tui.fleet.events.provenance import Provenance
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.records.atomic import write_json
from mission_tui.records.runs.attempt import (
    Handle,
    LaunchOrder,
    read_exit,
    read_handle,
    read_identity,
    read_launch,
)
from mission_tui.records.runs.code_files import read_provenance
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals
from mission_tui.records.runs.spec_file import read_terms, write_terms

ORDER = LaunchOrder(
    run="20261121-104207-demo-3f9a", attempt=2, argv=("/usr/bin/env", "x y"), cwd="/", env={"A": "Ω=1"}, nonce="00ff"
)


def test_absent_files_are_none(tmp_path: Path) -> None:
    """Not there yet is an answer, not an error."""
    path = tmp_path / "absent.json"
    assert (read_identity(path), read_exit(path), read_launch(path)) == (None, None, None)


def test_an_order_comes_back_and_is_private(tmp_path: Path) -> None:
    """`launch.json` holds an environment, so only its owner can read it."""
    run = RunDir(tmp_path / ORDER.run)
    run.attempt(2).path.mkdir(parents=True)
    Seals(b"k" * 32).write_order(run, ORDER)
    written = read_launch(run.attempt(2).launch)
    assert written is not None
    assert structs.replace(written, seal=None) == ORDER
    assert stat.S_IMODE(run.attempt(2).launch.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\0" * 40, b'{"attempt": "one"}', b'{"start_error": "\xff"}', b"[" * 99_999]
)
def test_damage_names_the_file(tmp_path: Path, raw: bytes) -> None:
    """Whatever else is in the file, the sentence says which file it is."""
    path = tmp_path / "exit.json"
    path.write_bytes(raw)
    with pytest.raises(DamagedError, match=r"exit\.json does not hold"):
        read_exit(path)


@pytest.mark.parametrize("pack", ["..", ".", "../..", "/home", "a/b"])
def test_no_shared_job_is_found_outside_its_folder(tmp_path: Path, pack: str) -> None:
    """Its folder is removed once its runs are over: an adopted run's could have been any."""
    write_json(tmp_path / "handle.json", Handle(launcher="slurm", id="7", submitted_t=1.0, pack=pack))
    with pytest.raises(DamagedError, match=r"handle\.json does not hold"):
        read_handle(tmp_path / "handle.json")
    write_json(tmp_path / "handle.json", Handle(launcher="slurm", id="7", submitted_t=1.0, pack="20261121-a-3f9a.1"))
    assert read_handle(tmp_path / "handle.json") is not None


def test_terms_are_absent_whole_or_an_error_at_once(tmp_path: Path) -> None:
    """Absent means as it was; other contents, or a pipe that nobody writes, are an error and not waited for. So are
    weights of another folder, as an adopted run could name them.
    """
    path = tmp_path / "terms.json"
    assert read_terms(path) == AS_IT_WAS
    write_terms(path, Terms(fresh_optimizer=True))
    assert read_terms(path) == Terms(fresh_optimizer=True)
    for other in ("[]", '{"weights_from": "../../theirs/checkpoints/1024"}', '{"weights_from": ".."}'):
        path.write_text(other)
        with pytest.raises(DamagedError, match=r"terms\.json does not hold what was written there"):
            read_terms(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        read_terms(path)


@pytest.mark.parametrize(
    "effective", ["host = 5\n", f"{'.'.join('a' * 3000)} = 1\n[host]\nname = 'node'\n"], ids=["5", "deep"]
)
def test_what_somebody_wrote_of_a_node_is_no_fact_of_it(tmp_path: Path, effective: str) -> None:
    """A table that is none, or a key of so many parts that reading it takes hours, leaves the machine unknown."""
    run = RunDir(tmp_path / "20261121-104207-demo-3f9a")
    files = run.attempt(1)
    files.path.mkdir(parents=True)
    write_json(
        files.provenance,
        Provenance(t=1.0, cwd="/lab", python="python3", python_version="3.11", machine={"host": "login"}),
    )
    write_json(files.handle, Handle(launcher="slurm", id="7", submitted_t=1.0))
    files.effective.write_text(effective, encoding="ascii")
    known = read_provenance(run, 1)
    assert known is not None
    assert (known.machine, known.launched_on) == ({}, "login")
