"""Presets that are broken in every way a file can be, and values that no machine can carry.

Each ends in a spec that survives TOML and JSON and can be judged for the machine, or in one printable sentence that
names the file; nothing else is ever raised.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from mission_tui.errors import MissionError
from mission_tui.fleet.capacity.demand import Machine, assess
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.preset import as_tables, from_tables, resolve
from mission_tui.fleet.specs.schema import TABLES
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import Spec
from mission_tui.paths import shipped_presets
from mission_tui.records.preset_files import load_preset
from tests.faults.campaign.part import Part, Tell, Violation, chance, memory_folder

__all__ = ["PART"]

MACHINE = Machine(cores=2, ram_total=8 << 30, ram_free=6 << 30, disk_free=40 << 30, gpu=False)
FIELDS = [f"{table}.{field.name}" for table, struct in TABLES.items() for field in struct.fields]
VALUES = (
    "0", "-1", "1", "-0.0", "1e308", "-1e308", "1e-320", "nan", "inf", "-inf", "9223372036854775807",
    "18446744073709551616", "10000",
    "1000000000", "1e999", "true", "false", '""', '"auto"', '"cuda:99"', '"cpu"', '"none"', "[]", "[1]", "[[[]]]",
    "{}",
    '{ start = 1.0, end = 0.0, kind = "linear" }', "{ start = -1, end = 1e400 }", '"\\u0000"', '"\\u202e[/]"',
    "1979-05-27",
    "1979-05-27T07:32:00Z", "07:32:00", '"!!python/object/apply:os.system"', '"$(reboot)"',
    '"../../../etc/passwd"', "0x10", "1_000",
    '"' + "a" * 3000 + '"', "[" * 60 + "]" * 60, "[0.1, 1e9, -3]", '"50M"', '"2k"',
)  # fmt: skip
INSERTS = (
    b"\xef\xbb\xbf", b"\r\n", b"\r", b"\x00", b"\xff", b"\xed\xa0\x80", b"&a [*a]", b"!!python/object", b"<<: *x",
    b"\x1b[2J",
    b"[env]\n", b"[[ppo]]\n", b'extends = "x"\n', b"'''", b'"""', b"#", b"=", b"{", b"]" * 50, b"[" * 2000,
    b"a." * 500 + b"b = 1\n",
    b"\xe2\x80\xae", b'launch = ["x"]\n', b'key = "q"\n',
)  # fmt: skip


def mutated(text: bytes, luck: random.Random) -> bytes:
    """A preset with bytes changed, lines moved or whole values replaced."""
    data = bytearray(text)
    for _ in range(luck.choice((1, 1, 2, 3))):
        lines = bytes(data).splitlines(keepends=True) or [b"\n"]
        at = luck.randrange(len(data) + 1)
        match luck.randrange(7):
            case 0:
                data[at : at + luck.randrange(8)] = luck.randbytes(luck.randrange(8))
            case 1:
                data[at:at] = luck.choice(INSERTS)
            case 2:
                del data[at : at + luck.randrange(1, 40)]
            case 3:
                luck.shuffle(lines)
                data = bytearray(b"".join(lines))
            case 4:
                number = luck.randrange(len(lines))
                name = lines[number].partition(b"=")[0]
                lines[number] = name + b"= " + luck.choice(VALUES).encode() + b"\n"
                data = bytearray(b"".join(lines))
            case 5:
                data += luck.choice(lines)
            case _:
                data = data[:at]
    return bytes(data)


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    shipped = [path.read_bytes() for path in sorted(shipped_presets().glob("*.toml"))]
    with memory_folder() as folder:
        path = folder / "x.toml"
        for index in rounds:
            luck = chance(seed, index)
            by_word = luck.random() < 0.3
            path.write_bytes(luck.choice(shipped) if by_word else mutated(luck.choice(shipped), luck))
            words = (
                [f"{luck.choice(FIELDS)}={luck.choice(VALUES)}" for _ in range(luck.choice((1, 1, 2)))]
                if by_word
                else []
            )
            try:
                spec = _resolved(path, words)
            except MissionError as error:
                yield from (f"round {index}: {it}: {str(error)[:200]!r}" for it in _improper(str(error), path, by_word))
                tell("refused", 1)
            except Exception as error:  # noqa: BLE001 - anything but our own error is what is looked for
                yield f"round {index} raised {type(error).__name__}: {str(error)[:200]}"
            else:
                yield from (f"round {index}: {it}" for it in _unusable(spec))
                tell("taken", 1)


def _resolved(path: Path, words: list[str]) -> Spec:
    (assignments, *_) = expand(words)
    return resolve(load_preset(str(path), ()), lambda name: load_preset(name, ()), assignments)


def _improper(sentence: str, path: Path, by_word: bool) -> Iterator[str]:
    if not sentence.isprintable() or len(sentence) > 1000:
        yield "not one printable line"
    if str(path) not in sentence and not by_word and "no preset" not in sentence:
        yield "does not name the file"


def _unusable(spec: Spec) -> Iterator[str]:
    if msgspec.json.decode(msgspec.json.encode(spec), type=Spec) != spec:
        yield "a spec does not survive JSON"
    if from_tables(as_tables(spec), "spec.toml") != spec:
        yield "a spec does not survive TOML"
    try:
        plan_batch(spec)
        assessment = assess(spec, MACHINE)
    except Exception as error:  # noqa: BLE001 - a judgement that raises would be a supervisor's fault
        yield f"a spec cannot be judged: {type(error).__name__}: {error}"
        return
    if not math.isfinite(assessment.ram_bytes) or assessment.ram_bytes < 0:
        yield f"a spec needs {assessment.ram_bytes} bytes"
    if assessment.ram_bytes > 8 << 30 and not assessment.hard:
        yield "more memory than there is, and nothing lacks"
    if (spec.run.device or "").startswith("cuda") and not assessment.hard:
        yield "a GPU that is not there, and nothing lacks"


PART = Part("configs", ("N1", "N2"), 100_000, _run)
