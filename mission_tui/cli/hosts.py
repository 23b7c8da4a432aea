"""`--host NAME`: the same words on other machines. Each verb is carried out there by its own mission-tui, over ssh;
`status` alone may name several, and the screen, which follows them all.
"""

from __future__ import annotations

import asyncio
import math
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from mission_tui.cli.terminal_output import pass_on, print_error, write
from mission_tui.errors import EX_UNAVAILABLE, NoSupervisorError, UsageError, nearest
from mission_tui.fleet.commands import WORDS
from mission_tui.fleet.text import clean, clean_lines
from mission_tui.ipc.hosts import (
    ALL,
    CONNECT_S,
    HERE,
    Host,
    advice,
    host_called,
    known_advice,
    known_hosts,
    line_broke,
    shared_line_hangs,
    ssh_command,
)
from mission_tui.paths import hosts_file
from mission_tui.present.machines import Offer, best

if TYPE_CHECKING:
    from mission_tui.cli.session import Session
    from mission_tui.fleet.comparison_sides import Side

BEST = "best"
_SSH_FAILED, _NOT_FOUND, _NO_PROGRAM = 255, 127, 126
_SAID_CHARACTERS = 4096
_ANSWER_S = 15.0
"""Beyond the time that a machine may take to answer at first. Of a line that hangs ssh itself lets go as soon."""
_LONG_S = 15.0
_ANSWER_BYTES = 64 << 20
_READ_BYTES = 1 << 16
_MOST_AT_ONCE = 16


