"""Names of other machines: the file that gives them, and the words with which ssh is called."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.cli import hosts as cli_hosts
from mission_tui.errors import NoSupervisorError, UsageError
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc import async_client, bridge, hosts
from mission_tui.ipc.bridge import BridgedConnection, HostUnavailableError
from mission_tui.ipc.hosts import (
    Host,
    advice,
    handshake_was_slow,
    host_called,
    known_hosts,
    line_broke,
    shared_line_hangs,
    ssh_command,
)
from mission_tui.ipc.requests import Act, GetLog, GetTrash
from mission_tui.ipc.sockets import OPERATOR_SOCKET, ConnectionLostError
from mission_tui.paths import socket_dir
from tests.ipc.serving import served, snapshot, until

THIN_SSH = """
import socket, sys, threading, time, queue, os
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
window = queue.Queue(4000)  # of 500 bytes: as much as ssh lets be under way
def send():
    while data := os.read(0, 500):
        link.sendall(data)
    os._exit(0)
def arrive():
    while True:
        data = window.get()
        time.sleep(len(data) / 100_000)
        os.write(1, data)
for work in (send, arrive):
    threading.Thread(target=work, daemon=True).start()
while data := link.recv(500):
    window.put(data)
"""


def test_a_machine_is_an_address_or_a_table(tmp_path: Path) -> None:
    """What the table leaves out is as usual; without a file there are none."""
    file = tmp_path / "hosts.toml"
    assert known_hosts(file) == {}
    file.write_text(
        '[hosts]\ngpu1 = "ada@gpu1"\ngpu3 = {connect_s = 120}\n'
        'gpu2 = {command = "/opt/my env/mission-tui -x", runs_dir = "/data"}\n'
    )
    assert known_hosts(file) == {
        "gpu1": Host("gpu1", "ada@gpu1"),
        "gpu2": Host("gpu2", "gpu2", ("/opt/my", "env/mission-tui", "-x"), "/data"),
        "gpu3": Host("gpu3", "gpu3", connect_s=120.0),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts = 3", "hosts has to be a table"),
        ("[host]", "there is no key 'host'"),
        ("[hosts]\ngpu1 = 3", "hosts.gpu1 has to be an address"),
        ("[hosts]\ngpu1 = {comand = 'x'}", "no key 'comand'; did you mean 'command'?"),
        ("[hosts]\ngpu1 = {runs_dir = 3}", "hosts.gpu1.runs_dir has to be text"),
        ("[hosts]\ngpu1 = {connect_s = '2m'}", "hosts.gpu1.connect_s has to be a number of seconds, from 1 to 600"),
        ("[hosts]\ngpu1 = '-oProxyCommand=x'", "'-oProxyCommand=x' is no address"),
        ("[hosts]\nall = 'gpu1'", "a machine needs another name"),
        ("[hosts]\n'a:b' = 'gpu1'", "a machine needs another name"),
        ("[hosts]\ngpu1 = {command = '\"'}", "hosts.gpu1.command: No closing quotation"),
        ("hosts", "cannot be read"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    """Before anything is reached for."""
    file = tmp_path / "hosts.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"hosts\.toml") as error:
        known_hosts(file)
    assert said in str(error.value)


def test_ssh_gets_words_and_the_other_machine_a_line() -> None:
    """No word of ours is an option of ssh or a piece of shell there; no password is asked for."""
    host = Host("gpu2", "ada@gpu2", ("/opt/my env/mission-tui",), "/data")
    words = ssh_command(host, ["launch", "demo", "--set", "run.env.X=$(rm -rf ~)"], {"MISSION_TUI_SSH": "ssh -F 'a b'"})
    assert words[:3] == ["ssh", "-F", "a b"]
    assert "BatchMode=yes" in words
    assert words[-3:-1] == ["--", "ada@gpu2"]
    line = ["/opt/my env/mission-tui", "--runs-dir", "/data", "launch", "demo", "--set", "run.env.X=$(rm -rf ~)"]
    assert shlex.split(words[-1]) == line
    asked = ssh_command(host, ["--runs-dir", "/mine", "status"], {})
    assert shlex.split(asked[-1]) == ["/opt/my env/mission-tui", "--runs-dir", "/mine", "status"]
    slow = structs.replace(host, connect_s=120.0)
    for each, limit in ((host, "ConnectTimeout=10"), (slow, "ConnectTimeout=40")):
        assert limit in ssh_command(each, ["status"], {})


def test_a_slow_handshake_is_told_from_a_machine_that_is_not_there() -> None:
    """Only the one is helped by more time."""
    slow = "Connection timed out during banner exchange\nConnection to 10.0.0.1 port 22 timed out\n"
    assert handshake_was_slow(slow)
    assert handshake_was_slow("Connection to 10.0.0.1 port 22 timed out")
    assert not handshake_was_slow("ssh: connect to host gpu1 port 22: Connection timed out")


def test_only_a_line_that_was_there_can_break() -> None:
    """Where nobody was let in, nothing of what was asked may have been done."""
    assert line_broke("Connection to 10.0.0.1 closed by remote host.")
    assert not line_broke("kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN")


def test_the_home_of_the_other_machine_may_be_written_as_one_types_it_there() -> None:
    """In `command` and `runs_dir`; what is typed here for a run is no business of the shell there."""
    host = Host("gpu1", "gpu1", ("~/my env/mission-tui",), "~/my runs")
    line = ssh_command(host, ["launch", "~/x"], {})[-1]
    assert line == "~/'my env/mission-tui' --runs-dir ~/'my runs' launch '~/x'"


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        ("bash: line 1: /opt/mt: Permission denied", "/opt/mt may not be run there"),
        ("ada@gpu1: Permission denied (publickey).", "it wants a password"),
        ("mission-tui: runs root /data cannot be used: Permission denied", "runs root /data cannot be used: Perm"),
        ("bash: line 1: /opt/mt: No such file or directory", "/opt/mt is not found there"),
        ("sh: 1: /opt/mt: not found", "/opt/mt is not found there"),
        ("kex_exchange_identification: Connection closed by remote host", "its ssh server hung up before it said any"),
        (
            "ssh: connect to host jump port 22: Connection refused\nkex_exchange_identification: Connection closed",
            "ssh: connect to host jump port 22: Connection refused",
        ),
        (
            "stdio forwarding failed\nConnection closed by UNKNOWN port 65535",
            "the machine on the way to it (ProxyJump)",
        ),
        ("zsh:1: no such file or directory: x\nzsh:1: command not found: /opt/mt", "/opt/mt is not found there"),
        ("bash: /opt/mt: cannot execute: required file not found", "not the Python that its first line names"),
        ("bash: /opt/mt: /old/python: bad interpreter: No such file", "not the Python that its first line names"),
        ("python3: No module named mission_tui", "the Python of /opt/mt there lacks mission_tui: install"),
        ("File \"/x/__main__.py\"\nModuleNotFoundError: No module named 'click'", "lacks click: install"),
        ("mission-tui: environment x: No module named 'my_env'", "environment x: No module named 'my_env'"),
        (
            "ssh: Could not resolve hostname gpu1: Temporary failure",
            "address of 'gpu1' (Temporary failure): is it sp",
        ),
        ("cat: notes: not found", "cat: notes: not found"),
    ],
)
def test_what_keeps_a_machine_from_answering_is_said_with_what_helps(said: str, helps: str) -> None:
    """Of ssh, of the shells there, and of Python; what mission-tui says there is passed on."""
    assert helps in advice(said, Host("gpu1", "ada@gpu1", ("/opt/mt",)))


async def test_what_a_shell_says_to_whoever_comes_is_passed_over(tmp_path: Path) -> None:
    """Before the first word of the supervisor, also on its line."""
    script = tmp_path / "ssh.py"
    script.write_text("import os\nos.write(1, b'Welcome to far!\\nquota 98% ')\n" + THIN_SSH)
    async with served(tmp_path):
        words = shlex.join([sys.executable, str(script), str(socket_dir(tmp_path) / OPERATOR_SOCKET)])
        connection = BridgedConnection(Host("far", "far"), {**os.environ, "MISSION_TUI_SSH": words})
        snapshots = connection.watch()
        assert (await anext(snapshots)).runs_root == "/runs"
        await connection.close()


def test_a_name_that_nobody_gave_is_an_address() -> None:
    """But not one that ssh would take for an option."""
    assert host_called("ada@box", {}) == Host("ada@box", "ada@box")
    with pytest.raises(UsageError, match="no address"):
        host_called("-oProxyCommand=touch /tmp/x", {})


@pytest.mark.slow
async def test_snapshots_do_not_pile_up_before_an_answer(tmp_path: Path) -> None:
    """Over a line that carries 100 KB a second, with 40 KB in each of ten snapshots a second."""
    script = tmp_path / "ssh.py"
    script.write_text(THIN_SSH)
    async with served(tmp_path) as (desk, _):
        words = shlex.join([sys.executable, str(script), str(socket_dir(tmp_path) / OPERATOR_SOCKET)])
        connection = BridgedConnection(Host("far", "far"), {**os.environ, "MISSION_TUI_SSH": words})
        seen: list[FleetSnapshot] = []

        async def follow() -> None:
            async for newer in connection.watch():
                seen.append(newer)  # noqa: PERF401 - it never ends in order

        async def work() -> None:
            for revision in range(2, 10_000):
                desk.show(snapshot(revision, runs=30, padding=200))
                await asyncio.sleep(0.1)

        tasks = [asyncio.create_task(follow()), asyncio.create_task(work())]
        took_s = []
        for shown in range(10, 60, 10):
            # So many would be under way by then, if they were pushed.
            await until(lambda shown=shown: desk.newest.revision > shown)  # type: ignore[misc]
            asked_t = time.monotonic()
            await connection.ask(lambda id_: GetLog(id=id_, run="r", limit=100))
            took_s.append(time.monotonic() - asked_t)
        assert max(took_s) < 2.0, took_s
        assert len(seen) > 1
        for task in tasks:
            task.cancel()
        await connection.close()


async def test_what_mission_tui_says_there_is_an_answer(tmp_path: Path) -> None:
    """A machine that has no room, or may write nothing, is not sought for on the line."""
    (tmp_path / "ssh").write_text("#!/bin/sh\necho 'mission-tui: runs root /x cannot be written' >&2\nexit 2\n")
    (tmp_path / "ssh").chmod(0o700)
    connection = BridgedConnection(Host("far", "far"), {**os.environ, "MISSION_TUI_SSH": str(tmp_path / "ssh")})
    with pytest.raises(HostUnavailableError) as error:
        await connection.ask(lambda id_: GetTrash(id=id_))
    assert str(error.value) == "far says: runs root /x cannot be written"
    assert (error.value.why, error.value.refused) == ("runs root /x cannot be written", True)


async def test_what_ssh_says_is_the_reason(tmp_path: Path) -> None:
    """Its last line, without what a terminal would act on; where it cannot be started, that."""
    (tmp_path / "ssh").write_text(
        "#!/bin/sh\nprintf 'a banner\\nssh: far: \\033[31mno route\\033[0m\\n' >&2\nexit 255\n"
    )
    (tmp_path / "ssh").chmod(0o700)
    for words, said in (
        (str(tmp_path / "ssh"), "far does not answer: ssh: far: no route"),
        ("/no/ssh", "/no/ssh: No such"),
    ):
        connection = BridgedConnection(Host("far", "far"), {**os.environ, "MISSION_TUI_SSH": words})
        with pytest.raises(NoSupervisorError) as error:
            await connection.ask(lambda id_: GetTrash(id=id_))
        assert said in str(error.value)
        await connection.close()


@pytest.mark.slow
async def test_a_line_on_which_nothing_comes_in_time_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow it is: a reason is never empty, and the next try has twice the time."""
    monkeypatch.setattr(async_client, "BUSY_S", 0.2)
    script = tmp_path / "ssh"
    script.write_text("#!/bin/sh\ncase $* in *bridge*) exec sleep 60;; esac\n")
    script.chmod(0o700)
    connection = BridgedConnection(Host("far", "far", connect_s=0.2), {**os.environ, "MISSION_TUI_SSH": str(script)})
    said = (
        r"far does not answer: nothing came within 0\.2 s: a slow line, or a machine with much to do; it has 0\.4 s the"
    )
    with pytest.raises(NoSupervisorError, match=said):
        await connection.ask(lambda id_: GetTrash(id=id_))
    assert connection._connect_s == 0.4
    await connection.close()


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (signal.SIGSTOP, "nothing comes from its supervisor, though ssh holds the line"),
        (signal.SIGKILL, "the line broke"),
    ],
    ids=["hangs", "breaks"],
)
async def test_a_line_that_hangs_or_breaks_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: signal.Signals, said: str
) -> None:
    """In a sentence; an order that was under way is not said to be refused: it may have arrived."""
    monkeypatch.setattr(bridge, "SILENT_S", 0.3)
    script = tmp_path / "ssh.py"
    script.write_text(THIN_SSH)
    async with served(tmp_path):
        words = shlex.join([sys.executable, str(script), str(socket_dir(tmp_path) / OPERATOR_SOCKET)])
        connection = BridgedConnection(Host("far", "far"), {**os.environ, "MISSION_TUI_SSH": words})
        snapshots = connection.watch()
        await anext(snapshots)
        assert connection._bridge is not None
        child = connection._bridge._child
        child.send_signal(what)
        order = asyncio.create_task(connection.ask(lambda id_: Act(id=id_, verb="stop", runs=("r",))))
        with pytest.raises(ConnectionLostError) as error:
            await anext(snapshots)
        assert str(error.value) == f"far does not answer: {said}"
        with pytest.raises(ConnectionLostError) as error:
            await order
        assert str(error.value).startswith(f"far does not answer: {said}; what was asked may be done yet")
        child.send_signal(signal.SIGCONT)
        await connection.close()


