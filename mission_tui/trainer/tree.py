"""Nested states as two plain files: JSON for structure and numbers, one npz for arrays. Reading never unpickles.

A tree is made of dictionaries with string keys, lists, numbers, strings, booleans, None and NumPy arrays. In the JSON
an array is a reference to its member in the npz, which is named by its path in the tree.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mission_tui.errors import CheckpointError

Tree = dict[str, Any]

_REFERENCE = "$array"


def write_tree(tree: Tree, stem: Path) -> None:
    """Write `tree` as ``<stem>.json`` and ``<stem>.npz``; floats survive bit for bit.

    Raises `CheckpointError` naming the path of a value that has no place in a tree.
    """
    arrays: dict[str, NDArray[Any]] = {}
    structure = _packed(tree, "", arrays)
    stem.with_suffix(".json").write_text(json.dumps(structure), encoding="utf-8")
    with stem.with_suffix(".npz").open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_tree(stem: Path) -> Tree:
    """What `write_tree` wrote. Raises `CheckpointError` for anything else, hostile files included."""
    try:
        structure = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        arrays = _read_arrays(stem.with_suffix(".npz"))
        tree = _unpacked(structure, arrays)
    except (OSError, ValueError, KeyError, EOFError, MemoryError, RecursionError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{stem}.json and .npz do not hold a state: {type(error).__name__}: {error}") from error
    if not isinstance(tree, dict):
        raise CheckpointError(f"{stem}.json does not hold a state")
    return tree


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(path) as archive:
        # We never compress and no two of our members share bytes, so memory stays bounded by the file's own size.
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("a member is compressed")
        if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
            raise ValueError("members overlap")
    with np.load(path, allow_pickle=False) as members:
        return {name: members[name] for name in members.files}


def _packed(value: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    match value:
        case np.ndarray():
            if value.dtype.hasobject:
                raise CheckpointError(f"the state at '{path}' holds Python objects, which a checkpoint cannot keep")
            member = path.removeprefix("/")
            arrays[member] = value
            return {_REFERENCE: member}
        case np.generic():
            return value.item()
        case dict():
            return {str(key): _packed(part, f"{path}/{key}", arrays) for key, part in value.items()}
        case list() | tuple():
            return [_packed(part, f"{path}/{index}", arrays) for index, part in enumerate(value)]
        case None | bool() | int() | float() | str():
            return value
    raise CheckpointError(f"the state at '{path}' is a {type(value).__name__}, which a checkpoint cannot keep")


def _unpacked(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    match value:
        case {"$array": str(path), **rest} if not rest:
            return arrays[path]
        case dict():
            return {key: _unpacked(part, arrays) for key, part in value.items()}
        case list():
            return [_unpacked(part, arrays) for part in value]
    return value
