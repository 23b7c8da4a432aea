"""States on disk come back as they were, and nothing in such a file is ever executed."""

from __future__ import annotations

import json
import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mission_tui.errors import CheckpointError
from mission_tui.trainer.tree import read_tree, write_tree
from tests.faults.parts.hostile_archives import overlap

STATE: dict[str, Any] = {
    "count": 3,
    "share": 0.1 + 0.2,
    "word": "gauß",
    "nothing": None,
    "flag": True,
    "list": [1, 2.5, {"deep": np.arange(3)}],
    "envs": [{"rng": np.array([2**64 - 1, 0], dtype=np.uint64)}, {"rng": np.array([1, 2], dtype=np.uint64)}],
    "matrix": np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32),
}


def same(first: Any, second: Any) -> bool:
    """Equality that looks into arrays and at their types."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and bool(np.array_equal(first, second))
    return type(first) is type(second) and bool(first == second)


def test_a_tree_comes_back_bit_for_bit(tmp_path: Path) -> None:
    """Numbers, words, nested lists and arrays of every type are what they were."""
    write_tree(STATE, tmp_path / "state")
    assert same(read_tree(tmp_path / "state"), STATE)


def test_numpy_scalars_and_tuples_become_plain_values(tmp_path: Path) -> None:
    """What JSON has no word for is kept as the nearest thing it has."""
    write_tree({"pair": (np.float64(0.5), np.int32(4))}, tmp_path / "state")
    assert read_tree(tmp_path / "state") == {"pair": [0.5, 4]}


@pytest.mark.parametrize("value", [object(), np.array([object()]), {1, 2}], ids=["object", "objects", "set"])
def test_what_has_no_place_in_a_tree_is_refused_by_its_path(value: Any, tmp_path: Path) -> None:
    """The sentence says where it was found."""
    with pytest.raises(CheckpointError, match="/a/0"):
        write_tree({"a": [value]}, tmp_path / "state")


class Payload:
    """Unpickling this writes a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.canary,))


def test_a_pickle_in_an_array_member_is_not_run(tmp_path: Path) -> None:
    """An npz member that holds a pickled object is refused, and the object's code never runs."""
    canary = tmp_path / "canary"
    (tmp_path / "state.json").write_text(json.dumps({"a": {"$array": "a"}}))
    with (tmp_path / "state.npz").open("wb") as file:
        np.savez(file, a=np.array([Payload(canary)], dtype=object))
    with pytest.raises(CheckpointError):
        read_tree(tmp_path / "state")
    assert not canary.exists()


def test_a_bare_pickle_is_not_run(tmp_path: Path) -> None:
    """A file that is a pickle and no npz at all is refused, and its code never runs."""
    canary = tmp_path / "canary"
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "state.npz").write_bytes(pickle.dumps(Payload(canary)))
    with pytest.raises(CheckpointError):
        read_tree(tmp_path / "state")
    assert not canary.exists()


def test_a_compressed_member_is_refused(tmp_path: Path) -> None:
    """A small file cannot ask for a lot of memory."""
    (tmp_path / "state.json").write_text("{}")
    with zipfile.ZipFile(tmp_path / "state.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(10_000_000))
    with pytest.raises(CheckpointError, match="compressed"):
        read_tree(tmp_path / "state")


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """Nor can it by letting each member hold all later ones: a megabyte would be loaded four hundred times."""
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "state.npz").write_bytes(overlap(tmp_path, random.Random(1)))
    with pytest.raises(CheckpointError, match="members overlap"):
        read_tree(tmp_path / "state")


@pytest.mark.parametrize("structure", ["[", "[]", '{"a": {"$array": "absent"}}', "[" * 100_000])
def test_a_broken_structure_is_refused(structure: str, tmp_path: Path) -> None:
    """Torn, of another shape, pointing nowhere or nested without end: one kind of error."""
    write_tree({}, tmp_path / "state")
    (tmp_path / "state.json").write_text(structure)
    with pytest.raises(CheckpointError):
        read_tree(tmp_path / "state")
