"""What an attempt was launched from (code, packages, machine), and what of it is no longer the same at another.

Lineage is which checkpoint of which run a run, or its newest attempt, comes from, what was changed on the way, and what
was set while it trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct, field

from mission_tui.fleet.events.outcome import AFTER_WORDS, After
from mission_tui.fleet.ranges import Bytes, Count, UnixTime
from mission_tui.fleet.resume.verdict import Change, Grade, ResumeVerdict
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.spec import Spec, parse_part
from mission_tui.fleet.text import clean

SHOWN_PACKAGES = 3
LISTED_PACKAGES = 40
_ABSENT = "not there"
DIFF_CHARS = 60
IMPORTED = "imported; it was not trained here"
"""The cause with which an imported run has ended."""


class Origin(Struct, frozen=True, omit_defaults=True):
    """`kind` "branch": a run of its own that began with weights of `checkpoint` of `run`, which bore `name` then.

    "trial": a branch of a trial, which goes on with all that `checkpoint` of `run` holds, with a seed of its own; ""
    of one that began at the start.
    "resumed": the newest attempt goes on from `checkpoint` of its own run. "imported": the run began as the file
    or folder `name`, and `run` is empty. "cloned": a run of its own with the settings of `run` that has learned nothing
    from it. `diff` is a line per changed setting. `after` says what an attempt that nobody asked for follows,
    `path` which folder was imported.
    """

    kind: Literal["branch", "resumed", "imported", "cloned", "trial"]
    run: str
    name: str
    checkpoint: str = ""
    diff: tuple[str, ...] = ()
    after: After | None = None
    path: str = ""

    @property
    def sentence(self) -> str:
        """The "from" line."""
        if self.kind == "imported":
            return f"imported from {self.name}" + (f" as {self.checkpoint}" if self.checkpoint else "")
        changed = ", ".join(self.diff) or "nothing changed"
        if self.kind == "branch":
            return f"branch: weights from {self.name} at {self.checkpoint}; {changed}"
        if self.kind == "trial":
            begun = (
                f"goes on from {self.name} at {self.checkpoint}" if self.checkpoint else f"{self.name} from the start"
            )
            return f"branch of a trial: {begun}; {changed}"
        if self.kind == "cloned":
            return f"cloned from {self.name}; {changed}"
        by_itself = "" if self.after is None else f" by itself after {AFTER_WORDS[self.after]}"
        return f"resumed{by_itself} from {self.checkpoint}; {changed}"


def diff_of(changes: Iterable[Change]) -> tuple[str, ...]:
    """What changed, as short as it can be said; a setting that was judged but is the same is left out."""
    return tuple(
        clean(f"{change.name} {change.was} → {change.now}", DIFF_CHARS)
        for change in changes
        if change.was != change.now
    )


class SettingChange(Struct, frozen=True):
    """What was set while the run trained: `diff` has a line per setting.

    Updates after `update`, at `timesteps` of the curve, train with it; both are None while it waits for the boundary.
    """

    diff: tuple[str, ...]
    update: int | None = None
    timesteps: int | None = None

    @property
    def sentence(self) -> str:
        """What was set, and since when."""
        what = ", ".join(self.diff)
        return (
            f"to be set at the next update: {what}"
            if self.update is None
            else f"set after update {self.update:,}: {what}"
        )


class Repository(Struct, frozen=True, kw_only=True):
    """A git working tree: that of the working folder (`name` is empty), or of a package that is installed editable.

    `commit` is None before the first one. `changed` and `untracked` count files; the changes themselves are in
    `diff_file` beside the record (empty: none), cut to 128 KiB, with length and digest of the whole.
    """

    name: str
    path: str
    commit: str | None
    changed: Count = 0
    untracked: Count = 0
    diff_file: str = ""
    diff_bytes: Bytes = 0
    diff_sha256: str = ""

    @property
    def word(self) -> str:
        """The commit, and how many files were changed since: `3f9a1c2`, `3f9a1c2+2`."""
        return clean(self.commit or "no commit")[:7] + (f"+{self.changed}" if self.changed else "")


class LoadedModule(Struct, frozen=True, kw_only=True):
    """A module that a trainer imported: the file that it came from, and the digest of that file."""

    file: str
    sha256: str


class LoadedModules(Struct, frozen=True, kw_only=True):
    """What a trainer was made of once everything was built: the folder of mission-tui, and the person's own modules."""

    package: str
    modules: dict[str, LoadedModule] = field(default_factory=dict)


