"""The page and the WebSocket of `mission-tui serve`, for whoever has the address with its token, on loopback alone;
and behind each WebSocket one screen: the program itself on a pty, so that it is what it is in any terminal.

Each request is looked at before anything of it is used: `Host` says loopback (a name that a foreign page had pointed
here says otherwise), `Origin` is this very page, and the path begins with the token, so that the WebSocket and the
files need no cookie, which a browser would send to every port of this machine. textual-serve (1.1.3) checks none of
these, fetches what the page's address names as `ping`, takes its font from elsewhere and shows its folder as a list:
only its script, its style and its font are used, by a page of our own.

Whoever reads slowly holds up the screen as a slow line does, and closing the pty ends it as a lost line does, even
when this process is killed. Textual's own web driver (8.2.8) writes from its event loop, where a browser that does not
read would stop the keys, and never notices that its reader has gone (docs/decisions/0059).
"""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import hmac
import logging
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from aiohttp import WSMsgType, web

HOST = "127.0.0.1"
MOST_SCREENS = 4
"""At once. Each is a process of some 80 MB."""
SLOT_S = 4.0
"""A page that is loaded again waits so long for the screen that it had before."""
MOST_BYTES = 256 << 10
"""Of one message from the browser: a paste is one."""
HEARTBEAT_S = 15.0
"""A browser that does not answer for this long and half as long again is gone."""
CLOSE_S = 2.0
_GOING_AWAY = 1001
_MALFORMED = 1007

_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?")
_OURS = ("none", "same-origin")
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".ttf": "font/ttf"}
_OWN = ("page.css", "page.js")
_BORROWED = ("css/xterm.css", "js/textual.js", "fonts/RobotoMono-VariableFont_wght.ttf")
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src data:; "
    "connect-src ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScreenServer:
    """Serves the screen that `call` starts, to each browser one of its own. Raises `ImportError` without
    textual-serve.
    """

    def __init__(self, call: ScreenCall, token: str) -> None:
        self._call, self._token = call, token
        self._slots = asyncio.Semaphore(MOST_SCREENS)
        self._playing: set[asyncio.Task[None]] = set()
        self._page = (Path(__file__).parent / "page.html").read_text("utf-8")
        self._files = {name: _File.read(path) for name, path in _page_files().items()}

    def application(self) -> web.Application:
        """What answers requests."""

        async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app, base = web.Application(middlewares=[web.middleware(guarded)]), f"/{self._token}"
        app.add_routes(
            # The last stroke of an address is easily left behind where it is copied.
            [web.get(path, self._show_page) for path in (base, f"{base}/")]
            + [web.get(f"{base}/ws", self._show_screen)]
            + [web.get(f"{base}/static/{name}", self._show_file) for name in self._files]
        )
        app.on_shutdown.append(self._close)
        return app

    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Let through what this server's own page asks for, and what a person with the address opens."""
        headers = request.headers
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if not _LOOPBACK.fullmatch(host):
            return _refusal("this is not an address of this machine: open the one that `mission-tui serve` printed")
        navigates = headers.get("Sec-Fetch-Mode") == "navigate"
        if origin not in (None, f"http://{host}") or not (navigates or headers.get("Sec-Fetch-Site", "none") in _OURS):
            return _refusal("another page asked for this: open the address that `mission-tui serve` printed")
        given = request.path.partition("/")[2].partition("/")[0]
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode()):
            return _refusal(
                "the address lacks its token: open it as `mission-tui serve` printed it, to the last letter"
            )
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _refusal(error.reason.lower(), error.status)
        except Exception as error:  # noqa: BLE001 - one request is over, and what nobody foresaw is shown
            sys.excepthook(type(error), error, error.__traceback__)
            return _refusal("an error here, which the terminal of `mission-tui serve` shows", 500)

    async def _show_page(self, request: web.Request) -> web.Response:
        base, host = f"/{self._token}", request.headers["Host"]
        page = self._page.replace("{base}", base).replace("{socket}", f"ws://{host}{base}/ws")
        headers = _HEADERS | {"Content-Security-Policy": _POLICY.format(host=host)}
        return web.Response(text=page, content_type="text/html", headers=headers)

    async def _show_file(self, request: web.Request) -> web.Response:
        return self._files[request.path.removeprefix(f"/{self._token}/static/")].response(request)

    async def _show_screen(self, request: web.Request) -> web.StreamResponse:
        if "Origin" not in request.headers:
            return _refusal("a WebSocket without an origin is of no browser")
        browser = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MOST_BYTES, timeout=CLOSE_S)
        await browser.prepare(request)
        size = _cells(request.query.get("width"), 80), _cells(request.query.get("height"), 24)
        playing = asyncio.create_task(self._play(browser, *size))
        self._playing.add(playing)
        await asyncio.wait([playing])
        self._playing.discard(playing)
        with suppress(TimeoutError):  # a browser that reads nothing
            await asyncio.wait_for(browser.close(code=_GOING_AWAY), CLOSE_S)
        if not playing.cancelled():
            playing.result()
        return browser

    async def _play(self, browser: web.WebSocketResponse, columns: int, rows: int) -> None:
        """A screen for `browser`, until either of them goes."""
        try:
            await asyncio.wait_for(self._slots.acquire(), SLOT_S)
        except TimeoutError:
            await _say(browser, f"{MOST_SCREENS} screens are open already: close one of them")
            return
        try:
            screen = ScreenProcess(self._call, columns, rows)
            ways = [asyncio.create_task(_to_browser(screen, browser)), asyncio.create_task(_to_screen(browser, screen))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                await screen.end()
        except OSError as error:
            await _say(browser, f"no screen can be started: {error.strerror}")
        finally:
            self._slots.release()

    async def _close(self, _app: web.Application) -> None:
        """End every screen, before anybody is waited for who may not read."""
        for playing in self._playing:
            playing.cancel()
        await asyncio.gather(*self._playing, return_exceptions=True)


class _File:
    """A file of the page, as it is and packed."""

    def __init__(self, content: bytes, kind: str) -> None:
        self._content, self._packed, self._kind = content, gzip.compress(content), kind

    @classmethod
    def read(cls, path: Path) -> _File:
        return cls(path.read_bytes(), _KINDS[path.suffix])

    def response(self, request: web.Request) -> web.Response:
        headers = _HEADERS | {"Content-Type": self._kind}
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=self._packed, headers=headers | {"Content-Encoding": "gzip"})
        return web.Response(body=self._content, headers=headers)


