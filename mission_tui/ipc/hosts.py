"""Other machines by name, and the road to their supervisors: `ssh HOST mission-tui bridge`, which speaks the operator
protocol over its standard streams. SSH proves who is who, no port is opened, and no password is ever asked for.

`hosts.toml` in the user's configuration gives them names: an address as ssh knows it, or a table of `ssh`, `command`
(how mission-tui is called there) and `runs_dir`. A name that does not stand there is an address.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from mission_tui.errors import NoSupervisorError, UsageError, nearest
from mission_tui.fleet.text import clean

HERE = "here"
"""The machine on which the client is, where `--host` names several."""
ALL = "all"
SSH_VARIABLE = "MISSION_TUI_SSH"
"""The words with which ssh is called, as `GIT_SSH_COMMAND` has them."""
_OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3")
_KEYS = ("ssh", "command", "runs_dir")
_MOST_BYTES = 64 * 1024
_SAID_BYTES = 4096
_CHUNK = 1 << 16


class Host(Struct, frozen=True):
    """A machine: `name` here, `address` as ssh knows it; `command` are the words that call mission-tui there."""

    name: str
    address: str
    command: tuple[str, ...] = ("mission-tui",)
    runs_dir: str | None = None

    def remote_words(self, words: Sequence[str]) -> tuple[str, ...]:
        """How mission-tui is called there with `words`; a runs root that stands in them goes before its own."""
        named = any(word == "--runs-dir" or word.startswith("--runs-dir=") for word in words)
        root = () if self.runs_dir is None or named else ("--runs-dir", self.runs_dir)
        return (*self.command, *root, *words)


def known_hosts(file: Path) -> dict[str, Host]:
    """The machines that `file` names; none where it is missing. Raises `UsageError` for one that cannot be used."""
    import tomllib

    from mission_tui.plain_files import read_given

    try:
        table = tomllib.loads(read_given(file, _MOST_BYTES).decode())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    for key in table:
        if key != "hosts":
            raise UsageError(f"{file}: there is no key {clean(key, 40)!r}; the only one is [hosts]")
    entries = table.get("hosts", {})
    if not isinstance(entries, dict):
        raise UsageError(f"{file}: hosts has to be a table, such as [hosts] with gpu1 = 'ada@gpu1'")
    return {name: _host(file, name, entry) for name, entry in entries.items()}


def _host(file: Path, name: str, entry: object) -> Host:
    where = f"{file}: hosts.{clean(name, 40)}"
    if name in (HERE, ALL, "best") or not name or clean(name) != name or ":" in name:
        raise UsageError(f"{where}: a machine needs another name: one word without a colon, not here, all or best")
    if isinstance(entry, str):
        entry = {"ssh": entry}
    if not isinstance(entry, dict):
        raise UsageError(f"{where} has to be an address, such as 'ada@gpu1', or a table of {', '.join(_KEYS)}")
    for key, value in entry.items():
        if key not in _KEYS:
            raise UsageError(f"{where}: there is no key {clean(key, 40)!r}{nearest(key, _KEYS)}")
        if not isinstance(value, str) or not value:
            raise UsageError(f"{where}.{key} has to be text, such as {_EXAMPLES[key]!r}")
    try:
        command = tuple(shlex.split(entry.get("command", "mission-tui")))
    except ValueError as error:
        raise UsageError(f"{where}.command: {error}") from error
    return Host(name, _address(entry.get("ssh", name), where), command, entry.get("runs_dir"))


_EXAMPLES = {"ssh": "ada@gpu1", "command": "/home/ada/venv/bin/mission-tui", "runs_dir": "/data/runs"}


def _address(address: str, where: str) -> str:
    """An address that ssh cannot take for an option, and a terminal not for an order."""
    if not address or address.startswith("-") or clean(address) != address or any(part.isspace() for part in address):
        raise UsageError(f"{where}: {clean(address, 80)!r} is no address for ssh, such as ada@gpu1")
    return address


def host_called(name: str, known: Mapping[str, Host]) -> Host:
    """The machine of that name, or the one at that address. Raises `UsageError` for what can be neither."""
    return known.get(name) or Host(name, _address(name, "--host"))


def ssh_command(host: Host, words: Sequence[str], environ: Mapping[str, str], *, terminal: bool = False) -> list[str]:
    """How ssh is called to carry out mission-tui with `words` on `host`, with a terminal there or without.

    Raises `UsageError` when the words of the variable cannot be taken apart.
    """
    try:
        ssh = shlex.split(environ.get(SSH_VARIABLE, "ssh")) or ["ssh"]
    except ValueError as error:
        raise UsageError(f"{SSH_VARIABLE}: {error}") from error
    options = [part for option in _OPTIONS for part in ("-o", option)]
    return [*ssh, *options, "-t" if terminal else "-T", "-C", "--", host.address, shlex.join(host.remote_words(words))]


class Bridge:
    """A running `ssh HOST mission-tui bridge`: `link` is the supervisor's operator plane."""

    def __init__(self, link: socket.socket, child: subprocess.Popen[bytes]) -> None:
        self.link = link
        self._child, self._said = child, b""
        self._over = threading.Thread(target=self._listen, name="bridge", daemon=True)
        self._over.start()

    def _listen(self) -> None:
        assert self._child.stderr is not None
        with self._child.stderr as stream:
            while data := os.read(stream.fileno(), _SAID_BYTES):
                self._said = (self._said + data)[-_SAID_BYTES:]
        self._child.wait()

    def why(self, wait_s: float = 2.0) -> str:
        """The last line that ssh, or the bridge at its other end, had to say; empty if they were silent."""
        self._over.join(wait_s)
        lines = self._said.decode("utf-8", "replace").split("\n")
        return next((said for line in reversed(lines) if (said := clean(line, 300))), "")

    def end(self) -> None:
        """Let go of the other machine; its supervisor and runs go on."""
        self.link.close()
        self._child.terminate()


def open_bridge(host: Host, environ: Mapping[str, str], *, wake: bool, readonly: bool = False) -> Bridge:
    """Reach for the supervisor on `host`; one that was stopped on request is started only with `wake`, and with
    `readonly` none is: the files are read there.

    Whether it answers shows only at the first word. Raises `NoSupervisorError` where ssh cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        words = ["--readonly", "bridge"] if readonly else ["bridge", *([] if wake else ["--unless-stopped"])]
        argv = ssh_command(host, words, environ)
        try:
            # A session of its own, without our terminal: ssh could ask there for a password.
            child = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                env=dict(environ),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise NoSupervisorError(f"{host.name} cannot be reached: {argv[0]}: {error.strerror or error}") from error
    return Bridge(ours, child)


def carry(link: socket.socket, requests: int, replies: int) -> None:
    """Pass bytes from the descriptor `requests` to the supervisor and from it to `replies`, until one side hangs up."""
    threading.Thread(target=_carry_requests, args=(requests, link), name="requests", daemon=True).start()
    with suppress(OSError):  # the client, or the line to it, is gone
        while data := link.recv(_CHUNK):
            left = memoryview(data)
            while left:
                left = left[os.write(replies, left) :]


def _carry_requests(requests: int, link: socket.socket) -> None:
    with suppress(OSError):
        while data := os.read(requests, _CHUNK):
            link.sendall(data)
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
