"""A place for a result that cannot hold one is refused before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from mission_tui.cli.tables.timed_runs import check_output
from mission_tui.errors import UsageError


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A folder, and a file where a folder would have to be; folders that are missing can be made."""
    (tmp_path / "file").write_text("")
    check_output("--out", tmp_path / "new" / "deeper" / "found.json")
    check_output("--out", tmp_path / "file")
    with pytest.raises(UsageError, match=r"--out .* is a folder; name a file in it"):
        check_output("--out", tmp_path)
    with pytest.raises(UsageError, match=r"--out .*: .*file is not a folder"):
        check_output("--out", tmp_path / "file" / "found.json")
