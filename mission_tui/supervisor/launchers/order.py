"""What an attempt is started with: whose Python, folder and variables it has (the launching client's, and over them
what its spec says), and the order written from that, whichever launcher carries it out. And how a module of the
trainer's room is started in that Python, and whether a spec can be trained there at all.

Paths are settled once, against the client's folder, so that a later attempt finds what the first one found. The
client's own Python is given this very package, whatever its path or its folder have under that name. One that
`run.python` names need not have mission-tui: it is lent what it lacks, each package from a folder that holds nothing
else, so that nothing of its own is hidden. Preflight asks a short process before anything is made; environments that
ship with Gymnasium or this program skip it.

`MISSION_TUI_TRAINER` (a module name, or the path of a script) names the program started as trainer, for trainers that
speak the messages of `ipc/telemetry_messages.py`; without it that is `mission_tui.trainer`. `MISSION_TUI_ROAD=mailbox`
has trainers of this machine, too, speak by files, as where the socket cannot be reached.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field, structs
from msgspec.structs import replace

import mission_tui
from mission_tui.errors import PresetError
from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.fleet.specs.algorithm import algorithm_name
from mission_tui.fleet.specs.consistency import THREAD_VARIABLES
from mission_tui.fleet.specs.secrecy import is_harmless
from mission_tui.fleet.specs.spec import (
    CLASSIC_CONTROL,
    LAUNCHERS,
    MISSION_GYM,
    SHIPPED_MISSIONS,
    RunSpec,
    Spec,
    command_key,
    command_words,
)
from mission_tui.fleet.text import clean
from mission_tui.ipc.requests import FromClient
from mission_tui.paths import lent_dir, socket_dir
from mission_tui.plain_files import make_folder
from mission_tui.records.given_files import read_env_file
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.run_module import module_words
from mission_tui.supervisor.host.children import DeathError, Task, run_task
from mission_tui.supervisor.host.identity import Process

VISIBLE = "CUDA_VISIBLE_DEVICES"
OURS = frozenset(
    f"MISSION_TUI_{name}"
    for name in ("RUN", "RUN_DIR", "ATTEMPT", "NONCE", "TELEMETRY", "MAILBOX", "REPORT", "SEED", "SPECS", "LENT")
)
"""What marks the processes of a run, and what only they are told."""
_PYTHON = re.compile(r"(python|pypy)[0-9.]*")
_FIRST_LINE_BYTES = 512


class Caller(Struct, frozen=True):
    """Whose interpreter, folder, environment and limits an attempt runs with: the client's, never the supervisor's.

    `secrets` names variables whose values must not be written down, beside those that are not known to be harmless;
    `from_file` are those of them that `run.env_file` gave. `without_file`: who asks gave what that file would have.
    `env_files` are the env files that were read for it, by path. Each is read once, so that what was checked is what is
    launched, although the file may change in between.
    """

    python: str
    cwd: str
    environ: Mapping[str, str]
    secrets: frozenset[str] = frozenset()
    from_file: frozenset[str] = frozenset()
    without_file: bool = False
    limits: ProcessLimits | None = None
    env_files: dict[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, order: LaunchOrder) -> Caller:
        """Who launched the attempt of `order`, with those of its variables that the order says."""
        environ = {name: value for name, value in order.env.items() if name not in OURS}
        if order.gpu:
            # It was chosen for that attempt alone; another one may find another GPU calmer, or this one gone.
            environ.pop(VISIBLE, None)
            environ |= {} if order.visible is None else {VISIBLE: order.visible}
        return cls(
            python=order.python or order.argv[0],
            cwd=order.cwd,
            environ=environ,
            secrets=frozenset(order.withheld),
            from_file=frozenset(order.from_file),
            limits=order.limits,
        )


def caller_from(request: FromClient) -> Caller:
    """The caller of a request, by the interpreter, folder, variables and limits that it carries."""
    return Caller(request.python, request.cwd, request.environ, limits=request.limits)


def drop_run_markers(environ: MutableMapping[str, str]) -> None:
    """Drop a run's marker that this process was started with: who is started from here belongs to other runs."""
    for name in OURS:
        environ.pop(name, None)


