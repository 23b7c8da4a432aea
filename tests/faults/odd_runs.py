"""Run directories of our own making with one thing wrong in each: a value that nobody can mean, or a file of odd kind.

Each is made as every run is, of an attempt that has ended, and then spoiled. Its order would leave a mark if somebody
carried it out; beside the runs root lie files that nobody may touch.
"""

from __future__ import annotations

import os
import random
import socket
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, FindingChanged, FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord, TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.fleet.events.outcome import Finished
from mission_tui.fleet.events.provenance import Provenance
from mission_tui.fleet.resume.verdict import Terms
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.attempt import ExitRecord, Identity, LaunchOrder, ProcessIdentity
from mission_tui.records.runs.checkpoint import Manifest
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals
from mission_tui.supervisor.runs.run_directory import create_run
from tests.records.saving import save
from tests.supervisor.conftest import stub_spec

__all__ = ["ODD", "Case", "Ground", "odd_cases", "typed_cases"]

Case = tuple[str, Callable[["Ground", RunDir], None]]
"""What is wrong, in words, and what makes it so in a whole run directory."""

ABSURD: tuple[Any, ...] = (1e308, -1, 2**31, 2**63, 10**30, "", "\x1b[2J\x00", "9" * 5000, [], {}, None, True, 1.5)
"""Values for any field; many fit its type and mean nothing."""

CHECKPOINT = "000000100"


