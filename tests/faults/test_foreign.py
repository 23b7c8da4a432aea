"""Foreign SB3 zips (row C3 of the catalogue): hostile ones are refused before anything in them can act."""

from __future__ import annotations

import base64
import json
import pickle
import tracemalloc
from pathlib import Path

import pytest

from mission_tui.errors import CheckpointError
from mission_tui.trainer.import_checkpoint import read_foreign
from tests.faults.foreign_zips import HOSTILE, Payload, members, written


@pytest.mark.parametrize("what", HOSTILE)
def test_c3_a_hostile_zip_is_refused_and_executes_nothing(what: str, tmp_path: Path) -> None:
    """Refused with a sentence; the payload's canary is not made, nothing appears beside the zip, memory is bounded."""
    canary, folder = tmp_path / "canary", tmp_path / "zips"
    folder.mkdir()
    file = HOSTILE[what](folder / "foreign.zip", canary)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError) as refused:
            read_foreign(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "foreign.zip" in str(refused.value)
    assert not canary.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["zips"]
    assert [path.name for path in folder.iterdir()] == ["foreign.zip"]
    assert peak < 16 << 20


def test_c3_serialized_objects_and_overwritten_attributes_stay_text(tmp_path: Path) -> None:
    """A pickle in `data` is never decoded, and names of attributes there reach no object."""
    content = members()
    data = json.loads(content["data"])
    text = base64.b64encode(pickle.dumps(Payload(tmp_path / "canary"))).decode()
    hostile = {":type:": "function", ":serialized:": text}
    data |= {"policy_class": hostile, "lr_schedule": hostile, "predict": "overwritten", "__class__": hostile}
    content["data"] = json.dumps(data).encode()
    model = read_foreign(written(tmp_path / "foreign.zip", content))
    assert model.timesteps == 64
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign.zip"]
