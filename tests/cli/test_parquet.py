"""`metrics GROUP --parquet FILE`: the table of updates, read back by the library that wrote it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mission_tui.cli.verbs.run_output import check_parquet, write_parquet
from mission_tui.errors import UsageError
from tests.shell import Shell

RECORDED = Path(__file__).parents[1] / "fixtures" / "fleet-0.1.0" / "runs"


def test_a_table_has_settings_seeds_and_metrics(tmp_path: Path) -> None:
    """As `mission_tui.read` has them; the file is there whole or not at all."""
    pq = pytest.importorskip("pyarrow.parquet", reason="the extra `parquet` is not installed")
    folders = sorted(path.parent for path in RECORDED.glob("*/spec.toml") if "tiny" in path.parent.name)[:2]
    file = tmp_path / "sweep.parquet"
    write_parquet(file, folders)
    table = pq.read_table(file)
    assert {"run", "name", "seed", "update", "timesteps", "rollout/ep_rew_mean"} <= set(table.column_names)
    assert table.num_rows > 20
    assert set(table.column("run").to_pylist()) == {folder.name for folder in folders}
    assert list(tmp_path.iterdir()) == [file]


def test_what_cannot_be_written_is_said_before_runs_are_asked_for(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ending, the folder, and the extra by the command that installs it."""
    pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
    for name, said in (("x.csv", "has to end in .parquet"), ("no/x.parquet", "there is no folder")):
        done = shell.typed("metrics", "x", "--parquet", name)
        assert (done.returncode, said in done.stderr) == (2, True)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match=r"'\.\[parquet\]'"):
        check_parquet(tmp_path / "x.parquet")