def recover_secrets(order: LaunchOrder, trainer: Process) -> dict[str, str]:
    """The withheld variables that the living `trainer` was started with: after a supervisor, only it knows them."""
    try:
        began = Path(f"/proc/{trainer.pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in began.split(b"\0"))
    found = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    # What was read is its own only if its number has not been given away meanwhile.
    return {name: found[name] for name in order.withheld if name in found} if trainer.alive() else {}


def absolute_paths(spec: Spec, cwd: str) -> Spec:
    """The spec with the paths that it names made absolute, as seen from the launching client's folder."""
    run = spec.run
    folder = None if run.cwd is None else _absolute(run.cwd, cwd)
    python = run.python if run.python is None or os.sep not in run.python else _absolute(run.python, cwd)
    return structs.replace(
        spec,
        run=structs.replace(
            run,
            cwd=folder,
            python=python,
            follow=None if run.follow is None else _absolute(run.follow, folder or cwd),
            env_file=None if run.env_file is None else _absolute(run.env_file, cwd),
            pythonpath=tuple(_absolute(entry, folder or cwd) for entry in run.pythonpath),
        ),
    )


def env_file_of(spec: Spec, caller: Caller) -> Mapping[str, str]:
    """What `run.env_file` said when it was first read for `caller`. Raises `PresetError`."""
    path = spec.run.env_file
    if path is None:
        return {}
    if path not in caller.env_files:
        caller.env_files[path] = read_env_file(Path(path))
    return caller.env_files[path]


def with_spec_env(spec: Spec, caller: Caller) -> Caller:
    """The caller as the spec wants it: its interpreter, folder and variables. Raises `PresetError` for what is missing.

    What comes from `run.env_file` is named as secret.
    """
    run = spec.run
    reads = run.env_file is not None and not caller.without_file
    secrets = env_file_of(spec, caller) if reads else {}
    environ = {**caller.environ, **run.env, **secrets}
    if run.pythonpath:
        known = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys((*run.pythonpath, *known)))
    if run.cwd is not None and not Path(run.cwd).is_dir():
        raise PresetError(f"run.cwd = '{run.cwd}' is not a folder; nothing was started")
    home = replace(
        caller,
        cwd=run.cwd or caller.cwd,
        environ=environ,
        secrets=caller.secrets | secrets.keys(),
        from_file=frozenset(secrets) if reads else caller.from_file,
    )
    environ["PWD"] = home.cwd
    if run.python is None:
        return home
    python = _found(run.python, home)
    if python is None:
        raise PresetError(f"run.python = '{run.python}' is not a program that can be started; nothing was started")
    _enter_venv(environ, Path(python))
    if run.command is not None:
        # So that `python` in the command, and in what it starts, is the one that was asked for.
        environ["PATH"] = os.pathsep.join(dict.fromkeys((str(Path(python).parent), *_search(home).split(os.pathsep))))
    return replace(home, python=python)


def program(run: RunSpec, home: Caller, attempt: int) -> tuple[str, ...]:
    """The words that attempt number `attempt` starts, the program as a path. Raises `PresetError` if there is none."""
    key = command_key(run, attempt)
    words = command_words(run, attempt)
    path = _found(words[0], home)
    if path is not None:
        return (path, *words[1:])
    there = Path(home.cwd, words[0])
    if os.sep not in words[0] and not there.is_file():
        raise PresetError(f"run.{key}: there is no program '{words[0]}' on the PATH of the launching shell")
    if not there.exists():
        raise PresetError(f"run.{key}: {there} does not exist; a relative path is seen from {home.cwd}")
    near = f"name it as ./{words[0]}" if os.access(there, os.X_OK) else "make it executable"
    near = "put python before it" if there.suffix == ".py" else near
    raise PresetError(f"run.{key}: {there} is not a program that can be started; {near}")


def with_script_python(spec: Spec, home: Caller, attempt: int) -> Caller:
    """The caller with the Python that attempt number `attempt` of a command runs in, so far as its program tells: it is
    a Python, or a script whose first line names one. Else, and where it is no command, the caller as it is.
    """
    if spec.run.command is None:
        return home
    with suppress(PresetError):
        python = _interpreter_of(program(spec.run, home, attempt)[0], home)
        return home if python is None else replace(home, python=python)
    return home


def _interpreter_of(path: str, home: Caller) -> str | None:
    if _PYTHON.fullmatch(Path(path).name):
        return path
    try:
        with Path(path).open("rb") as file:
            head = file.readline(_FIRST_LINE_BYTES)
    except OSError:
        return None
    words = os.fsdecode(head[2:]).split() if head.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return _found(words[0], home) if words and _PYTHON.fullmatch(Path(words[0]).name) else None


def check_program(spec: Spec, home: Caller) -> None:
    """Raise `PresetError` unless both words of a command, to begin and to go on, name a program."""
    if spec.run.command is not None:
        for attempt in (1, 2):
            program(spec.run, home, attempt)


