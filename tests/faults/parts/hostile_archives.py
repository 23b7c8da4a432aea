"""Checkpoints that somebody made to be opened: the manifest is right, what it lists is not what we write.

Nothing in them executes (a canary would appear), nothing is written outside, memory stays within bounds, and the answer
is a checkpoint or a `CheckpointError`.
"""

from __future__ import annotations

import io
import json
import pickle
import random
import resource
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mission_tui.errors import CheckpointError
from mission_tui.records.runs.checkpoint import MANIFEST, CheckpointFacts, seal_folder, verify_checkpoint
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.faults.campaign.part import Part, Tell, Violation, chance, memory_folder

__all__ = ["KINDS", "PART"]

RECORDED = (
    Path(__file__).parents[2] / "fixtures" / "format-1" / "20261121-040628-recorded-2aa5" / "checkpoints" / "000028672"
)
GROWTH_BYTES = 256 << 20
BOMB_BYTES = 1 << 30
Make = Callable[[Path, random.Random], bytes]


class Payload:
    """Touches the canary when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self._canary,))


def pickled(canary: Path, luck: random.Random) -> bytes:
    """A bare pickle under whatever name."""
    return pickle.dumps({"data": Payload(canary)}, luck.randrange(6))


def object_arrays(canary: Path, luck: random.Random) -> bytes:
    """An npz whose array is a pickle."""
    out = io.BytesIO()
    objects = np.empty(1, dtype=object)
    objects[0] = Payload(canary)
    np.savez(out, allow_pickle=True, **{luck.choice(("trained_s", "normalizer", "random")): objects})
    return out.getvalue()


def sb3_zip(canary: Path, luck: random.Random) -> bytes:
    """What an SB3 zip with serialized fields looks like, with more beside."""
    hostile = pickle.dumps(Payload(canary))
    data = {"policy_class": {":type:": "x", ":serialized:": hostile.hex()}, "__class__": "os.system"}
    return _zip([("data", json.dumps(data).encode()), ("policy.pth", hostile), ("extra.pth", hostile)], luck)


def traversal(canary: Path, luck: random.Random) -> bytes:
    """Members that would leave the folder."""
    escape = "../" * luck.randrange(1, 9) + canary.name
    npy = _npy(np.zeros(3))
    return _zip([(escape, npy), (str(canary), npy), ("..\\..\\" + canary.name, npy)], luck)


def link(canary: Path, luck: random.Random) -> bytes:
    """A member that is a symbolic link."""
    info = zipfile.ZipInfo("random.npy")
    info.external_attr = 0o120777 << 16
    return _zip([(info, str(canary).encode())], luck)


def duplicates(canary: Path, luck: random.Random) -> bytes:
    """The same name twice, the second one a pickle."""
    return _zip([("a.npy", _npy(np.zeros(3))), ("a.npy", object_arrays(canary, luck))], luck)


def bomb(_: Path, luck: random.Random) -> bytes:
    """A gigabyte of zeros in a megabyte."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w") as file,
    ):
        file.write(_npy_head((BOMB_BYTES,)))
        for _step in range(luck.choice((1, 8))):
            file.write(bytes(1 << 20))
    return out.getvalue()


def overlap(_: Path, luck: random.Random) -> bytes:
    """Members that each hold all later ones: 400 megabytes in one, without compression."""
    count = luck.choice((10, 400))
    entry, entries = b"", []
    content = _npy(np.zeros(1 << 20, dtype=np.uint8))
    for number in reversed(range(count)):
        name, crc = f"b{number}.npy".encode(), zlib.crc32(content)
        facts = (crc, len(content), len(content), len(name), 0)
        entry = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 0, *facts) + name + content
        entries.append((name, facts, len(entry)))
        content = _npy_head((len(entry),)) + entry
    directory = b"".join(
        struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 0, *facts, 0, 0, 0, 0, len(entry) - length) + name
        for name, facts, length in entries
    )
    return entry + directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), len(entry), 0)


def huge_shape(_: Path, luck: random.Random) -> bytes:
    """An array that says it is larger than the file, the memory or a number."""
    shape = luck.choice(((1 << 40,), (1 << 62, 1 << 62), (-5,), (BOMB_BYTES * 64,), ()))
    return _zip([("a.npy", _npy_head(shape) + b"x" * 100)], luck)


