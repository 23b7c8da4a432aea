"""What a run is launched from, as one JSON object on stdout: code, packages, machine. Standard library alone.

Started by its path with the caller's interpreter, in its folder and environment, so that it needs nothing installed
there; whatever cannot be found out is left out, and nothing is ever written, locked or asked for. Its words,
`module:NAME` and `file:PATH`, are what the digests of Python files are wanted of; nothing of that is imported.

The working folder may be somebody else's, with a repository in it that came with its own settings: git carries out no
command that only these name.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    # Not this file's folder: its modules are no packages of the caller's.
    del sys.path[0]

import hashlib
import importlib.machinery
import importlib.metadata
import json
import os
import platform
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

DIFF_BYTES = 128 << 10
"""What is kept of the changes in one working tree; their digest is of all."""

SAID_BYTES = 64 << 20
"""Of everything else that git says."""

GIT_S = 10.0
REPOSITORIES = 8
SOURCE_FILES, SOURCE_BYTES = 4000, 64 << 20
"""More source than this belongs to no task, and is not read."""

_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_UNFETCHED = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
"""What a partial clone lacks stays away: settings of its own say by which command it would be fetched."""
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.bareRepository=explicit")
"""Without hooks: `diff` writes the index anew after files that only look changed, whatever is said of locks."""
_OWN_SCOPES = ("local", "worktree")
MOST_FILTERS = 64
_PART_BYTES = 1 << 18


def main() -> int:
    """Say everything; always 0."""
    packages, editable = _packages()
    repositories, diffs = _repositories([("", str(Path.cwd())), *editable])
    found = {
        "t": time.time(),
        "command": os.environ.get("MISSION_TUI_COMMAND", ""),
        "cwd": str(Path.cwd()),
        "python": sys.executable,
        "python_version": platform.python_version(),
        "packages": packages,
        "repositories": repositories,
        "machine": dict(_machine()),
        "sources": dict(_sources(sys.argv[1:])),
    }
    sys.stdout.write(json.dumps({"provenance": found, "diffs": diffs}) + "\n")
    return 0


def _packages() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Versions by name, and name and folder of what is installed to be edited. The first on the path counts."""
    packages: dict[str, str] = {}
    editable = []
    for found in importlib.metadata.distributions():
        folder = getattr(found, "_path", None)
        name, _, version = str(getattr(folder, "stem", "")).partition("-")
        if not version or not str(folder).endswith(".dist-info"):
            name, version = str(found.metadata["Name"]), str(found.version)
        if name in packages:
            continue
        packages[name] = version
        source = found.read_text("direct_url.json")
        if source and '"editable"' in source:
            with suppress(ValueError, KeyError, AttributeError, ImportError, OSError):
                said = json.loads(source)
                if said["dir_info"].get("editable"):
                    editable.append((name, _imported_from(name, unquote(urlsplit(said["url"]).path))))
    return dict(sorted(packages.items())), editable


def _imported_from(name: str, installed: str) -> str:
    """The folder `installed`, unless PYTHONPATH names another tree of the package, which then comes first."""
    found = importlib.machinery.PathFinder.find_spec(name.replace("-", "_"), sys.path)
    if found is None or not found.has_location or found.origin is None:
        return installed
    origin = Path(found.origin).resolve()
    return installed if origin.is_relative_to(Path(installed).resolve()) else str(origin.parent)


