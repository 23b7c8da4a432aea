"""Other machines by name, and how ssh is called to reach them: it proves who is who, and never asks for anything.

`hosts.toml` in the user's configuration gives them names: an address as ssh knows it, or a table of `ssh`, `command`
(how mission-tui is called there), `runs_dir` and `connect_s` (how long it may take to answer at first). A name that
does not stand there is an address.
"""

from __future__ import annotations

import math
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.text import clean

HERE = "here"
"""The machine on which the client is, where `--host` names several."""
ALL = "all"
SSH_VARIABLE = "MISSION_TUI_SSH"
"""The words with which ssh is called, as `GIT_SSH_COMMAND` has them."""
_OPTIONS = ("BatchMode=yes", "ServerAliveInterval=5", "ServerAliveCountMax=3")
_KEYS = ("ssh", "command", "runs_dir", "connect_s")
CONNECT_S = 30.0
"""So long a machine may take from the call of ssh to its first word."""
MOST_CONNECT_S = 600.0
_LEAST_HANDSHAKE_S = 10
_HANDSHAKE_SHARE = 3
"""Of that time ssh's handshake may take a third, and at least ten seconds."""
_MOST_BYTES = 64 * 1024


class Host(Struct, frozen=True):
    """A machine: `name` here, `address` as ssh knows it; `command` are the words that call mission-tui there. `hint`
    names the machine that may be meant, where nobody gave this one its name. `connect_s` is how long it may take to
    answer at first.
    """

    name: str
    address: str
    command: tuple[str, ...] = ("mission-tui",)
    runs_dir: str | None = None
    hint: str = ""
    connect_s: float = CONNECT_S

    def remote_line(self, words: Sequence[str]) -> str:
        """How a shell there calls mission-tui with `words`; a runs root that stands in them goes before its own."""
        named = any(word == "--runs-dir" or word.startswith("--runs-dir=") for word in words)
        root = () if self.runs_dir is None or named else ("--runs-dir", _at_home(self.runs_dir))
        return " ".join([*map(_at_home, self.command), *root, *map(shlex.quote, words)])


def _at_home(word: str) -> str:
    """`word` quoted for a shell there; a leading `~/` still means its home."""
    return f"~/{shlex.quote(word[2:])}" if word.startswith("~/") and len(word) > 2 else shlex.quote(word)


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
        if key == "connect_s":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= MOST_CONNECT_S:
                raise UsageError(f"{where}.connect_s has to be a number of seconds, from 1 to {MOST_CONNECT_S:g}")
            continue
        if not isinstance(value, str) or not value:
            raise UsageError(f"{where}.{key} has to be text, such as {_EXAMPLES[key]!r}")
    try:
        command = tuple(shlex.split(entry.get("command", "mission-tui")))
    except ValueError as error:
        raise UsageError(f"{where}.command: {error}") from error
    connect_s = float(entry.get("connect_s", CONNECT_S))
    return Host(name, _address(entry.get("ssh", name), where), command, entry.get("runs_dir"), connect_s=connect_s)


_EXAMPLES = {"ssh": "ada@gpu1", "command": "/home/ada/venv/bin/mission-tui", "runs_dir": "/data/runs"}


def _address(address: str, where: str) -> str:
    """The address, checked: ssh cannot take it for an option, nor a terminal for a control sequence."""
    if not address or address.startswith("-") or clean(address) != address or any(part.isspace() for part in address):
        raise UsageError(f"{where}: {clean(address, 80)!r} is no address for ssh, such as ada@gpu1")
    return address


def host_called(name: str, known: Mapping[str, Host]) -> Host:
    """The machine of that name, or the one at that address. Raises `UsageError` for what can be neither."""
    if name in known:
        return known[name]
    if ":" in name:
        raise UsageError(
            f"--host: {clean(name, 80)!r} is no machine: its name has no colon (a run of it is named after the verb; "
            "an address with a port goes into ~/.ssh/config)"
        )
    return Host(name, _address(name, "--host"), hint=nearest(name, known))


def ssh_command(host: Host, words: Sequence[str], environ: Mapping[str, str], *, terminal: bool = False) -> list[str]:
    """How ssh is called to carry out mission-tui with `words` on `host`, with a terminal there or without.

    Raises `UsageError` when the words of the variable cannot be taken apart.
    """
    handshake_s = max(_LEAST_HANDSHAKE_S, math.ceil(host.connect_s / _HANDSHAKE_SHARE))
    options = ["-o", f"ConnectTimeout={handshake_s}", "-t" if terminal else "-T", "-C"]
    return [*_ssh(environ), *options, "--", host.address, host.remote_line(words)]


def _ssh(environ: Mapping[str, str]) -> list[str]:
    try:
        ssh = shlex.split(environ.get(SSH_VARIABLE, "ssh")) or ["ssh"]
    except ValueError as error:
        raise UsageError(f"{SSH_VARIABLE}: {error}") from error
    return [*ssh, *(part for option in _OPTIONS for part in ("-o", option))]


_CHECK_S, _TRUE_S = 3.0, 10.0