class Ground:
    """A runs root, and beside it what nobody may touch."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "runs"
        self.root.mkdir(mode=0o700)
        (self.root / ".supervisor").mkdir(mode=0o700)
        self.outside = folder / "home"
        self.outside.mkdir()
        self.kept = self.outside / "kept.txt"
        self.kept.write_text("mine\n", encoding="ascii")
        self.mark = self.outside / "carried-out"
        self.seals = Seals.of({"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)})
        self._number = 0

    def touched(self) -> list[str]:
        """What was changed or made outside the runs root."""
        found = sorted(path.name for path in self.outside.iterdir())
        changed = ["kept.txt was changed"] if self.kept.read_bytes() != b"mine\n" else []
        return [*changed, *(f"{name} was made" for name in found if name not in ("kept.txt", "folder"))]

    def made(self, stem: str = "odd") -> RunDir:
        """A whole run that has ended."""
        self._number += 1
        run = RunDir(
            self.root / f"20260102-{self._number // 3600 % 24:02d}{self._number // 60 % 60:02d}"
            f"{self._number % 60:02d}-{stem}-{self._number:04x}"
        )
        words = ("/bin/sh", "-c", f"echo yes >> {self.mark}")
        order = LaunchOrder(run=run.id, attempt=1, argv=words, cwd="/", nonce="n", python="/bin/sh")
        create_run(self.root, self.seals, run, stub_spec(1000), order, (), f"{stem}-{self._number}", None)
        _tell(run)
        return run


def _tell(run: RunDir) -> None:
    """The rest of what an attempt leaves."""
    finding = Finding("kl-1-1", "kl", "warning", 1, 2, "a sentence", "a cause", "an advice")
    log = AppendLog(run.events, sync_every_s=3600.0)
    log.append(lambda seq: AttemptStarting(seq, 1000.0, 1))
    log.append(lambda seq: FindingChanged(seq, 1001.0, finding))
    log.append(lambda seq: AttemptEnded(seq, 1100.0, 1, Finished(CHECKPOINT)))
    log.close()
    rows = AppendLog(run.metrics, sync_every_s=3600.0)
    rows.append(lambda seq: TrainingStarted(seq, 1, 1000.0))
    for update in range(1, 4):
        rows.append(partial(_row, update))
    rows.append(lambda seq: TrainingEnded(seq, 1, 3, 192, 1010.0, "finished", checkpoint=CHECKPOINT))
    rows.close()
    attempt = run.attempt(1)
    nobody = ProcessIdentity(4000000, 1)
    identity = Identity(
        boot_id="another boot", uid=0, session=1, nonce="n", attempt=1, keeper=nobody, trainer=nobody, started_t=1000.0
    )
    for path, value in (
        (attempt.identity, identity),
        (attempt.exit, ExitRecord(attempt=1, ended_t=1100.0, code=0)),
        (attempt.terms, Terms()),
        (attempt.provenance, Provenance(t=1000.0, cwd="/", python="/bin/sh", **_rest(Provenance))),
    ):
        path.write_bytes(msgspec.json.encode(value))
    attempt.effective.write_text("[ppo]\nn_steps = 16\n", encoding="ascii")
    attempt.output.write_text("hello\n", encoding="ascii")
    save(run.checkpoints, 100)
    run.evaluations.mkdir()
    (run.evaluations / "one.json").write_bytes(msgspec.json.encode({"t": 1000.0, "mean": 1.0, "episodes": 3}))


def _row(update: int, seq: int) -> UpdateDone:
    return UpdateDone(seq, 1, update, 64 * update, 1000.0 + update, 1.0, 1.0, 32.0)


def _rest(of: type) -> dict[str, Any]:
    """Values for the fields of `of` that have to be given and are not."""
    info = inspect.type_info(of)
    assert isinstance(info, inspect.StructType)
    given = {"t", "cwd", "python"}
    return {
        it.name: msgspec.convert(example(it.type), Any) for it in info.fields if it.required and it.name not in given
    }


def example(of: inspect.Type) -> Any:
    """A plain value that fits the type."""
    match of:
        case inspect.StructType():
            value = {it.encode_name: example(it.type) for it in of.fields}
            return value | ({of.tag_field: of.tag} if of.tag_field else {})
        case inspect.UnionType():
            return example(next(it for it in of.types if not isinstance(it, inspect.NoneType)))
        case inspect.LiteralType():
            return of.values[0]
        case inspect.StrType():
            return "nan" if of.pattern else "x"
        case inspect.IntType():
            return 2
        case inspect.FloatType():
            return 1.0
        case inspect.BoolType():
            return False
        case inspect.VarTupleType() | inspect.ListType():
            return [example(of.item_type)]
        case inspect.DictType():
            return {"x": example(of.value_type)}
        case _:
            return None


def line_of(record: dict[str, Any]) -> bytes:
    """The record as a line of a journal with the checksum that belongs to it."""
    body = msgspec.json.encode(record)[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


def typed_cases() -> list[Case]:
    """One field of one file with one absurd value, for every field of every record and file."""
    cases: list[Case] = []
    for name, union in (("events", FleetEvent), ("metrics", MetricRecord)):
        kinds = inspect.type_info(union)
        assert isinstance(kinds, inspect.UnionType)
        for kind in kinds.types:
            assert isinstance(kind, inspect.StructType)
            whole = example(kind) | {"seq": 99, "t": 1200.0, "attempt": 1}
            cases += _spoiled(f"{name}.jsonl {kind.tag}", whole, attrgetter(name), line_of)
    files: tuple[tuple[str, Any, Callable[[RunDir], Path]], ...] = (
        ("identity.json", Identity, lambda run: run.attempt(1).identity),
        ("exit.json", ExitRecord, lambda run: run.attempt(1).exit),
        ("launch.json", LaunchOrder, lambda run: run.attempt(1).launch),
        ("terms.json", Terms, lambda run: run.attempt(1).terms),
        ("provenance.json", Provenance, lambda run: run.attempt(1).provenance),
    )
    for name, type_, path in files:
        cases += _spoiled(name, example(inspect.type_info(type_)), path, None)
    manifest = example(inspect.type_info(Manifest)) | {"name": CHECKPOINT}
    cases += _spoiled("manifest.json", manifest, lambda run: run.checkpoints / CHECKPOINT / "manifest.json", line_of)
    result = {"t": 1.0, "mean": 1.0, "episodes": 3, "checkpoint": "x"}
    cases += _spoiled("evaluation", result, lambda run: run.evaluations / "one.json", None)
    for key in ("run.total_timesteps", "run.duration_s", "run.seed", "ppo.n_steps", "ppo.learning_rate", "env.n_envs"):
        for word in ("1e308", "-1", "9223372036854775808", "1" + "0" * 4000, "inf", "nan", '"x"', "[]", "{}", "true"):
            cases.append((f"spec.toml {key} = {word[:30]}", _toml(key, word)))
    return cases


def _spoiled(
    what: str, whole: dict[str, Any], path: Callable[[RunDir], Path], line: Callable[[dict[str, Any]], bytes] | None
) -> Iterator[Case]:
    for field in whole:
        for value in ABSURD:

            def spoil(_: Ground, run: RunDir, changed: dict[str, Any] = whole | {field: value}) -> None:
                file = path(run)
                if line is None:
                    file.write_bytes(msgspec.json.encode(changed))
                elif file.name == "manifest.json":
                    file.write_bytes(line(changed))
                else:
                    with file.open("ab") as opened:
                        opened.write(line(changed))

            yield f"{what} {field} = {str(value)[:30]!r}", spoil


def _toml(key: str, word: str) -> Callable[[Ground, RunDir], None]:
    table, _, name = key.partition(".")

    def spoil(_: Ground, run: RunDir) -> None:
        lines = [it for it in run.spec.read_text(encoding="utf-8").splitlines() if not it.startswith(f"{name} =")]
        at = lines.index(f"[{table}]") + 1 if f"[{table}]" in lines else len(lines)
        run.spec.write_text("\n".join([*lines[:at], f"{name} = {word}", *lines[at:]]) + "\n", encoding="utf-8")

    return spoil


FILES = (
    "spec.toml", "events.jsonl", "metrics.jsonl", "lease", "attempts/1/launch.json", "attempts/1/spec.toml",
    "attempts/1/terms.json", "attempts/1/identity.json", "attempts/1/exit.json", "attempts/1/effective.toml",
    "attempts/1/provenance.json", "attempts/1/output.log", "attempts/1/reported.jsonl",
    "attempts/1/reported.jsonl.stop", "attempts/1/shared-memory", "evaluations/one.json", "checkpoints/latest",
    f"checkpoints/{CHECKPOINT}/manifest.json", f"checkpoints/{CHECKPOINT}/policy.safetensors", "snapshot/SHA256SUMS",
    "snapshot/rules.toml",
)  # fmt: skip
FOLDERS = ("attempts", "attempts/1", "checkpoints", f"checkpoints/{CHECKPOINT}", "evaluations", "snapshot", "origin")


def _empty_place(run: RunDir, name: str) -> Path:
    path = run.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}.was"))
    else:
        path.unlink(missing_ok=True)
    return path


def _link(to: str) -> Callable[[Ground, Path], None]:
    return lambda ground, path: path.symlink_to(to.replace("HOME", str(ground.outside)))


def _hole(_: Ground, path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


def _socket(_: Ground, path: Path) -> None:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as made:
        here = os.open(path.parent, os.O_PATH)
        made.bind(f"/proc/self/fd/{here}/{path.name}")
        os.close(here)


def _device(number: int) -> Callable[[Ground, Path], None]:
    def make(_: Ground, path: Path) -> None:
        with suppress(OSError):
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, number))

    return make


def _many(_: Ground, path: Path) -> None:
    path.mkdir()
    for number in range(2000):
        (path / str(number)).touch()


def _closed(_: Ground, path: Path) -> None:
    path.write_bytes(b"{}")
    path.chmod(0)


def _others(_: Ground, path: Path) -> None:
    path.write_bytes(b"{}\n")
    with suppress(OSError):
        os.chown(path, 65534, 65534)


def _bytes(content: bytes) -> Callable[[Ground, Path], None]:
    def make(_: Ground, path: Path) -> None:
        path.write_bytes(content)

    return make


ODD: dict[str, Callable[[Ground, Path], None]] = {
    "a link to a file outside": _link("HOME/kept.txt"),
    "a link to a file that is not there": _link("HOME/made.txt"),
    "a link to a folder outside": _link("HOME"),
    "a link to itself": lambda _, path: path.symlink_to(path),
    "a link to /dev/zero": _link("/dev/zero"),
    "a link to /dev/tty": _link("/dev/tty"),
    "a link to /proc": _link("/proc/self/mem"),
    "a second name of a file outside": lambda ground, path: os.link(ground.kept, path),
    "a pipe": lambda _, path: os.mkfifo(path),
    "a socket": _socket,
    "a device without end": _device(5),
    "a device that takes everything": _device(3),
    "a folder": lambda _, path: path.mkdir(),
    "a folder of many": _many,
    "nothing": lambda _, path: None,
    "an empty file": _bytes(b""),
    "three gigabytes of hole": _hole,
    "a megabyte of NULs": _bytes(bytes(1 << 20)),
    "bytes of chance": _bytes(random.Random(1).randbytes(70_000)),
    "no UTF-8": _bytes(b"\xff\xfe[run]\nseed = 1\n\xc3\x28"),
    "very deep JSON": _bytes(b"[" * 100_000),
    "very deep objects": _bytes(b'{"a":' * 100_000),
    "a key of very many parts": _bytes(b".".join([b"a"] * 100_000) + b" = 1\n"),
    "a very deep table": _bytes(b"[" + b".".join([b'"a"'] * 60_000) + b"]\nx = 1\n"),
    "one line without end": _bytes(b"x" * (9 << 20)),
    "half of it": _bytes(b'{"kind":"created","seq":1,"t":1.0,"na'),
    "somebody else's": _others,
    "closed to all": _closed,
}


def odd_cases() -> list[Case]:
    """Every file and folder of a run directory as every odd kind of thing."""

    def case(name: str, kind: str) -> Callable[[Ground, RunDir], None]:
        return lambda ground, run: ODD[kind](ground, _empty_place(run, name))

    return [(f"{name} is {kind}", case(name, kind)) for name in (*FILES, *FOLDERS) for kind in ODD]