def _found(word: str, home: Caller) -> str | None:
    if os.sep in word:
        word = str(Path(home.cwd) / Path(word).expanduser())
    return shutil.which(word, path=_search(home))


def _enter_venv(environ: MutableMapping[str, str], python: Path) -> None:
    """Have the variables say of which virtual environment `python` is, and no longer of which the caller's is."""
    environ.pop("PYTHONHOME", None)
    environ.pop("VIRTUAL_ENV", None)
    if (python.parent.parent / "pyvenv.cfg").is_file():
        environ["VIRTUAL_ENV"] = str(python.parent.parent)


def _search(home: Caller) -> str:
    return home.environ.get("PATH") or os.defpath


def _absolute(path: str, cwd: str) -> str:
    # Not resolved: a link that points elsewhere tomorrow is meant as a link, and a venv's python is one.
    return os.path.normpath(Path(cwd) / Path(path).expanduser())


LENT = "MISSION_TUI_LENT"
LENDABLE = ("mission_tui", "msgspec", "tomli_w", "safetensors", "psutil")
_STARTER = Path(mission_tui.__file__).parent / "trainer" / "foreign_python.py"


def as_module(spec: Spec, home: Caller, module: str) -> tuple[tuple[str, ...], Caller]:
    """The words that start `module` in the Python of `home`, a run's of `spec`, and `home` with what that takes.

    Raises `PresetError` where nothing can be lent.
    """
    if spec.run.python is None:
        return module_words(module, home.python), home
    said = json.dumps({"version": mission_tui.__version__, **lend(os.environ)})
    return (home.python, str(_STARTER), module), replace(home, environ={**home.environ, LENT: said})


def lend(environ: Mapping[str, str]) -> dict[str, str]:
    """Folders by package, made if they are not there: each holds a link to that package and nothing else.

    Raises `PresetError` where they cannot be made.
    """
    found = dict(_packages())
    root = lent_dir(environ, repr(sorted(found.items())))
    try:
        for name, package in found.items():
            _link(root / name / name, package)
    except OSError as error:
        raise PresetError(
            f"run.python needs a folder in which packages are lent to it: {root}: {error.strerror}"
        ) from error
    return {name: str(root / name) for name in found}


def _packages() -> Iterator[tuple[str, Path]]:
    for name in LENDABLE:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            yield name, Path(spec.origin).parent


def _link(link: Path, package: Path) -> None:
    if link.is_symlink() and link.readlink() == package:
        return
    make_folder(link.parent)
    # Another supervisor may make the same at this moment.
    fresh = link.with_name(f".{uuid.uuid4().hex}")
    fresh.symlink_to(package)
    fresh.replace(link)


PREFLIGHT_S = 120.0
_SENTENCE_CHARACTERS = 800


class Spaces(Struct, frozen=True):
    """Observation and action space in the short form that preflight prints.

    `state`: why its state cannot be restored although it says so, in words that follow its name; empty where it can.
    """

    obs: str
    act: str
    state: str = ""

    def continued(self, spec: Spec) -> str:
        """What to say of it at a launch and before a resume; empty where there is nothing."""
        if not self.state:
            return ""
        return f"a resume will be continued, not exact: of env.id '{spec.env.id}' {self.state}"


def needs_no_preflight(spec: Spec) -> bool:
    """Whether nothing about the spec's environment and policy needs to be tried."""
    env, ppo = spec.env, spec.ppo
    if spec.run.command is not None:
        return True
    if spec.run.python is not None or spec.run.pythonpath:
        return False
    if env.kwargs or env.wrappers or env.imports or ppo.policy_kwargs or ppo.use_sde or ppo.policy != "MlpPolicy":
        return False
    if env.frame_stack is not None or spec.run.callbacks or algorithm_name(spec) != "ppo":
        return False
    if env.id == MISSION_GYM:
        return env.config in SHIPPED_MISSIONS
    return env.id in CLASSIC_CONTROL and env.config is None and env.vec != "native"


