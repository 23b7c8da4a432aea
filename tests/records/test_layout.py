"""Names and paths of the run directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from mission_tui.records.runs.layout import RUN_ID, RunDir, new_run_id, run_dirs


@pytest.mark.parametrize("stem", ["heavy", "Große Läufe!", "../../etc", "$(x)", "", "-", "x" * 300, "a\nb"])
def test_any_stem_gives_a_safe_id(stem: str) -> None:
    """Whatever a preset is called, the id is one plain path component of the known form."""
    assert RUN_ID.fullmatch(new_run_id(stem, now=0.0))


def test_ids_of_the_same_second_differ() -> None:
    """Runs launched together get different directories."""
    assert len({new_run_id("demo", now=0.0) for _ in range(50)}) > 45


def test_attempts_are_counted_by_number(tmp_path: Path) -> None:
    """Ten comes after nine, and strange folders do not count."""
    run = RunDir(tmp_path)
    assert run.attempts() == []
    for name in ("10", "9", "1", "old", ".tmp"):
        (tmp_path / "attempts" / name).mkdir(parents=True)
    assert run.attempts() == [1, 9, 10]


def test_only_run_directories_are_found(tmp_path: Path) -> None:
    """Files, links and folders with other names are passed over; runs come oldest first."""
    assert list(run_dirs(tmp_path / "absent")) == []
    for name in ("20260102-000000-b-0001", "20260101-000000-a-0002", ".supervisor", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "20260103-000000-file-0003").write_text("")
    (tmp_path / "20260104-000000-link-0004").symlink_to(tmp_path / "notes")
    assert [run.id for run in run_dirs(tmp_path)] == ["20260101-000000-a-0002", "20260102-000000-b-0001"]