@pytest.mark.parametrize(
    ("check", "behind", "hangs"),
    [
        ("exit 0", "exec sleep 60", True),
        ("exec sleep 60", "exit 0", True),
        ("exit 0", "exit 0", False),
        ("exit 255", "exec sleep 60", False),
    ],
)
def test_a_connection_that_ssh_shares_and_that_hangs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str, behind: str, hangs: bool
) -> None:
    """After the network was away, no limit of ssh's own ends what goes through its ControlMaster; without one none is
    asked. A verb is given up with what ends that connection.
    """
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\ncase "$*" in *"-O check"*) {check};; esac\n{behind}\n')
    ssh.chmod(0o700)
    monkeypatch.setenv("MISSION_TUI_SSH", str(ssh))
    for name in ("_CHECK_S", "_TRUE_S"):
        monkeypatch.setattr(hosts, name, 0.2)
    monkeypatch.setattr(cli_hosts, "_LONG_S", 0.05)
    assert ("`ssh -O exit ada@gpu1`" in shared_line_hangs(Host("gpu1", "ada@gpu1"), os.environ)) == hangs
    if hangs and "sleep" in behind:
        with pytest.raises(NoSupervisorError, match=r"gpu1 does not answer: the connection .* may be done yet"):
            cli_hosts.on_hosts(["gpu1"], ["stop", "x"], "stop")


def test_a_document_is_printed_whole_however_slowly_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side has long ended when whoever reads ours takes the last of it, as a pager does."""
    printed: list[bytes] = []

    def slowly(raw: bytes) -> None:
        time.sleep(0.02)
        printed.append(raw)

    monkeypatch.setattr(cli_hosts, "_LONG_S", 0.4)
    monkeypatch.setattr(cli_hosts, "pass_on", slowly)
    says = "print('welcome'); print('{'); [print(n) for n in range(40)]; print('}')"
    argv = [sys.executable, "-S", "-c", says]
    assert cli_hosts._run_passing_errors_on(argv, "gpu1", Host("gpu1", "gpu1"), document=True)[0] == 0
    assert printed == [b"{\n", *(f"{n}\n".encode() for n in range(40)), b"}\n"]
