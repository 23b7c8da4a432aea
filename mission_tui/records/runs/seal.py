"""Which runs are this user's own on this machine: every launch order carries a seal, and so does each runs root.

A seal is an HMAC with a secret that lies outside every runs root (`paths.seal_keys`, 0600), over the order, over the
specs it is of, and over the place of the run directory (`attempt.Place`). So nothing that was copied, received,
restored or made by somebody else has one, whatever is written in it. What has none is *foreign*: shown, never acted on.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from mission_tui.errors import DamagedError, UsageError
from mission_tui.paths import seal_keys, sha256
from mission_tui.plain_files import make_folder, open_folder, read_plain
from mission_tui.records.atomic import StorageError, storing, write_atomic, write_fresh
from mission_tui.records.runs.attempt import LaunchOrder, RecordedInode, Seal, launch_document, place_of, same_place
from mission_tui.records.runs.layout import RunDir, supervisor_dir
from mission_tui.records.runs_roots import others_may_write

KEY_BYTES = 32
MACHINE_ID = Path("/etc/machine-id")
MOST_ORDER_BYTES = 4 << 20
_NO_MAC = b"0" * 64
_NOTHING: Mapping[Path, bytes] = {}
_BLOCK = 64
"""Of SHA-256, as HMAC (RFC 2104) pads its key."""

_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


class _RootSeal(Struct, frozen=True, kw_only=True):
    place: RecordedInode
    mac: str


class Sealed(Struct, frozen=True):
    """What the seal of an attempt says: why the run is `foreign` (empty: it is ours), and which of its specs were
    `changed` since. `order` is the one that was checked; None where the run is foreign. `specs` are the files that
    were compared, by their paths below the run directory: who goes on with these goes on with what was sealed.
    `digest` is the SHA-256 of the order's document, for who reads it again.
    """

    foreign: str = ""
    changed: tuple[str, ...] = ()
    order: LaunchOrder | None = None
    specs: Mapping[str, bytes] = field(default_factory=dict)
    digest: str = ""


class Seals:
    """Makes and checks seals with one secret; without one (`None`) nothing is ours."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._padded: tuple[Any, Any] | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str], *, make: bool = True) -> Seals:
        """With this user's secret, made if there is none and `make`. Raises `UsageError` for one that is not private,
        `StorageError` when none can be made.
        """
        usual, spare = seal_keys(environ)
        key = _read_key(usual)
        if key is None and (key := _read_key(spare)) is not None and make:
            # The spare one is gone after the boot, and all that it sealed would be foreign.
            with suppress(StorageError):
                key = _make_key(usual, key)
        if key is None and make:
            try:
                key = _make_key(usual)
            except StorageError:
                key = _make_key(spare)
        return cls(key)

    def write_order(
        self, run: RunDir, order: LaunchOrder, name: str = "", coming: Mapping[Path, bytes] = _NOTHING
    ) -> None:
        """Write and seal `order`, whose specs are on disk, or `coming` there next. `name` is the run's where its folder
        has another one yet.

        Raises `StorageError`.
        """
        folder = run.attempt(order.attempt)
        with storing(folder.launch):
            files = _digests(run, order.attempt)
            files |= {str(path.relative_to(run.path)): _digest(raw) for path, raw in coming.items()}
            seal = Seal(run=name or run.id, place=place_of(run.path), files=files, mac=_NO_MAC.decode())
        document = launch_document(structs.replace(order, seal=seal))
        before, _, after = document.rpartition(_NO_MAC)
        write_atomic(folder.launch, before + self._mac(b"order", document) + after, mode=0o600)

    def check(self, run: RunDir, attempt: int, name: str = "") -> Sealed:
        """Whether `attempt` of the run was launched here, in this very directory. Raises nothing.

        `name` is the run's where its folder bears another, as in the trash.
        """
        try:
            raw = read_plain(f"{run.path}/attempts/{attempt}/launch.json", MOST_ORDER_BYTES)
            order = msgspec.json.decode(raw, type=LaunchOrder)
        except FileNotFoundError:
            return Sealed(f"nothing says who launched it: attempts/{attempt}/launch.json is not there")
        except (OSError, ValueError, RecursionError) as error:
            return Sealed(f"nothing says who launched it: attempts/{attempt}/launch.json cannot be used ({error})")
        if order.seal is None:
            return Sealed("it carries no seal: it was made by an earlier version, or elsewhere")
        mac = order.seal.mac.encode()
        before, _, after = raw.rpartition(mac)
        if len(mac) != len(_NO_MAC) or not _same(mac, self._mac(b"order", before + _NO_MAC + after)):
            return Sealed("its seal is not yours on this machine, or its launch order was changed since")
        if (order.run, order.attempt, order.seal.run) != (name or run.id, attempt, name or run.id):
            return Sealed(f"its seal is that of {order.seal.run}, attempt {order.attempt}")
        if why := _not_ours(run.path, order.seal.place):
            return Sealed(why)
        # One that is not there any more is reported by what needs it.
        specs = _specs(run, attempt)
        changed = tuple(name for name, spec in specs.items() if _digest(spec) != order.seal.files.get(name))
        return Sealed("", changed, order, specs, _digest(raw))

    def sealed_specs(self, run: RunDir) -> dict[str, str]:
        """SHA-256 of every spec of the run that a seal of ours covers, by its path below the run directory."""
        found: dict[str, str] = {}
        for attempt in run.attempts():
            order = self.check(run, attempt).order
            found |= {} if order is None or order.seal is None else order.seal.files
        return found

    def adopt(self, run: RunDir, telemetry: Path) -> None:
        """Seal every attempt of the run as it lies here, with `telemetry` as the socket of this runs root.

        Its specs are written anew: whoever has the old ones open, or has them under a second name, changes nothing
        here. Raises `StorageError`, and `DamagedError` for a run without any order.
        """
        orders = dict(orders_of(run))
        if not orders:
            raise DamagedError(f"{run.path} cannot be adopted: no launch order of it can be read")
        for path in (run.spec, *(run.attempt(attempt).spec for attempt in orders)):
            # What cannot be read is no spec: the seal says so too, and nothing is started of it.
            with suppress(OSError):
                write_atomic(path, read_plain(path, MOST_ORDER_BYTES))
        for attempt, order in orders.items():
            self.write_order(run, _at_home(run, structs.replace(order, attempt=attempt), telemetry))

    def seal_root(self, root: Path) -> None:
        """Make the runs root this user's own, from now on. Raises `StorageError`."""
        if not self.owns_root(root):
            with storing(root, "seal"):
                place = place_of(root)
            seal = _RootSeal(place=place, mac=self._mac(b"root", msgspec.json.encode(place)).decode())
            write_atomic(_root_seal_file(root), msgspec.json.encode(seal) + b"\n", mode=0o600)

    def owns_root(self, root: Path) -> bool:
        """Whether this user's own supervisor has used the runs root on this machine, and it is no copy."""
        with suppress(OSError, ValueError, RecursionError):
            seal = msgspec.json.decode(read_plain(_root_seal_file(root), MOST_ORDER_BYTES), type=_RootSeal)
            mac = self._mac(b"root", msgspec.json.encode(seal.place))
            return _same(mac, seal.mac.encode()) and same_place(seal.place, place_of(root))
        return False

    def _mac(self, kind: bytes, document: bytes) -> bytes:
        """64 hex digits that only this user on this machine can say of `document`."""
        if self._key is None:
            return b""
        # Not `hmac` from the library: it loads OpenSSL, for which every client would wait.
        if self._padded is None:
            key = self._key.ljust(_BLOCK, b"\0")
            self._padded = sha256(key.translate(_INNER)), sha256(key.translate(_OUTER))
        inner, outer = self._padded[0].copy(), self._padded[1].copy()
        inner.update(b"\0".join((b"mission-tui", kind, _machine(), document)))
        outer.update(inner.digest())
        digest: str = outer.hexdigest()
        return digest.encode()


