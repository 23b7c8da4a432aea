"""What an attempt was launched from (code, packages, machine), and what of it is no longer the same at another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from mission_tui.fleet.text import clean
from mission_tui.fleet.verdict import Change, Grade, ResumeVerdict

__all__ = ["Provenance", "Repository", "differences", "noted"]

SHOWN_PACKAGES = 3
_ABSENT = "not there"


class Repository(Struct, frozen=True, kw_only=True):
    """A git working tree: that of the working folder (`name` is empty), or of a package that is installed editable.

    `commit` is None before the first one. `changed` and `untracked` count files; the changes themselves are in
    `diff_file` beside the record (empty: none), cut to 128 KiB, with length and digest of the whole.
    """

    name: str
    path: str
    commit: str | None
    changed: int = 0
    untracked: int = 0
    diff_file: str = ""
    diff_bytes: int = 0
    diff_sha256: str = ""

    @property
    def word(self) -> str:
        """The commit, and how many files were changed since: `3f9a1c2`, `3f9a1c2+2`."""
        return clean(self.commit or "no commit")[:7] + (f"+{self.changed}" if self.changed else "")


class Provenance(Struct, frozen=True, kw_only=True):
    """Taken at unix time `t` with the interpreter `python` in `cwd`; `packages` are versions by name.

    `command` are the words of the client, empty where they are not known.
    """

    t: float
    command: str = ""
    cwd: str
    python: str
    python_version: str
    packages: dict[str, str] = field(default_factory=dict)
    repositories: tuple[Repository, ...] = ()
    machine: dict[str, str] = field(default_factory=dict)


def noted(verdict: ResumeVerdict, notes: tuple[Change, ...]) -> ResumeVerdict:
    """`verdict` with `notes` at its end; what was safe is then a note, and what was graver stays so."""
    grade: Grade = "note" if notes and verdict.grade == "safe" else verdict.grade
    return ResumeVerdict(grade, (*verdict.changes, *notes))


def differences(was: Provenance, now: Provenance) -> tuple[Change, ...]:
    """A note for each thing that is no longer the same; empty when all is."""
    return (*_code(was, now), *_environment(was, now), *_machine(was, now))


def _code(was: Provenance, now: Provenance) -> Iterator[Change]:
    before, after = ({repository.name: repository for repository in it.repositories} for it in (was, now))
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None and _state(old) == _state(new):
            continue
        before_word, after_word = (_ABSENT if it is None else it.word for it in (old, new))
        if before_word == after_word:
            after_word += " otherwise"
        what = f"code of {clean(name, 60)}" if name else "code"
        yield Change(what, before_word, after_word, "note", "other code than before (commit + changed files)")


def _state(repository: Repository) -> tuple[str | None, str]:
    return repository.commit, repository.diff_sha256


def _environment(was: Provenance, now: Provenance) -> Iterator[Change]:
    if was.python_version != now.python_version:
        old, new = clean(was.python_version), clean(now.python_version)
        yield Change("Python", old, new, "note", "another interpreter; packages may differ with it")
    names = [
        name
        for name in sorted(was.packages.keys() | now.packages.keys(), key=str.lower)
        if was.packages.get(name) != now.packages.get(name)
    ]
    if names:
        old, new = (_versions(names, packages) for packages in (was.packages, now.packages))
        yield Change("packages", old, new, "note", f"{len(names)} differ; numbers may not be the same to the last bit")


def _versions(names: list[str], packages: Mapping[str, str]) -> str:
    shown = [f"{clean(name, 40)} {clean(packages.get(name, _ABSENT), 40)}" for name in names[:SHOWN_PACKAGES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _machine(was: Provenance, now: Provenance) -> Iterator[Change]:
    names = {"host": "machine", "cpu": "processor", "gpus": "GPUs", "gpu_driver": "GPU driver"}
    for key, name in names.items():
        old, new = was.machine.get(key, _ABSENT), now.machine.get(key, _ABSENT)
        if old != new:
            why = "speeds are not comparable, and numbers may not be the same to the last bit"
            yield Change(name, clean(old, 80), clean(new, 80), "note", why)