def _repositories(places: list[tuple[str, str]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The working trees that hold the places, each once and before its submodules, and their changes by file name."""
    found: dict[str, dict[str, Any]] = {}
    diffs = {}
    left = places[::-1]
    while left and len(found) < REPOSITORIES:
        name, place = left.pop()
        tree = _git(place, (), "rev-parse", "--show-toplevel")
        top = tree.decode("utf-8", "replace").strip() if tree else ""
        if not top or top in found:
            continue
        harmless = _harmless(place, top)
        if harmless is None:
            continue
        commit = _git(top, harmless, "rev-parse", "--verify", "-q", "HEAD")
        # Below a submodule git starts another git, by the submodule's own settings: each is asked for itself.
        listed = _git(top, harmless, "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=dirty")
        status = (listed or b"").splitlines()
        words = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "HEAD")
        said = _read_git(top, harmless, *words, keep=DIFF_BYTES) if commit else None
        diff, diff_bytes, digest = said or (b"", 0, "")
        file = re.sub(r"[^A-Za-z0-9._-]+", "-", name or "working-folder") + ".diff" if diff else ""
        if diff:
            diffs[file] = diff.decode("utf-8", "replace")
        found[top] = {
            "name": name,
            "path": top,
            "commit": commit.decode("ascii", "replace").strip() if commit else None,
            "changed": sum(not line.startswith(b"??") for line in status),
            "untracked": sum(line.startswith(b"??") for line in status),
            "diff_file": file,
            "diff_bytes": diff_bytes,
            "diff_sha256": digest if diff else "",
        }
        left += reversed([(f"{name}/{module}".lstrip("/"), str(Path(top, module))) for module in _submodules(top)])
    return list(found.values()), diffs


def _harmless(place: str, top: str) -> tuple[str, ...] | None:
    """Options with which git carries out no filter or hook that only the repository names, on `status` and `diff`.

    None where that cannot be promised, or where the working tree is not the one that `place` lies in: its settings can
    name any folder of this machine.
    """
    said = _git(place, (), "config", "--list", "--show-scope", "-z")
    if said is None:  # git before 2.26 does not know whose a setting is
        plain = _git(place, (), "config", "--list", "-z")
        said = None if plain is None else b"".join(b"local\0" + line + b"\0" for line in plain.split(b"\0")[:-1])
    if said is None or _git(place, (), "rev-parse", "--absolute-git-dir") != _git(
        top, (), "rev-parse", "--absolute-git-dir"
    ):
        return None
    parts = said.decode("utf-8", "replace").split("\0")
    own = {
        line.partition("\n")[0] for scope, line in zip(parts[::2], parts[1::2], strict=False) if scope in _OWN_SCOPES
    }
    settings = {"filter": ("clean=", "smudge=", "process=", "required=false"), "hook": ("enabled=false",)}
    sections = [(key.partition(".")[0], key.partition(".")[2].rpartition(".")[0]) for key in own]
    named = {(kind, name) for kind, name in sections if kind in settings}
    if len(named) > MOST_FILTERS or not all(re.fullmatch(r"[\w./ -]+", name, re.ASCII) for _, name in named):
        return None
    return tuple(
        word for kind, name in sorted(named) for it in settings[kind] for word in ("-c", f"{kind}.{name}.{it}")
    )


def _submodules(top: str) -> list[str]:
    """The folders below `top` that its `.gitmodules` names and that are there."""
    said = _git(top, (), "config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$")
    folders = [entry.decode("utf-8", "replace").partition("\n")[2] for entry in (said or b"").split(b"\0")]
    inside = Path(top).resolve()
    return [
        it for it in folders if it and Path(top, it, ".git").exists() and Path(top, it).resolve().is_relative_to(inside)
    ]


def _sources(words: list[str]) -> Iterator[tuple[str, str]]:
    here = str(Path.cwd())
    # A command's own `python -m` looks into its folder first, a trainer last, so that nothing of its own is hidden.
    path = [here, *sys.path] if any(word.startswith("file:") for word in words) else [*sys.path, here]
    for word in words:
        kind, _, name = word.partition(":")
        with suppress(OSError, ValueError, ImportError):
            files = _files_of_module(name, path) if kind == "module" else [Path(name)]
            digest = _digest(files) if all(file.suffix == ".py" for file in files) else ""
            if digest:
                yield word, digest


def _files_of_module(name: str, path: list[str]) -> list[Path]:
    """Every Python file of the module's topmost package, or the one file that it is; empty where there is none."""
    found = importlib.machinery.PathFinder.find_spec(name.partition(".")[0], path)
    if found is None:
        return []
    if found.submodule_search_locations is None:
        return [Path(found.origin)] if found.origin else []
    return [file for folder in found.submodule_search_locations for file in sorted(Path(folder).rglob("*.py"))]


def _digest(files: list[Path]) -> str:
    if not files or len(files) > SOURCE_FILES:
        return ""
    found, left = hashlib.sha256(), SOURCE_BYTES
    folder = os.path.commonpath([file.absolute().parent for file in files])
    for file in files:
        text = file.read_bytes()
        left -= len(text)
        if left < 0:
            return ""
        found.update(f"{os.path.relpath(file, folder)}\0{len(text)}\0".encode())
        found.update(text)
    return found.hexdigest()


def _git(place: str, options: tuple[str, ...], *words: str) -> bytes | None:
    """What git says of `place`; None where it fails, is not there, takes too long, or says more than anybody reads."""
    said = _read_git(place, options, *words, keep=SAID_BYTES)
    return None if said is None or said[1] > SAID_BYTES else said[0]


def _read_git(place: str, options: tuple[str, ...], *words: str, keep: int) -> tuple[bytes, int, str] | None:
    """The first `keep` bytes of what git says of `place`, how many there are, and the SHA-256 of all; None as above.

    A large file that was changed makes a larger diff, which no memory has to hold.
    """
    argv = [*_GIT, "-C", place, *options, *words]
    environ = {**os.environ, **_QUIET, **_UNFETCHED}
    kept, size, digest = bytearray(), 0, hashlib.sha256()
    with suppress(OSError):
        nothing = subprocess.DEVNULL
        with subprocess.Popen(argv, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing, env=environ) as git:
            assert git.stdout is not None
            timer = threading.Timer(GIT_S, git.kill)
            timer.start()
            try:
                while part := git.stdout.read(_PART_BYTES):
                    kept += part[: keep - len(kept)]
                    size += len(part)
                    digest.update(part)
                git.wait()
            finally:
                timer.cancel()
        return (bytes(kept), size, digest.hexdigest()) if git.returncode == 0 else None
    return None


def _machine() -> Iterator[tuple[str, str]]:
    yield "host", socket.gethostname()
    yield "system", f"{platform.system()} {platform.release()}"
    yield "cores", str(len(os.sched_getaffinity(0)))
    for key, path, pattern in (
        ("cpu", "/proc/cpuinfo", r"^model name\s*:\s*(.+)$"),
        ("memory_kib", "/proc/meminfo", r"^MemTotal:\s*(\d+)"),
        ("gpu_driver", "/proc/driver/nvidia/version", r"Kernel Module.*?(\d+\.\d+(?:\.\d+)?)"),
    ):
        with suppress(OSError):
            match = re.search(pattern, Path(path).read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
            if match:
                yield key, match[1].strip()
    gpus = []
    for entry in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        with suppress(OSError):
            match = re.search(r"^Model:\s*(.+)$", entry.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
            gpus.append(match[1].strip() if match else "unknown")
    if gpus:
        yield "gpus", ", ".join(gpus)


if __name__ == "__main__":
    sys.exit(main())