def check_seal(sealed: Sealed, verb: str, name: str) -> None:
    """Raise `UsageError` where `verb` may not act on the run `name`: it is foreign, or its specs were changed."""
    if sealed.foreign:
        raise UsageError(
            f"cannot {verb} {name}, which is foreign: {sealed.foreign}; "
            f"`mission-tui adopt {name}` shows what it would run and makes it yours"
        )
    if changed := words_of_change(sealed.changed):
        raise UsageError(
            f"cannot {verb} {name}: {changed}, so nothing of it is started; put it back as it "
            f"was, or `mission-tui adopt {name}` shows what it would run now and lets you accept that"
        )


def words_of_change(changed: Sequence[str]) -> str:
    """What is to be said of specs that are others than when the run was launched; empty for none."""
    return f"{', '.join(changed)} was changed since it was launched" if changed else ""


def orders_of(run: RunDir) -> Iterator[tuple[int, LaunchOrder]]:
    """The launch orders of a run by attempt, ours or not, first attempt first, as far as they can be read."""
    for attempt in run.attempts():
        with suppress(OSError, ValueError, RecursionError):
            raw = read_plain(run.attempt(attempt).launch, MOST_ORDER_BYTES)
            yield attempt, msgspec.json.decode(raw, type=LaunchOrder)


def digest_of(run: RunDir) -> str:
    """SHA-256 of all that says what the run would start: its journal apart, which only tells how far it came."""
    parts = []
    for attempt in run.attempts():
        with suppress(OSError, ValueError):
            parts.append(read_plain(run.attempt(attempt).launch, MOST_ORDER_BYTES))
        parts += [f"{name} {digest}".encode() for name, digest in _digests(run, attempt).items()]
    digest: str = sha256(b"\0".join(parts)).hexdigest()
    return digest


