"""`mission-tui serve` as a process, and its screens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psutil

from tests.shell import Shell


class Served(NamedTuple):
    """A server at work: its JSON document, the whole `url`, the address without the token, and the token."""

    process: subprocess.Popen[str]
    document: dict[str, Any]
    url: str
    base: str
    token: str

    def screens(self) -> list[psutil.Process]:
        """The processes of its screens, and those that these started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def size(self) -> os.terminal_size:
        """Of the terminal that its first screen controls."""
        terminal = os.open(str(self.screens()[0].terminal()), os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.get_terminal_size(terminal)
        finally:
            os.close(terminal)

    def interrupt(self) -> str:
        """Ctrl-C: what it had written to stderr, once it has ended in order."""
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, err
        return err


@contextmanager
def serving(shell: Shell, *words: str) -> Iterator[Served]:
    """`mission-tui serve WORDS` on a free port for the block."""
    process = shell.start("serve", "--port", "0", "--json", *words)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        document = json.loads(line)
        base, token = document["url"].rstrip("/").rsplit("/", 1)
        yield Served(process, document, document["url"], base, token)
    finally:
        process.kill()
        process.communicate()