def listening(port: int) -> socket.socket:
    """A socket on loopback; port 0 takes a free one. Raises `OSError` when another program has the port."""
    return socket.create_server((HOST, port))


def serve(server: ScreenServer, bound: socket.socket) -> None:
    """Answer on `bound` until SIGINT, SIGTERM or SIGHUP; then end the screens, and nothing else."""
    asyncio.run(_serve(server, bound))


async def _serve(server: ScreenServer, bound: socket.socket) -> None:
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is not signal.SIG_IGN:  # by `nohup`, or a shell for its background jobs
            loop.add_signal_handler(signum, over.set)
    # Every line of an access log has the token, and so has what aiohttp (3.14.5) says of a request that is malformed.
    silent = logging.Logger("mission-tui serve", logging.CRITICAL + 1)
    runner = web.AppRunner(server.application(), access_log=None, logger=silent, shutdown_timeout=2 * CLOSE_S)
    await runner.setup()
    try:
        await web.SockSite(runner, bound).start()
        await over.wait()
    finally:
        await runner.cleanup()


async def _say(browser: web.WebSocketResponse, sentence: str) -> None:
    with suppress(ConnectionError):
        await browser.send_bytes(f"mission-tui: {sentence}\r\n".encode())


async def _to_browser(screen: ScreenProcess, browser: web.WebSocketResponse) -> None:
    with suppress(ConnectionError):
        while data := await screen.read():
            await browser.send_bytes(data)


async def _to_screen(browser: web.WebSocketResponse, screen: ScreenProcess) -> None:
    """Carry out what textual-serve's script says: keys, sizes, and pings. The focus is in the keys."""
    async for message in browser:
        if message.type is not WSMsgType.TEXT or not await _carry_out(message.data, browser, screen):
            await browser.close(code=_MALFORMED)
            return


