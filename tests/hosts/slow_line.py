"""A line between a client and a port of this machine that is late, carries little, and can be cut."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_CHUNK = 1000
_UNDER_WAY = 64


class SlowLine:
    """Each way takes `delay_s` and carries `bytes_per_s`; `port` is the near end."""

    def __init__(self, far_port: int, delay_s: float, bytes_per_s: float) -> None:
        self._far_port, self._delay_s, self._bytes_per_s = far_port, delay_s, bytes_per_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._over, self._down = threading.Event(), threading.Event()
        self._ends: list[socket.socket] = []
        self._workers: list[threading.Thread] = []
        self._begin(self._accept)

    def cut(self) -> None:
        """Drop every connection, and take none until `mend`."""
        self._down.set()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Carry again."""
        self._down.clear()

    def close(self) -> None:
        """For good."""
        self.cut()
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for worker in self._workers:
            worker.join(5.0)
        for end in self._ends:
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._over.is_set():
                near, _ = self._listener.accept()
                if self._down.is_set():
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._far_port))
                self._ends += [near, far]
                for come, go in ((near, far), (far, near)):
                    under_way: queue.Queue[tuple[float, bytes]] = queue.Queue(_UNDER_WAY)
                    self._begin(self._take, come, under_way)
                    self._begin(self._give, go, under_way)

    def _begin(self, work: Callable[..., None], *what: object) -> None:
        worker = threading.Thread(target=work, args=what, daemon=True)
        self._workers.append(worker)
        worker.start()

    def _take(self, come: socket.socket, under_way: queue.Queue[tuple[float, bytes]]) -> None:
        with suppress(OSError):
            while data := come.recv(_CHUNK):
                under_way.put((time.monotonic(), data))
        under_way.put((time.monotonic(), b""))

    def _give(self, go: socket.socket, under_way: queue.Queue[tuple[float, bytes]]) -> None:
        while True:
            came_t, data = under_way.get()
            self._over.wait(max(0.0, came_t + self._delay_s - time.monotonic()))
            if not data:
                break
            self._over.wait(len(data) / self._bytes_per_s)
            with suppress(OSError):
                go.sendall(data)
        with suppress(OSError):
            go.shutdown(socket.SHUT_WR)


@contextmanager
def slow_line(far_port: int, *, round_trip_s: float, bytes_per_s: float) -> Iterator[SlowLine]:
    """A line to `far_port` that ends with the context."""
    line = SlowLine(far_port, round_trip_s / 2, bytes_per_s)
    try:
        yield line
    finally:
        line.close()