def taken_out(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """What every `--host` among `words` names, and the words without them; what follows `--` is a run's own.

    Raises `UsageError` for one without a name.
    """
    names, left = list[str](), list[str]()
    rest = iter(words)
    for word in rest:
        if word == "--":
            return names, [*left, word, *rest]
        if word == "--host":
            name = next(rest, "")
            if not name or name.startswith("-"):
                raise UsageError("--host has to name a machine, such as --host gpu1 or --host ada@gpu2")
            names.append(name)
        elif word.startswith("--host="):
            names.append(word.removeprefix("--host="))
        else:
            left.append(word)
    return names, left


def asked_hosts(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, Host | None]:
    """The machines of those names, each once; None is this one. Raises `UsageError`."""
    file = hosts_file(environ)
    known = known_hosts(file)
    found: dict[str, Host | None] = {}
    for name in names:
        if name == ALL:
            if not known:
                raise UsageError(f"{file} names no machine yet; write [hosts] and gpu1 = 'ada@gpu1' there")
            found |= {HERE: None, **known}
        elif name == HERE:
            found[HERE] = None
        else:
            found[name] = host_called(name, known)
    return found


def on_hosts(names: Sequence[str], words: Sequence[str], verb: str | None) -> int:
    """Carry out `words`, whose verb is `verb` (None: the screen), on those machines; the exit code. Raises
    `MissionError`.
    """
    if BEST in names:
        if verb != "launch" or len(names) > 1:
            raise UsageError("--host best chooses where a run would begin first: it goes with launch, alone")
        chosen = _best(words)
        print_error(f"on {chosen.name}: {chosen.why}")
        names = [chosen.name]
    hosts = asked_hosts(names, os.environ)
    if verb is None:
        return _screen(hosts, words)
    if len(hosts) == 1:
        ((name, host),) = hosts.items()
        return _carry_out(name, host, words, verb)
    one = f"name one of {', '.join(hosts)} with --host"
    if verb != "status":
        raise UsageError(f"{verb} works on one machine at a time: {one}")
    if "--watch" in words:
        screen = " ".join(["mission-tui", *(f"--host {name}" for name in names)])
        raise UsageError(f"--watch follows one machine: {one}, or open a screen of all of them with '{screen}'")
    return _status(hosts, words)


def _screen(hosts: Mapping[str, Host | None], words: Sequence[str]) -> int:
    from mission_tui.cli.screen import open_screen
    from mission_tui.cli.session import Session

    if unknown := [word for word in words if word != "--readonly"]:
        hint = nearest(unknown[0], ["--readonly"])
        raise UsageError(f"{unknown[0]!r} does not go with a screen of other machines{hint}")
    return open_screen(Session.begin(None, readonly="--readonly" in words), hosts=hosts)


def _carry_out(name: str, host: Host | None, words: Sequence[str], verb: str) -> int:
    """In this terminal, with its keys."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    argv = _argv(host, words, terminal=terminal)
    if host is None:
        return subprocess.run(argv, check=False).returncode
    own = words[: words.index("--")] if "--" in words else words
    code, said = _run_passing_errors_on(argv, name, host, document="--json" in own and not terminal)
    helps = known_advice(said, host)
    if code == _SSH_FAILED and line_broke(said):
        undecided = "" if _only_looks(verb) else "what was asked may be done there all the same, and "
        raise NoSupervisorError(
            f"the line to {name} broke: {undecided}its runs go on; "
            f"`mission-tui --host {name} status` shows them once it answers"
        )
    if code == _SSH_FAILED:
        raise NoSupervisorError(f"{name} was not reached: {helps or f'what ssh says stands above{host.hint}'}")
    if code in (_NOT_FOUND, _NO_PROGRAM) or (code and helps):
        helps = helps or f"{host.command[0]} cannot be run there: what its shell says stands above"
        raise NoSupervisorError(f"{name}: {helps}{host.hint}")
    if code and "No such file" in said and (here := next(filter(os.path.isfile, words), None)):
        print_error(f"{clean(here, 80)} was looked for on {name}: a file of this machine is not there")
    return code


def _only_looks(verb: str) -> bool:
    return verb in WORDS and WORDS[verb].offline


def _run_passing_errors_on(argv: Sequence[str], name: str, host: Host, *, document: bool = False) -> tuple[int, str]:
    """The exit code, and the end of what was said on standard error, which is passed on as it comes. Of a `document`
    nothing is passed on that a shell prints before it. Raises `NoSupervisorError` where ssh hangs.
    """
    said = ""

    def listen(stream: IO[bytes]) -> None:
        nonlocal said
        with stream:
            while raw := stream.readline(_READ_BYTES):
                text = raw.decode("utf-8", "replace")
                said = (said + text)[-_SAID_CHARACTERS:]
                write(text.rstrip("\r\n"), stream=sys.stderr)

    # Not as a context, which would wait for the listener: a master of ssh that stays behind may hold the stream open.
    child = subprocess.Popen(argv, stdout=subprocess.PIPE if document else None, stderr=subprocess.PIPE)
    assert child.stderr is not None
    listener = threading.Thread(target=listen, args=(child.stderr,), name="ssh says", daemon=True)
    listener.start()
    listens = threading.Event()
    printer = threading.Thread(target=_pass_document_on, args=(child, listens), name="ssh prints", daemon=True)
    if document:
        printer.start()
    try:
        code = _code_of(child, name, host)
    except BaseException:
        child.kill()
        child.wait()
        listener.join(1.0)
        raise
    listener.join(1.0)
    silent_s = 0.0
    while printer.is_alive() and silent_s < _LONG_S:
        # Whoever reads ours may take as long as he likes: only what does not come is not waited for.
        printer.join(_LONG_S / 10)
        silent_s = silent_s + _LONG_S / 10 if listens.is_set() else 0.0
    return code, said


def _pass_document_on(child: subprocess.Popen[bytes], listens: threading.Event) -> None:
    """Print what it prints from the first line on that begins a document; all of it where none does. `listens` is set
    while there is nothing to print.
    """
    before, begun = b"", False
    assert child.stdout is not None
    try:
        with child.stdout as stream:
            listens.set()
            while raw := stream.readline(_READ_BYTES):
                listens.clear()
                begun = begun or raw.startswith((b"{", b"["))
                if begun:
                    pass_on(raw)
                else:
                    before = (before + raw)[-_SAID_CHARACTERS:]
                listens.set()
            listens.clear()
        if not begun:
            pass_on(before)
    except BrokenPipeError:
        child.terminate()


def _code_of(child: subprocess.Popen[bytes], name: str, host: Host) -> int:
    """Its exit code, however long it takes. What takes long is looked after once: it may have nothing to wait for."""
    with suppress(subprocess.TimeoutExpired):
        return child.wait(_LONG_S)
    if (helps := shared_line_hangs(host, os.environ)) and child.poll() is None:
        raise NoSupervisorError(f"{name} does not answer: {helps}; what was asked may be done yet")
    return child.wait()


def _argv(host: Host | None, words: Sequence[str], *, terminal: bool = False) -> list[str]:
    if host is None:
        return [sys.executable, "-P", "-m", "mission_tui", *words]
    return ssh_command(host, words, os.environ, terminal=terminal)


class _Answer(NamedTuple):
    code: int
    out: bytes
    error: str


def _answers(hosts: Mapping[str, Host | None], words: Sequence[str]) -> dict[str, _Answer]:
    """What each machine answers to the same words, all at once."""
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        return dict(zip(hosts, pool.map(lambda host: _answer(host, words), hosts.values()), strict=True))


def _answer(host: Host | None, words: Sequence[str]) -> _Answer:
    try:
        within_s = _ANSWER_S + (CONNECT_S if host is None else host.connect_s)
        returned, out, error_out = _output_of(_argv(host, words), within_s)
    except subprocess.TimeoutExpired:
        helps = "" if host is None else shared_line_hangs(host, os.environ)
        return _Answer(EX_UNAVAILABLE, b"", helps or f"no answer within {within_s:.0f} s (connect_s in hosts.toml)")
    except OSError as error:
        return _Answer(EX_UNAVAILABLE, b"", f"ssh cannot be started: {error.strerror or error}")
    except _TooMuchError:
        return _Answer(EX_UNAVAILABLE, b"", f"it says more than {_ANSWER_BYTES >> 20} MiB, and was not heard out")
    said = error_out.decode("utf-8", "replace")
    why = advice(said, host or Host(HERE, HERE)) or f"exit code {returned}, without a word"
    code = EX_UNAVAILABLE if returned in (_SSH_FAILED, _NOT_FOUND, _NO_PROGRAM) else returned
    return _Answer(code, out, "" if code == 0 else why)


class _TooMuchError(Exception):
    """What no answer has: another machine may say things without end."""


def _output_of(argv: Sequence[str], within_s: float) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr of a command. Raises `OSError`, `TimeoutExpired` and `_TooMuchError`."""
    deadline = time.monotonic() + within_s
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as child:
        try:
            out, error_out = _read_both(child, deadline)
            code = child.wait(max(0.0, deadline - time.monotonic()))
        except BaseException:
            child.kill()
            raise
        return code, out, error_out


def _read_both(child: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    assert child.stdout is not None
    assert child.stderr is not None
    said = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as streams:
        for descriptor in said:
            streams.register(descriptor, selectors.EVENT_READ)
        while streams.get_map():
            ready = streams.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(child.args, 0.0)
            for key, _ in ready:
                if not (data := os.read(key.fd, _READ_BYTES)):
                    streams.unregister(key.fd)
                said[key.fd] += data
            if sum(map(len, said.values())) > _ANSWER_BYTES:
                raise _TooMuchError
    out, error_out = map(bytes, said.values())
    return out, error_out


def _status(hosts: Mapping[str, Host | None], words: Sequence[str]) -> int:
    """Each machine's own answer, below its name; the exit code is that of the first that had none."""
    answers = _answers(hosts, words)
    if "--json" in words:
        from mission_tui.cli.tables.documents import write_document

        write_document({"hosts": [_facts(name, answer) for name, answer in answers.items()]})
    else:
        for name, answer in answers.items():
            write(f"{name}:")
            shown = clean_lines(answer.out.decode("utf-8", "replace").rstrip())
            for line in shown.split("\n") if shown else ():
                write(f"  {line}" if line else "")
            if answer.error:
                print_error(f"{name}: {answer.error}")
    return next((answer.code for answer in answers.values() if answer.code), 0)


def _document(out: bytes) -> bytes:
    """What was printed there, without the greeting that a login shell of that machine prints before it."""
    return out[start:] if (start := out.find(b'{"')) > 0 else out


def _facts(name: str, answer: _Answer) -> dict[str, Any]:
    """The document of that machine, or why there is none."""
    try:
        status = msgspec.json.decode(_document(answer.out)) if not answer.code else None
    except msgspec.DecodeError:
        return {"host": name, "status": None, "error": "its answer is no JSON"}
    return {"host": name, "status": status, "error": answer.error or None}


def names_machine(refs: Iterable[str]) -> bool:
    """Whether one of these runs is named with its machine: `gpu1:demo`."""
    return any(":" in ref for ref in refs)


def sides_of_machines(session: Session, refs: Sequence[str], metrics: tuple[str, ...]) -> dict[str, list[Side]]:
    """By metric what there is to compare of runs such as `gpu1:demo`; one without a machine is of this one.

    Raises `UsageError` for a machine that `hosts.toml` does not name, `MissionError` for one that does not answer.
    """
    from mission_tui.ipc.host_fleet import HostFleet, clients_of

    file = hosts_file(session.environ)
    known = known_hosts(file)
    names = dict.fromkeys(ref.partition(":")[0] if ":" in ref else HERE for ref in refs)
    for name in names:
        if name not in known and name != HERE and "@" not in name:
            raise UsageError(f"there is no machine {clean(name, 40)!r} in {file}{nearest(name, [HERE, *known])}")
    hosts = {name: None if name == HERE else host_called(name, known) for name in sorted(names, key=HERE.__ne__)}

    async def ask() -> dict[str, list[Side]]:
        fleet = HostFleet(clients_of(session.root, hosts, session.environ, readonly=session.readonly))
        try:
            return await fleet.sides(refs, metrics)
        finally:
            await fleet.close()

    return asyncio.run(ask())


class _Chosen(NamedTuple):
    name: str
    why: str


def _best(words: Sequence[str]) -> _Chosen:
    """The machine on which all runs of a launch would begin, then the one that would be through first."""
    hosts = asked_hosts([ALL], os.environ)
    before = [word for word in words if word not in ("--wait", "--json", "--yes", "-y")]
    at = before.index("--") if "--" in before else len(before)
    answers = _answers(hosts, [*before[:at], "--dry-run", "--json", *before[at:]])
    offers = {name: _offer(answer) for name, answer in answers.items()}
    known = {name: offer for name, offer in offers.items() if offer is not None}
    name = best(known)
    if name is None:
        whys = "; ".join(f"{name}: {answer.error or 'no price'}" for name, answer in answers.items())
        raise NoSupervisorError(f"no machine can take it: {whys}")
    for silent in (name for name in answers if name not in known):
        print_error(f"{silent} has no price: {answers[silent].error or 'it refuses'}")
    return _Chosen(name, known[name].sentence)


def _offer(answer: _Answer) -> Offer | None:
    """A machine's price; None where there is none."""
    if answer.code:
        return None
    try:
        facts = msgspec.json.decode(_document(answer.out), type=_Price)
    except msgspec.DecodeError:
        return None
    if facts.refused:
        return None
    # Where no supervisor runs nothing else does, and nobody says what would wait.
    waits = sum(run.cost.waits is not None for run in facts.runs)
    takes_s = max((run.cost.whole_run_s or math.inf for run in facts.runs), default=math.inf)
    return Offer(waits, takes_s, len(facts.runs))


class _Cost(msgspec.Struct, frozen=True):
    waits: str | None = None
    whole_run_s: float | None = None


class _Priced(msgspec.Struct, frozen=True):
    cost: _Cost = _Cost()


class _Price(msgspec.Struct, frozen=True):
    runs: list[_Priced]
    refused: str | None = None