class Provenance(Struct, frozen=True, kw_only=True):
    """Taken at unix time `t` with the interpreter `python` in `cwd`; `packages` are versions by name.

    `command` are the words of the client, empty where they are not known. `sources` are digests of the Python files
    that the environment, or the command, comes from, by `module:NAME` or `file:PATH`.
    `loaded` is what its trainer has really imported; None while that is not known, and for a command. Where the attempt
    ran on a node of a cluster, `machine` is that node as its trainer found it, and `launched_on` whence it was sent.
    """

    t: UnixTime
    command: str = ""
    cwd: str
    python: str
    python_version: str
    packages: dict[str, str] = field(default_factory=dict)
    repositories: tuple[Repository, ...] = ()
    machine: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    loaded: LoadedModules | None = None
    launched_on: str = ""


def noted(verdict: ResumeVerdict, notes: tuple[Change, ...]) -> ResumeVerdict:
    """`verdict` with `notes` at its end; what was safe is then a note, and what was more severe stays so."""
    grade: Grade = "note" if notes and verdict.grade == "safe" else verdict.grade
    return ResumeVerdict(grade, (*verdict.changes, *notes))


def sources_of(spec: Spec) -> tuple[str, ...]:
    """What a digest is to be taken of, because nobody versions it for us: the packages that the task's own code lies
    in, and the words of a command that may be files or, after `-m`, modules.
    """
    if spec.run.command is not None:
        words = spec.run.command
        before = ("", *words)
        return tuple(
            f"{'module' if last == '-m' else 'file'}:{word}" for last, word in zip(before, words, strict=False)
        )
    parts = (*spec.env.wrappers, *spec.run.callbacks)
    named = [spec.env.id, learning_table(spec)[1].policy, *(part.cls for part in map(parse_part, parts))]
    modules = [name.partition(":")[0] for name in named if ":" in name and not name.startswith("envpool:")]
    tops = (module.partition(".")[0] for module in (*modules, *spec.env.imports))
    return tuple(f"module:{top}" for top in dict.fromkeys(tops))


def differences(was: Provenance, now: Provenance, *, every: bool = False) -> tuple[Change, ...]:
    """A note for each thing that is no longer the same; empty when all is. With `every`, each package has its own."""
    return (*_code(was, now), *_sources(was, now), *_environment(was, now, every), *_machine(was, now, every))


def upgraded(was: Provenance, now: Provenance) -> tuple[Change, ...]:
    """What changed under a process that was launched as `was`: interpreter, packages, code of editable installs.

    The working folder is left out: people edit it while their runs go on, and their trainers have read it. Earlier
    versions recorded their own Python for commands, of which nothing can be said here.
    """
    if was.python != now.python:
        return ()
    return (*(change for change in _code(was, now) if change.name != "code"), *_environment(was, now, every=False))


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


def _sources(was: Provenance, now: Provenance) -> Iterator[Change]:
    """Only of what both have a digest of: attempts from before it was taken have none."""
    for name in sorted(was.sources.keys() & now.sources.keys()):
        old, new = was.sources[name], now.sources[name]
        if old != new:
            kind, _, what = name.partition(":")
            why = "other source than before: the same settings may mean another task"
            yield Change(f"source of {kind} {clean(what, 80)}", clean(old[:7]), clean(new[:7]), "note", why)


def _environment(was: Provenance, now: Provenance, every: bool) -> Iterator[Change]:
    if was.python_version != now.python_version:
        old, new = clean(was.python_version), clean(now.python_version)
        yield Change("Python", old, new, "note", "another interpreter; packages may differ with it")
    names = [
        name
        for name in sorted(was.packages.keys() | now.packages.keys(), key=str.lower)
        if was.packages.get(name) != now.packages.get(name)
    ]
    if every:
        for name in names[:LISTED_PACKAGES]:
            old, new = (_versions([name], packages) for packages in (was.packages, now.packages))
            yield Change("package", old, new, "note", "numbers may not be the same to the last bit")
        names = names[LISTED_PACKAGES:]
    if names:
        old, new = (_versions(names, packages) for packages in (was.packages, now.packages))
        yield Change("packages", old, new, "note", f"{len(names)} differ; numbers may not be the same to the last bit")


def _versions(names: list[str], packages: Mapping[str, str]) -> str:
    shown = [f"{clean(name, 40)} {clean(packages.get(name, _ABSENT), 40)}" for name in names[:SHOWN_PACKAGES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _machine(was: Provenance, now: Provenance, every: bool) -> Iterator[Change]:
    if was.launched_on:
        return  # Which node comes next is not known here; its trainer says what is another one.
    names = {"host": "machine", "cpu": "processor", "gpus": "GPUs", "gpu_driver": "GPU driver"}
    names |= {"cores": "cores", "system": "system"} if every else {}
    for key, name in names.items():
        old, new = was.machine.get(key, _ABSENT), now.machine.get(key, _ABSENT)
        if old != new:
            why = "speeds are not comparable, and numbers may not be the same to the last bit"
            yield Change(name, clean(old, 80), clean(new, 80), "note", why)
