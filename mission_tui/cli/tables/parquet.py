"""Updates of runs as a Parquet file, by pyarrow (the extra `parquet`): the table of `mission_tui.read.columns`."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path

from mission_tui.cli.terminal_output import print_error
from mission_tui.errors import UsageError, install_words
from mission_tui.records.files.atomic import write_atomic


def check_parquet(path: Path) -> None:
    """Raise `UsageError` where the file cannot be written: without pyarrow, with another ending, without its folder."""
    try:
        import pyarrow.parquet  # noqa: F401 - looked for before any run is asked for
    except ImportError as error:
        raise UsageError(f"--parquet needs pyarrow; {install_words('parquet')}") from error
    if path.suffix != ".parquet":
        raise UsageError(f"--parquet {path}: the file has to end in .parquet")
    if not path.parent.is_dir():
        raise UsageError(f"--parquet {path}: there is no folder {path.parent}")


def write_parquet(path: Path, folders: Sequence[Path]) -> None:
    """Write every update of the runs in `folders`, replacing what was there. Raises `MissionError`, `StorageError`."""
    import pyarrow as pa
    from pyarrow import parquet

    from mission_tui import read

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = read.columns([read.run(folder) for folder in folders])
    for warning in said:
        print_error(str(warning.message))
    written = io.BytesIO()
    parquet.write_table(pa.table(found), written)
    write_atomic(path, written.getvalue())
