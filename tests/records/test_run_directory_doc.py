"""`docs/run-directory.md` is the contract of the files: its examples are read by the code that reads the files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.records.jsonl import decode_line
from mission_tui.records.meter_history import Kept
from mission_tui.records.runs.attempt import ExitRecord, Handle, Identity, LaunchOrder
from mission_tui.records.runs.checkpoint import Manifest
from mission_tui.records.runs.layout import RunDir

DOCUMENT = (Path(__file__).parents[2] / "docs" / "run-directory.md").read_text(encoding="utf-8")
LINES = re.findall(r"```jsonl\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize(("lines", "type_"), list(zip(LINES, (MetricRecord, FleetEvent, Kept, Manifest), strict=True)))
def test_example_lines_are_records(lines: str, type_: object) -> None:
    """Every example line decodes, checksum included."""
    for line in lines.splitlines():
        assert decode_line(line.encode(), type_)


@pytest.mark.parametrize(
    ("name", "type_"),
    [("launch.json", LaunchOrder), ("handle.json", Handle), ("identity.json", Identity), ("exit.json", ExitRecord)],
)
def test_example_files_show_every_field(name: str, type_: type[msgspec.Struct]) -> None:
    """The example of each file of an attempt reads back and leaves no field out."""
    found = re.search(rf"```json {name}\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    msgspec.json.decode(found[1], type=type_)
    assert json.loads(found[1]).keys() == set(type_.__struct_fields__)


def test_every_path_of_the_layout_is_in_the_document() -> None:
    """A file that the code can name is one that the document explains."""
    run = RunDir(Path("run"))
    named = {getattr(folder, name) for folder in (run, run.attempt(1)) for name in vars(type(folder)) if name[0] != "_"}
    files = {path.name for path in named if isinstance(path, Path)} - {"run", "1"}
    assert {"metrics.jsonl", "exit.json"} <= files
    assert {name for name in files if name not in DOCUMENT} == set()