def _root_seal_file(root: Path) -> Path:
    """Where the seal of a runs root lies."""
    return supervisor_dir(root) / "seal.json"


def has_runs(root: Path) -> bool:
    """Whether anything lies in the runs root that mission-tui could have put there."""
    try:
        with os.scandir(root) as entries:
            return any(entry.name != ".gitignore" for entry in entries)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _at_home(run: RunDir, order: LaunchOrder, telemetry: Path) -> LaunchOrder:
    """The order with this directory wherever it names the one that it was written for."""
    before = order.env.get("MISSION_TUI_RUN_DIR", "")

    def here(word: str) -> str:
        if not before.startswith("/") or not (word == before or word.startswith(f"{before}/")):
            return word
        return f"{run.path}{word.removeprefix(before)}"

    env = {name: here(value) for name, value in order.env.items()}
    if "MISSION_TUI_TELEMETRY" in env:
        env["MISSION_TUI_TELEMETRY"] = str(telemetry)
    return structs.replace(order, run=run.id, argv=tuple(here(word) for word in order.argv), env=env)


def _not_ours(folder: Path, sealed: RecordedInode) -> str:
    """Why `folder` is not the directory that was sealed, or not ours alone; empty when it is."""
    try:
        descriptor = open_folder(folder)
    except NotADirectoryError:
        return "it is no directory"
    except OSError as error:
        return f"it cannot be looked at: {error.strerror or error}"
    try:
        facts = os.fstat(descriptor)
        if not same_place(sealed, place_of(descriptor)):
            return "it is a copy: its seal is that of another directory"
    except OSError as error:
        return f"it cannot be looked at: {error.strerror or error}"
    finally:
        os.close(descriptor)
    if facts.st_uid not in (os.getuid(), 0) and os.getuid() != 0:
        return f"it belongs to user {facts.st_uid}"
    return "others may write in it" if others_may_write(facts) else ""


def _specs(run: RunDir, attempt: int) -> dict[str, bytes]:
    """What stands in every spec that the attempt may be of; nothing for one that cannot be read."""
    found = {}
    for name in ("spec.toml", f"attempts/{attempt}/spec.toml"):
        try:
            found[name] = read_plain(f"{run.path}/{name}", MOST_ORDER_BYTES)
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            found[name] = b""  # the digest of something that is no spec: it never equals that of one
    return found


def _digests(run: RunDir, attempt: int) -> dict[str, str]:
    """SHA-256 of every such spec, by its path below the run directory."""
    return {name: _digest(raw) for name, raw in _specs(run, attempt).items()}


def _digest(raw: bytes) -> str:
    digest: str = sha256(raw).hexdigest()
    return digest


def _read_key(path: Path) -> bytes | None:
    """The secret in `path`; None where there is none. Raises `UsageError` for one that others may know."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{path}, which seals your runs, cannot be read: {error.strerror or error}") from error
    try:
        facts = os.fstat(descriptor)
        private = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077
        key = os.read(descriptor, KEY_BYTES + 1) if private else b""
    finally:
        os.close(descriptor)
    if len(key) != KEY_BYTES:
        why = f"does not hold {KEY_BYTES} bytes" if private else "is not a file of yours that nobody else may read"
        raise UsageError(f"{path}, which seals your runs, {why}: remove it, and adopt your runs anew")
    return key


def _make_key(path: Path, key: bytes | None = None) -> bytes:
    """A new secret at `path`, or `key`, or the one that another process wrote first."""
    # Two that make one at once may have the same number, in two containers.
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    with storing(path, "make"):
        make_folder(path.parent)
        folder = path.parent.lstat()
        if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.getuid() or others_may_write(folder):
            raise PermissionError(errno.EPERM, "others may write in its folder", str(path.parent))
        try:
            write_fresh(temporary, key or os.urandom(KEY_BYTES))
            with suppress(FileExistsError):
                path.hardlink_to(temporary)
        finally:
            temporary.unlink(missing_ok=True)
    made = _read_key(path)
    if made is None:
        raise DamagedError(f"{path} was removed while it was made")
    return made


@cache
def _machine() -> bytes:
    """What tells this machine from others that share a home folder with it; empty where the system does not say."""
    try:
        return MACHINE_ID.read_bytes().strip()
    except OSError:
        return b""


def _same(one: bytes, other: bytes) -> bool:
    """Whether two digests are equal, in a time that does not tell where they differ."""
    different = len(one) ^ len(other)
    for left, right in zip(one, other, strict=False):
        different |= left ^ right
    return different == 0 and bool(one)
