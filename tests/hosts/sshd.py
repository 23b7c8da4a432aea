"""A private sshd on a port of the loopback, with keys of its own, and the ssh that reaches it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.waiting import until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile {folder}/pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
"""
_CLIENT = """\
Host *
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/user
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


def lacking() -> str:
    """Why there can be no sshd here; empty where there can."""
    if SSHD is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return "openssh-server and openssh-client are not installed"
    return ""


@dataclass
class Sshd:
    """One that answers; `ssh` are the words with which it is reached."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def ssh(self) -> str:
        return f"ssh -F {self.folder}/config"

    def cut(self) -> None:
        """Take away every connection at once, as a line does that drops."""
        for process in psutil.Process(self.process.pid).children():
            process.kill()

    def halt(self) -> None:
        """Answer nobody who comes anew, until `resume`."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on answering."""
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def running_sshd(folder: Path, *, before: Sequence[str] = (), mode: int = 0o700) -> Iterator[Sshd]:
    """Serves until the context ends, and leaves nothing. `before` are words that start it, `mode` is the folder's."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(mode)
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True, stdin=subprocess.DEVNULL
        )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(_CONFIG.format(port=port, folder=folder))
    (folder / "config").write_text(_CLIENT.format(port=port, folder=folder))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where it keeps its unprivileged half
    assert SSHD is not None
    log = (folder / "log").open("wb")
    words = [*before, SSHD, "-D", "-e", "-f", str(folder / "sshd_config")]
    process = subprocess.Popen(words, stderr=log, stdin=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port), timeout_s=20.0)
        yield Sshd(folder, port, process)
    finally:
        for session in psutil.Process(process.pid).children(recursive=True):
            session.kill()
        process.kill()
        process.wait()
        log.close()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