def code_in_header(canary: Path, luck: random.Random) -> bytes:
    """A header that is an expression."""
    head = f"__import__('pathlib').Path({str(canary)!r}).touch()".encode()
    head += b" " * (-len(head) % 64) + b"\n"
    return _zip([("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)], luck)


def tensors(_: Path, luck: random.Random) -> bytes:
    """A safetensors file whose header lies about sizes, offsets or its own length."""
    shape, end = luck.choice((1 << 40, 4, -1)), luck.choice((16, 1 << 50))
    head = {
        "a": {"dtype": "F32", "shape": [shape], "data_offsets": [0, end]},
        "b": {"dtype": luck.choice(("F32", "BOOL", "X")), "shape": [4], "data_offsets": [0, 16]},
    }
    raw = luck.choice((json.dumps(head).encode(), b"[" * 100_000, b'{"a":' * 10_000))
    length = luck.choice((len(raw), 1 << 62, 0, len(raw) + 7))
    return struct.pack("<Q", length) + raw + bytes(16)


def structure(canary: Path, luck: random.Random) -> bytes:
    """JSON that nests, refers to nothing, or names classes."""
    return luck.choice(
        (
            b"[" * 200_000,
            b'{"a":' * 100_000,
            b'{"trained_s": ' + b"9" * 100_000 + b"}",
            json.dumps({"trained_s": {"$array": "../../x"}}).encode(),
            json.dumps({"py/object": "pathlib.Path", "py/reduce": ["touch", str(canary)]}).encode(),
            b'{"trained_s": NaN, "trained_s": "x"}',
            b'{"trained_s": "\\ud800"}',
            b"\xff\xfe",
            b"7",
        )
    )


KINDS: dict[str, Make] = {
    made.__name__: made
    for made in (
        pickled, object_arrays, sb3_zip, traversal, link, duplicates, bomb, overlap, huge_shape, code_in_header,
        tensors,
        structure,
    )
}  # fmt: skip
MEMBERS = ("state.npz", "policy.safetensors", "optimizer.safetensors", "state.json", "extra.pth")
HOME = {"tensors": "policy.safetensors", "structure": "state.json"}


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    names = list(KINDS)
    load_checkpoint(RECORDED)
    before = _peak_bytes()
    with memory_folder() as root:
        canary = root / "canary"
        for index in rounds:
            luck = chance(seed, index)
            kind = names[index % len(names)]
            place = root / "run" / "000028672"
            member = HOME.get(kind, MEMBERS[0]) if luck.random() < 0.8 else luck.choice(MEMBERS)
            shutil.copytree(RECORDED, place)
            _plant(place, member, KINDS[kind](canary, luck))
            where = f"round {index}: {kind} in {member}"
            try:
                load_checkpoint(place)
            except CheckpointError:
                tell("refused", 1)
            except Exception as error:  # noqa: BLE001 - anything but our own error is what is looked for
                yield f"{where} raised {type(error).__name__}: {error}"
            else:
                # Only what nobody reads may stand beside.
                if member not in ("extra.pth", "state.json", "state.npz"):
                    yield f"{where} was loaded"
            shutil.rmtree(place)
            if canary.exists() or sorted(path.name for path in root.iterdir()) != ["run"]:
                yield f"{where} got out"
                canary.unlink(missing_ok=True)
            if _peak_bytes() > before + GROWTH_BYTES:
                yield f"{where} took {_peak_bytes() - before} bytes"
                before = _peak_bytes()
            tell("hostile checkpoints", 1)


def _plant(place: Path, member: str, content: bytes) -> None:
    """Put `content` in, and seal the checkpoint as whoever wrote it would."""
    kept = verify_checkpoint(place)
    (place / MANIFEST).unlink()
    (place / member).write_bytes(content)
    seal_folder(
        place, kept.name, CheckpointFacts(**{key: getattr(kept, key) for key in CheckpointFacts.__struct_fields__})
    )


def _zip(members: list[tuple[Any, bytes]], luck: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for info, content in members:
            entry = info if isinstance(info, zipfile.ZipInfo) else zipfile.ZipInfo(info)
            # Twice the same name is what one of the kinds is about; zipfile would warn.
            archive.NameToInfo.pop(entry.filename, None)
            archive.writestr(
                entry, content, luck.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            )
    return out.getvalue()


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array)
    return out.getvalue()


def _npy_head(shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return out.getvalue()


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


PART = Part("hostile-archives", ("C3",), 5_000, _run)