async def preflight(spec: Spec, caller: Caller) -> Spaces:
    """The spaces of the spec's environment. Raises `TaskError` (exit code 78 for a bad preset) with what is wrong,
    `PresetError` for what ends the process that tries it.
    """
    words, home = as_module(spec, caller, "mission_tui.trainer.checking.preflight")
    # A process that crashes says where.
    environ = {**home.environ, "PYTHONFAULTHANDLER": "1"}
    task = Task(argv=words, cwd=home.cwd, environ=environ, stdin=msgspec.json.encode(spec), limits=home.limits)
    doing = "starting it"
    try:
        async for said in run_task(task, PREFLIGHT_S):
            doing = str(said.get("doing", doing))
            if said.get("ok"):
                state = clean(str(said.get("state") or ""), _SENTENCE_CHARACTERS)
                return Spaces(str(said.get("obs")), str(said.get("act")), state)
    except DeathError as error:
        raise PresetError(clean(f"{doing}: {error}", _SENTENCE_CHARACTERS)) from error
    raise PresetError(f"preflight of env.id '{spec.env.id}' gave no answer")


OUTPUT_CAP_BYTES = 64 << 20
SEALED = "--sealed="
"""How the word of a keeper begins that says the SHA-256 of its order's document (`keeper/child.py`)."""


def attempt_order(
    root: Path, run: RunDir, attempt: int, spec: Spec, caller: Caller, checkpoint: str | None
) -> LaunchOrder:
    """The complete order of an attempt, with a fresh nonce. Raises `PresetError` for what is named and is not there."""
    caller = with_spec_env(spec, caller)
    words: tuple[str, ...] = ()
    if spec.run.command is None:
        words, caller = _trainer(spec, caller)
    nonce = os.urandom(16).hex()
    env = dict(caller.environ) | {
        "MISSION_TUI_RUN": run.id,
        "MISSION_TUI_RUN_DIR": ".",
        "MISSION_TUI_ATTEMPT": str(attempt),
        "MISSION_TUI_NONCE": nonce,
        "MISSION_TUI_TELEMETRY": str(socket_dir(root) / "telemetry.sock"),
    }
    if spec.run.launcher != LAUNCHERS[0] or os.environ.get("MISSION_TUI_ROAD") == "mailbox":
        env["MISSION_TUI_MAILBOX"] = "1"
    env |= trainer_environ(spec)
    if spec.run.command is None:
        argv = (*words, ".", str(attempt))
        argv = argv if checkpoint is None else (*argv, "--checkpoint", checkpoint)
    else:
        argv = program(spec.run, caller, attempt)
        env["MISSION_TUI_REPORT"] = str(run.attempt(attempt).reported.relative_to(run.path))
        env |= {} if spec.run.seed is None else {"MISSION_TUI_SEED": str(spec.run.seed)}
    return LaunchOrder(
        run=run.id,
        attempt=attempt,
        argv=argv,
        cwd=caller.cwd,
        env=env,
        nonce=nonce,
        grace_s=spec.run.grace_s,
        output_cap_bytes=OUTPUT_CAP_BYTES,
        python=caller.python,
        limits=caller.limits,
        withheld=withheld_names(env, caller, spec),
        from_file=tuple(sorted(caller.from_file)),
        run_dir_at=len(words) if spec.run.command is None else None,
        preload=spec.run.preload,
    )


def keeper_words(run: RunDir, order: LaunchOrder, digest: str) -> list[str]:
    """The words of the keeper of the written order, whose document has this SHA-256."""
    return [str(run.path), str(order.attempt), f"{SEALED}{digest}"]


def trainer_environ(spec: Spec) -> dict[str, str]:
    """What every attempt of `spec` is given beside its caller's variables: where it crashes is said, and its threads.

    A command keeps the threads that it would have in the shell, unless the spec says how many.
    """
    said = {"PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
    if spec.run.command is not None and spec.run.threads is None:
        return said
    return said | thread_variables(spec.run.threads or 1)


def _trainer(spec: Spec, caller: Caller) -> tuple[tuple[str, ...], Caller]:
    trainer = os.environ.get("MISSION_TUI_TRAINER", "mission_tui.trainer")
    return ((caller.python, trainer), caller) if os.sep in trainer else as_module(spec, caller, trainer)


def thread_variables(count: int) -> dict[str, str]:
    """What tells libraries to use `count` threads, and to sleep while they wait."""
    return dict.fromkeys(THREAD_VARIABLES, str(count)) | {"OMP_WAIT_POLICY": "PASSIVE"}


def withheld_names(env: Mapping[str, str], caller: Caller, spec: Spec) -> tuple[str, ...]:
    """Those of an order's variables whose values are never written down."""
    return tuple(name for name, value in env.items() if _is_withheld(name, value, caller, spec))


def _is_withheld(name: str, value: str, caller: Caller, spec: Spec) -> bool:
    on_record = name in OURS or spec.run.env.get(name) == value
    return not on_record and (name in caller.secrets or not is_harmless(name, value))