async def _carry_out(text: str, browser: web.WebSocketResponse, screen: ScreenProcess) -> bool:
    """Whether it was a message of the script."""
    try:
        said: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    match said:
        case ["stdin", str(keys)]:
            await screen.write(keys.encode("utf-8", "replace"))
        case ["resize", {"width": int(columns), "height": int(rows)}]:
            screen.resize(columns, rows)
        case ["ping", str(sent)]:
            await browser.send_json(["pong", sent])
        case ["focus" | "blur"]:
            pass
        case _:
            return False
    return True


def _cells(given: str | None, otherwise: int) -> int:
    return int(given) if given is not None and re.fullmatch("[0-9]{1,6}", given) else otherwise


def _page_files() -> dict[str, Path]:
    """Where each file of the page lies, by its name there. textual-serve itself is not loaded for them."""
    found = find_spec("textual_serve")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'textual_serve'")
    borrowed, own = Path(found.origin).parent / "static", Path(__file__).parent
    return {name: borrowed / name for name in _BORROWED} | {name: own / name for name in _OWN}


def _refusal(sentence: str, status: int = 403) -> web.Response:
    return web.Response(text=f"mission-tui: {sentence}\n", status=status, headers=_HEADERS)


CHUNK = 64 << 10
MOST_COLUMNS, MOST_ROWS = 500, 200
GRACE_S = 3.0
"""A screen whose terminal is gone ends within two seconds (`tui.textual_fixes.hangup`); after so long it is killed."""
_POLL_S = 0.02
_OUTER = ("COLUMNS", "LINES", "TMUX", "TMUX_PANE", "STY", "TERM_PROGRAM", "TERM_PROGRAM_VERSION")
"""What the terminal of `mission-tui serve` says of itself."""
_XTERM_JS = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}

_Register = Callable[[int, Callable[[], None]], object]


class ScreenCall(NamedTuple):
    """How a screen is started: the words after `mission-tui`, the working folder and the variables."""

    words: Sequence[str]
    cwd: Path
    environ: Mapping[str, str]


class ScreenProcess:
    """A screen of `columns` x `rows` that runs until it is left, or `end` is called. Raises `OSError` if it cannot be
    started. Its methods are for one asyncio loop; one task may read while another one writes.
    """

    def __init__(self, call: ScreenCall, columns: int, rows: int) -> None:
        self._master, slave = os.openpty()
        try:
            os.set_blocking(self._master, False)
            self.resize(columns, rows)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "mission_tui.web", *call.words],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=call.cwd,
                env={name: value for name, value in call.environ.items() if name not in _OUTER} | _XTERM_JS,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._master)
            raise
        finally:
            os.close(slave)
        self._watched = [self._master]
        with suppress(OSError):  # not with every container; the terminal then says alone when nobody has it
            self._watched.append(os.pidfd_open(self._process.pid))

    async def read(self) -> bytes:
        """What it wrote since, once there is something; empty when it has ended."""
        while True:
            try:
                return os.read(self._master, CHUNK)
            except BlockingIOError:
                # A job that a shell there left behind keeps the terminal open.
                if self._process.poll() is not None:
                    return b""
                loop = asyncio.get_running_loop()
                await _ready(self._watched, loop.add_reader, loop.remove_reader)
            except OSError:  # EIO: nobody has it open
                return b""

    async def write(self, data: bytes) -> None:
        """Type `data`, as soon as it reads."""
        while data:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _ready([self._master], loop.add_writer, loop.remove_writer)
            except OSError:
                return

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size, within what a screen can be."""
        columns, rows = max(1, min(columns, MOST_COLUMNS)), max(1, min(rows, MOST_ROWS))
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def end(self) -> None:
        """Take its terminal away and wait until it has ended. What the screen has started, runs above all, goes on."""
        for fd in self._watched:
            os.close(fd)
        deadline = time.monotonic() + GRACE_S
        while self._process.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110 - a process
            await asyncio.sleep(_POLL_S)
        if self._process.returncode is None:
            # It was not reaped, so its number is still that of its group.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


async def _ready(fds: Sequence[int], add: _Register, remove: Callable[[int], object]) -> None:
    """Wait until one of `fds` can be read, or written."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for fd in fds:
        add(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        for fd in fds:
            remove(fd)