def shared_line_hangs(host: Host, environ: Mapping[str, str]) -> str:
    """Where ssh goes through a connection that another ssh keeps (ControlMaster), and nothing comes through that: the
    sentence with what helps; else empty. None of ssh's own limits counts there, and it may hang for hours once the
    network was away. Blocks, 13 seconds at most.
    """
    ssh = [*_ssh(environ), "-o", f"ConnectTimeout={_LEAST_HANDSHAKE_S}"]
    shared = _ends(["-O", "check", "--", host.address], ssh, _CHECK_S)
    # One that lives may have nothing behind it any more.
    if shared is not None and (shared != 0 or _ends(["-T", "--", host.address, "true"], ssh, _TRUE_S) is not None):
        return ""
    return f"the connection that ssh shares (ControlMaster) hangs: `ssh -O exit {host.address}` ends it, then ask again"


def _ends(words: Sequence[str], ssh: Sequence[str], within_s: float) -> int | None:
    """The exit code; None where it does not end in time."""
    quiet = subprocess.DEVNULL
    try:
        return subprocess.run(
            [*ssh, *words],
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            timeout=within_s,
            check=False,
            start_new_session=True,
        ).returncode
    except subprocess.TimeoutExpired:
        return None
    except OSError:
        return 1


_NO_ADDRESS = re.compile(r"Could not resolve hostname ([^:\n]+): ([^\r\n]+)")
_LACKS = re.compile(r": No module named ([\w.]+)$|^ModuleNotFoundError: No module named '([\w.]+)'", re.MULTILINE)
_OURS = "mission-tui: "
_ANOTHER = "or write where it is into hosts.toml: `command = '/home/ada/.local/bin/mission-tui'`"
_SSH_SAYS = (
    ("IDENTIFICATION HAS CHANGED", "its host key is not the one that is known here: `ssh {address}` says more"),
    ("Host key verification failed", "its host key is not known here: `ssh {address}` once, and answer the question"),
    ("Permission denied (", "it wants a password, and none is asked for here: `ssh-copy-id {address}`, or an agent"),
    (
        "stdio forwarding failed",
        "the machine on the way to it (ProxyJump) does not reach it: is it up, and is its address right?",
    ),
    ("no verb 'bridge'", "its mission-tui is too old to be shown here: `mission-tui --host {name} status` works"),
)
_NO_PYTHON = "{command} is there, and not the Python that its first line names: install mission-tui there anew, "
_MISSING = "{command} is not found there: install mission-tui there, "
_SHELL_SAYS = (
    ("required file not found", _NO_PYTHON),
    ("bad interpreter", _NO_PYTHON),
    ("ermission denied", "{command} may not be run there: make it a program that you may run, "),
    ("not found", _MISSING),
    ("Unknown command", _MISSING),
    ("No such file", _MISSING),
)
"""Of a line that names the command; bash, dash, zsh and fish have an order of words each."""
_HUNG_UP = ("kex_exchange_identification:", "ssh_exchange_identification:", "Connection closed by UNKNOWN")
"""What ssh says last where nobody has said who he is yet; what came before it says why, as of a machine on the way."""
_NOT_LET_IN = "its ssh server hung up before it said anything: it has too many connections, or lets nobody in from here"
_LINE_BROKE = ("Timeout, server", "client_loop:", "Read from remote host", "closed by remote host")


def advice(said: str, host: Host) -> str:
    """What ssh, or the program that it calls on `host`, said: one sentence with what helps where that is known, else
    the last line; empty where nothing was said.
    """
    lines = [line for raw in said.split("\n") if (line := clean(raw, 300))]
    last = next((line for line in reversed(lines) if not line.startswith(_HUNG_UP)), "")
    return known_advice(said, host) or last.removeprefix(_OURS)


def known_advice(said: str, host: Host) -> str:
    """The sentence with what helps; empty where none is known. What mission-tui itself said there is left to it."""
    lines = [clean(raw, 300) for raw in said.split("\n")]
    if any(line.startswith(_OURS) and "no verb 'bridge'" not in line for line in lines):
        return ""
    if unknown := _NO_ADDRESS.search(said):
        asked, why = (clean(part, 80) for part in unknown.groups())
        helps = host.hint or ": is it spelled so, and is there a network?"
        return f"ssh finds no address of {asked!r} ({why}){helps}"
    for words, sentence in _SSH_SAYS:
        if words in said:
            return sentence.format(address=host.address, name=host.name)
    command = host.command[0]
    if (lacks := _LACKS.search(said)) and ("__main__.py" in said or lacks[1] == "mission_tui"):
        return f"the Python of {command} there lacks {lacks[1] or lacks[2]}: install mission-tui there, {_ANOTHER}"
    about = [line for line in lines if command.removeprefix("~") in line]
    for words, sentence in _SHELL_SAYS:
        if any(words in line for line in about):
            return sentence.format(command=command) + _ANOTHER
    spoken = [line for line in lines if line]
    return _NOT_LET_IN if spoken and all(line.startswith(_HUNG_UP) for line in spoken) else ""


def is_refusal(said: str, host: Host) -> bool:
    """Whether it was mission-tui there that said why not: the machine answers, and it is no use to look at the line."""
    lines = [line for raw in said.split("\n") if (line := clean(raw, 300)) and not line.startswith(_HUNG_UP)]
    return bool(lines) and lines[-1].startswith(_OURS) and not known_advice(said, host)


def handshake_was_slow(said: str) -> bool:
    """Whether ssh says that the machine took the connection, and was too slow from then on."""
    return "timed out during banner exchange" in said or ("timed out" in said and "Connection to " in said)


def line_broke(said: str) -> bool:
    """Whether ssh says that an established connection broke."""
    lines = (line for line in said.split("\n") if not line.startswith(_HUNG_UP))
    return any(words in line for line in lines for words in _LINE_BROKE)
